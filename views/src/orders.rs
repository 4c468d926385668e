//! Owns orders as rows, and the listing of orders by state, flag, reference and age.

use payfold_engines::orders::Scan;
use payfold_schemas::ids::{MerchantCode, OrderId, OrderKey, PartnerCode, Reference};
use payfold_schemas::order::{Flag, KnownFacts, Order, OrderState, Summary};
use payfold_schemas::time::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::ReadError;
use crate::listing::{Cells, Row};
use crate::reader::{Range, Reader};

/// An order. Amounts are in minor units, which `exponent` converts.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OrderRow {
    /// What its facts come to.
    #[serde(flatten)]
    pub summary: Summary,
    /// The partner.
    pub partner: PartnerCode,
    /// Our merchant code at the partner.
    pub merchant_code: MerchantCode,
    /// The order's id.
    pub order_id: OrderId,
    /// The number of changes that were published.
    pub version: u64,
    /// When its first fact was received.
    pub first_seen: Time,
    /// The position in intake of the fact that was folded last.
    pub position: String,
    /// Open flags of severity high or critical.
    pub attention: Vec<Flag>,
    /// The number of decimals of the currency.
    pub exponent: Option<u16>,
    /// The facts that are kept of it.
    pub facts: KnownFacts,
}

impl Row for OrderRow {
    const COLUMNS: &'static str = "created:firstSeen partner merchant:merchantCode order:orderId \
        state amount currency attention";
    /// `amount` and `received` are in major units, those with `_minor` in minor units.
    const CSV_COLUMNS: &'static str = "created:firstSeen partner merchant:merchantCode \
        order:orderId reference state amount amount_minor:amount received \
        received_minor:paidAmount currency attention";

    fn shown(&self, column: &str, cells: Cells) -> Option<Value> {
        let minor = match column {
            "amount" => self.summary.amount,
            "received" => Some(self.summary.paid_amount),
            _ => return None,
        };
        let money = minor.zip(self.summary.currency);
        Some(json!(money.map(|(minor, currency)| cells.money()(minor.into(), currency))))
    }
}

impl From<Order> for OrderRow {
    fn from(order: Order) -> Self {
        let Order { key, version, first_seen, position, summary, facts } = order;
        let OrderKey { partner, merchant_code, order_id } = key;
        Self {
            attention: summary.attention().collect(),
            exponent: summary.currency.map(|currency| currency.exponent()),
            summary,
            partner,
            merchant_code,
            order_id,
            version,
            first_seen,
            position: position.to_string(),
            facts,
        }
    }
}

/// Which orders to list, by their first-seen time.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListOrders {
    /// Only orders in this state.
    pub state: Option<OrderState>,
    /// Only orders with this flag open.
    pub flag: Option<Flag>,
    /// Only orders with an open critical flag.
    #[serde(default)]
    pub critical: bool,
    /// Only orders with this reference of the shop: all of them, on one page.
    pub reference: Option<Reference>,
    /// Whether the newest come first. Otherwise they come last.
    #[serde(default)]
    pub newest_first: bool,
    /// Only orders first seen at this time or later.
    pub since: Option<Time>,
    /// Only orders first seen before this time.
    pub before: Option<Time>,
    /// The most orders of the page, at most 500, which is the default.
    pub limit: Option<usize>,
    /// `next` of the previous page.
    pub after: Option<String>,
}

/// A page of orders. It may have fewer than the limit, and none, while there are more.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct OrderPage {
    /// The orders.
    pub orders: Vec<OrderRow>,
    /// Where the next page starts; absent at the end.
    pub next: Option<String>,
}

impl ListOrders {
    /// Whether orders are searched for by what names them at each account.
    pub fn needs_accounts(&self) -> bool {
        self.reference.is_some()
    }

    fn takes(&self, order: &Order) -> bool {
        let raised =
            |flag| order.summary.flags.iter().any(|raised| raised.flag == flag && raised.is_open());
        self.state.is_none_or(|state| order.summary.state == state)
            && self.flag.is_none_or(raised)
            && (!self.critical || order.summary.critical().next().is_some())
            && self.since.is_none_or(|since| order.first_seen >= since)
            && self.before.is_none_or(|before| order.first_seen < before)
    }
}

impl Reader {
    /// Lists orders. `accounts` are those that a reference is searched in. Errors: the store's.
    pub async fn orders(
        &self,
        accounts: &[(PartnerCode, MerchantCode)],
        asked: &ListOrders,
    ) -> Result<OrderPage, ReadError> {
        let keep = async |order: Order| Ok(asked.takes(&order).then(|| OrderRow::from(order)));
        let Some(reference) = &asked.reference else {
            let until = asked.before.unwrap_or(Time::from_unix_nanos(i64::MAX));
            let from = asked.since.unwrap_or(Time::from_unix_nanos(i64::MIN));
            let scan = match asked.newest_first {
                true => Scan::Newest { from, until },
                false => Scan::Created { from, until },
            };
            let range = Range { limit: asked.limit, after: asked.after.as_deref() };
            let (orders, next) = self.rows_of(scan, range, &keep).await?;
            return Ok(OrderPage { orders, next });
        };
        let mut orders = Vec::new();
        for (partner, merchant_code) in accounts {
            let scan = Scan::Reference(partner.clone(), merchant_code.clone(), reference.clone());
            let mut after = None;
            loop {
                let range = Range { limit: None, after: after.as_deref() };
                let (found, next) = self.rows_of(scan.clone(), range, &keep).await?;
                orders.extend(found);
                after = next;
                if after.is_none() {
                    break;
                }
            }
        }
        orders.sort_by_key(|order: &OrderRow| order.first_seen);
        if asked.newest_first {
            orders.reverse();
        }
        Ok(OrderPage { orders, next: None })
    }

    /// One order. Errors: `NoOrder`; the store's.
    pub async fn order(&self, key: &OrderKey) -> Result<OrderRow, ReadError> {
        self.load(key).await.map(OrderRow::from)
    }

    /// Loads one order. Errors: `NoOrder`; the store's.
    pub(crate) async fn load(&self, key: &OrderKey) -> Result<Order, ReadError> {
        let found = self.store.load(vec![key.clone()]).await?.pop().flatten();
        found.ok_or_else(|| ReadError::NoOrder(key.clone()))
    }
}
