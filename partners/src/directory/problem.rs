//! Owns the problems that prevent a directory from being built.

/// A part of the profiles or the vault that can't be used. All of them are reported at once.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DirectoryProblem(pub(crate) String);
