//! Owns the report on a file that is not a valid profile: every mistake with its place.

use payfold_schemas::ids::PartnerCode;

/// Why a file is not a valid profile: its first mistake, and all others.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} column {column}: {problem}{}", more(.others))]
pub struct ProfileError {
    /// The partner's code.
    pub partner: PartnerCode,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong, and what to do.
    pub problem: String,
    /// The other mistakes.
    pub others: Vec<ProfileError>,
}

fn more(others: &[ProfileError]) -> String {
    others.iter().map(|other| format!("\n{other}")).collect()
}
