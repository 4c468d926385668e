//! Owns findings as rows, with the status of the queries about their orders.

use payfold_reconcile::findings_store::{FindingFilter, StatusFilter};
use payfold_reconcile::ledger::Ledger;
use payfold_report::values::{OurCurrencies, ValueFormat, format_sides};
use payfold_schemas::finding::{Code, DecisionEnd, FindingChanged, FindingDecision, FindingStatus};
use payfold_schemas::ids::{MerchantCode, OrderId, OrderKey, PartnerCode};
use payfold_schemas::time::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::ReadError;
use crate::listing::{Cells, Row};
use crate::order_name;
use crate::queries::{QueryRules, QueryStatus};
use crate::reader::Reader;

/// The most findings of one page.
pub const FINDINGS_MAX: usize = 1_000;
const DAY_NANOS: i64 = 24 * 3_600 * 1_000_000_000;

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

/// A finding with what its cells need.
#[derive(Debug, Serialize)]
#[serde(transparent)]
pub struct ListedFinding<'a> {
    /// The finding.
    pub row: &'a FindingRow,
    /// When it is listed.
    #[serde(skip)]
    pub now: Time,
    /// The currencies of its page.
    #[serde(skip)]
    pub currencies: &'a OurCurrencies<'a>,
}

impl Row for ListedFinding<'_> {
    /// Amounts are in major units of the currency.
    const COLUMNS: &'static str = "finding status severity code order ref:paymentRef field ours \
        partners at_risk age_days query action";
    /// The currency and the minor units have columns of their own.
    const CSV_COLUMNS: &'static str = "finding day status severity code order ref:paymentRef field \
        ours partners at_risk currency at_risk_minor:moneyAtRisk age_days query action accept \
        decided_by reason seconded_by second_reason";

    fn shown(&self, column: &str, cells: Cells) -> Option<Value> {
        let finding = &self.row.finding;
        let format = ValueFormat::with_money(cells.money_named());
        let sides = || format_sides(finding, self.currencies, format);
        let decision = finding.decision.as_ref();
        Some(match column {
            "finding" if cells == Cells::Table => {
                finding.finding_id.chars().take(12).collect::<String>().into()
            }
            "finding" => json!(finding.finding_id),
            "status" => status_in_words(finding).into(),
            "order" => place(finding).into(),
            "field" => match finding.flag {
                Some(flag) => json!(flag),
                None => json!(finding.field),
            },
            "ours" => sides().0.into(),
            "partners" => format!("{} ({})", sides().1, finding.partners.source).into(),
            "at_risk" => {
                let minor = i128::from(finding.money_at_risk);
                let in_major = |currency| cells.amount()(minor, currency);
                finding.currency.map_or_else(|| minor.to_string(), in_major).into()
            }
            "age_days" => (self.now.nanos_since(finding.first_seen) / DAY_NANOS).into(),
            "query" => json!(self.row.query.as_ref().map(QueryStatus::in_words)),
            "accept" => json!(decision.map(|decision| decision.accept)),
            "decided_by" => json!(decision.map(|decision| &decision.author)),
            "reason" => json!(decision.map(|decision| &decision.reason)),
            "seconded_by" => json!(decision.and_then(|decision| decision.seconded_by.as_ref())),
            "second_reason" => json!(decision.and_then(|decision| decision.second_reason.as_ref())),
            _ => return None,
        })
    }
}

/// `partner/merchantCode/orderId`, as far as it is known.
fn place(finding: &FindingChanged) -> String {
    let merchant_code = finding.merchant_code.as_ref().map(MerchantCode::as_str);
    let names = [merchant_code, finding.order_id.as_ref().map(OrderId::as_str)];
    let names = std::iter::once(finding.partner.as_str()).chain(names.into_iter().flatten());
    names.collect::<Vec<_>>().join("/")
}

fn status_in_words(finding: &FindingChanged) -> &'static str {
    match (&finding.decision, finding.status) {
        (Some(decision), FindingStatus::Open) if is_contested(finding, decision) => {
            "open (people disagree, needs a second person)"
        }
        (Some(_), FindingStatus::Open) => "open (needs a second person)",
        (_, status) => status.as_str(),
    }
}

/// Whether another person has decided something else, since the finding opened last.
fn is_contested(finding: &FindingChanged, decision: &FindingDecision) -> bool {
    finding
        .earlier_decisions
        .iter()
        .rev()
        .take_while(|earlier| earlier.ended != DecisionEnd::Reopened)
        .any(|earlier| earlier.ended == DecisionEnd::Replaced && earlier.author != decision.author)
}

/// Which findings to list, by id.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListFindings {
    /// Only findings that are undecided and still have their cause.
    #[serde(default)]
    pub open: bool,
    /// Only open findings with a first decision that waits for a second person.
    #[serde(default)]
    pub waiting: bool,
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
        status: match (asked.waiting, asked.open) {
            (true, _) => Some(StatusFilter::Waiting),
            (false, true) => Some(StatusFilter::Open),
            (false, false) => None,
        },
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

#[cfg(test)]
mod tests {
    use payfold_schemas::money::Currency;

    use super::*;

    #[test]
    fn a_finding_is_listed_with_money_in_major_units() {
        let sample: Value =
            serde_json::from_str(include_str!("../../report/src/tests/sample.json")).unwrap();
        let mut finding: FindingChanged =
            serde_json::from_value(sample["findings"][0].clone()).unwrap();
        finding.code = Code::AmountDiffers;
        finding.status = FindingStatus::Open;
        finding.field = Some("amount".to_owned());
        (finding.ours.value, finding.partners.value) = ("1250000".to_owned(), "0".to_owned());
        (finding.money_at_risk, finding.currency) = (1_250_000, Currency::parse("EUR").ok());
        let (now, id) = (finding.first_seen.plus_ms(36 * 3_600_000), finding.finding_id.clone());
        let row =
            FindingRow { finding, money_at_risk_minor: 1_250_000, exponent: Some(2), query: None };
        let row = ListedFinding { row: &row, now, currencies: &OurCurrencies::default() };
        for column in ["ours", "at_risk"] {
            assert_eq!(row.shown(column, Cells::Table).unwrap(), "12,500.00 EUR");
        }
        assert_eq!(row.shown("ours", Cells::Csv).unwrap(), "12500.00 EUR");
        assert_eq!(row.shown("at_risk", Cells::Csv).unwrap(), "12500.00");
        assert_eq!(row.shown("age_days", Cells::Csv).unwrap(), 1);
        assert_eq!(row.shown("finding", Cells::Csv).unwrap(), id);
        assert_eq!(row.shown("finding", Cells::Table).unwrap(), id[..12]);
    }
}
