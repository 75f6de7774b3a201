//! Files in messages become `data:` URLs, which is how a picture reaches any endpoint.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ravel_core::effect::{ErrorClass, Failure};
use ravel_core::value::Val;
use serde_json::Value;

use crate::files::{FILE_KEY, FileValue};

/// Reads the content of a file value for a run.
pub type ReadFile = dyn Fn(&str, &FileValue) -> Result<Vec<u8>, Failure> + Send + Sync;

/// The first bytes of the formats that endpoints take.
const FORMATS: [(&[u8], &str); 4] = [
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF8", "image/gif"),
    (b"RIFF", "image/webp"),
];

/// The messages with each image that is a file value replaced by a `data:` URL. Everything else stays.
pub(crate) fn inline(
    messages: &[Val],
    (run, read): (&str, Option<&ReadFile>),
    bytes_max: u64,
) -> Result<Vec<Value>, Failure> {
    let mut messages: Vec<Value> = messages
        .iter()
        .map(|message| message.json().clone())
        .collect();
    for message in &mut messages {
        for part in message
            .get_mut("content")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
        {
            if let Some(image) = part
                .get("image")
                .filter(|image| image.get(FILE_KEY).is_some())
            {
                part["image"] = data_url(image, (run, read), bytes_max)?.into();
            }
        }
    }
    Ok(messages)
}

fn data_url(
    image: &Value,
    (run, read): (&str, Option<&ReadFile>),
    bytes_max: u64,
) -> Result<String, Failure> {
    let file = FileValue::from_json(image);
    let name = file.as_ref().map_or("?", |file| &file.name);
    let refuse = |why: &str| {
        let message = format!("the image `{name}` cannot be sent: {why}");
        Failure::new(ErrorClass::InvalidInput, message).with_code("bad_image")
    };
    let file = file.as_ref().ok_or_else(|| refuse("it is no file value"))?;
    let read = read.ok_or_else(|| refuse("there is no file store here"))?;
    let bytes = read(run, file)?;
    if bytes.len() as u64 > bytes_max {
        return Err(refuse(&format!(
            "it is larger than {bytes_max} bytes (the provider's limits.image_bytes_max)"
        )));
    }
    let format = FORMATS.iter().find(|(start, _)| bytes.starts_with(start));
    let (_, media_type) = format.ok_or_else(|| refuse("it is no PNG, JPEG, GIF or WebP"))?;
    Ok(format!(
        "data:{media_type};base64,{}",
        STANDARD.encode(bytes)
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LOST: &str = "the stored file is missing";

    fn file(name: &str) -> Value {
        json!({ "$file": "0".repeat(64), "name": name })
    }

    fn read(run: &str, file: &FileValue) -> Result<Vec<u8>, Failure> {
        match (run, &*file.name) {
            ("r", "gif") => Ok(b"GIF89a".to_vec()),
            ("r", "text") => Ok(b"hello".to_vec()),
            _ => Err(Failure::new(ErrorClass::NotFound, LOST)),
        }
    }

    fn message(image: Value) -> Vec<Val> {
        vec![json!({ "role": "user", "content": [{ "type": "image", "image": image }] }).into()]
    }

    #[test]
    fn a_file_becomes_a_data_url_and_a_url_stays() {
        let inlined = inline(&message(file("gif")), ("r", Some(&read)), 10);
        let expected = json!({ "role": "user", "content": [{ "type": "image", "image": "data:image/gif;base64,R0lGODlh" }] });
        assert_eq!(inlined, Ok(vec![expected]));
        let url = message(json!("https://a.example/b.png"));
        let untouched = vec![url[0].json().clone()];
        assert_eq!(inline(&url, ("r", None), 10), Ok(untouched));
    }

    #[test]
    fn a_file_that_cannot_be_sent_is_refused_with_the_reason() {
        let refused = |name: &str, why: &str| {
            let text = format!("the image `{name}` cannot be sent: {why}");
            Failure::new(ErrorClass::InvalidInput, text).with_code("bad_image")
        };
        let too_large = "it is larger than 5 bytes (the provider's limits.image_bytes_max)";
        let no_value = json!({ "$file": "gone" });
        for (image, bytes_max, failure) in [
            (
                file("text"),
                10,
                refused("text", "it is no PNG, JPEG, GIF or WebP"),
            ),
            (file("gone"), 10, Failure::new(ErrorClass::NotFound, LOST)),
            (file("gif"), 5, refused("gif", too_large)),
            (no_value, 10, refused("?", "it is no file value")),
        ] {
            let inlined = inline(&message(image), ("r", Some(&read)), bytes_max);
            assert_eq!(inlined, Err(failure));
        }
    }
}
