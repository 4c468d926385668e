//! Owns the problems of the files in a vault directory.

use std::fmt;

/// The file with the settings that are not secret.
pub const PLAIN_FILE: &str = "vault.toml";

/// A file in the directory that can't be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProblem {
    /// The file's name.
    pub file: String,
    /// What is wrong, and what to do. It never contains a part of the file's content.
    pub problem: String,
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.file, self.problem)
    }
}

/// A problem of a file without its name, which the caller adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BadFile(pub(super) String);

impl BadFile {
    /// An `Err` with this problem.
    pub(super) fn err<T>(problem: impl Into<String>) -> Result<T, Self> {
        Err(Self(problem.into()))
    }
}

pub(crate) fn by_line(problems: &[FileProblem]) -> String {
    problems.iter().map(|problem| format!("\n  {problem}")).collect()
}
