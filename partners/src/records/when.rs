//! Owns the times of a partner's books: moments as in notices, and dates alone, which stand for their noon.

use chrono::format::StrftimeItems;
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, TimeZone};
use payfold_schemas::time::Time;

use crate::scheme::clock::{Format, Zone};

/// How a time is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Moment(Format),
    /// A date in a zone.
    Day(String, Zone),
}

impl When {
    /// What a format of the profile says. Errors: it says neither a moment nor a date.
    pub(crate) fn of(format: Format) -> Result<Self, &'static str> {
        let Format::Pattern(pattern, zone) = &format else { return Ok(Self::Moment(format)) };
        let sample = DateTime::from_timestamp_nanos(1_769_853_600_000_000_000);
        let written = sample.format_with_items(StrftimeItems::new(pattern)).to_string();
        let says_moment = match zone {
            Zone::InText => DateTime::parse_from_str(&written, pattern).is_ok(),
            Zone::Fixed(_) | Zone::Named(_) => {
                NaiveDateTime::parse_from_str(&written, pattern).is_ok()
            }
        };
        let says_date = NaiveDate::parse_from_str(&written, pattern).is_ok();
        match zone {
            _ if says_moment => Ok(Self::Moment(format)),
            Zone::Fixed(_) | Zone::Named(_) if says_date => Ok(Self::Day(pattern.clone(), *zone)),
            _ => Err(
                "a pattern must say date and time, such as %Y-%m-%d %H:%M:%S, or the date alone, such as %Y%m%d",
            ),
        }
    }

    /// Whether it says dates only.
    pub(crate) fn is_day(&self) -> bool {
        matches!(self, Self::Day(..))
    }

    /// Reads a time; `None` for what is none.
    pub(crate) fn read(&self, text: &str) -> Option<Time> {
        match self {
            Self::Moment(format) => format.read(text),
            Self::Day(pattern, zone) => {
                let noon = NaiveTime::from_hms_opt(12, 0, 0)?;
                let naive = NaiveDate::parse_from_str(text, pattern).ok()?.and_time(noon);
                let moment = match zone {
                    Zone::Fixed(zone) => zone.from_local_datetime(&naive).earliest()?.to_utc(),
                    Zone::Named(zone) => zone.from_local_datetime(&naive).earliest()?.to_utc(),
                    Zone::InText => return None,
                };
                moment.timestamp_nanos_opt().map(Time::from_unix_nanos)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_its_noon_and_no_pattern_is_half_a_time() {
        let zone = Zone::parse("Asia/Ho_Chi_Minh").unwrap();
        let when = |pattern: &str| When::of(Format::Pattern(pattern.to_owned(), zone));
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
        assert!(When::of(Format::Pattern("%Y%m%d%z".to_owned(), Zone::InText)).is_err());
        assert!(!When::of(Format::UnixMilliseconds).unwrap().is_day());
    }
}
