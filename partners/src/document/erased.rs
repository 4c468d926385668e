//! Owns the record of a destroyed body key, and the proposal that comes before it.

use payfold_schemas::ids::{Author, KeyId};
use payfold_schemas::month::Month;
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
    /// The person who proposed to destroy it.
    pub author: Author,
    /// The person who agreed and destroyed it; absent if it was destroyed before two people were
    /// needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconded_by: Option<Author>,
    /// The reason for destroying it.
    pub reason: String,
    /// The reason that the second person gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second_reason: Option<String>,
}

/// The person who agrees to a proposal, when and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErasureAgreement {
    /// The person.
    pub author: Author,
    /// When the keys are destroyed.
    pub at: Time,
    /// The reason that the person gave.
    pub reason: String,
}

/// A person's proposal to destroy the body keys of a month.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ErasureProposal {
    /// The month.
    pub month: Month,
    /// When it was proposed.
    pub at: Time,
    /// The person who proposed it.
    pub author: Author,
    /// The reason for destroying the keys.
    pub reason: String,
}
