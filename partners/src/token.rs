//! A token of the admin listener: its owner, and what the owner may do. Pure.

use payfold_schemas::digest::Digest;
use payfold_schemas::ids::Author;
use payfold_schemas::token::TokenRole;
use serde::{Deserialize, Serialize};

/// The owner of the token in each data folder. It is in no vault.
pub const LOCAL_OWNER: &str = "local";

/// One admin token. The token itself is not stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenEntry {
    /// The name of the token's owner. The owner is the author of every action with the token.
    pub name: Author,
    /// The SHA-256 of the token.
    pub sha256: Digest,
    /// What the owner may do. Tokens from before there were roles may do everything. An admin's is
    /// not written, so that a program from before can read the vault.
    #[serde(default, skip_serializing_if = "is_admin")]
    pub role: TokenRole,
}

/// What an action requires of its author.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// Reading, except the bytes of notices.
    Read,
    /// Reading the bytes of a notice, as they came.
    ReadBytes,
    /// Comparing records, deciding findings and flags, closing days.
    Settle,
    /// Deciding quarantined notices.
    Release,
    /// Folding the log into new builds, and publishing them.
    Operate,
    /// What can't be undone: erasing bytes.
    Erase,
}

impl TokenEntry {
    /// The entry of a token among these. Only hashes are compared, so timing reveals nothing about
    /// a token.
    pub fn find<'t>(tokens: &'t [Self], token: &[u8]) -> Option<&'t Self> {
        let sha256 = Digest::of_bytes(token);
        tokens.iter().find(|known| known.sha256 == sha256)
    }
}

fn is_admin(role: &TokenRole) -> bool {
    *role == TokenRole::Admin
}

impl Permission {
    /// Whether a role has it.
    pub fn is_of(self, role: TokenRole) -> bool {
        use Permission::{Operate, Read, ReadBytes, Release, Settle};
        match role {
            TokenRole::Viewer => self == Read,
            TokenRole::Finance => matches!(self, Read | ReadBytes | Release | Settle),
            TokenRole::Operator => matches!(self, Read | ReadBytes | Release | Operate),
            TokenRole::Admin => true,
        }
    }

    /// The roles that have it, as a list for a sentence.
    pub fn roles(self) -> String {
        let roles = TokenRole::ALL.into_iter().filter(|role| self.is_of(*role));
        roles.map(TokenRole::as_str).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_role_has_its_permissions() {
        for (permission, roles) in [
            (Permission::Read, "viewer, finance, operator, admin"),
            (Permission::ReadBytes, "finance, operator, admin"),
            (Permission::Settle, "finance, admin"),
            (Permission::Release, "finance, operator, admin"),
            (Permission::Operate, "operator, admin"),
            (Permission::Erase, "admin"),
        ] {
            assert_eq!(permission.roles(), roles, "{permission:?}");
        }
    }

    #[test]
    fn a_token_from_before_there_were_roles_is_an_admins() {
        let before = serde_json::json!({ "name": "ann", "sha256": Digest::of_bytes(b"token") });
        let token: TokenEntry = serde_json::from_value(before.clone()).unwrap();
        assert_eq!(token.role, TokenRole::Admin);
        assert_eq!(serde_json::to_value(token).unwrap(), before, "as it was");
    }
}
