//! Durations, sizes, counts and shares as users write them.

use serde_json::{Number, Value};

use crate::effect::Millis;

/// Units of a duration, longest name first where one starts with another.
const UNITS: &[(&str, u64)] = &[
    ("ms", 1),
    ("s", 1000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
    ("w", 604_800_000),
];

/// The longest duration: a hundred years.
pub const DURATION_MAX_MS: Millis = 100 * 366 * 86_400_000;

/// `5m`, `1h30m`, `500ms`, `1.5h`: milliseconds. The error says what is wrong.
pub fn duration(text: &str) -> Result<Millis, String> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err("a duration is a number and a unit, `5m`".to_owned());
    }
    let mut total = 0f64;
    while !rest.is_empty() {
        let digits = rest
            .bytes()
            .take_while(|byte| byte.is_ascii_digit() || *byte == b'.')
            .count();
        let letters = rest[digits..]
            .bytes()
            .take_while(u8::is_ascii_alphabetic)
            .count();
        let (number, unit) = (&rest[..digits], &rest[digits..digits + letters]);
        let Ok(number) = number.parse::<f64>() else {
            return Err(format!(
                "`{text}` is no duration: a number and a unit, `5m`, `1h30m`"
            ));
        };
        let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
            return Err(match unit {
                "" if digits == text.len() => {
                    format!("`{text}` has no unit: write `{text}s` for seconds")
                }
                "" => format!("`{text}` is no duration: a number and a unit, `5m`, `1h30m`"),
                unit => format!("`{unit}` is no unit of time; the units are ms, s, m, h, d and w"),
            });
        };
        total += number * *scale as f64;
        rest = rest[digits + letters..].trim_start();
    }
    let millis = total.round();
    if millis > DURATION_MAX_MS as f64 {
        return Err(format!("`{text}` is longer than a hundred years"));
    }
    Ok(millis as Millis)
}

/// The last time that a `wait` can end: the end of the year 9999, which text has in every time zone.
pub const INSTANT_MAX_MS: Millis = 253_402_207_200_000;
/// The largest size, bytes: what is larger is no size of anything.
pub const SIZE_BYTES_MAX: u64 = 1 << 60;
/// The largest count.
pub const COUNT_MAX: u64 = 1 << 60;

/// A span that a flow computes: a number of seconds, or text such as `90s`, `5m`, `1h30m`.
pub fn span(value: &Value) -> Result<Millis, String> {
    let wrong = || {
        format!("{value} is not a span of time; write a number of seconds, or text such as `5m`")
    };
    match value {
        Value::Number(seconds) => match millis(seconds, DURATION_MAX_MS).ok_or_else(wrong)? {
            Some(millis) => Ok(millis),
            None => Err(format!("{value} seconds are longer than a hundred years")),
        },
        Value::String(text) => {
            duration(text).map_err(|why| format!("{value} is not a span of time: {why}"))
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err(wrong()),
    }
}

/// An instant that a flow names: RFC 3339 text with an offset, or seconds since the epoch.
pub fn instant(value: &Value) -> Result<Millis, String> {
    let wrong = || {
        format!("{value} is not a time; write RFC 3339 text with an offset, or seconds since 1970")
    };
    match value {
        Value::Number(seconds) => match millis(seconds, INSTANT_MAX_MS).ok_or_else(wrong)? {
            Some(millis) => Ok(millis),
            None => Err(format!(
                "{value} is a time after the year 9999; the number is of seconds since 1970, not of milliseconds"
            )),
        },
        Value::String(text) => {
            let time: jiff::Timestamp = text.trim().parse().map_err(|_| wrong())?;
            Ok(u64::try_from(time.as_millisecond()).unwrap_or(0))
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => Err(wrong()),
    }
}

/// Seconds in milliseconds: `None` when they are negative, `Some(None)` when they are more than `max`.
fn millis(seconds: &Number, max: Millis) -> Option<Option<Millis>> {
    if let Some(whole) = seconds.as_u64() {
        let millis = whole.checked_mul(1000).filter(|millis| *millis <= max);
        return Some(millis);
    }
    let millis = (seconds.as_f64()? * 1000.0).round();
    (millis >= 0.0).then(|| (millis <= max as f64).then_some(millis as Millis))
}

/// `1s..30s`, or one duration for both ends.
pub fn duration_range(text: &str) -> Result<(Millis, Millis), String> {
    let Some((low, high)) = text.split_once("..") else {
        let both = duration(text)?;
        return Ok((both, both));
    };
    let (low, high) = (duration(low)?, duration(high)?);
    if low > high {
        return Err(format!(
            "`{text}` ends before it starts: write the shorter pause first"
        ));
    }
    Ok((low, high))
}

/// `200k`, `1.5M`, `500`: a count.
pub fn count(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text
        .bytes()
        .take_while(|byte| byte.is_ascii_digit() || *byte == b'.')
        .count();
    let scale = match &text[digits..] {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" | "m" => 1e6,
        "G" | "B" => 1e9,
        _ => {
            return Err(format!(
                "`{text}` is no count: write `200k`, `1.5M` or a number"
            ));
        }
    };
    let number: f64 = text[..digits]
        .parse()
        .map_err(|_| format!("`{text}` is no count: write `200k`, `1.5M` or a number"))?;
    let count = (number * scale).round();
    if count > COUNT_MAX as f64 {
        return Err(format!("`{text}` is too large for a count"));
    }
    Ok(count as u64)
}

/// `512MiB`, `1GB`, `4096`: bytes.
pub fn bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text
        .bytes()
        .take_while(|byte| byte.is_ascii_digit() || *byte == b'.')
        .count();
    let scale: u64 = match text[digits..].trim_start() {
        "" | "B" => 1,
        "kB" | "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" | "k" | "K" => 1 << 10,
        "MiB" | "M" => 1 << 20,
        "GiB" | "G" => 1 << 30,
        _ => {
            return Err(format!(
                "`{text}` is no size: write `512MiB`, `1GB` or a number of bytes"
            ));
        }
    };
    let number: f64 = text[..digits]
        .parse()
        .map_err(|_| format!("`{text}` is no size: write `512MiB`, `1GB` or a number of bytes"))?;
    let bytes = (number * scale as f64).round();
    if bytes > SIZE_BYTES_MAX as f64 {
        return Err(format!("`{text}` is too large for a size"));
    }
    Ok(bytes as u64)
}

/// `5%`: percent.
pub fn percent(text: &str) -> Result<f64, String> {
    let number = text
        .trim()
        .strip_suffix('%')
        .and_then(|digits| digits.trim_end().parse::<f64>().ok())
        .ok_or_else(|| format!("`{text}` is no share: write `5%`, or a number of items"))?;
    if (0.0..=100.0).contains(&number) {
        Ok(number)
    } else {
        Err(format!("`{text}` is not between 0% and 100%"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn durations_have_units_and_may_be_combined() {
        assert_eq!(duration("5m"), Ok(300_000));
        assert_eq!(duration("1h30m"), Ok(5_400_000));
        assert_eq!(duration("1.5s"), Ok(1500));
        assert_eq!(duration("250ms"), Ok(250));
        assert_eq!(
            duration("5"),
            Err("`5` has no unit: write `5s` for seconds".to_owned())
        );
        assert_eq!(
            duration("5 min"),
            Err("`5 min` is no duration: a number and a unit, `5m`, `1h30m`".to_owned())
        );
        assert_eq!(
            duration("5min"),
            Err("`min` is no unit of time; the units are ms, s, m, h, d and w".to_owned())
        );
        assert_eq!(duration_range("1s..30s"), Ok((1000, 30_000)));
        assert!(duration_range("30s..1s").is_err());
    }

    #[test]
    fn counts_sizes_and_shares_have_their_units() {
        assert_eq!(count("200k"), Ok(200_000));
        assert_eq!(count("1.5M"), Ok(1_500_000));
        assert_eq!(bytes("512MiB"), Ok(512 << 20));
        assert_eq!(bytes("1GB"), Ok(1_000_000_000));
        assert_eq!(percent("5%"), Ok(5.0));
        assert!(percent("105%").is_err());
        assert!(percent("5").is_err());
    }

    #[test]
    fn spans_are_seconds_or_text_with_units() {
        for (value, expected) in [
            (json!(1.5), 1_500),
            (json!(90), 90_000),
            (json!("250ms"), 250),
            (json!("1h30m"), 5_400_000),
            (json!(" 2d "), 172_800_000),
        ] {
            assert_eq!(span(&value), Ok(expected), "{value}");
        }
        let unit = r#""5" is not a span of time: `5` has no unit: write `5s` for seconds"#;
        assert_eq!(span(&json!("5")), Err(unit.to_owned()));
        let long = |text: &str| Err(format!("{text} seconds are longer than a hundred years"));
        assert_eq!(span(&json!(1e30)), long("1e+30"));
        assert_eq!(span(&json!(u64::MAX)), long("18446744073709551615"));
        for value in [
            json!(""),
            json!("m5"),
            json!(-1),
            json!(-0.5),
            json!(null),
            json!("5 minutes"),
            json!("2000000h"),
        ] {
            assert!(span(&value).is_err(), "{value}");
        }
    }

    #[test]
    fn instants_need_an_offset_and_end_with_the_year_9999() {
        assert_eq!(instant(&json!("1970-01-01T00:00:01Z")), Ok(1_000));
        assert_eq!(instant(&json!("1970-01-01T01:00:01+01:00")), Ok(1_000));
        assert_eq!(instant(&json!(1_790_000_000)), Ok(1_790_000_000_000));
        assert_eq!(instant(&json!(1.25)), Ok(1_250));
        assert!(instant(&json!("1970-01-01T00:00:01")).is_err());
        assert!(instant(&json!(-1)).is_err());
        let last = INSTANT_MAX_MS / 1000;
        assert_eq!(instant(&json!(last)), Ok(INSTANT_MAX_MS));
        for late in [
            json!(last + 1),
            json!(1e30),
            json!(9_007_199_254_740_993_u64),
        ] {
            let text = format!(
                "{late} is a time after the year 9999; the number is of seconds since 1970, not of milliseconds"
            );
            assert_eq!(instant(&late), Err(text));
        }
    }

    #[test]
    fn sizes_and_counts_have_an_end() {
        let digits = "9".repeat(30);
        assert_eq!(
            bytes(&format!("{digits}GB")),
            Err(format!("`{digits}GB` is too large for a size"))
        );
        assert_eq!(
            count(&digits),
            Err(format!("`{digits}` is too large for a count"))
        );
    }
}
