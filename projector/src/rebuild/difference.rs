//! Owns in what two generations differ about an order, and why.
//! Invariant: two rows are only compared where both stand at the same record of the log; those that move are read again, and
//! named as moving if they go on to.

use std::time::Duration;

use payfold_engines::EngineError;
use payfold_engines::orders::OrderStore;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::{KnownFacts, Order};
use payfold_schemas::record::Position;
use serde::Serialize;

use super::join::{Join, Pair};
use crate::event::told;

/// How often rows that move are read again.
const TRIES: u32 = 8;
const TRY_EVERY: Duration = Duration::from_millis(50);

/// Why an order differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Why {
    /// Both keep the same facts and make something else of them.
    Rules,
    /// They keep other facts.
    Facts,
    /// The new one does not have it.
    Missing,
    /// Only the new one has it.
    Added,
    /// It changed all the while it was read.
    Moving,
}

impl Why {
    /// Its word.
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

/// One field of one order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Field {
    /// Which, as in the event.
    pub name: &'static str,
    /// As it is told.
    pub live: String,
    /// As the new one has it.
    pub new: String,
}

/// What differs about an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// `partner/merchantCode/orderId`.
    pub order: String,
    /// Why.
    pub cause: Why,
    /// In what; none where one of them does not have the order.
    pub fields: Vec<Field>,
}

/// How many orders differ, by why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tally {
    /// Orders come by.
    pub orders: u64,
    /// Those an event will tell of.
    pub differing: u64,
    /// Those only the live one has.
    pub missing: u64,
    /// Those that moved all the while.
    pub moving: u64,
}

/// What differs about an order of which both rows stand at the same record; none if they tell the same.
pub fn between(live: &Order, new: &Order) -> Option<Difference> {
    let fields: Vec<Field> = (told(live).into_iter().zip(told(new)))
        .filter(|((_, live), (_, new))| live != new)
        .map(|((name, live), (_, new))| Field { name, live, new })
        .collect();
    if fields.is_empty() {
        return None;
    }
    let same = contents(&live.facts) == contents(&new.facts);
    let cause = if same { Why::Rules } else { Why::Facts };
    Some(Difference { order: live.key.to_string(), cause, fields })
}

/// The kept facts without where they were read.
fn contents(facts: &KnownFacts) -> KnownFacts {
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

/// Two generations that are compared while both go on.
pub struct Comparison<'a> {
    live: &'a dyn OrderStore,
    new: &'a dyn OrderStore,
}

impl<'a> Comparison<'a> {
    /// Compares these.
    pub fn new(live: &'a dyn OrderStore, new: &'a dyn OrderStore) -> Self {
        Self { live, new }
    }

    /// What differs about a pair whose rows are not equal; none if it tells the same. Errors: the engines'.
    pub async fn judge(&self, pair: &Pair) -> Result<Option<Difference>, EngineError> {
        let mut both = (pair.live_order()?, pair.new_order()?);
        let Some(known) = both.0.as_ref().or(both.1.as_ref()) else { return Ok(None) };
        let key = known.key.clone();
        // Whether who does not have it had come past it before it was asked last: rows are there before progress is.
        let mut passed = false;
        for _ in 0..TRIES {
            passed = match &both {
                (Some(live), Some(new)) if live.position == new.position => {
                    return Ok(between(live, new));
                }
                (Some(_), None) if passed => return Ok(Some(one_sided(&key, Why::Missing))),
                (None, Some(_)) if passed => return Ok(Some(one_sided(&key, Why::Added))),
                (Some(live), None) => folded(self.new, live.position).await?,
                (None, Some(new)) => folded(self.live, new.position).await?,
                (Some(_), Some(_)) | (None, None) => false,
            };
            if !passed {
                tokio::time::sleep(TRY_EVERY).await;
            }
            both = (load(self.live, &key).await?, load(self.new, &key).await?);
        }
        Ok(Some(one_sided(&key, Why::Moving)))
    }

    /// Counts over all orders. Errors: the engines'.
    pub async fn tally(&self) -> Result<Tally, EngineError> {
        let mut join = Join::new(self.live, self.new, None);
        let mut tally = Tally::default();
        while let Some(pair) = join.next_unequal().await? {
            match self.judge(&pair).await?.map(|difference| difference.cause) {
                None => {}
                Some(Why::Rules | Why::Facts | Why::Added) => {
                    tally.differing = tally.differing.saturating_add(1);
                }
                Some(Why::Missing) => tally.missing = tally.missing.saturating_add(1),
                Some(Why::Moving) => tally.moving = tally.moving.saturating_add(1),
            }
        }
        Ok(Tally { orders: join.seen(), ..tally })
    }
}

fn one_sided(key: &OrderKey, cause: Why) -> Difference {
    Difference { order: key.to_string(), cause, fields: Vec::new() }
}

async fn load(store: &dyn OrderStore, key: &OrderKey) -> Result<Option<Order>, EngineError> {
    Ok(store.load(vec![key.clone()]).await?.pop().flatten())
}

/// Whether a store has folded the record at a position.
async fn folded(store: &dyn OrderStore, position: Position) -> Result<bool, EngineError> {
    let progress = store.progress().await?;
    Ok(progress.iter().flat_map(|progress| &progress.folded).any(|one| {
        one.position.partition == position.partition && one.position.offset >= position.offset
    }))
}
