//! Owns the small rules of a profile: its stage, whether notices carry a nonce, and whether they
//! may have unknown fields.

use schemars::JsonSchema;
use serde::Deserialize;

/// The stage of a profile on its way into production (contract 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The profile is being written.
    Draft,
    /// The profile is tried against the partner's sandbox.
    Sandbox,
    /// The profile is agreed with the partner. A change needs a new version.
    Frozen,
    /// The profile is in production.
    Live,
}

impl Stage {
    /// Every stage, in the order that a profile passes them.
    pub const ALL: [Self; 4] = [Self::Draft, Self::Sandbox, Self::Frozen, Self::Live];

    /// The stage's name in a profile.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "draft",
            Self::Sandbox => "sandbox",
            Self::Frozen => "frozen",
            Self::Live => "live",
        }
    }
}

/// Whether a partner's notices carry a nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NonceRule {
    /// A nonce is ignored.
    Unused,
    /// A nonce is checked and kept if there is one.
    Optional,
    /// A notice without a nonce is refused.
    Required,
}

/// Whether notices may have fields that the contract does not define.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum UnknownFields {
    /// They are stored with the raw body and counted.
    Allow,
    /// The notice is refused with 400 `unknown_field`.
    Refuse,
}
