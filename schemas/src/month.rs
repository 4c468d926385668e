//! Owns the calendar month in UTC. Received bytes are sealed with a key per month, and erased month
//! by month.

use chrono::{DateTime, Datelike, Months, NaiveDate, NaiveTime};
use serde::{Deserialize, Serialize};

use crate::time::Time;

/// A month, such as 2026-11.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Month(NaiveDate);

/// A text that is not a month.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a month is written such as 2026-11")]
pub struct MonthError;

impl Month {
    /// The month an instant is in.
    pub fn of(time: Time) -> Self {
        let date = DateTime::from_timestamp_nanos(time.unix_nanos()).date_naive();
        Self(date.with_day(1).expect("every month has a first day"))
    }

    /// The month's first instant.
    pub fn start(self) -> Time {
        let start = self.0.and_time(NaiveTime::MIN).and_utc();
        Time::from_unix_ms(start.timestamp_millis())
    }

    /// The next month.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.checked_add_months(Months::new(1)).unwrap_or(self.0))
    }
}

impl std::str::FromStr for Month {
    type Err = MonthError;

    fn from_str(text: &str) -> Result<Self, MonthError> {
        let date = NaiveDate::parse_from_str(&format!("{text}-01"), "%Y-%m-%d");
        let month = date.map(Self).map_err(|_| MonthError)?;
        if month.to_string() == text { Ok(month) } else { Err(MonthError) }
    }
}

impl TryFrom<String> for Month {
    type Error = MonthError;

    fn try_from(text: String) -> Result<Self, MonthError> {
        text.parse()
    }
}

impl From<Month> for String {
    fn from(month: Month) -> Self {
        month.to_string()
    }
}

impl std::fmt::Display for Month {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.format("%Y-%m"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_month_begins_at_its_first_instant_in_utc() {
        for (time, month, start, next) in [
            ("2026-11-22T11:00:00Z", "2026-11", "2026-11-01T00:00:00Z", "2026-12"),
            ("2026-12-31T23:59:59.999Z", "2026-12", "2026-12-01T00:00:00Z", "2027-01"),
            ("2027-01-01T00:00:00Z", "2027-01", "2027-01-01T00:00:00Z", "2027-02"),
            ("2027-01-01T06:59:00+07:00", "2026-12", "2026-12-01T00:00:00Z", "2027-01"),
        ] {
            let found = Month::of(Time::parse(time).unwrap());
            let computed = (found.to_string(), found.start().to_string(), found.next().to_string());
            assert_eq!(computed, (month.to_owned(), start.to_owned(), next.to_owned()), "{time}");
            assert_eq!(month.parse(), Ok(found));
        }
        for wrong in ["2026-13", "2026-1", "26-11", "2026-11-01", "", "+2026-11"] {
            assert_eq!(wrong.parse::<Month>(), Err(MonthError), "{wrong}");
        }
    }
}
