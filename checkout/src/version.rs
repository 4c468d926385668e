//! Owns the version of a payment as shops see it: publication epoch and count of changes, written
//! `1.7`. Versions are ordered by epoch, then by count.

use std::fmt;
use std::str::FromStr;

/// The version of a payment. A later version is greater.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version {
    /// The publication epoch of the row: it grows with each switch to another projection build.
    pub epoch: u32,
    /// How many records have changed the order.
    pub version: u64,
}

impl Version {
    /// The format of a version, as a regular expression.
    pub(crate) const PATTERN: &str = r"^[0-9]+\.[0-9]+$";

    /// Formats the version as an entity tag (RFC 9110).
    pub(crate) fn etag(self) -> String {
        format!("\"{self}\"")
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.epoch, self.version)
    }
}

/// A text that is not `epoch.version`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VersionError;

impl FromStr for Version {
    type Err = VersionError;

    fn from_str(text: &str) -> Result<Self, VersionError> {
        let (epoch, version) = text.split_once('.').ok_or(VersionError)?;
        let plain = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if !plain(epoch) || !plain(version) {
            return Err(VersionError);
        }
        let epoch = epoch.parse().map_err(|_| VersionError)?;
        Ok(Self { epoch, version: version.parse().map_err(|_| VersionError)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_parse_and_compare_by_number() {
        let at = |text: &str| text.parse::<Version>();
        assert!(at("1.9").unwrap() < at("1.10").unwrap());
        assert!(at("1.10").unwrap() < at("2.1").unwrap());
        assert_eq!(at("1.7").unwrap().etag(), "\"1.7\"");
        for text in ["", "1", "1.", ".1", "1.2.3", "+1.2", "1.-2", "a.b", "1.99999999999999999999"]
        {
            assert_eq!(at(text), Err(VersionError), "{text:?}");
        }
    }
}
