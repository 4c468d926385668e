//! `payfold reconcile findings|totals|runs`: the listings.

use payfold_engines::clock::{Clock, SystemClock};
use payfold_report::money::{major, major_named, plain, plain_named};
use payfold_report::values::{OurCurrencies, ValueFormat, format_sides};
use payfold_schemas::finding::{Code, DecisionEnd, FindingChanged, FindingDecision, FindingStatus};
use payfold_schemas::ids::{MerchantCode, OrderId, PartnerCode};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::Currency;
use payfold_schemas::run::{ControlTotal, PeriodClosed, RunEnded, Sum};
use payfold_views::findings::{FINDINGS_MAX, FindingPage, FindingRow, ListFindings};
use payfold_views::periods::{ListPeriods, PeriodRow};
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::{DayArgs, FindingsArgs, OutputFormat};
use crate::command::{pages, stuck};
use crate::error::Fixable;
use crate::listing::{self, Listing, Row, money_writer};
use crate::reads::Reads;

/// A finding with what its cells need.
#[derive(Serialize)]
#[serde(transparent)]
struct ShownFinding<'a> {
    row: &'a FindingRow,
    #[serde(skip)]
    age_days: i64,
    #[serde(skip)]
    currencies: &'a OurCurrencies<'a>,
}

impl Row for ShownFinding<'_> {
    /// Amounts are in major units of the currency.
    const COLUMNS: &'static str = "finding status severity code order ref:paymentRef field ours \
        partners at_risk age_days query action";
    /// The currency and the minor units have columns of their own.
    const CSV_COLUMNS: &'static str = "finding status severity code order ref:paymentRef field \
        ours partners at_risk currency at_risk_minor:moneyAtRisk age_days query action";

    fn shown(&self, column: &str, format: OutputFormat) -> Option<Value> {
        let finding = &self.row.finding;
        let money = if format == OutputFormat::Csv { plain_named } else { major_named };
        let sides = || format_sides(finding, self.currencies, ValueFormat::with_money(money));
        Some(match column {
            "finding" => finding.finding_id.chars().take(12).collect::<String>().into(),
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
                let in_major = |currency| money_writer(format)(minor, currency);
                finding.currency.map_or_else(|| minor.to_string(), in_major).into()
            }
            "age_days" => self.age_days.into(),
            "query" => json!(self.row.query.as_ref().map(stuck::in_words)),
            _ => return None,
        })
    }
}

/// A control total of a day.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TotalRow<'a> {
    partner: &'a PartnerCode,
    day: &'a str,
    currency: Currency,
    exponent: u16,
    status: Status,
    ours: SumCell,
    partners: SumCell,
    difference_minor: i64,
    run: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SumCell {
    count: u64,
    amount_minor: i64,
}

impl<'a> TotalRow<'a> {
    fn of(run: &'a RunEnded, total: &'a ControlTotal) -> Self {
        let sum = |sum: &Sum| SumCell { count: sum.count, amount_minor: sum.amount };
        Self {
            partner: &run.partner,
            day: &total.day,
            currency: total.currency,
            exponent: total.currency.exponent(),
            status: total.status,
            ours: sum(&total.ours),
            partners: sum(&total.partners),
            difference_minor: total.difference(),
            run: &run.run,
        }
    }
}

impl Row for TotalRow<'_> {
    /// Amounts are in major units of the currency.
    const COLUMNS: &'static str = "partner day currency status ours our_count:ours.count partners \
        their_count:partners.count difference run";
    /// Each amount has a column with its minor units.
    const CSV_COLUMNS: &'static str = "partner day currency status ours \
        ours_minor:ours.amountMinor our_count:ours.count partners \
        partners_minor:partners.amountMinor their_count:partners.count difference difference_minor \
        run";

    fn shown(&self, column: &str, format: OutputFormat) -> Option<Value> {
        let write = if format == OutputFormat::Csv { plain } else { major };
        let minor = match column {
            "ours" => self.ours.amount_minor,
            "partners" => self.partners.amount_minor,
            "difference" => self.difference_minor,
            _ => return None,
        };
        Some(write(minor.into(), self.currency).into())
    }
}

impl Row for PeriodRow {
    const COLUMNS: &'static str = "partner day run result records:records.name \
        entries:records.entries bad:records.bad open:now.open decided:now.decided \
        closed_by";

    fn shown(&self, column: &str, _format: OutputFormat) -> Option<Value> {
        let in_words = |closed: &PeriodClosed| match self.run.adjusts {
            Some(_) => format!("{} (adjusted since)", closed.author),
            None => closed.author.to_string(),
        };
        (column == "closed_by").then(|| json!(self.closed.as_ref().map(in_words)))
    }
}

/// Prints findings by day and severity, with the status of the queries about their orders.
pub(crate) async fn findings(reads: &Reads<'_>, args: &FindingsArgs) -> anyhow::Result<()> {
    let asked = ListFindings {
        open: args.open,
        partner: args.partner.as_deref().map(PartnerCode::parse).transpose()?,
        day: args.day.map(|day| day.to_string()),
        code: args.code.as_deref().map(code).transpose()?,
        order: args.order.clone(),
        ..Default::default()
    };
    let (mut shown, beside) = (Vec::new(), std::cell::RefCell::new(Vec::new()));
    let read = async |limit, after| {
        let asked = ListFindings { limit: Some(limit), after, ..asked.clone() };
        let FindingPage { findings, currencies, next } = reads.findings(&asked).await?;
        beside.borrow_mut().extend(currencies);
        Ok((findings, next))
    };
    let take = |rows: Vec<FindingRow>| {
        shown.extend(rows);
        Ok(())
    };
    pages::read(&args.page, FINDINGS_MAX, read, take).await?;
    let place = |row: &FindingRow| (std::cmp::Reverse(row.finding.severity), row.finding.code);
    shown.sort_by(|a, b| a.finding.day.cmp(&b.finding.day).then_with(|| place(a).cmp(&place(b))));
    let beside = beside.into_inner();
    let currencies = OurCurrencies::new(&beside);
    let now = SystemClock.now();
    let mut listing = Listing::of::<ShownFinding<'_>>(args.output.output);
    for row in &shown {
        let age_days = now.nanos_since(row.finding.first_seen) / 86_400_000_000_000;
        listing.row(&ShownFinding { row, age_days, currencies: &currencies })?;
    }
    listing.print()
}

fn code(word: &str) -> anyhow::Result<Code> {
    Code::parse(word).ok_or_else(|| {
        let codes: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        Fixable::error(
            format!("{word} is not a code of findings"),
            format!("use one of {}", codes.join(", ")),
        )
    })
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

/// The compared days that the arguments select.
async fn periods(reads: &Reads<'_>, args: &DayArgs) -> anyhow::Result<Vec<PeriodRow>> {
    let partner = args.partner.as_deref().map(PartnerCode::parse).transpose()?;
    let day = args.day.map(|day| day.to_string());
    let asked = ListPeriods { partner, day, ..Default::default() };
    Ok(reads.periods(&asked).await?.periods)
}

/// Prints the control totals of the last run of each day.
pub(crate) async fn totals(reads: &Reads<'_>, args: &DayArgs) -> anyhow::Result<()> {
    let periods = periods(reads, args).await?;
    let runs = periods.iter().map(|period| &period.run);
    let totals = runs.flat_map(|run| run.totals.iter().map(move |total| TotalRow::of(run, total)));
    listing::print(args.output.output, totals)
}

/// Prints the last run of each day, with the current number of open and decided findings.
pub(crate) async fn runs(reads: &Reads<'_>, args: &DayArgs) -> anyhow::Result<()> {
    listing::print(args.output.output, periods(reads, args).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A day with an open finding of 12,500.00 EUR, as a run found it.
    fn day() -> (RunEnded, FindingChanged) {
        let sample: Value =
            serde_json::from_str(include_str!("../../../report/src/tests/sample.json")).unwrap();
        let run: RunEnded = serde_json::from_value(sample["ended"].clone()).unwrap();
        let mut finding: FindingChanged =
            serde_json::from_value(sample["findings"][0].clone()).unwrap();
        finding.code = Code::AmountDiffers;
        finding.status = FindingStatus::Open;
        finding.field = Some("amount".to_owned());
        (finding.ours.value, finding.partners.value) = ("1250000".to_owned(), "0".to_owned());
        (finding.money_at_risk, finding.currency) = (1_250_000, Currency::parse("EUR").ok());
        (run, finding)
    }

    #[test]
    fn money_is_written_in_major_units() {
        let (run, finding) = day();
        let currencies = OurCurrencies::default();
        let row =
            FindingRow { finding, money_at_risk_minor: 1_250_000, exponent: Some(2), query: None };
        let row = ShownFinding { row: &row, age_days: 1, currencies: &currencies };
        for column in ["ours", "at_risk"] {
            assert_eq!(row.shown(column, OutputFormat::Table).unwrap(), "12,500.00 EUR");
        }
        assert_eq!(row.shown("ours", OutputFormat::Csv).unwrap(), "12500.00 EUR");
        assert_eq!(row.shown("at_risk", OutputFormat::Csv).unwrap(), "12500.00");
        // 61 payments of each side, ours more by 0.50 USD.
        let total = TotalRow::of(&run, &run.totals[1]);
        let shown = |column| total.shown(column, OutputFormat::Csv).unwrap();
        assert_eq!((shown("ours"), shown("partners")), ("12049.99".into(), "12049.49".into()));
        assert_eq!((shown("difference"), total.difference_minor), ("0.50".into(), 50));
        assert_eq!(total.shown("ours", OutputFormat::Table).unwrap(), "12,049.99");
        assert_eq!(json!(total)["ours"], json!({ "count": 61, "amountMinor": 1_204_999 }));
    }
}
