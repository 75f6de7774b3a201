//! JSON text to a value, without rounding an integer in silence.

use serde_json::Value;

/// Why a text is no JSON value that can be kept as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonError(String);

impl std::fmt::Display for JsonError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for JsonError {}

/// Reads JSON. An integer that 64 bits do not hold is an error, where it would become the nearest floating-point number.
///
/// # Errors
/// The text is no JSON, or holds such an integer.
pub fn exact_json(text: &str) -> Result<Value, JsonError> {
    let value: Value = serde_json::from_str(text).map_err(|error| JsonError(error.to_string()))?;
    match has_large(&value).then(|| too_large(text)).flatten() {
        Some(number) => Err(JsonError(format!(
            "the integer {number} does not fit into 64 bits; as text, in quotes, it stays as it is"
        ))),
        None => Ok(value),
    }
}

/// Whether there is a number that an integer may have been rounded to.
fn has_large(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            number.is_f64()
                && number
                    .as_f64()
                    .is_some_and(|float| float.abs() >= i64::MAX as f64)
        }
        Value::Array(items) => items.iter().any(has_large),
        Value::Object(fields) => fields.values().any(has_large),
        Value::Null | Value::Bool(_) | Value::String(_) => false,
    }
}

/// The first integer of a JSON text that no 64 bits hold.
fn too_large(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at += string_length(&bytes[at..]),
            b'-' | b'0'..=b'9' => {
                let is_part =
                    |byte: &&u8| matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9');
                let length = bytes[at..].iter().take_while(is_part).count();
                let number = &text[at..at + length];
                if is_too_large(number) {
                    return Some(number);
                }
                at += length;
            }
            _ => at += 1,
        }
    }
    None
}

/// Whether a number as JSON writes it is an integer beyond 64 bits.
pub(crate) fn is_too_large(number: &str) -> bool {
    let digits = number.strip_prefix('-').unwrap_or(number);
    let is_integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_integer
        && digits.bytes().any(|byte| byte != b'0')
        && number.parse::<i64>().is_err()
        && number.parse::<u64>().is_err()
}

/// Bytes of the string that a text begins with, quotes included.
fn string_length(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::exact_json;

    #[test]
    fn integers_beyond_64_bits_are_refused_and_all_others_are_exact() {
        let text = "[9007199254740993, 18446744073709551615, -9223372036854775808, 1e30, \"99999999999999999999\", -0]";
        let expected = json!([
            9_007_199_254_740_993_u64,
            u64::MAX,
            i64::MIN,
            1e30,
            "99999999999999999999",
            -0.0
        ]);
        assert_eq!(exact_json(text), Ok(expected));
        for text in [
            "99999999999999999999",
            "{\"a\": [1e30, -9223372036854775809]}",
        ] {
            let error = exact_json(text).expect_err("it does not fit");
            assert!(
                error.to_string().contains("does not fit into 64 bits"),
                "{error}"
            );
        }
    }
}
