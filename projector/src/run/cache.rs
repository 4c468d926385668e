//! Owns the cache of recently used orders.
//!
//! Invariants: an order of a batch that is not committed is in the cache, so an order loaded from
//! the store is never older than what was folded. Of the committed orders, the least recently used
//! are evicted once the cache exceeds its limit.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem::size_of;
use std::sync::Arc;

use payfold_schemas::fact::{Create, Decision, QueryAnswer, Session, SharedRef};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::{Known, KnownIpn, Order, RaisedFlag};
use payfold_schemas::position::Position;
use payfold_schemas::record::FactRecord;

use crate::batch::Orders;

/// The memory of a short text with its allocation, bytes.
const TEXT_BYTES: usize = 48;
/// The memory of a key with its three texts, bytes.
const KEY_BYTES: usize = size_of::<OrderKey>() + 3 * TEXT_BYTES;

struct Entry {
    order: Arc<Order>,
    /// The last batch that used it.
    batch: u64,
    bytes: usize,
}

/// Orders by key, each with the last batch that used it.
pub(super) struct Cache {
    entries: HashMap<OrderKey, Entry>,
    /// By batch, the memory of the orders it was the last to use.
    bytes_of: BTreeMap<u64, usize>,
    bytes: usize,
    bytes_max: usize,
}

impl Cache {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { entries: HashMap::new(), bytes_of: BTreeMap::new(), bytes: 0, bytes_max }
    }

    /// Takes out the orders that records name. Returns them, and the keys it did not hold.
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

    /// Puts back the orders that batch `batch` used. Evicts orders of batches up to `committed`,
    /// the oldest first, if the cache exceeds its limit.
    pub(super) fn put(&mut self, batch: u64, orders: Orders, committed: u64) {
        for (key, order) in orders {
            assert_eq!(order.key, key, "an order is kept under its own key");
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

    /// Evicts the least recently used orders until half the limit is free, so that it seldom runs.
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
        let oldest = self.bytes_of.keys().next();
        let may_stay = self.bytes <= enough || oldest.is_none_or(|batch| *batch > committed);
        assert!(may_stay, "only what is not committed yet stays above the limit");
        if let Some(last) = last {
            self.entries.retain(|_, entry| entry.batch > last);
        }
    }

    fn uncount(&mut self, batch: u64, bytes: usize) {
        assert!(self.bytes >= bytes, "no more is taken out than was put in");
        self.bytes = self.bytes.saturating_sub(bytes);
        if let Some(of_batch) = self.bytes_of.get_mut(&batch) {
            *of_batch = of_batch.saturating_sub(bytes);
            if *of_batch == 0 {
                self.bytes_of.remove(&batch);
            }
        }
    }
}

/// The approximate memory of an order, bytes: its lists, some text behind each element, and its two
/// keys in the cache.
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
    use crate::batch::{FoldOptions, fold_batch};
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

    /// Uses orders in a batch; returns how many were in the cache before.
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
        fold_batch(&mut taken, &records, &FoldOptions::default());
        cache.put(number, taken, committed);
        here
    }

    #[test]
    fn uncommitted_orders_stay_above_the_limit() {
        let mut cache = Cache::new(0);
        assert_eq!(batch(&mut cache, 1, 0..10, 0), 0);
        assert_eq!(batch(&mut cache, 2, 5..15, 0), 5);
        // The orders of batch 1 that batch 2 did not use are evicted.
        assert_eq!(batch(&mut cache, 3, 20..21, 1), 0);
        assert_eq!(batch(&mut cache, 4, 0..15, 1), 10);
        assert_eq!(batch(&mut cache, 5, 30..31, 5), 0);
        assert_eq!((cache.entries.len(), cache.bytes, cache.bytes_of.len()), (0, 0, 0));
    }

    #[test]
    fn the_least_recently_used_are_evicted_at_the_limit() {
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
