//! Why a simulated partner can't write a message.

/// Why a simulated partner can't write a message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// The profile has a part that a simulated partner can't play.
    #[error("{part}: {why}")]
    Unplayable {
        /// The part.
        part: String,
        /// The reason.
        why: String,
    },
    /// No `[[event]]` or `[[query.event]]` has this meaning.
    #[error("the profile has no event for {0}")]
    NoEvent(String),
    /// A place can't get the value that it needs.
    #[error("{place} can't be written: {why}")]
    Place {
        /// The template or token, as written in the profile.
        place: String,
        /// The reason.
        why: &'static str,
    },
    /// The notices can't be signed with a key of ours.
    #[error("notices can't be signed: {0}")]
    Signature(&'static str),
    /// The message would be read as another event.
    #[error("it would be read as another event than the one for {0}")]
    OtherEvent(String),
}

impl SimulationError {
    pub(super) fn unplayable(part: impl std::fmt::Display, why: impl std::fmt::Display) -> Self {
        Self::Unplayable { part: part.to_string(), why: why.to_string() }
    }

    pub(super) fn place(place: impl std::fmt::Display, why: &'static str) -> Self {
        Self::Place { place: place.to_string(), why }
    }
}
