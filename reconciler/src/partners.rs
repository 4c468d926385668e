//! Owns who can be asked: the accounts and keys as they are in force, the partners' addresses, and the client of calls.
//! Invariant: a partner without `[query]` in its profile or without an address is left alone.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arc_swap::ArcSwap;
use payfold_partners::directory::Directory;
use payfold_partners::profile::QueryPace;
use payfold_partners::query::Question;
use payfold_partners::remote::Remote;
use payfold_partners::remote::query::{QueryCall, QueryError};
use payfold_schemas::ids::{OrderKey, PartnerCode};
use payfold_schemas::time::Time;

use crate::stuck::Target;

/// The partners and the way to them.
pub struct Partners {
    /// Accounts, keys and profiles; loads what is in force.
    pub directory: Arc<ArcSwap<Directory>>,
    /// The partners' addresses by code.
    pub api_urls: HashMap<PartnerCode, String>,
    /// The client of calls, which guards where they go.
    pub remote: Remote,
    /// Whether some profile leaves notices unconfirmed.
    pub confirms: Confirms,
}

/// Whether notices wait for a query that confirms them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirms {
    /// None does: intake is not read for them.
    Never,
    /// Those of some profile do.
    Some,
}

impl Partners {
    /// How hard a partner may be asked; none if it can't be.
    pub(crate) fn pace(&self, partner: &PartnerCode) -> Option<QueryPace> {
        self.api_urls.get(partner)?;
        self.directory.load().profile_of(partner)?.query_pace()
    }

    /// The partners that can be asked now.
    pub(crate) fn askable(&self) -> BTreeSet<PartnerCode> {
        self.api_urls.keys().filter(|code| self.pace(code).is_some()).cloned().collect()
    }

    /// A call that can be made. Errors: why none can; `None` where the account is unknown or disabled.
    pub(crate) fn prepare(
        &self,
        key: &OrderKey,
        target: &Target,
        now: Time,
    ) -> Option<Result<QueryCall, QueryError>> {
        let directory = self.directory.load();
        let account = directory.account(&key.partner, &key.merchant_code)?;
        let api_url = self.api_urls.get(&key.partner)?;
        let question = Question {
            merchant_code: key.merchant_code.clone(),
            order_id: key.order_id.clone(),
            provider_ref: target.clone(),
        };
        Some(self.remote.prepare_query(account, api_url, question, now))
    }
}
