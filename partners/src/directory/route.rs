//! Owns the accounts that a notice on one route may be from.

use std::collections::HashMap;
use std::sync::Arc;

use crate::directory::account::Account;
use crate::limits::BodyLimits;
use crate::profile::Profile;
use crate::scheme::refusal_work::RefusalWork;

/// The most accounts of its route that a notice without a merchantCode is tried against.
pub const UNNAMED_TRIED_MAX: usize = 8;

/// The enabled accounts that a notice on one route may be from.
#[derive(Debug, Default)]
pub(crate) struct Route {
    /// The limits of a body, and the profile. `None` on the shared route, and where no partner has
    /// this route.
    pub(crate) limits: Option<BodyLimits>,
    pub(crate) profile: Option<Arc<Profile>>,
    pub(crate) by_merchant: HashMap<Box<str>, Vec<Arc<Account>>>,
    pub(crate) all: Vec<Arc<Account>>,
    /// The checks that a refusal makes in vain, so that its time does not reveal which accounts
    /// there are.
    pub(crate) work: RefusalWork,
}

impl Route {
    pub(crate) fn add(&mut self, account: &Arc<Account>) {
        let named = self.by_merchant.entry(account.merchant_code().as_str().into()).or_default();
        named.push(Arc::clone(account));
        self.all.push(Arc::clone(account));
    }

    /// The accounts that a notice without a readable merchantCode is tried against.
    pub(crate) fn unnamed(&self) -> &[Arc<Account>] {
        &self.all[..self.all.len().min(UNNAMED_TRIED_MAX)]
    }

    /// The accounts of this merchantCode.
    pub(crate) fn named(&self, merchant_code: &str) -> &[Arc<Account>] {
        self.by_merchant.get(merchant_code).map(Vec::as_slice).unwrap_or_default()
    }
}
