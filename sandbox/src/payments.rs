//! Owns the remembered payments, by page and by order, and the number of create calls of each
//! order. Memory is bounded: the oldest payments are removed when there are too many, and all
//! payments some hours after their session.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use payfold_schemas::ids::{MerchantCode, OrderId};
use payfold_schemas::time::Time;

use crate::payment::{Payer, Payment, session_ref};

/// The remembered payments.
#[derive(Debug)]
pub(crate) struct PaymentRegistry {
    inner: Mutex<RegistryState>,
    payments_max: usize,
    /// How long a payment is kept after its first call: its session, and some hours.
    keep_ms: i64,
}

type OrderKey = (MerchantCode, OrderId);

#[derive(Debug, Default)]
struct RegistryState {
    pages: HashMap<Box<str>, Arc<Payment>>,
    /// Where a providerRef differs from the page's id: its page. A ref that a later payment takes
    /// over stays with the first.
    pages_of_refs: HashMap<Box<str>, Box<str>>,
    orders: HashMap<OrderKey, OrderEntry>,
    /// Orders by arrival, with the time at which each may be removed.
    oldest: VecDeque<(Time, OrderKey)>,
    /// The ends of sessions that wait for a person, by page.
    ends: BinaryHeap<Reverse<(Time, Box<str>)>>,
    /// By account: the payment that gives its providerRef to the next payment with `reused-ref`.
    shared_refs: HashMap<MerchantCode, Arc<Payment>>,
}

/// The remembered data of an order.
#[derive(Clone, Debug, Default)]
pub(crate) struct OrderEntry {
    /// How many create calls named the order.
    pub(crate) calls: u32,
    /// The payment; `None` if the call was refused or its response breaks the contract.
    pub(crate) payment: Option<Arc<Payment>>,
}

impl PaymentRegistry {
    pub(crate) fn new(payments_max: usize, keep_ms: i64) -> Self {
        Self { inner: Mutex::default(), payments_max: payments_max.max(1), keep_ms }
    }

    fn lock_state(&self) -> MutexGuard<'_, RegistryState> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a signed create call. Returns how many its order has had.
    pub(crate) fn count_create_call(
        &self,
        merchant_code: &MerchantCode,
        order_id: &OrderId,
        now: Time,
    ) -> u32 {
        let key = (merchant_code.clone(), order_id.clone());
        let mut state = self.lock_state();
        let order = state.orders.entry(key.clone()).or_default();
        order.calls = order.calls.saturating_add(1);
        let calls = order.calls;
        if calls == 1 {
            state.oldest.push_back((now.plus_ms(self.keep_ms), key));
            while state.oldest.len() > self.payments_max {
                state.remove_oldest();
            }
        }
        calls
    }

    /// Adds a payment.
    pub(crate) fn add(&self, payment: &Arc<Payment>) {
        let key = (payment.account.merchant_code().clone(), payment.order_id.clone());
        let mut state = self.lock_state();
        state.orders.entry(key).or_default().payment = Some(Arc::clone(payment));
        state.pages.insert(payment.page.clone(), Arc::clone(payment));
        let is_own = *payment.page == *payment.provider_ref.as_str();
        if !is_own && !state.pages.contains_key(payment.provider_ref.as_str()) {
            let provider_ref = payment.provider_ref.as_str().into();
            state.pages_of_refs.entry(provider_ref).or_insert_with(|| payment.page.clone());
        }
        if payment.payer == Payer::Person {
            state.ends.push(Reverse((payment.expires_at, payment.page.clone())));
        }
    }

    /// Finds the payment of a page id or providerRef.
    pub(crate) fn find(&self, page_or_ref: &str) -> Option<Arc<Payment>> {
        let state = self.lock_state();
        let find = |named: &str| {
            let page = state.pages_of_refs.get(named).map_or(named, |page| page);
            state.pages.get(page).cloned()
        };
        find(page_or_ref).or_else(|| find(session_ref(page_or_ref)?))
    }

    /// The remembered data of an order.
    pub(crate) fn order(
        &self,
        merchant_code: &MerchantCode,
        order_id: &OrderId,
    ) -> Option<OrderEntry> {
        self.lock_state().orders.get(&(merchant_code.clone(), order_id.clone())).cloned()
    }

    /// Takes the payment that gives its providerRef to the next payment; `None` if none is offered.
    pub(crate) fn take_shared_ref(&self, merchant_code: &MerchantCode) -> Option<Arc<Payment>> {
        self.lock_state().shared_refs.remove(merchant_code)
    }

    /// Offers the payment's providerRef to the next payment of the account with `reused-ref`.
    pub(crate) fn offer_ref(&self, payment: &Arc<Payment>) {
        let merchant_code = payment.account.merchant_code().clone();
        self.lock_state().shared_refs.insert(merchant_code, Arc::clone(payment));
    }

    /// The number of create calls of each order with at least `at_least` calls.
    pub(crate) fn create_calls(&self, at_least: u32) -> BTreeMap<OrderId, u32> {
        let mut calls = BTreeMap::new();
        for ((_, order_id), order) in &self.lock_state().orders {
            *calls.entry(order_id.clone()).or_default() += order.calls;
        }
        calls.retain(|_, count| *count >= at_least);
        calls
    }

    /// Removes old payments. Returns the payments with a session that ended since the last call.
    pub(crate) fn take_expired(&self, now: Time) -> Vec<Arc<Payment>> {
        let mut state = self.lock_state();
        while state.oldest.front().is_some_and(|(until, _)| *until <= now) {
            state.remove_oldest();
        }
        let mut ended = Vec::new();
        while state.ends.peek().is_some_and(|Reverse((at, _))| *at <= now) {
            if let Some(Reverse((_, page))) = state.ends.pop() {
                ended.extend(state.pages.get(&page).cloned());
            }
        }
        ended
    }
}

impl RegistryState {
    fn remove_oldest(&mut self) {
        let forgotten = self.oldest.pop_front().and_then(|(_, key)| self.orders.remove(&key));
        if let Some(payment) = forgotten.and_then(|order| order.payment) {
            self.pages.remove(&payment.page);
            let provider_ref = payment.provider_ref.as_str();
            if self.pages_of_refs.get(provider_ref) == Some(&payment.page) {
                self.pages_of_refs.remove(provider_ref);
            }
        }
    }
}
