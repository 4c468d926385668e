//! Owns the second fold of `intake`, which yields the events that should be published. A check
//! compares them with `orders`. The events are made by the code that the projector uses, `batch`
//! and `event`.
//!
//! Invariants: records of one partition come in log order; after a marker the events are those of
//! the build it names, under its epoch; an order with other published fields in that build gets
//! a `rebuilt` event at the marker.

use std::collections::BTreeMap;
use std::sync::Arc;

use payfold_engines::log::Message;
use payfold_engines::log::epoch::{epoch_of, publication_in};
use payfold_schemas::position::Position;
use payfold_schemas::publication::{Publication, Switch};
use payfold_schemas::record::{FactRecord, IntakeRecord};

use crate::batch::{FoldOptions, Orders, fold_batch};
use crate::event::{RebuiltOrder, published_fields};
use crate::fold::FoldRules;

/// An event that a record yields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedEvent {
    /// The event as it is published.
    pub message: Message,
    /// The record behind it: a fact or a marker.
    pub position: Position,
    /// The build from which it is published.
    pub build: u32,
}

/// Folds `intake` again, partition by partition.
#[derive(Clone, Debug, Default)]
pub struct Refold {
    /// The rules of each drill build. The other builds are folded by the current rules.
    rules: BTreeMap<u32, FoldRules>,
    /// What is published in each partition after its last marker.
    publications: BTreeMap<u32, Publication>,
}

impl Refold {
    /// A refold of nothing yet. `drills` are the builds with one rule broken on purpose.
    pub fn new(drills: impl IntoIterator<Item = u32>) -> Self {
        let rules = drills.into_iter().map(|build| (build, FoldRules::Drill)).collect();
        Self { rules, publications: BTreeMap::new() }
    }

    /// Folds the next records of one partition into the orders they name; returns the events they
    /// yield, in log order.
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
                IntakeRecord::Parked(_) | IntakeRecord::ParkingProposed(_) => {}
            }
        }
        self.fold_facts(orders, facts, &mut events);
        events
    }

    fn publication(&self, partition: u32) -> Publication {
        publication_in(partition, &self.publications)
    }

    fn rules_of(&self, build: u32) -> FoldRules {
        self.rules.get(&build).copied().unwrap_or_default()
    }

    fn fold_facts(
        &self,
        orders: &mut Orders,
        facts: Vec<(Position, FactRecord)>,
        events: &mut Vec<ExpectedEvent>,
    ) {
        let Some((first, _)) = facts.first() else { return };
        let Publication { build, epoch } = self.publication(first.partition);
        let options = FoldOptions {
            rules: self.rules_of(build),
            epochs: BTreeMap::from([(first.partition, epoch)]),
        };
        let mut named = Orders::new();
        for (_, fact) in &facts {
            if let Some((key, order)) = orders.remove_entry(&fact.order) {
                named.insert(key, order);
            }
        }
        let changes = fold_batch(&mut named, &facts, &options);
        let changed = facts.iter().zip(&changes.effects).filter(|(_, effect)| effect.is_change());
        let causes = changed.map(|((position, _), _)| *position);
        let expected = changes.events.into_iter().zip(causes);
        events.extend(expected.map(|(message, position)| ExpectedEvent {
            message,
            position,
            build,
        }));
        orders.extend(named);
    }

    /// Passes a marker of a switch. A marker may be written twice; the second copy changes nothing.
    fn pass_marker(
        &mut self,
        orders: &mut Orders,
        (position, switch): (Position, &Switch),
        events: &mut Vec<ExpectedEvent>,
    ) {
        let (before, next) = (self.publication(position.partition), switch.publication);
        if next.epoch <= before.epoch {
            return;
        }
        self.publications.insert(position.partition, next);
        let rules = self.rules_of(next.build);
        if rules == self.rules_of(before.build) {
            return;
        }
        for order in orders.values_mut().filter(|order| is_published_at(position, order.position)) {
            let mut rebuilt = (**order).clone();
            rebuilt.summary = rules.summarize(&rebuilt.facts);
            if published_fields(order) != published_fields(&rebuilt) {
                let previous_state = Some(order.summary.state);
                let event = RebuiltOrder { order: &rebuilt, previous_state, switch, position };
                let (message, build) = (event.to_message(), next.build);
                events.push(ExpectedEvent { message, position, build });
            }
            *order = Arc::new(rebuilt);
        }
    }
}

/// Whether an order at this position is published at this marker: the marker of its own partition,
/// or that of the first partition for an order of an earlier epoch of the log.
fn is_published_at(marker: Position, order: Position) -> bool {
    let is_earlier = epoch_of(order.partition) < epoch_of(marker.partition);
    order.partition == marker.partition || (is_earlier && is_first(marker.partition))
}

fn is_first(partition: u32) -> bool {
    partition.checked_sub(1).is_none_or(|before| epoch_of(before) < epoch_of(partition))
}
