//! Owns people's tokens as rows: the role of each, when the system found it, and what its owner did
//! last.

use payfold_partners::token::TokenEntry;
use payfold_schemas::ids::Author;
use payfold_schemas::time::Time;
use payfold_schemas::token::TokenRole;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::actions::ListActions;
use crate::error::ReadError;
use crate::reader::Reader;

/// A token of a person, without the token.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TokenRow {
    /// The owner, who is the author of every action with it.
    pub name: Author,
    /// What the owner may do.
    pub role: TokenRole,
    /// Since when the reconciler knows it with this owner and role; null if it does not yet, and
    /// for the token of the data folder.
    pub recorded_at: Option<Time>,
    /// When the owner did something last that is recorded.
    pub last_action_at: Option<Time>,
}

/// Tokens of people.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Tokens {
    /// The tokens, by owner.
    pub tokens: Vec<TokenRow>,
}

impl Reader {
    /// Lists these tokens. Errors: the log's.
    pub async fn tokens(&self, in_force: &[TokenEntry]) -> Result<Tokens, ReadError> {
        let mut tokens = Vec::with_capacity(in_force.len());
        for TokenEntry { name, sha256, role } in in_force {
            let recorded_at = self.ledger(|ledger| {
                let known = ledger.tokens().get(sha256);
                let known = known.filter(|known| known.owner == *name && known.role == *role);
                Ok(known.map(|known| known.at))
            });
            let recorded_at = recorded_at.await?;
            let newest =
                ListActions { author: Some(name.clone()), limit: Some(1), ..Default::default() };
            let last = self.actions(&newest).await?.actions.pop();
            let last_action_at = last.map(|action| action.at);
            tokens.push(TokenRow { name: name.clone(), role: *role, recorded_at, last_action_at });
        }
        tokens.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Tokens { tokens })
    }
}
