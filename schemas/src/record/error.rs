//! Owns the reasons why stored bytes can't be read as a record.

use crate::record_mac::NotAuthentic;

/// The envelope version this program writes.
pub const ENVELOPE_VERSION: u8 = 1;

/// Why stored bytes can't be read as a record. Each reason stops the reader.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Shorter than its own lengths say.
    #[error("record is cut short")]
    Truncated,
    /// The bytes changed since they were written.
    #[error("record fails its checksum")]
    Checksum,
    /// Written by a newer program.
    #[error(
        "record has envelope version {0}, this program reads up to {ENVELOPE_VERSION}: upgrade \
         readers before writers"
    )]
    UnknownVersion(u8),
    /// Written by a newer program.
    #[error(
        "record has kind {0}, which this program does not know: upgrade readers before writers"
    )]
    UnknownKind(u8),
    /// Written by a newer program.
    #[error("record holds a word this program does not know ({0}): upgrade readers before writers")]
    UnknownWord(String),
    /// No role of this system wrote it as it is.
    #[error("record is not authentic: {0}")]
    NotAuthentic(#[from] NotAuthentic),
    /// The checksum holds and the parts don't decode.
    #[error("record does not decode: {0}")]
    Parts(String),
}

impl RecordError {
    /// Whether a newer program wrote it, and this one has to be upgraded to read on.
    pub fn is_newer(&self) -> bool {
        match self {
            Self::UnknownVersion(_) | Self::UnknownKind(_) | Self::UnknownWord(_) => true,
            Self::Truncated | Self::Checksum | Self::NotAuthentic(_) | Self::Parts(_) => false,
        }
    }
}
