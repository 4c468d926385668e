//! Owns the version of a payment as shops see it: generation and count of changes, `1.7`, ordered as written.

use std::fmt;
use std::str::FromStr;

use crate::rows::Row;

/// Which state of a payment is meant; a later one is greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The number under which the row's changes are told: it grows with each switch to other tables.
    pub generation: u32,
    /// How many records changed the order.
    pub version: u64,
}

impl Version {
    /// What a version looks like, as a regular expression.
    pub const PATTERN: &str = r"^[0-9]+\.[0-9]+$";

    /// The version of a row.
    pub fn of(row: &Row) -> Self {
        Self { generation: row.number, version: row.order.version }
    }

    /// As an entity tag (RFC 9110).
    pub fn etag(self) -> String {
        format!("\"{self}\"")
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.generation, self.version)
    }
}

/// A text that is not `generation.version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoVersion;

impl FromStr for Version {
    type Err = NoVersion;

    fn from_str(text: &str) -> Result<Self, NoVersion> {
        let (generation, version) = text.split_once('.').ok_or(NoVersion)?;
        let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if !plain(generation) || !plain(version) {
            return Err(NoVersion);
        }
        let generation = generation.parse().map_err(|_| NoVersion)?;
        Ok(Self { generation, version: version.parse().map_err(|_| NoVersion)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_and_read_as_written() {
        let at = |text: &str| text.parse::<Version>();
        assert!(at("1.9").unwrap() < at("1.10").unwrap());
        assert!(at("1.10").unwrap() < at("2.1").unwrap());
        assert_eq!(at("1.7").unwrap().etag(), "\"1.7\"");
        for text in ["", "1", "1.", ".1", "1.2.3", "+1.2", "1.-2", "a.b", "1.99999999999999999999"]
        {
            assert_eq!(at(text), Err(NoVersion), "{text:?}");
        }
    }
}
