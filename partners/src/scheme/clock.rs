//! Owns how a partner writes times. A time without a zone is read in the profile's zone.

use std::fmt::Write as _;

use chrono::format::{Item, StrftimeItems};
use chrono::{DateTime, FixedOffset, LocalResult, NaiveDateTime, TimeZone};
use chrono_tz::Tz;
use payfold_schemas::time::Time;

/// A format of times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TimeFormat {
    UnixSeconds,
    UnixMilliseconds,
    Rfc3339,
    /// A chrono `strftime` pattern, and the zone of a time that has none.
    Pattern(String, ZoneRule),
}

/// The zone of a partner's times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ZoneRule {
    Fixed(FixedOffset),
    Named(Tz),
    /// The text says it (`%z`).
    InText,
}

/// Whether a text is a chrono `strftime` pattern.
pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains('%') && !StrftimeItems::new(text).any(|item| item == Item::Error)
}

impl ZoneRule {
    /// `+07:00` or a name of the IANA database. `None` for anything else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if let Ok(offset) = text.parse::<FixedOffset>() {
            return Some(Self::Fixed(offset));
        }
        text.parse::<Tz>().ok().map(Self::Named)
    }
}

impl TimeFormat {
    /// Writes a time in this format: in the pattern's zone, or in UTC where the pattern writes the
    /// zone itself.
    pub(crate) fn write(&self, time: Time) -> String {
        let utc = DateTime::from_timestamp_nanos(time.unix_nanos());
        match self {
            Self::UnixSeconds => time.unix_ms().div_euclid(1_000).to_string(),
            Self::UnixMilliseconds => time.unix_ms().to_string(),
            Self::Rfc3339 => time.to_rfc3339(),
            Self::Pattern(pattern, zone) => match zone {
                ZoneRule::InText => utc.format(pattern).to_string(),
                ZoneRule::Fixed(zone) => utc.with_timezone(zone).format(pattern).to_string(),
                ZoneRule::Named(zone) => utc.with_timezone(zone).format(pattern).to_string(),
            },
        }
    }

    /// Whether times can be written in this format. Some chrono patterns, such as `%#z`, only read.
    pub(crate) fn writes(&self) -> bool {
        let Self::Pattern(pattern, _) = self else { return true };
        let mut written = String::new();
        write!(written, "{}", DateTime::UNIX_EPOCH.format(pattern)).is_ok()
    }

    /// Whether a time that is written in this format can be read.
    pub(crate) fn reads(&self) -> bool {
        let Self::Pattern(pattern, zone) = self else { return true };
        // These read other offsets than they write, or write none.
        let pattern = ["%#z", "%:::z", "%::z"]
            .iter()
            .fold(pattern.clone(), |pattern, offset| pattern.replace(offset, "%:z"));
        let written = Self::Pattern(pattern, *zone);
        let sample = Time::from_unix_ms(1_769_853_600_000);
        written.writes() && self.read(&written.write(sample)).is_some()
    }

    /// Reads a time. `None` if `text` is not in this format.
    pub(crate) fn read(&self, text: &str) -> Option<Time> {
        match self {
            Self::UnixSeconds => unix(text, 1_000),
            Self::UnixMilliseconds => unix(text, 1),
            Self::Rfc3339 => Time::parse(text).ok(),
            Self::Pattern(pattern, zone) => {
                let moment = match zone {
                    ZoneRule::InText => DateTime::parse_from_str(text, pattern).ok()?.to_utc(),
                    ZoneRule::Fixed(zone) => local(zone, text, pattern)?,
                    ZoneRule::Named(zone) => local(zone, text, pattern)?,
                };
                moment.timestamp_nanos_opt().map(Time::from_unix_nanos)
            }
        }
    }
}

fn local<Z: TimeZone>(zone: &Z, text: &str, pattern: &str) -> Option<DateTime<chrono::Utc>> {
    let naive = NaiveDateTime::parse_from_str(text, pattern).ok()?;
    match zone.from_local_datetime(&naive) {
        // A local time that occurs twice (end of daylight saving) is read as the first. A local
        // time that is skipped is refused.
        LocalResult::Single(time) | LocalResult::Ambiguous(time, _) => Some(time.to_utc()),
        LocalResult::None => None,
    }
}

fn unix(text: &str, ms_each: i64) -> Option<Time> {
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let ms = text.parse::<i64>().ok()?.checked_mul(ms_each)?;
    // A time after the year 9999 is milliseconds given as seconds, so it is refused.
    (ms < 253_402_300_800_000).then(|| Time::from_unix_ms(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str, zone: &str) -> TimeFormat {
        let zone = if zone.is_empty() { ZoneRule::InText } else { ZoneRule::parse(zone).unwrap() };
        TimeFormat::Pattern(text.to_owned(), zone)
    }

    #[test]
    fn times_are_read_as_they_are_written() {
        for (format, text, expected) in [
            (TimeFormat::UnixSeconds, "1769853600", Some("2026-01-31T10:00:00Z")),
            (TimeFormat::UnixMilliseconds, "1769853600123", Some("2026-01-31T10:00:00.123Z")),
            (TimeFormat::UnixSeconds, "1769853600123", None),
            (TimeFormat::UnixSeconds, "-1", None),
            (TimeFormat::UnixSeconds, "1e9", None),
            (TimeFormat::Rfc3339, "2026-01-31T17:00:00+07:00", Some("2026-01-31T10:00:00Z")),
            (TimeFormat::Rfc3339, "2026-01-31 17:00:00", None),
            (pattern("%Y%m%d%H%M%S", "+07:00"), "20260131170000", Some("2026-01-31T10:00:00Z")),
            (
                pattern("%Y%m%d%H%M%S", "Asia/Ho_Chi_Minh"),
                "20260131170000",
                Some("2026-01-31T10:00:00Z"),
            ),
            (
                pattern("%Y-%m-%d %H:%M:%S", "Europe/Berlin"),
                "2026-07-31 12:00:00",
                Some("2026-07-31T10:00:00Z"),
            ),
            (pattern("%Y-%m-%d %H:%M:%S", "Europe/Berlin"), "2026-03-29 02:30:00", None),
            (
                pattern("%Y-%m-%dT%H:%M:%S%z", ""),
                "2026-01-31T17:00:00+0700",
                Some("2026-01-31T10:00:00Z"),
            ),
            (pattern("%Y%m%d%H%M%S", "+07:00"), "20261331170000", None),
        ] {
            let read = format.read(text).map(Time::to_rfc3339);
            let expected = expected.map(|text| Time::parse(text).unwrap().to_rfc3339());
            assert_eq!(read, expected, "{format:?} {text}");
        }
        for (format, expected) in [
            (TimeFormat::UnixSeconds, "1769853600"),
            (TimeFormat::UnixMilliseconds, "1769853600123"),
            (TimeFormat::Rfc3339, "2026-01-31T10:00:00.123Z"),
            (pattern("%Y%m%d%H%M%S", "+07:00"), "20260131170000"),
            (pattern("%Y%m%d%H%M%S", "Asia/Ho_Chi_Minh"), "20260131170000"),
            (pattern("%Y-%m-%dT%H:%M:%S%z", ""), "2026-01-31T10:00:00+0000"),
        ] {
            assert_eq!(format.write(Time::from_unix_ms(1_769_853_600_123)), expected);
        }
        assert!(ZoneRule::parse("Mars/Olympus").is_none());
        assert!(pattern("%y%m%d", "UTC").writes() && !pattern("%y%#z", "").writes());
        for (text, zone, reads) in [
            ("%Y%m%d%H%M%S", "+07:00", true),
            ("%d.%m.%y %H:%M", "Europe/Berlin", true),
            ("%m/%d/%Y %I:%M:%S %p", "America/New_York", true),
            ("%Y-%m-%dT%H:%M:%S%.f%z", "", true),
            ("%+", "", true),
            ("%Y%m%d%H%M%S%#z", "", true),
            ("%Y%m%d", "+07:00", false),
            ("%Y%m%d%#z", "", false),
            ("%Y-%m-%d %H", "+07:00", false),
            ("%H:%M:%S", "UTC", false),
            ("%d/%m %H:%M:%S", "UTC", false),
            ("%Y-%m-%d %I:%M", "UTC", false),
        ] {
            assert_eq!(pattern(text, zone).reads(), reads, "{text}");
        }
    }
}
