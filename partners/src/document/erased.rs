//! Owns the record of a destroyed body key.

use payfold_schemas::ids::{Author, KeyId};
use payfold_schemas::time::Time;
use serde::{Deserialize, Serialize};

/// The record of a destroyed body key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErasedKey {
    /// The key's id.
    pub key_id: KeyId,
    /// The beginning of its validity.
    pub valid_from: Time,
    /// When it was destroyed.
    pub at: Time,
    /// The person who destroyed it.
    pub author: Author,
    /// The reason for destroying it.
    pub reason: String,
}

/// The author, time and reason of destroying a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Erasure {
    /// When the key is destroyed.
    pub at: Time,
    /// The person who destroys it.
    pub author: Author,
    /// The reason for destroying it.
    pub reason: String,
}
