//! Owns the result of a decision, as the person who made it gets it.

use payfold_schemas::ids::Author;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::transition::format_people;

/// The result of a decision.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decided {
    /// The finding's id, or the order and its flag.
    pub what: String,
    /// Whether it is decided; otherwise it waits for a second person.
    pub decided: bool,
    /// Who decided first.
    pub author: String,
    /// The second person; null while there is none, or where one is enough.
    pub seconded_by: Option<String>,
    /// The earlier decision that it replaces; left out where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaces: Option<ReplacedDecision>,
}

impl Decided {
    /// The names of its one or two people, for a text.
    pub fn people(&self) -> String {
        format_people(&self.author, self.seconded_by.as_ref())
    }
}

/// A first decision that another one replaced.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplacedDecision {
    /// Who had decided.
    pub author: String,
    /// What had been decided.
    pub said: String,
}

impl ReplacedDecision {
    /// The waiting decision that a new one replaces: `None` if none waits or the new one agrees
    /// with it.
    pub(super) fn replaced_by(
        waiting: Option<(&Author, &'static str)>,
        new: &'static str,
    ) -> Option<Self> {
        let (author, before) = waiting.filter(|(_, before)| *before != new)?;
        Some(Self { author: author.to_string(), said: before.to_owned() })
    }
}
