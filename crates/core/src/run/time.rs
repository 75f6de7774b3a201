//! Spans and instants that flows compute.

use serde_json::Value;

use crate::effect::Millis;

/// A span: a number of seconds, or text such as `90s`, `5m`, `1h30m`.
pub(super) fn span(value: &Value) -> Result<Millis, String> {
    let wrong = || {
        format!("{value} is not a span of time; write a number of seconds, or text such as `5m`")
    };
    match value {
        Value::Number(seconds) => {
            seconds_to_millis(seconds.as_f64().unwrap_or(-1.0)).ok_or_else(wrong)
        }
        Value::String(text) => parse_span(text.trim()).ok_or_else(wrong),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err(wrong()),
    }
}

/// An instant: RFC 3339 text with an offset, or seconds since the epoch.
pub(super) fn instant(value: &Value) -> Result<Millis, String> {
    let wrong = || {
        format!("{value} is not a time; write RFC 3339 text with an offset, or seconds since 1970")
    };
    match value {
        Value::Number(seconds) => {
            seconds_to_millis(seconds.as_f64().unwrap_or(-1.0)).ok_or_else(wrong)
        }
        Value::String(text) => {
            let time: jiff::Timestamp = text.trim().parse().map_err(|_| wrong())?;
            Ok(u64::try_from(time.as_millisecond()).unwrap_or(0))
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err(wrong()),
    }
}

fn seconds_to_millis(seconds: f64) -> Option<Millis> {
    (seconds.is_finite() && seconds >= 0.0).then(|| (seconds * 1_000.0).round() as Millis)
}

/// `250ms`, `90s`, `5m`, `24h`, `7d`, `2w`, and sequences of them.
fn parse_span(text: &str) -> Option<Millis> {
    let mut total: Millis = 0;
    let mut rest = text;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .filter(|end| *end > 0)?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let millis = match &rest[..unit] {
            "ms" => 1.0,
            "s" => 1_000.0,
            "m" => 60_000.0,
            "h" => 3_600_000.0,
            "d" => 86_400_000.0,
            "w" => 604_800_000.0,
            _ => return None,
        };
        total = total.checked_add((number * millis).round() as Millis)?;
        rest = &rest[unit..];
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn spans_are_seconds_or_text_with_units() {
        for (value, expected) in [
            (json!(1.5), 1_500),
            (json!("250ms"), 250),
            (json!("1h30m"), 5_400_000),
            (json!(" 2d "), 172_800_000),
        ] {
            assert_eq!(span(&value), Ok(expected), "{value}");
        }
        for value in [
            json!("5"),
            json!(""),
            json!("m5"),
            json!(-1),
            json!(null),
            json!("5 minutes"),
        ] {
            assert!(span(&value).is_err(), "{value}");
        }
    }

    #[test]
    fn instants_need_an_offset() {
        assert_eq!(instant(&json!("1970-01-01T00:00:01Z")), Ok(1_000));
        assert_eq!(instant(&json!("1970-01-01T01:00:01+01:00")), Ok(1_000));
        assert!(instant(&json!("1970-01-01T00:00:01")).is_err());
    }
}
