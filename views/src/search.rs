//! Owns the search: the orders that a text names, as people have it on a receipt, in a log line or
//! in a partner's portal.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use payfold_engines::orders::Scan;
use payfold_schemas::ids::{MerchantCode, OrderId, OrderKey, PartnerCode, ProviderRef, Reference};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ReadError;
use crate::orders::OrderRow;
use crate::reader::Reader;

/// The most orders of an answer.
const FOUND_MAX: usize = 100;
/// The most orders that are loaded at once.
const LOADED_MAX: usize = 500;
/// The most orders of an account with one reference.
const NAMED_MAX: usize = 2_000;

/// What to search for.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SearchOrders {
    /// An order: its id or `partner/merchantCode/id`; the shop's or the partner's reference.
    pub what: String,
}

/// The orders that a text names.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FoundOrders {
    /// The orders, the newest first; the newest of them if there are more.
    pub orders: Vec<OrderRow>,
    /// Whether the text names more orders than these.
    pub has_more: bool,
}

impl Reader {
    /// Finds the orders that a text names, at these accounts. Errors: the store's.
    pub async fn search(
        &self,
        accounts: &[(PartnerCode, MerchantCode)],
        asked: &SearchOrders,
    ) -> Result<FoundOrders, ReadError> {
        let what = asked.what.trim();
        let mut keys: BTreeSet<_> = self.orders_named(accounts, what).await?.into_iter().collect();
        if let Ok(reference) = Reference::parse(what) {
            for (partner, merchant_code) in accounts.iter().cloned() {
                let scan = Scan::Reference(partner, merchant_code, reference.clone());
                let page = self.store.scan(scan, None, NAMED_MAX).await?;
                keys.extend(page.entries.into_iter().map(|(key, _)| key));
            }
        }
        let keys: Vec<_> = keys.into_iter().collect();
        let (mut orders, mut has_more) = (Vec::new(), false);
        for keys in keys.chunks(LOADED_MAX) {
            // At most accounts there is no order of this id.
            let found = self.store.load(keys.to_vec()).await?.into_iter().flatten();
            orders.extend(found.map(OrderRow::from));
            orders.sort_by_key(|order: &OrderRow| Reverse(order.first_seen));
            has_more |= orders.len() > FOUND_MAX;
            orders.truncate(FOUND_MAX);
        }
        Ok(FoundOrders { orders, has_more })
    }

    /// The orders that a text may name: an order key, or an order id or partner's reference at any
    /// account.
    pub(crate) async fn orders_named(
        &self,
        accounts: &[(PartnerCode, MerchantCode)],
        what: &str,
    ) -> Result<Vec<OrderKey>, ReadError> {
        // A partner's reference may have slashes, too.
        let mut keys: Vec<OrderKey> = OrderKey::parse(what).into_iter().collect();
        for (partner, merchant_code) in accounts.iter().cloned() {
            if let Ok(order_id) = OrderId::parse(what) {
                let (partner, merchant_code) = (partner.clone(), merchant_code.clone());
                keys.push(OrderKey { partner, merchant_code, order_id });
            }
            if let Ok(provider_ref) = ProviderRef::parse(what) {
                let scan = Scan::ProviderRef(partner, merchant_code, provider_ref);
                let page = self.store.scan(scan, None, NAMED_MAX).await?;
                keys.extend(page.entries.into_iter().map(|(key, _)| key));
            }
        }
        Ok(keys)
    }
}
