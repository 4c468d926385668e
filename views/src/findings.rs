//! Owns findings as rows, with the status of the queries about their orders.

use payfold_reconcile::findings_store::{FindingFilter, StatusFilter};
use payfold_reconcile::ledger::Ledger;
use payfold_schemas::finding::{Code, FindingChanged, FindingStatus};
use payfold_schemas::ids::{OrderKey, PartnerCode};
use payfold_schemas::time::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ReadError;
use crate::order_name;
use crate::queries::{QueryRules, QueryStatus};
use crate::reader::Reader;

/// The most findings of one page.
pub const FINDINGS_MAX: usize = 1_000;

/// A finding, and the status of the queries about its order.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FindingRow {
    /// The finding.
    #[serde(flatten)]
    pub finding: FindingChanged,
    /// The money at risk, in minor units of the finding's currency.
    pub money_at_risk_minor: i64,
    /// The number of decimals of the currency.
    pub exponent: Option<u16>,
    /// The queries about its order, while the finding is open: an answer may clear it.
    pub query: Option<QueryStatus>,
}

/// Which findings to list, by id.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListFindings {
    /// Only findings that are undecided and still have their cause.
    #[serde(default)]
    pub open: bool,
    /// Only of this partner.
    pub partner: Option<PartnerCode>,
    /// Only findings first found in the records of this day, such as 2026-01-31.
    pub day: Option<String>,
    /// Only findings with this code.
    pub code: Option<Code>,
    /// Only uncleared findings of this order, `partner/merchantCode/orderId`.
    #[serde(default, with = "order_name")]
    #[schemars(with = "Option<String>")]
    pub order: Option<OrderKey>,
    /// Only the finding with this id.
    pub finding: Option<String>,
    /// The most findings of the page, at most 1000, which is the default.
    pub limit: Option<usize>,
    /// `next` of the previous page.
    pub after: Option<String>,
}

/// A page of findings.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct FindingPage {
    /// The findings.
    pub findings: Vec<FindingRow>,
    /// Findings of the same orders that say in which currency the partner's amounts are.
    pub currencies: Vec<FindingChanged>,
    /// Where the next page starts; absent at the end.
    pub next: Option<String>,
}

impl Reader {
    /// Lists findings. Errors: the engines'.
    pub async fn findings(
        &self,
        rules: &QueryRules,
        asked: &ListFindings,
        now: Time,
    ) -> Result<FindingPage, ReadError> {
        let Selection { selected, currencies, next } =
            self.ledger(|ledger| select(ledger, asked)).await?;
        let mut findings = Vec::with_capacity(selected.len());
        for finding in selected {
            findings.push(FindingRow {
                money_at_risk_minor: finding.money_at_risk,
                exponent: finding.currency.map(|currency| currency.exponent()),
                query: self.query_status(rules, &finding, now).await?,
                finding,
            });
        }
        Ok(FindingPage { findings, currencies, next })
    }

    /// The status of the queries about the order of an open finding.
    async fn query_status(
        &self,
        rules: &QueryRules,
        finding: &FindingChanged,
        now: Time,
    ) -> Result<Option<QueryStatus>, ReadError> {
        let key = finding.order_key().filter(|_| finding.status == FindingStatus::Open);
        let Some(key) = key else { return Ok(None) };
        match self.store.load(vec![key]).await?.pop().flatten() {
            Some(order) => rules.status_of(&*self.log, &order, now).await,
            None => Ok(None),
        }
    }
}

/// The findings of a page.
struct Selection {
    selected: Vec<FindingChanged>,
    /// Those of the same orders that say the partner's currency.
    currencies: Vec<FindingChanged>,
    next: Option<String>,
}

fn select(ledger: &Ledger, asked: &ListFindings) -> Result<Selection, ReadError> {
    let limit = asked.limit.unwrap_or(FINDINGS_MAX).clamp(1, FINDINGS_MAX);
    let mut page = ledger.findings(FindingFilter {
        partner: asked.partner.as_ref(),
        day: asked.day.as_deref(),
        code: asked.code,
        order: asked.order.as_ref(),
        id: asked.finding.as_deref(),
        status: asked.open.then_some(StatusFilter::Open),
        after: asked.after.as_deref().unwrap_or_default(),
        ..FindingFilter::default()
    });
    let selected = page.by_ref().take(limit).collect::<Result<Vec<_>, _>>()?;
    let has_more = page.next().transpose()?.is_some();
    let last = selected.last().map(|finding| finding.finding_id.clone());
    let mut currencies = Vec::new();
    for key in selected
        .iter()
        .filter(|f| f.code == Code::AmountDiffers)
        .filter_map(FindingChanged::order_key)
    {
        let of_order = ledger.of_order(&key)?.into_iter();
        currencies.extend(of_order.filter(|known| known.code == Code::CurrencyDiffers));
    }
    Ok(Selection { selected, currencies, next: last.filter(|_| has_more) })
}
