//! Numbers with units, for people: times, money, tokens, bytes; and the other way round.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A span in ms: `0 ms`, `48 ms`, `1.2 s`, `12 s`, `3m 04s`, `2h 05m`, `3d 04h`.
pub(crate) fn duration(ms: u64) -> String {
    let seconds = ms / 1_000;
    match seconds {
        0 => format!("{ms} ms"),
        1..=9 => format!("{}.{} s", seconds, ms % 1_000 / 100),
        10..=59 => format!("{seconds} s"),
        60..=3_599 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3_600..=86_399 => format!("{}h {:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d {:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

/// A point in time relative to now: `12 s ago`, `in 3m 04s`, `now`.
pub(crate) fn relative(at: u64, now: u64) -> String {
    if at.abs_diff(now) < 1_000 {
        "now".to_owned()
    } else if at < now {
        format!("{} ago", duration(now - at))
    } else {
        format!("in {}", duration(at - now))
    }
}

/// A point in time in the local zone: `2026-11-30 15:47:23`.
pub(crate) fn time(at: u64) -> String {
    stamp(at).map_or_else(
        || at.to_string(),
        |stamp| {
            stamp
                .to_zoned_datetime(TimeZone::system())
                .strftime("%Y-%m-%d %H:%M:%S")
                .to_string()
        },
    )
}

/// A point in time for machines: RFC 3339 in UTC with milliseconds.
pub(crate) fn rfc3339(at: u64) -> String {
    stamp(at).map_or_else(|| at.to_string(), |stamp| format!("{stamp:.3}"))
}

fn stamp(at: u64) -> Option<Timestamp> {
    Timestamp::from_millisecond(i64::try_from(at).ok()?).ok()
}

/// Micro-dollars: `-` for none, `$0.000012`, `$0.0123`, `$1.25`.
pub(crate) fn money(microusd: u64) -> String {
    match microusd {
        0 => "-".to_owned(),
        1..=999 => format!("${:.6}", dollars(microusd)),
        1_000..=999_999 => format!("${:.4}", dollars(microusd)),
        _ => format!("${:.2}", dollars(microusd)),
    }
}

/// Micro-dollars as dollars.
#[expect(
    clippy::cast_precision_loss,
    reason = "shown to people and in JSON; 2^53 micro-dollars are nine billion dollars"
)]
pub(crate) fn dollars(microusd: u64) -> f64 {
    microusd as f64 / 1e6
}

/// A count: `-` for none, `812`, `12.3k`, `4.5M`.
pub(crate) fn count(number: u64) -> String {
    match number {
        0 => "-".to_owned(),
        1..=9_999 => number.to_string(),
        10_000..=999_999 => format!("{}.{}k", number / 1_000, number % 1_000 / 100),
        _ => format!("{}.{}M", number / 1_000_000, number % 1_000_000 / 100_000),
    }
}

/// Bytes: `812 B`, `12.3 KiB`, `4.5 MiB`.
pub(crate) fn bytes(number: u64) -> String {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;
    let tenths = |unit: u64| format!("{}.{}", number / unit, number % unit * 10 / unit);
    match number {
        0..KIB => format!("{number} B"),
        KIB..MIB => format!("{} KiB", tenths(KIB)),
        MIB..GIB => format!("{} MiB", tenths(MIB)),
        _ => format!("{} GiB", tenths(GIB)),
    }
}

/// Reads a span as users write it, into ms: `250ms`, `90s`, `5m`, `1h30m`, `30d`, `2w`.
pub(crate) fn parse_duration(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no span of time: write 90s, 5m, 12h or 30d");
    let mut rest = text.trim();
    if rest.is_empty() {
        return Err(wrong());
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest
            .find(|character: char| !character.is_ascii_digit())
            .ok_or_else(wrong)?;
        let number: u64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let letters = rest
            .find(|character: char| !character.is_ascii_alphabetic())
            .unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            "w" => 604_800_000,
            _ => return Err(wrong()),
        };
        rest = rest[letters..].trim_start();
        total = number
            .checked_mul(unit)
            .and_then(|span| total.checked_add(span))
            .ok_or_else(wrong)?;
    }
    Ok(total)
}

/// The clock, epoch ms.
pub(crate) fn now() -> u64 {
    u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_short_at_every_scale() {
        let spans = [0, 48, 1_234, 12_000, 184_000, 7_500_000, 273_600_000];
        assert_eq!(
            spans.map(duration),
            [
                "0 ms", "48 ms", "1.2 s", "12 s", "3m 04s", "2h 05m", "3d 04h"
            ]
            .map(str::to_owned)
        );
    }

    #[test]
    fn money_keeps_what_matters() {
        assert_eq!(
            [0, 12, 12_300, 1_250_000].map(money),
            ["-", "$0.000012", "$0.0123", "$1.25"].map(str::to_owned)
        );
    }

    #[test]
    fn sizes_use_binary_units() {
        assert_eq!(
            [812, 12_595, 4_718_592].map(bytes),
            ["812 B", "12.2 KiB", "4.5 MiB"].map(str::to_owned)
        );
        assert_eq!(
            [0, 812, 12_345, 4_512_345].map(count),
            ["-", "812", "12.3k", "4.5M"].map(str::to_owned)
        );
    }

    #[test]
    fn spans_are_read_back() {
        let read: Vec<_> = ["250ms", "90s", "1h30m", "30d"]
            .iter()
            .map(|text| parse_duration(text))
            .collect();
        assert_eq!(
            read,
            [Ok(250), Ok(90_000), Ok(5_400_000), Ok(2_592_000_000)]
        );
        for wrong in ["", "5", "m", "5 parsecs", "-3s"] {
            assert!(parse_duration(wrong).is_err(), "{wrong} was taken");
        }
    }

    #[test]
    fn times_are_relative_to_now() {
        assert_eq!(
            [
                relative(1_000, 13_000),
                relative(200_000, 16_000),
                relative(5, 9)
            ],
            ["12 s ago", "in 3m 04s", "now"].map(str::to_owned)
        );
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00.000Z");
    }
}
