//! Owns which events `intake` yields, for a check of what was published. The code that publishes makes them: `batch` and
//! `event`.
//!
//! Invariants: records of one partition come in log order; a marker changes who publishes from there on, and under which
//! number; an order that the next build sees in another way gets its `rebuilt` event at the marker.

use std::collections::BTreeMap;
use std::sync::Arc;

use payfold_engines::log::Message;
use payfold_engines::log::epoch::epoch_of;
use payfold_schemas::publication::{Publication, Switch};
use payfold_schemas::record::{FactRecord, IntakeRecord, Position};

use crate::batch::{Orders, Telling, fold_batch};
use crate::event::{Rebuilt, told};
use crate::fold::Rules;

/// An event that a record yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedEvent {
    /// The event as it is published.
    pub message: Message,
    /// The record behind it: a fact or a marker.
    pub position: Position,
    /// The tables whose projector publishes it.
    pub tables: u32,
}

/// Folds `intake` again, partition by partition.
#[derive(Clone, Debug, Default)]
pub struct Refold {
    /// By which rules tables are folded; those that are not here by the standing ones.
    rules: BTreeMap<u32, Rules>,
    /// What is published in each partition behind the last marker.
    publications: BTreeMap<u32, Publication>,
}

impl Refold {
    /// Nothing is folded yet; `drills` are the tables with a rule that is broken on purpose.
    pub fn new(drills: impl IntoIterator<Item = u32>) -> Self {
        let rules = drills.into_iter().map(|tables| (tables, Rules::Drill)).collect();
        Self { rules, publications: BTreeMap::new() }
    }

    /// Folds the next records of one partition into the orders they name; returns the events they yield, in log order.
    pub fn fold(
        &mut self,
        orders: &mut Orders,
        records: Vec<(Position, IntakeRecord)>,
    ) -> Vec<ExpectedEvent> {
        let (mut events, mut facts) = (Vec::new(), Vec::new());
        for (position, record) in records {
            match record {
                IntakeRecord::Fact(fact) => facts.push((position, fact)),
                IntakeRecord::Switch(switch) => {
                    self.fold_facts(orders, std::mem::take(&mut facts), &mut events);
                    self.pass_marker(orders, (position, &switch), &mut events);
                }
                IntakeRecord::Parked(_) => {}
            }
        }
        self.fold_facts(orders, facts, &mut events);
        events
    }

    fn publication(&self, partition: u32) -> Publication {
        self.publications.get(&partition).copied().unwrap_or_default()
    }

    fn rules_of(&self, tables: u32) -> Rules {
        self.rules.get(&tables).copied().unwrap_or_default()
    }

    fn fold_facts(
        &self,
        orders: &mut Orders,
        facts: Vec<(Position, FactRecord)>,
        events: &mut Vec<ExpectedEvent>,
    ) {
        let Some((first, _)) = facts.first() else { return };
        let Publication { tables, number } = self.publication(first.partition);
        let telling = Telling {
            rules: self.rules_of(tables),
            numbers: BTreeMap::from([(first.partition, number)]),
        };
        let mut named = Orders::new();
        for (_, fact) in &facts {
            if let Some((key, order)) = orders.remove_entry(&fact.order) {
                named.insert(key, order);
            }
        }
        let changes = fold_batch(&mut named, &facts, &telling);
        let changed = facts.iter().zip(&changes.effects).filter(|(_, effect)| effect.is_change());
        let behind = changed.map(|((position, _), _)| *position);
        let made = changes.events.into_iter().zip(behind);
        events.extend(made.map(|(message, position)| ExpectedEvent { message, position, tables }));
        orders.extend(named);
    }

    /// A marker may be written twice; one whose number was there before means nothing.
    fn pass_marker(
        &mut self,
        orders: &mut Orders,
        (position, switch): (Position, &Switch),
        events: &mut Vec<ExpectedEvent>,
    ) {
        let (before, next) = (self.publication(position.partition), switch.publication);
        if next.number <= before.number {
            return;
        }
        self.publications.insert(position.partition, next);
        let rules = self.rules_of(next.tables);
        if rules == self.rules_of(before.tables) {
            return;
        }
        for order in orders.values_mut().filter(|order| is_of(order.position, position)) {
            let mut seen = (**order).clone();
            seen.summary = rules.summarize(&seen.facts);
            if told(order) != told(&seen) {
                let previous_state = Some(order.summary.state);
                let rebuilt = Rebuilt { order: &seen, previous_state, switch, position };
                let (message, tables) = (rebuilt.to_message(), next.tables);
                events.push(ExpectedEvent { message, position, tables });
            }
            *order = Arc::new(seen);
        }
    }
}

/// Whether the marker's partition is the one that publishes an order at a switch. Orders of earlier epochs of the log are
/// published with the first partition.
fn is_of(order: Position, marker: Position) -> bool {
    let is_earlier = epoch_of(order.partition) < epoch_of(marker.partition);
    order.partition == marker.partition || (is_earlier && is_first(marker.partition))
}

fn is_first(partition: u32) -> bool {
    partition.checked_sub(1).is_none_or(|before| epoch_of(before) < epoch_of(partition))
}
