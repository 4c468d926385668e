//! Owns the payments that are remembered, by page and by order, and the count of create calls of each order.
//! Bounded: the oldest are forgotten when there are too many, or some hours after their session.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use payfold_schemas::ids::{MerchantCode, OrderId};
use payfold_schemas::time::Time;

use crate::payment::{Payer, Payment, first};

/// The remembered payments.
#[derive(Debug)]
pub(crate) struct Payments {
    inner: Mutex<Inner>,
    payments_max: usize,
    keep_ms: i64,
}

type OrderKey = (MerchantCode, OrderId);

#[derive(Debug, Default)]
struct Inner {
    pages: HashMap<Box<str>, Arc<Payment>>,
    orders: HashMap<OrderKey, Order>,
    /// In the order they came, with when they may be forgotten.
    oldest: VecDeque<(Time, OrderKey)>,
    /// The ends of the sessions that wait for a person.
    ends: BinaryHeap<Reverse<(Time, Box<str>)>>,
    /// By account: the payment whose ref the next one asks to have too.
    pairing: HashMap<MerchantCode, Arc<Payment>>,
}

/// What is known of an order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Order {
    /// How many create calls named it.
    pub(crate) calls: u32,
    /// Its payment; none if its call was refused or answered against the contract.
    pub(crate) payment: Option<Arc<Payment>>,
}

impl Payments {
    pub(crate) fn new(payments_max: usize, keep_ms: i64) -> Self {
        Self { inner: Mutex::default(), payments_max: payments_max.max(1), keep_ms }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a genuine create call; how many there have been of its order.
    pub(crate) fn count(&self, merchant_code: &MerchantCode, order_id: &OrderId, now: Time) -> u32 {
        let key = (merchant_code.clone(), order_id.clone());
        let mut inner = self.inner();
        let order = inner.orders.entry(key.clone()).or_default();
        order.calls = order.calls.saturating_add(1);
        let calls = order.calls;
        if calls == 1 {
            inner.oldest.push_back((now.plus_ms(self.keep_ms), key));
            while inner.oldest.len() > self.payments_max {
                inner.forget_oldest();
            }
        }
        calls
    }

    /// Remembers a payment.
    pub(crate) fn add(&self, payment: &Arc<Payment>) {
        let key = (payment.account.merchant_code.clone(), payment.order_id.clone());
        let mut inner = self.inner();
        inner.orders.entry(key).or_default().payment = Some(Arc::clone(payment));
        inner.pages.insert(payment.page.clone(), Arc::clone(payment));
        if payment.payer == Payer::Person {
            inner.ends.push(Reverse((payment.expires_at, payment.page.clone())));
        }
    }

    /// The payment of a page, or of a transaction.
    pub(crate) fn find(&self, page_or_ref: &str) -> Option<Arc<Payment>> {
        self.inner().pages.get(first(page_or_ref)).cloned()
    }

    /// What is known of an order.
    pub(crate) fn order(&self, merchant_code: &MerchantCode, order_id: &OrderId) -> Option<Order> {
        self.inner().orders.get(&(merchant_code.clone(), order_id.clone())).cloned()
    }

    /// Gives the payment's ref away to the next one that asks, or takes the one that is given.
    pub(crate) fn pair(&self, merchant_code: &MerchantCode) -> Option<Arc<Payment>> {
        self.inner().pairing.remove(merchant_code)
    }

    /// The next payment that asks gets this one's ref.
    pub(crate) fn offer_ref(&self, payment: &Arc<Payment>) {
        let merchant_code = payment.account.merchant_code.clone();
        self.inner().pairing.insert(merchant_code, Arc::clone(payment));
    }

    /// How many create calls each order has had, of those with so many at least.
    pub(crate) fn calls(&self, at_least: u32) -> BTreeMap<OrderId, u32> {
        let mut calls = BTreeMap::new();
        for ((_, order_id), order) in &self.inner().orders {
            *calls.entry(order_id.clone()).or_default() += order.calls;
        }
        calls.retain(|_, count| *count >= at_least);
        calls
    }

    /// Forgets what is long over, and names the payments whose session has ended since it was asked last.
    pub(crate) fn sweep(&self, now: Time) -> Vec<Arc<Payment>> {
        let mut inner = self.inner();
        while inner.oldest.front().is_some_and(|(until, _)| *until <= now) {
            inner.forget_oldest();
        }
        let mut ended = Vec::new();
        while inner.ends.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            if let Some(Reverse((_, page))) = inner.ends.pop() {
                ended.extend(inner.pages.get(&page).cloned());
            }
        }
        ended
    }
}

impl Inner {
    fn forget_oldest(&mut self) {
        let forgotten = self.oldest.pop_front().and_then(|(_, key)| self.orders.remove(&key));
        if let Some(payment) = forgotten.and_then(|order| order.payment) {
            self.pages.remove(&payment.page);
        }
    }
}
