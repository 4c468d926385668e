//! Owns `Time`: an instant in unix nanoseconds, and the only, strict, way to parse one.
//! The same instant written with another offset is the same `Time`; parsing never guesses a zone.

use std::fmt;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

const NANOS_PER_MS: i64 = 1_000_000;

/// An instant: nanoseconds since 1970-01-01T00:00:00Z (years 1677 to 2262).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode)]
#[cbor(transparent)]
pub struct Time(#[n(0)] i64);

/// A text that is not an RFC 3339 instant in the format that this system accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "time must be RFC 3339 with a zone, in the years 1678 to 2261, such as 2026-01-31T10:00:00Z"
)]
pub struct TimeError;

impl Time {
    /// The instant of a number of unix milliseconds, clamped to what `Time` can hold.
    pub const fn from_unix_ms(ms: i64) -> Self {
        Self(ms.saturating_mul(NANOS_PER_MS))
    }

    /// The instant of a number of unix nanoseconds.
    pub const fn from_unix_nanos(nanos: i64) -> Self {
        Self(nanos)
    }

    /// Whole milliseconds since the epoch.
    pub const fn unix_ms(self) -> i64 {
        self.0.div_euclid(NANOS_PER_MS)
    }

    /// Nanoseconds since the epoch.
    pub const fn unix_nanos(self) -> i64 {
        self.0
    }

    /// This instant plus a number of milliseconds, which may be negative; clamped.
    pub const fn plus_ms(self, ms: i64) -> Self {
        Self(self.0.saturating_add(ms.saturating_mul(NANOS_PER_MS)))
    }

    /// Nanoseconds from `earlier` to this instant; negative if it is later. Clamped.
    pub const fn nanos_since(self, earlier: Self) -> i64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Parses RFC 3339 strictly: capital `T` and `Z`, a zone, a date that exists, no second 60, at
    /// most nine digits of fraction. Errors: `TimeError`.
    pub fn parse(text: &str) -> Result<Self, TimeError> {
        // chrono also accepts a space for T, lower-case t and z, and second 60.
        let bytes = text.as_bytes();
        let strict = bytes.is_ascii()
            && bytes.get(10) == Some(&b'T')
            && bytes.get(17..19).is_some_and(|seconds| seconds != b"60")
            && !bytes.contains(&b'z')
            && bytes[19..].iter().take_while(|b| **b == b'.' || b.is_ascii_digit()).count() <= 10;
        if !strict {
            return Err(TimeError);
        }
        chrono::DateTime::parse_from_rfc3339(text)
            .ok()
            .and_then(|instant| instant.timestamp_nanos_opt())
            .map(Self)
            .ok_or(TimeError)
    }

    /// RFC 3339 in UTC with as many fraction digits as are needed in threes,
    /// `2026-01-31T10:00:00.250Z`.
    pub fn to_rfc3339(self) -> String {
        chrono::DateTime::from_timestamp_nanos(self.0)
            .to_rfc3339_opts(chrono::SecondsFormat::AutoSi, true)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_rfc3339())
    }
}

impl Serialize for Time {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_instant_in_another_offset_is_the_same_time() {
        let utc = Time::parse("2026-01-31T10:00:00Z").unwrap();
        assert_eq!(Time::parse("2026-01-31T17:00:00+07:00").unwrap(), utc);
        assert_eq!(Time::parse("2026-01-31T10:00:00.000-00:00").unwrap(), utc);
        assert_eq!(utc.to_rfc3339(), "2026-01-31T10:00:00Z");
        assert_eq!(utc.plus_ms(250).to_rfc3339(), "2026-01-31T10:00:00.250Z");
    }

    #[test]
    fn anything_but_strict_rfc_3339_is_refused() {
        for text in [
            "",
            "2026",
            "2026-01-31",
            "2026-01-31T10:00:00",
            "2026-01-31 10:00:00Z",
            "2026-01-31t10:00:00Z",
            "2026-01-31T10:00:00z",
            "2026-01-31T10:00:60Z",
            "2026-02-30T10:00:00Z",
            "2026-13-01T10:00:00Z",
            "1769853600",
            "2026-01-31T10:00:00+0700",
            "2026-01-31T10:00:00.1234567890Z",
            "2026-01-31T10:00Z",
            "2026-01-31T24:00:00Z",
            " 2026-01-31T10:00:00Z",
            "2026-01-31T10:00:00Z ",
            "2026-01-31T10:00:00\u{a0}Z",
            "9999-12-31T23:59:59Z",
            "2026-01-31T10:00:00.Z",
            "2026-01-31T10:00:00,5Z",
        ] {
            assert_eq!(Time::parse(text), Err(TimeError), "{text:?}");
        }
    }
}
