//! Owns `payfold.token.recorded.v1`: a token of a person was added or removed, and what its role
//! is. The event is published on `findings`. Changes within v1 are additive.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::ids::Author;
use crate::time::Time;

/// The CloudEvents type.
pub const TOKEN_RECORDED_TYPE: &str = "payfold.token.recorded.v1";

/// The role of a person.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase", try_from = "String")]
pub enum TokenRole {
    /// Reads everything but the bytes of notices.
    Viewer,
    /// Reads, compares records, decides findings, flags and quarantined notices, and closes days.
    Finance,
    /// Reads, decides quarantined notices, and rebuilds.
    Operator,
    /// May do everything.
    #[default]
    Admin,
}

impl TokenRole {
    /// Every role, the one with the fewest permissions first.
    pub const ALL: [Self; 4] = [Self::Viewer, Self::Finance, Self::Operator, Self::Admin];

    /// The role as written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Viewer => "viewer",
            Self::Finance => "finance",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }
}

impl TryFrom<String> for TokenRole {
    type Error = &'static str;

    /// Parses a role. The error names no value: it may be a secret in the wrong place.
    fn try_from(text: String) -> Result<Self, Self::Error> {
        let role = Self::ALL.into_iter().find(|role| role.as_str() == text);
        role.ok_or("a role is viewer, finance, operator or admin")
    }
}

/// What happened to a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TokenChange {
    /// It is in the vault now, or has another role.
    Added,
    /// It is no longer in the vault.
    Removed,
}

/// The data of `payfold.token.recorded.v1`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenRecorded {
    /// The owner of the token: the author of what is done with it.
    pub owner: Author,
    /// The SHA-256 of the token.
    pub token: Digest,
    /// What the owner may do with it.
    pub role: TokenRole,
    /// What happened.
    pub change: TokenChange,
    /// When the system found it.
    pub at: Time,
}

impl TokenRecorded {
    /// Whether the token has the same owner and role as in another record of it.
    pub fn is_same_as(&self, other: &Self) -> bool {
        (&self.owner, self.role) == (&other.owner, other.role)
    }

    /// The event's id: each change has its own.
    pub fn event_id(&self) -> String {
        let Self { owner, token, role, change, at } = self;
        let recorded = format!("{owner} {token} {} {change:?} {}", role.as_str(), at.unix_nanos());
        format!("token/{}", Digest::of_bytes(recorded.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_read_as_it_is_written() {
        for role in TokenRole::ALL {
            let written = serde_json::to_value(role).unwrap();
            assert_eq!(written, role.as_str());
            assert_eq!(serde_json::from_value::<TokenRole>(written).unwrap(), role);
        }
        let unknown = serde_json::from_value::<TokenRole>(serde_json::json!("hush")).unwrap_err();
        assert_eq!(unknown.to_string(), "a role is viewer, finance, operator or admin");
    }
}
