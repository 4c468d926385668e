//! Owns what is told of a file that is no profile: everything that is wrong, each with its place.

use payfold_schemas::ids::PartnerCode;

/// Why a file is not a profile, and where: the first thing, and all others.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} column {column}: {problem}{}", more(.others))]
pub struct ProfileError {
    /// Whose profile.
    pub partner: PartnerCode,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong and how to mend it.
    pub problem: String,
    /// What else is wrong.
    pub others: Vec<ProfileError>,
}

fn more(others: &[ProfileError]) -> String {
    others.iter().map(|other| format!("\n{other}")).collect()
}
