//! Owns people's tokens as rows: the role of each, when the system found it, and what its owner did
//! last.

use payfold_partners::token::TokenEntry;
use payfold_reconcile::findings_store::ActionFilter;
use payfold_schemas::ids::Author;
use payfold_schemas::time::Time;
use payfold_schemas::token::TokenRole;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::actions::of_build;
use crate::error::ReadError;
use crate::listing::Row;
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
    /// When a person of this name did something last that is recorded; reading is not, but for
    /// bytes.
    pub last_action_at: Option<Time>,
}

impl Row for TokenRow {
    const COLUMNS: &'static str = "name role recorded_at last_action_at";
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
        let builds: Vec<_> = self.journal.records().await?.iter().filter_map(of_build).collect();
        let rows = self.ledger(|ledger| {
            let row = |TokenEntry { name, sha256, role }: &TokenEntry| {
                let known = ledger.tokens().get(sha256);
                let known = known.filter(|known| known.owner == *name && known.role == *role);
                let newest = ActionFilter { author: Some(name), before: None, limit: 1 };
                let last = ledger.actions(newest)?.pop();
                let own = builds.iter().filter(|action| action.author.as_ref() == Some(name));
                let last_action_at = last.iter().chain(own).map(|action| action.at).max();
                let recorded_at = known.map(|known| known.at);
                Ok(TokenRow { name: name.clone(), role: *role, recorded_at, last_action_at })
            };
            in_force.iter().map(row).collect()
        });
        let mut tokens: Vec<TokenRow> = rows.await?;
        tokens.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(Tokens { tokens })
    }
}
