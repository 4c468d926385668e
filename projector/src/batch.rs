//! Owns the folding of a batch in memory, from records in log order to rows, view entries and
//! events.
//!
//! Invariants: each record that changes its order's kept set moves the version by one, and makes
//! one event if its partition is published; events are in log order. Every order a record names is
//! written again with its entries, also if nothing changed, so that a repeated batch repairs a
//! commit that a crash left half written.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use payfold_engines::log::Message;
use payfold_engines::orders::ViewEntry;
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::ipn::Ipn;
use payfold_schemas::order::{Flag, KnownFacts, Order, OrderState};
use payfold_schemas::position::Position;
use payfold_schemas::record::FactRecord;
use payfold_schemas::time::Time;

use crate::event::OrderChange;
use crate::fold::{Effect, FactContent, FoldRules, apply};

/// The orders a batch names, as far as they exist; folding adds the new ones.
pub type Orders = HashMap<OrderKey, Arc<Order>>;

/// The results of a batch.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Every order the batch names, after the batch.
    pub orders: Vec<Arc<Order>>,
    /// The entries of its records, sorted by entry, without repeats.
    pub views: Vec<(OrderKey, ViewEntry)>,
    /// `order.changed`, in log order.
    pub(crate) events: Vec<Message>,
    /// When the record behind each event was received.
    pub(crate) received: Vec<Time>,
    /// The effect of each record.
    pub(crate) effects: Vec<Effect>,
    /// The states that orders came into, one for each change of state.
    pub(crate) entered: Vec<OrderState>,
    /// The critical flags that orders got, one for each order and flag.
    pub(crate) raised: Vec<Flag>,
}

/// How a batch is folded, and which of its changes are published.
#[derive(Clone, Debug, Default)]
pub(crate) struct FoldOptions {
    /// The rules of the build.
    pub rules: FoldRules,
    /// The publication epoch of each partition that is published from this build. The other
    /// partitions are folded unpublished.
    pub(crate) epochs: BTreeMap<u32, u32>,
}

/// Folds `records`, in log order, into the orders they name.
pub(crate) fn fold_batch(
    orders: &mut Orders,
    records: &[(Position, FactRecord)],
    options: &FoldOptions,
) -> Changes {
    let mut changes = Changes::default();
    for (position, record) in records {
        if !orders.contains_key(&record.order) {
            let order = new_order(record, *position, options.rules);
            orders.insert(record.order.clone(), Arc::new(order));
        }
        let order = orders.get_mut(&record.order).expect("it was added just above");
        fold_record(Arc::make_mut(order), (*position, record), options, &mut changes);
        add_entries(record, &mut changes.views);
    }
    for order in orders.values() {
        let entry = ViewEntry::Created(order.first_seen);
        changes.views.push((order.key.clone(), entry));
        changes.orders.push(Arc::clone(order));
    }
    changes.views.sort_unstable_by(|(a_key, a), (b_key, b)| (a, a_key).cmp(&(b, b_key)));
    changes.views.dedup();
    assert_eq!(changes.effects.len(), records.len(), "every record is folded");
    let changed = changes.effects.iter().filter(|effect| effect.is_change()).count();
    assert!(changes.events.len() <= changed, "a record that changed nothing has no event");
    assert_eq!(changes.events.len(), changes.received.len(), "every event has its time of receipt");
    changes
}

fn new_order(record: &FactRecord, position: Position, rules: FoldRules) -> Order {
    let facts = KnownFacts::default();
    Order {
        key: record.order.clone(),
        version: 0,
        first_seen: record.received_at,
        position,
        summary: rules.summarize(&facts),
        facts,
    }
}

fn fold_record(
    order: &mut Order,
    (position, record): (Position, &FactRecord),
    options: &FoldOptions,
    changes: &mut Changes,
) {
    assert_eq!(order.key, record.order, "a record is folded into the order it names");
    let effect = apply(&mut order.facts, &record.fact, position);
    changes.effects.push(effect);
    // A repeated record is older than the row it is folded into.
    if position.partition != order.position.partition || position.offset > order.position.offset {
        order.position = position;
    }
    if !effect.is_change() {
        return;
    }
    let previous_state = (order.version > 0).then_some(order.summary.state);
    let known: Vec<_> = order.summary.critical().collect();
    order.version = order.version.checked_add(1).expect("no log holds 2^64 records");
    order.summary = options.rules.summarize(&order.facts);
    changes.raised.extend(order.summary.critical().filter(|flag| !known.contains(flag)));
    if previous_state != Some(order.summary.state) {
        changes.entered.push(order.summary.state);
    }
    if let Some(epoch) = options.epochs.get(&position.partition) {
        let change = OrderChange { order, previous_state, record, position };
        changes.events.push(change.to_message(*epoch));
        changes.received.push(record.received_at);
    }
}

/// The view entries a record gives its order.
fn add_entries(record: &FactRecord, views: &mut Vec<(OrderKey, ViewEntry)>) {
    let mut add = |entry| views.push((record.order.clone(), entry));
    match &record.fact {
        Fact::CreateRequested(create) => {
            add(ViewEntry::Reference(create.reference.clone()));
            add(ViewEntry::Deadline(create.deadline));
        }
        Fact::SessionOpened(session) => {
            add(ViewEntry::ProviderRef(session.provider_ref.clone()));
            add(ViewEntry::Deadline(session.deadline));
        }
        Fact::Ipn(ipn) => {
            if ipn.policy.names_transaction() {
                add(ViewEntry::ProviderRef(ipn.provider_ref.clone()));
            }
            if let Some(entry) = nonce_entry(ipn) {
                add(entry);
            }
        }
        Fact::QueryAnswered(answer) => {
            add(ViewEntry::ProviderRef(answer.provider_ref.clone()));
        }
        Fact::CreateFailed(_)
        | Fact::DeadlinePassed { .. }
        | Fact::RefShared(_)
        | Fact::Decided(_) => {}
    }
}

fn nonce_entry(ipn: &Ipn) -> Option<ViewEntry> {
    let nonce = ipn.nonce.as_ref().filter(|_| ipn.policy.nonce_required)?;
    Some(ViewEntry::Nonce(nonce.clone(), FactContent::of_ipn(ipn).digest()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::testkit::{at, fact};

    /// A record of an order.
    fn record(text: &str) -> FactRecord {
        FactRecord {
            order: OrderKey::parse("p/M/o").unwrap(),
            fact: fact(text),
            request_id: "01939b1c-7a00-7000-8000-000000000001".parse().unwrap(),
            received_at: at("10:00"),
            source: None,
        }
    }

    /// An order is listed under the refs that somebody says it has who can be believed.
    #[test]
    fn a_notice_lists_its_order_by_ref_unless_it_names_no_transaction() {
        for (text, listed) in [
            ("S r 100", true),
            ("S r 100 placeholder", false),
            ("S r 100 unconfirmed", false),
            ("P S r 100", true),
            ("O r", true),
        ] {
            let mut views = Vec::new();
            add_entries(&record(text), &mut views);
            let is_ref = |entry: &ViewEntry| matches!(entry, ViewEntry::ProviderRef(_));
            assert_eq!(views.iter().any(|(_, entry)| is_ref(entry)), listed, "{text}");
        }
    }

    /// A flag counts when it becomes critical, once.
    #[test]
    fn critical_flags_are_raised_once() {
        let records = |all: &[&str]| -> Vec<_> {
            let position = |offset| Position { partition: 0, offset };
            (1..).map(position).zip(all.iter().map(|text| record(text))).collect()
        };
        for (facts, raised) in [
            (&["C 100", "O r1", "S r1 100"][..], &[][..]),
            (&["C 100", "S r1 90"], &[Flag::AmountMismatch]),
            (&["C 100", "S r1 100", "S r2 100", "S r3 100"], &[Flag::DoublePayment]),
            (&["S r1 100"], &[]),
        ] {
            let mut orders = Orders::default();
            let changes = fold_batch(&mut orders, &records(facts), &FoldOptions::default());
            assert_eq!(changes.raised, raised, "{facts:?}");
        }
    }
}
