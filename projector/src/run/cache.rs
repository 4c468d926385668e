//! Owns the recently used orders in memory.
//!
//! Invariants: an order whose last batch is not committed is here, so what is loaded from the store is never older
//! than what was folded; beyond those, the least recently used give way once all take more than the limit.

use std::collections::{BTreeMap, HashMap, HashSet};
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
    /// What the orders take that each batch was the last to use.
    bytes_of: BTreeMap<u64, usize>,
    bytes: usize,
    bytes_max: usize,
}

impl Cache {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { entries: HashMap::new(), bytes_of: BTreeMap::new(), bytes: 0, bytes_max }
    }

    /// Takes out the orders that records name, and names those that are not here.
    pub(super) fn take(&mut self, records: &[(Position, FactRecord)]) -> (Orders, Vec<OrderKey>) {
        let mut orders = Orders::with_capacity(records.len());
        let mut missing = HashSet::new();
        for (_, record) in records {
            let key = &record.order;
            if let Some((key, entry)) = self.entries.remove_entry(key) {
                self.uncount(entry.batch, entry.bytes);
                orders.insert(key, entry.order);
            } else if !orders.contains_key(key) && !missing.contains(key) {
                missing.insert(key.clone());
            }
        }
        (orders, missing.into_iter().collect())
    }

    /// Puts back what batch number `batch` used, and lets the oldest go of what is `committed`.
    pub(super) fn put(&mut self, batch: u64, orders: Orders, committed: u64) {
        for (key, order) in orders {
            let bytes = approximate_bytes(&order);
            let of_batch = self.bytes_of.entry(batch).or_default();
            *of_batch = of_batch.saturating_add(bytes);
            self.bytes = self.bytes.saturating_add(bytes);
            let before = self.entries.insert(key, Entry { order, batch, bytes });
            assert!(before.is_none(), "an order is taken out before it is put back");
        }
        if self.bytes > self.bytes_max {
            self.shrink(committed);
        }
    }

    /// Lets go of the least recently used until half the limit is free, so that it is seldom done.
    fn shrink(&mut self, committed: u64) {
        let enough = self.bytes_max.div_ceil(2);
        let mut last = None;
        while self.bytes > enough
            && let Some((&batch, &bytes)) = self.bytes_of.first_key_value()
            && batch <= committed
        {
            self.uncount(batch, bytes);
            last = Some(batch);
        }
        if let Some(last) = last {
            self.entries.retain(|_, entry| entry.batch > last);
        }
    }

    fn uncount(&mut self, batch: u64, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
        if let Some(of_batch) = self.bytes_of.get_mut(&batch) {
            *of_batch = of_batch.saturating_sub(bytes);
            if *of_batch == 0 {
                self.bytes_of.remove(&batch);
            }
        }
    }
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

#[cfg(test)]
mod tests {
    use payfold_schemas::time::Time;

    use super::*;
    use crate::batch::{Telling, fold_batch};
    use crate::fold::testkit::fact;

    fn records(orders: std::ops::Range<u32>) -> Vec<(Position, FactRecord)> {
        let record = |n| FactRecord {
            order: OrderKey::parse(&format!("p/M/{n}")).unwrap(),
            fact: fact("C 100"),
            request_id: "01939b1c-7a00-7000-8000-000000000001".parse().unwrap(),
            received_at: Time::from_unix_ms(0),
            source: None,
        };
        orders.map(|n| (Position { partition: 0, offset: n.into() }, record(n))).collect()
    }

    /// Uses orders in a batch; returns how many were here before.
    fn batch(
        cache: &mut Cache,
        number: u64,
        orders: std::ops::Range<u32>,
        committed: u64,
    ) -> usize {
        let records = records(orders);
        let (mut taken, missing) = cache.take(&records);
        assert_eq!(taken.len() + missing.len(), records.len());
        let here = taken.len();
        fold_batch(&mut taken, &records, &Telling::default());
        cache.put(number, taken, committed);
        here
    }

    #[test]
    fn what_is_not_committed_stays_whatever_it_takes() {
        let mut cache = Cache::new(0);
        assert_eq!(batch(&mut cache, 1, 0..10, 0), 0);
        assert_eq!(batch(&mut cache, 2, 5..15, 0), 5);
        // Of batch 1 goes what batch 2 did not use.
        assert_eq!(batch(&mut cache, 3, 20..21, 1), 0);
        assert_eq!(batch(&mut cache, 4, 0..15, 1), 10);
        assert_eq!(batch(&mut cache, 5, 30..31, 5), 0);
        assert_eq!((cache.entries.len(), cache.bytes, cache.bytes_of.len()), (0, 0, 0));
    }

    #[test]
    fn the_least_recently_used_give_way_at_the_limit() {
        let mut cache = Cache::new(usize::MAX);
        batch(&mut cache, 1, 0..1, 0);
        let each = cache.bytes;
        let mut cache = Cache::new(100 * each);
        for number in 1..=1_000 {
            let first = u32::try_from(number).unwrap() * 10;
            batch(&mut cache, number, first..first + 10, number);
            assert!(cache.entries.len() <= 100 && cache.bytes <= 100 * each);
            assert!(number < 10 || cache.entries.len() >= 50);
            assert_eq!(cache.bytes, cache.entries.len() * each);
        }
        assert_eq!(batch(&mut cache, 1_001, 10_000..10_010, 1_000), 10);
        assert_eq!(batch(&mut cache, 1_002, 10..20, 1_000), 0);
    }
}
