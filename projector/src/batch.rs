//! Owns the folding of a batch in memory: records in log order in; rows, view entries and events out.
//!
//! Invariants: one event per record that changed its order's kept set where that is told, in log order; the version moves by
//! one with each; every order a record names is written again with its entries, also when nothing
//! changed, so that a repeated batch mends what a crash left half written.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use payfold_engines::log::Message;
use payfold_engines::orders::ViewEntry;
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::ipn::Ipn;
use payfold_schemas::order::{KnownFacts, Order, OrderState};
use payfold_schemas::record::{FactRecord, Position};
use payfold_schemas::time::Time;

use crate::event::Change;
use crate::fold::{Content, Effect, Rules, apply};

/// The orders a batch names, as far as they are known; the batch adds the others.
pub type Orders = HashMap<OrderKey, Arc<Order>>;

/// What a batch comes to.
#[derive(Debug, Default)]
pub struct Changes {
    /// Every order the batch names, as it leaves it.
    pub orders: Vec<Arc<Order>>,
    /// The entries of its records, sorted by entry, without repeats.
    pub views: Vec<(OrderKey, ViewEntry)>,
    /// `order.changed`, in log order.
    pub events: Vec<Message>,
    /// When the record behind each event was received.
    pub received: Vec<Time>,
    /// What each record did.
    pub effects: Vec<Effect>,
    /// Every state an order came into.
    pub entered: Vec<OrderState>,
}

/// By which rules a batch is folded, and what of it is told.
#[derive(Clone, Debug, Default)]
pub struct Telling {
    /// The rules.
    pub rules: Rules,
    /// The number under which a partition's changes are told; a partition that is not here is folded in silence.
    pub numbers: BTreeMap<u32, u32>,
}

/// Folds `records`, in log order, into the orders they name.
pub fn fold_batch(
    orders: &mut Orders,
    records: &[(Position, FactRecord)],
    telling: &Telling,
) -> Changes {
    let mut changes = Changes::default();
    for (position, record) in records {
        if !orders.contains_key(&record.order) {
            let order = new_order(record, *position, telling.rules);
            orders.insert(record.order.clone(), Arc::new(order));
        }
        let order = orders.get_mut(&record.order).expect("it was added just above");
        fold_record(Arc::make_mut(order), (*position, record), telling, &mut changes);
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
    changes
}

fn new_order(record: &FactRecord, position: Position, rules: Rules) -> Order {
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
    telling: &Telling,
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
    order.version = order.version.checked_add(1).expect("no log holds 2^64 records");
    order.summary = telling.rules.summarize(&order.facts);
    if previous_state != Some(order.summary.state) {
        changes.entered.push(order.summary.state);
    }
    if let Some(number) = telling.numbers.get(&position.partition) {
        let change = Change { order, previous_state, record, position };
        changes.events.push(change.to_message(*number));
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
            if !ipn.policy.placeholder_ref {
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
    Some(ViewEntry::Nonce(nonce.clone(), Content::of_ipn(ipn).digest()))
}
