//! Owns the shape of an error a person reads: one line what is wrong, one line how to mend it, and the
//! exit code. Everything else is an `anyhow` chain printed in one line.

use std::fmt;

/// An error with its fix.
#[derive(Debug)]
pub struct Fixable {
    what: String,
    fix: String,
}

impl Fixable {
    /// `what` is wrong; `fix` says how to mend it.
    pub fn error(what: impl Into<String>, fix: impl Into<String>) -> anyhow::Error {
        anyhow::Error::new(Self { what: what.into(), fix: fix.into() })
    }
}

impl fmt::Display for Fixable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n  fix: {}", self.what, self.fix)
    }
}

impl std::error::Error for Fixable {}

/// A command that found differences: exit code 3, and not an error to print.
#[derive(Debug)]
pub struct DifferencesFound;

impl fmt::Display for DifferencesFound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("differences found")
    }
}

impl std::error::Error for DifferencesFound {}
