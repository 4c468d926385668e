//! Owns stuck orders as rows: those with an outcome that partners are queried for, computed from
//! the store as the reconciler does.

use payfold_engines::orders::Scan;
use payfold_schemas::finding::Code;
use payfold_schemas::ids::{MerchantCode, OrderId, PartnerCode};
use payfold_schemas::order::{Order, OrderState};
use payfold_schemas::time::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::ReadError;
use crate::listing::{Cells, Row};
use crate::queries::{QueryRules, QueryStatus};
use crate::reader::{Range, Reader};

/// How long an order is still listed after its last query (a day).
const AFTERWARDS_MS: i64 = 24 * 3_600 * 1_000;

/// A stuck order.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StuckRow {
    /// Why it is stuck, and the queries about it.
    #[serde(flatten)]
    pub query: QueryStatus,
    /// The partner.
    pub partner: PartnerCode,
    /// Our merchant code at the partner.
    pub merchant_code: MerchantCode,
    /// The order's id.
    pub order_id: OrderId,
    /// The order's state.
    pub state: OrderState,
    /// The ids of its findings that are not cleared.
    pub findings: Vec<String>,
    /// The codes of these findings.
    pub codes: Vec<Code>,
}

impl Row for StuckRow {
    const COLUMNS: &'static str = "order state reason since due next_query findings";

    fn shown(&self, column: &str, _cells: Cells) -> Option<Value> {
        let QueryStatus { queries_due, queries_planned, .. } = self.query;
        Some(match column {
            "order" => format!("{}/{}/{}", self.partner, self.merchant_code, self.order_id).into(),
            "due" => match queries_due.zip(queries_planned) {
                Some((due, planned)) => format!("{due} of {planned}").into(),
                None => "not queried".into(),
            },
            "findings" => json!(self.codes),
            _ => return None,
        })
    }
}

/// Which stuck orders to list, by their first-seen time.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListStuck {
    /// Only orders of this partner.
    pub partner: Option<PartnerCode>,
    /// The most orders of the page, at most 500, which is the default.
    pub limit: Option<usize>,
    /// `next` of the previous page.
    pub after: Option<String>,
}

/// A page of stuck orders. It may have fewer than the limit, and none, while there are more.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct StuckPage {
    /// The orders.
    pub orders: Vec<StuckRow>,
    /// Where the next page starts; absent at the end.
    pub next: Option<String>,
}

impl Reader {
    /// Lists the stuck orders among those that are young enough to be queried about. Errors: the
    /// engines'.
    pub async fn stuck(
        &self,
        rules: &QueryRules,
        asked: &ListStuck,
        now: Time,
    ) -> Result<StuckPage, ReadError> {
        let length_ms = rules.schedule.last_due(Time::from_unix_ms(0)).unix_ms();
        let from = now.plus_ms(-length_ms).plus_ms(-AFTERWARDS_MS);
        let range = Range { limit: asked.limit, after: asked.after.as_deref() };
        let keep = async |order: Order| {
            if asked.partner.as_ref().is_some_and(|only| order.key.partner != *only) {
                return Ok(None);
            }
            let query = rules.status_of(&*self.log, &order, now).await?;
            Ok(query.map(|query| (order, query)))
        };
        let scan = Scan::Created { from, until: now };
        let (found, next) = self.rows_of(scan, range, keep).await?;
        let orders = self.with_findings(found).await?;
        Ok(StuckPage { orders, next })
    }

    async fn with_findings(
        &self,
        found: Vec<(Order, QueryStatus)>,
    ) -> Result<Vec<StuckRow>, ReadError> {
        self.ledger(|ledger| {
            let mut rows = Vec::with_capacity(found.len());
            for (order, query) in found {
                let findings = ledger.of_order(&order.key)?;
                rows.push(StuckRow {
                    query,
                    partner: order.key.partner,
                    merchant_code: order.key.merchant_code,
                    order_id: order.key.order_id,
                    state: order.summary.state,
                    codes: findings.iter().map(|finding| finding.code).collect(),
                    findings: findings.into_iter().map(|finding| finding.finding_id).collect(),
                });
            }
            Ok(rows)
        })
        .await
    }
}
