//! Files in messages become `data:` URLs, which is how a picture reaches any endpoint.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ravel_core::effect::{ErrorClass, Failure};
use ravel_core::value::Val;
use serde_json::Value;

/// Reads the content of a file value by the name in its `$file`.
pub type ReadFile = dyn Fn(&str) -> std::io::Result<Vec<u8>> + Send + Sync;

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
    read: Option<&ReadFile>,
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
            let name = part
                .pointer("/image/$file")
                .and_then(Value::as_str)
                .map(str::to_owned);
            if let Some(name) = name {
                part["image"] = data_url(&name, read, bytes_max)?.into();
            }
        }
    }
    Ok(messages)
}

fn data_url(name: &str, read: Option<&ReadFile>, bytes_max: u64) -> Result<String, Failure> {
    let refuse = |why: &str| {
        let message = format!("the image `{name}` cannot be sent: {why}");
        Failure::new(ErrorClass::InvalidInput, message).with_code("bad_image")
    };
    let read = read.ok_or_else(|| refuse("there is no file store here"))?;
    let bytes = read(name).map_err(|error| refuse(&error.to_string()))?;
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

    fn read(name: &str) -> std::io::Result<Vec<u8>> {
        match name {
            "gif" => Ok(b"GIF89a".to_vec()),
            "text" => Ok(b"hello".to_vec()),
            _ => Err(std::io::Error::other("no such file")),
        }
    }

    fn message(image: Value) -> Vec<Val> {
        vec![json!({ "role": "user", "content": [{ "type": "image", "image": image }] }).into()]
    }

    #[test]
    fn a_file_becomes_a_data_url_and_a_url_stays() {
        let inlined = inline(
            &message(json!({ "$file": "gif", "name": "a.gif" })),
            Some(&read),
            10,
        );
        let expected = json!({ "role": "user", "content": [{ "type": "image", "image": "data:image/gif;base64,R0lGODlh" }] });
        assert_eq!(inlined, Ok(vec![expected]));
        let url = message(json!("https://a.example/b.png"));
        assert_eq!(inline(&url, None, 10), Ok(vec![url[0].json().clone()]));
    }

    #[test]
    fn a_file_that_cannot_be_sent_is_refused_with_the_reason() {
        let cases = [
            ("text", 10, "it is no PNG, JPEG, GIF or WebP"),
            ("gone", 10, "no such file"),
            (
                "gif",
                5,
                "it is larger than 5 bytes (the provider's limits.image_bytes_max)",
            ),
        ];
        for (name, bytes_max, why) in cases {
            let failure = Failure::new(
                ErrorClass::InvalidInput,
                format!("the image `{name}` cannot be sent: {why}"),
            )
            .with_code("bad_image");
            assert_eq!(
                inline(&message(json!({ "$file": name })), Some(&read), bytes_max),
                Err(failure)
            );
        }
    }
}
