//! Owns which partners can be queried, and the calls to them: the accounts and keys in force, the
//! partners' addresses, and the HTTP client. Invariant: a partner without `[query]` in its profile
//! or without an address is never queried.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use arc_swap::ArcSwap;
use payfold_partners::directory::Directory;
use payfold_partners::profile::{Profile, QueryPace};
use payfold_partners::query::PaymentQuery;
use payfold_partners::remote::PartnerClient;
use payfold_partners::remote::query::{QueryCall, QueryError};
use payfold_reconcile::question::QueryTarget;
use payfold_schemas::ids::{OrderKey, PartnerCode};
use payfold_schemas::time::Time;

/// The partners, and what a query to them needs.
pub struct Partners {
    /// Accounts, keys and profiles in force; swapped whole when the vault changes.
    pub directory: Arc<ArcSwap<Directory>>,
    /// The address of each partner's API, by partner code.
    pub api_urls: HashMap<PartnerCode, String>,
    /// The HTTP client, which refuses addresses that a profile does not allow.
    pub remote: PartnerClient,
    /// Whether some profile leaves notices unconfirmed until a query confirms them.
    pub unconfirmed: UnconfirmedNotices,
}

/// Whether there can be notices that count only once a query confirms them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnconfirmedNotices {
    /// No profile has them: intake is not read for them.
    Never,
    /// Some profile has them.
    Possible,
}

impl UnconfirmedNotices {
    /// Whether one of these profiles has them.
    pub fn of_profiles(profiles: &[Profile]) -> Self {
        if profiles.iter().any(Profile::confirms) { Self::Possible } else { Self::Never }
    }
}

impl Partners {
    /// How fast and how many at once a partner may be queried; `None` if it can't be queried.
    pub(crate) fn query_pace(&self, partner: &PartnerCode) -> Option<QueryPace> {
        self.api_urls.get(partner)?;
        self.directory.load().profile_of(partner)?.query_pace()
    }

    /// The partners that can be queried now.
    pub(crate) fn queryable(&self) -> BTreeSet<PartnerCode> {
        self.api_urls.keys().filter(|code| self.query_pace(code).is_some()).cloned().collect()
    }

    /// Prepares and signs a query. `None` if the account is unknown or disabled, or the partner has
    /// no address. Errors: why no query can be made.
    pub(crate) fn prepare_query(
        &self,
        key: &OrderKey,
        target: &QueryTarget,
        now: Time,
    ) -> Option<Result<QueryCall, QueryError>> {
        let directory = self.directory.load();
        let account = directory.account(&key.partner, &key.merchant_code)?;
        let api_url = self.api_urls.get(&key.partner)?;
        let question = PaymentQuery {
            merchant_code: key.merchant_code.clone(),
            order_id: key.order_id.clone(),
            provider_ref: target.clone(),
        };
        Some(self.remote.prepare_query(account, api_url, question, now))
    }
}
