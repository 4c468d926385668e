//! Owns in what two builds differ about an order, and why.
//!
//! Invariant: two rows are compared only if both builds are at the same record of the log. Rows
//! that are not are read again, and reported as moving if they never meet.

use std::time::Duration;

use payfold_engines::EngineError;
use payfold_engines::orders::OrderStore;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::{KnownFacts, Order};
use payfold_schemas::position::Position;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::build_join::{BuildJoin, OrderPair};
use crate::event::published_fields;

/// How often rows at different records are read again.
const TRIES: u32 = 8;
/// The pause before each of these reads.
const TRY_EVERY: Duration = Duration::from_millis(50);

/// Why an order differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum DifferenceCause {
    /// Both builds keep the same facts and fold them to different fields.
    Rules,
    /// The builds keep different facts.
    Facts,
    /// The new build does not have the order.
    Missing,
    /// Only the new build has the order.
    Added,
    /// The order changed all the time it was compared.
    Moving,
}

impl DifferenceCause {
    /// Its name in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rules => "rules",
            Self::Facts => "facts",
            Self::Missing => "missing",
            Self::Added => "added",
            Self::Moving => "moving",
        }
    }
}

/// One field of an order with the values of both builds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FieldDifference {
    /// The field's name in `order.changed`.
    pub name: &'static str,
    /// The value in the live build.
    pub live: String,
    /// The value in the new build.
    pub new: String,
}

/// What differs about an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// `partner/merchantCode/orderId`.
    pub order: String,
    /// Why it differs.
    pub cause: DifferenceCause,
    /// The fields that differ; empty if one of the builds does not have the order.
    pub fields: Vec<FieldDifference>,
}

/// How many orders differ between two projection builds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    /// How many orders were compared.
    pub orders: u64,
    /// How many orders a switch publishes an event for.
    pub differing: u64,
    /// How many orders only the live build has.
    pub missing: u64,
    /// How many orders changed while they were compared.
    pub(crate) moving: u64,
}

/// Compares the published fields of two rows at the same record; `None` if they are equal.
pub fn compare_orders(live: &Order, new: &Order) -> Option<Difference> {
    let fields: Vec<FieldDifference> = (published_fields(live).into_iter())
        .zip(published_fields(new))
        .filter(|((_, live), (_, new))| live != new)
        .map(|((name, live), (_, new))| FieldDifference { name, live, new })
        .collect();
    if fields.is_empty() {
        return None;
    }
    let same_facts = without_positions(&live.facts) == without_positions(&new.facts);
    let cause = if same_facts { DifferenceCause::Rules } else { DifferenceCause::Facts };
    Some(Difference { order: live.key.to_string(), cause, fields })
}

/// The kept facts as if all were read at the same position.
fn without_positions(facts: &KnownFacts) -> KnownFacts {
    let mut facts = facts.clone();
    let nowhere = Position::default();
    facts.creates.iter_mut().for_each(|known| known.position = nowhere);
    facts.sessions.iter_mut().for_each(|known| known.position = nowhere);
    facts.create_failures.iter_mut().for_each(|known| known.position = nowhere);
    facts.ipns.iter_mut().for_each(|known| known.position = nowhere);
    facts.deadlines_passed.iter_mut().for_each(|known| known.position = nowhere);
    facts.query_answers.iter_mut().for_each(|known| known.position = nowhere);
    facts.shared_refs.iter_mut().for_each(|known| known.position = nowhere);
    facts.decisions.iter_mut().for_each(|known| known.position = nowhere);
    facts
}

/// Compares two builds while both are folded on.
pub struct Comparison<'a> {
    live: &'a dyn OrderStore,
    new: &'a dyn OrderStore,
}

impl<'a> Comparison<'a> {
    /// A comparison of these builds.
    pub fn new(live: &'a dyn OrderStore, new: &'a dyn OrderStore) -> Self {
        Self { live, new }
    }

    /// What differs about a pair of unequal rows; `None` if their published fields are equal.
    /// Errors: the engines'.
    pub async fn compare_pair(&self, pair: &OrderPair) -> Result<Option<Difference>, EngineError> {
        let mut both = (pair.live_order()?, pair.new_order()?);
        let Some(known) = both.0.as_ref().or(both.1.as_ref()) else { return Ok(None) };
        let key = known.key.clone();
        // Whether the build without the order had folded past the other build's row before its row
        // was read last. A store writes rows before progress, so then the order is really missing.
        let mut passed = false;
        for _ in 0..TRIES {
            passed = match &both {
                (Some(live), Some(new)) if live.position == new.position => {
                    return Ok(compare_orders(live, new));
                }
                (Some(_), None) if passed => {
                    return Ok(Some(one_sided(&key, DifferenceCause::Missing)));
                }
                (None, Some(_)) if passed => {
                    return Ok(Some(one_sided(&key, DifferenceCause::Added)));
                }
                (Some(live), None) => has_folded(self.new, live.position).await?,
                (None, Some(new)) => has_folded(self.live, new.position).await?,
                (Some(_), Some(_)) | (None, None) => false,
            };
            if !passed {
                tokio::time::sleep(TRY_EVERY).await;
            }
            both = (load_order(self.live, &key).await?, load_order(self.new, &key).await?);
        }
        Ok(Some(one_sided(&key, DifferenceCause::Moving)))
    }

    /// Compares all orders and counts the differences. Errors: the engines'.
    pub async fn tally_orders(&self) -> Result<Tally, EngineError> {
        let mut join = BuildJoin::new(self.live, self.new, None);
        let mut tally = Tally::default();
        while let Some(pair) = join.next_unequal().await? {
            match self.compare_pair(&pair).await?.map(|difference| difference.cause) {
                None => {}
                Some(DifferenceCause::Rules | DifferenceCause::Facts | DifferenceCause::Added) => {
                    tally.differing = tally.differing.saturating_add(1);
                }
                Some(DifferenceCause::Missing) => tally.missing = tally.missing.saturating_add(1),
                Some(DifferenceCause::Moving) => tally.moving = tally.moving.saturating_add(1),
            }
        }
        Ok(Tally { orders: join.orders_met(), ..tally })
    }
}

/// A difference without fields: one build does not have the order, or it never stood still.
fn one_sided(key: &OrderKey, cause: DifferenceCause) -> Difference {
    Difference { order: key.to_string(), cause, fields: Vec::new() }
}

async fn load_order(store: &dyn OrderStore, key: &OrderKey) -> Result<Option<Order>, EngineError> {
    Ok(store.load(vec![key.clone()]).await?.pop().flatten())
}

/// Whether a build has folded the record at a position.
async fn has_folded(store: &dyn OrderStore, position: Position) -> Result<bool, EngineError> {
    let progress = store.progress().await?;
    Ok(progress.iter().flat_map(|progress| &progress.folded).any(|folded| {
        folded.position.partition == position.partition && folded.position.offset >= position.offset
    }))
}
