//! Owns the recently used orders in memory.
//!
//! Invariants: an order whose last batch is not committed is here, so what is loaded from the store is never older
//! than what was folded; beyond those, the least recently used give way once all take more than the limit.

use std::collections::{HashMap, VecDeque};
use std::mem::size_of;
use std::sync::Arc;

use payfold_schemas::fact::{Create, Decision, QueryAnswer, Session, SharedRef};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::{Known, KnownIpn, Order, RaisedFlag};
use payfold_schemas::record::{FactRecord, Position};

use crate::batch::Orders;

/// What a short text takes with its allocation.
const TEXT_BYTES: usize = 48;
/// What a key takes with its three texts.
const KEY_BYTES: usize = size_of::<OrderKey>() + 3 * TEXT_BYTES;

struct Entry {
    order: Arc<Order>,
    /// The last batch that used it.
    batch: u64,
    bytes: usize,
}

/// Orders by key, with the batches that used them.
pub(super) struct Cache {
    entries: HashMap<OrderKey, Entry>,
    /// Which orders each batch used, oldest batch first; those a later one used too are listed there again.
    used: VecDeque<(u64, Vec<OrderKey>)>,
    bytes: usize,
    bytes_max: usize,
}

impl Cache {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { entries: HashMap::new(), used: VecDeque::new(), bytes: 0, bytes_max }
    }

    /// Takes out the orders that records name, and names those that are not here.
    pub(super) fn take(&mut self, records: &[(Position, FactRecord)]) -> (Orders, Vec<OrderKey>) {
        let mut orders = Orders::with_capacity(records.len());
        let mut missing = std::collections::HashSet::new();
        for (_, record) in records {
            let key = &record.order;
            if let Some((key, entry)) = self.entries.remove_entry(key) {
                self.bytes = self.bytes.saturating_sub(entry.bytes);
                orders.insert(key, entry.order);
            } else if !orders.contains_key(key) && !missing.contains(key) {
                missing.insert(key.clone());
            }
        }
        (orders, missing.into_iter().collect())
    }

    /// Puts back what batch number `batch` used, and lets the oldest go of what is `committed`.
    pub(super) fn put(&mut self, batch: u64, orders: Orders, committed: u64) {
        let mut keys = Vec::with_capacity(orders.len());
        for (key, order) in orders {
            let bytes = approximate_bytes(&order);
            self.bytes = self.bytes.saturating_add(bytes);
            keys.push(key.clone());
            let before = self.entries.insert(key, Entry { order, batch, bytes });
            assert!(before.is_none(), "an order is taken out before it is put back");
        }
        self.bytes = self.bytes.saturating_add(list_bytes(&keys));
        self.used.push_back((batch, keys));
        self.shrink(committed);
    }

    fn shrink(&mut self, committed: u64) {
        while self.bytes > self.bytes_max {
            match self.used.pop_front() {
                Some((batch, keys)) if batch <= committed => self.forget(batch, keys),
                Some(uncommitted) => {
                    self.used.push_front(uncommitted);
                    return;
                }
                None => return,
            }
        }
    }

    fn forget(&mut self, batch: u64, keys: Vec<OrderKey>) {
        self.bytes = self.bytes.saturating_sub(list_bytes(&keys));
        for key in keys {
            if self.entries.get(&key).is_some_and(|entry| entry.batch == batch)
                && let Some(entry) = self.entries.remove(&key)
            {
                self.bytes = self.bytes.saturating_sub(entry.bytes);
            }
        }
    }
}

/// What a batch's list of keys takes in memory, roughly.
fn list_bytes(keys: &[OrderKey]) -> usize {
    keys.len().saturating_mul(KEY_BYTES).saturating_add(KEY_BYTES)
}

/// What an order takes in memory, roughly: the lists, some text behind each element, and its keys here.
fn approximate_bytes(order: &Order) -> usize {
    let facts = &order.facts;
    let lists = [
        (facts.creates.capacity(), size_of::<Known<Create>>()),
        (facts.sessions.capacity(), size_of::<Known<Session>>().saturating_mul(2)),
        (facts.ipns.capacity(), size_of::<Known<KnownIpn>>()),
        (facts.query_answers.capacity(), size_of::<Known<QueryAnswer>>()),
        (facts.shared_refs.capacity(), size_of::<Known<SharedRef>>()),
        (facts.decisions.capacity(), size_of::<Known<Decision>>().saturating_mul(2)),
        (order.summary.flags.capacity(), size_of::<RaisedFlag>()),
    ];
    let own = size_of::<Order>().saturating_add(2 * KEY_BYTES);
    lists.into_iter().fold(own, |sum, (count, each)| {
        sum.saturating_add(count.saturating_mul(each.saturating_add(TEXT_BYTES)))
    })
}
