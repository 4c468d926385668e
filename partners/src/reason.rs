//! Owns the reason why a call to a partner failed, for the log. Invariant: it contains no secret
//! and no part of an answer that may be one.

use std::fmt;

/// The reason why a call failed, as text for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reason(pub(crate) String);

impl Reason {
    /// An `Err` with this reason.
    pub(crate) fn err<T>(why: impl Into<String>) -> Result<T, Self> {
        Err(Self(why.into()))
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
