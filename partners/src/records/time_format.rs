//! Owns the times in a partner's file. They have the formats of times in notices, or are dates
//! alone. A date alone is read as noon of that date.

use std::fmt::Write as _;

use chrono::format::{Item, Parsed, StrftimeItems, parse};
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, TimeZone, Utc};
use payfold_schemas::time::Time;

use crate::scheme::clock::{TimeFormat, ZoneRule};

/// The format of a time in a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RowTimeFormat {
    Moment(TimeFormat),
    /// A date and a time of day in a zone. The pattern is parsed once, because it is used for every
    /// row.
    Local(Vec<Item<'static>>, ZoneRule),
    /// A date in a zone.
    Day(Vec<Item<'static>>, ZoneRule),
}

impl RowTimeFormat {
    /// Compiles a format of the profile. Errors: the format has neither a date and time nor a date.
    pub(crate) fn of(format: TimeFormat) -> Result<Self, &'static str> {
        let TimeFormat::Pattern(pattern, zone) = &format else { return Ok(Self::Moment(format)) };
        let sample = DateTime::from_timestamp_nanos(1_769_853_600_000_000_000);
        // chrono accepts `%#z` for parsing only.
        let to_write = pattern.replace("%#z", "%z");
        let mut written = String::new();
        if write!(written, "{}", sample.format(&to_write)).is_err() {
            return Err(NO_TIME);
        }
        let items = StrftimeItems::new(pattern).parse_to_owned();
        match (zone, items) {
            (ZoneRule::InText, _) if DateTime::parse_from_str(&written, pattern).is_ok() => {
                Ok(Self::Moment(format))
            }
            (ZoneRule::Fixed(_) | ZoneRule::Named(_), Ok(items)) => {
                if local(&items, &written).is_some() {
                    return Ok(Self::Local(items, *zone));
                }
                if noon(&items, &written).is_some() {
                    return Ok(Self::Day(items, *zone));
                }
                Err(NO_TIME)
            }
            (ZoneRule::InText | ZoneRule::Fixed(_) | ZoneRule::Named(_), _) => Err(NO_TIME),
        }
    }

    /// Whether the format has only dates.
    pub(crate) fn is_day(&self) -> bool {
        matches!(self, Self::Day(..))
    }

    /// Parses a time; `None` if the text is not one.
    pub(crate) fn read(&self, text: &str) -> Option<Time> {
        let (naive, zone) = match self {
            Self::Moment(format) => return format.read(text),
            Self::Local(items, zone) => (local(items, text)?, zone),
            Self::Day(items, zone) => (noon(items, text)?, zone),
        };
        let moment = match zone {
            ZoneRule::Fixed(zone) => earliest(zone, &naive)?,
            ZoneRule::Named(zone) => earliest(zone, &naive)?,
            ZoneRule::InText => return None,
        };
        moment.timestamp_nanos_opt().map(Time::from_unix_nanos)
    }
}

const NO_TIME: &str = "a pattern must say date and time, such as %Y-%m-%d %H:%M:%S, or the date \
    alone, such as %Y%m%d";

/// The earlier of two times in an hour that daylight saving repeats; `None` for a time in an hour
/// that it skips.
fn earliest<Z: TimeZone>(zone: &Z, naive: &NaiveDateTime) -> Option<DateTime<Utc>> {
    zone.from_local_datetime(naive).earliest().map(|time| time.to_utc())
}

fn parsed(items: &[Item<'static>], text: &str) -> Option<Parsed> {
    let mut parsed = Parsed::new();
    parse(&mut parsed, text, items.iter()).ok()?;
    Some(parsed)
}

fn local(items: &[Item<'static>], text: &str) -> Option<NaiveDateTime> {
    parsed(items, text)?.to_naive_datetime_with_offset(0).ok()
}

fn noon(items: &[Item<'static>], text: &str) -> Option<NaiveDateTime> {
    let date: NaiveDate = parsed(items, text)?.to_naive_date().ok()?;
    Some(date.and_time(NaiveTime::from_hms_opt(12, 0, 0)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_its_noon_and_no_pattern_is_half_a_time() {
        let zone = ZoneRule::parse("Asia/Ho_Chi_Minh").unwrap();
        let when = |pattern: &str| RowTimeFormat::of(TimeFormat::Pattern(pattern.to_owned(), zone));
        let day = when("%d/%m/%Y").unwrap();
        assert!(day.is_day());
        assert_eq!(day.read("31/01/2026").unwrap().to_rfc3339(), "2026-01-31T05:00:00Z");
        for text in ["", "31/01/26x", "31/13/2026", "31/01/2026 10:00"] {
            assert_eq!(day.read(text), None, "{text}");
        }
        let minutes = when("%Y-%m-%d %H:%M").unwrap();
        assert_eq!(minutes.read("2026-01-31 17:00").unwrap().to_rfc3339(), "2026-01-31T10:00:00Z");
        for pattern in ["%H:%M:%S", "%Y-%m", "%d %H:%M"] {
            assert!(when(pattern).is_err(), "{pattern}");
        }
        assert!(
            RowTimeFormat::of(TimeFormat::Pattern("%Y%m%d%z".to_owned(), ZoneRule::InText))
                .is_err()
        );
        assert!(!RowTimeFormat::of(TimeFormat::UnixMilliseconds).unwrap().is_day());
        let written =
            RowTimeFormat::of(TimeFormat::Pattern("%Y%m%d%H%M%S%z".to_owned(), ZoneRule::InText))
                .unwrap();
        let at = written.read("20260131170000+0700").unwrap();
        assert_eq!(at.to_rfc3339(), "2026-01-31T10:00:00Z");
        // A skipped hour has no times; in a repeated hour the earlier time is taken.
        let berlin = ZoneRule::parse("Europe/Berlin").unwrap();
        let berlin =
            RowTimeFormat::of(TimeFormat::Pattern("%Y-%m-%d %H:%M:%S".to_owned(), berlin)).unwrap();
        assert_eq!(berlin.read("2026-03-29 02:30:00"), None);
        let twice = berlin.read("2026-10-25 02:30:00").unwrap();
        assert_eq!(twice.to_rfc3339(), "2026-10-25T00:30:00Z");
    }
}
