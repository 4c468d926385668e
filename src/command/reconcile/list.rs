//! `payfold reconcile findings|totals|runs`: the listings.

use chrono::NaiveDate;
use payfold_engines::clock::{Clock, SystemClock};
use payfold_reconcile::findings_store::{FindingFilter, StatusFilter};
use payfold_reconcile::ledger::Ledger;
use payfold_report::money::{major, major_named, plain, plain_named};
use payfold_report::values::{OurCurrencies, ValueFormat, format_sides};
use payfold_schemas::finding::{Code, DecisionEnd, FindingChanged, FindingDecision, FindingStatus};
use payfold_schemas::ids::{Author, MerchantCode, OrderId, OrderKey, PartnerCode};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::Currency;
use payfold_schemas::run::{ControlTotal, RunEnded, Sum};
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::{DayArgs, FindingsArgs, OutputFormat};
use crate::command::ledger::read_ledger;
use crate::command::stuck::{QuerySchedule, QueryStatus};
use crate::error::Fixable;
use crate::listing::{self, Listing, Row, money_writer};
use crate::output;
use crate::settings::Loaded;
use crate::wiring::{self, Engines};

/// A finding, and the status of the queries about its order.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FindingRow<'a> {
    #[serde(flatten)]
    finding: &'a FindingChanged,
    money_at_risk_minor: i64,
    exponent: Option<u16>,
    query: Option<QueryStatus>,
    #[serde(skip)]
    age_days: i64,
    #[serde(skip)]
    currencies: &'a OurCurrencies<'a>,
}

impl Row for FindingRow<'_> {
    /// Amounts are in major units of the currency.
    const COLUMNS: &'static str = "finding status severity code order ref:paymentRef field ours \
        partners at_risk age_days query action";
    /// The currency and the minor units have columns of their own.
    const CSV_COLUMNS: &'static str = "finding status severity code order ref:paymentRef field \
        ours partners at_risk currency at_risk_minor:moneyAtRisk age_days query action";

    fn shown(&self, column: &str, format: OutputFormat) -> Option<Value> {
        let finding = self.finding;
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
            "query" => json!(self.query.as_ref().map(QueryStatus::in_words)),
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

/// The last run of a day, and the current number of open and decided findings of the day.
#[derive(Serialize)]
struct RunRow<'a> {
    #[serde(flatten)]
    run: &'a RunEnded,
    now: DayNow<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct DayNow<'a> {
    open: u64,
    decided: u64,
    closed_by: Option<&'a Author>,
}

impl Row for RunRow<'_> {
    const COLUMNS: &'static str = "partner day run result records:records.name \
        entries:records.entries bad:records.bad open:now.open decided:now.decided \
        closed_by:now.closedBy";

    fn shown(&self, column: &str, _format: OutputFormat) -> Option<Value> {
        let closed_by = self.now.closed_by.filter(|_| column == "closed_by")?;
        self.run.adjusts.as_ref().map(|_| format!("{closed_by} (adjusted since)").into())
    }
}

pub(super) fn is_wanted(args: &DayArgs, partner: &str, day: &str) -> bool {
    args.partner.as_deref().is_none_or(|only| only == partner) && is_day(args.day, day)
}

fn is_day(only: Option<NaiveDate>, day: &str) -> bool {
    only.is_none_or(|only| only.to_string() == day)
}

/// Prints findings by day and severity, with the status of the queries about their orders.
pub(crate) async fn findings(loaded: &Loaded, args: &FindingsArgs) -> anyhow::Result<()> {
    let engines = wiring::open_to_read(&loaded.settings).await?;
    let ledger = read_ledger(&*engines.log).await?;
    let code = args.code.as_deref().map(code).transpose()?;
    let partner = args.partner.as_deref().map(PartnerCode::parse).transpose()?;
    let day = args.day.map(|day| day.to_string());
    let wanted = FindingFilter {
        partner: partner.as_ref(),
        day: day.as_deref(),
        code,
        status: args.open.then_some(StatusFilter::Open),
        after: args.page.after.as_deref().unwrap_or_default(),
    };
    let mut page = ledger.findings(wanted);
    let shown: Result<Vec<FindingChanged>, _> = page.by_ref().take(args.page.limit).collect();
    let mut shown = shown?;
    let last = shown.last().map(|finding| finding.finding_id.clone());
    shown.sort_by(|a, b| {
        let place = |f: &FindingChanged| (std::cmp::Reverse(f.severity), f.code);
        a.day.cmp(&b.day).then_with(|| place(a).cmp(&place(b)))
    });
    let mut listing = Listing::of::<FindingRow<'_>>(args.output.output);
    let beside = other_currencies(&ledger, &shown)?;
    let currencies = OurCurrencies::new(&beside);
    let now = SystemClock.now();
    let queries = QuerySchedule::of(loaded)?;
    for finding in &shown {
        listing.row(&FindingRow {
            finding,
            money_at_risk_minor: finding.money_at_risk,
            exponent: finding.currency.map(|currency| currency.exponent()),
            query: query_status(&engines, &queries, finding).await?,
            age_days: now.nanos_since(finding.first_seen) / 86_400_000_000_000,
            currencies: &currencies,
        })?;
    }
    listing.print()?;
    if let (Some(last), Some(_)) = (last, page.next().transpose()?) {
        output::error_line(&format!("more: --after {last}"));
    }
    Ok(())
}

/// The `CURRENCY_DIFFERS` findings of the same orders, on the page or not. They give the partner's
/// currency for the amounts of the shown findings.
fn other_currencies(
    ledger: &Ledger,
    shown: &[FindingChanged],
) -> anyhow::Result<Vec<FindingChanged>> {
    let mut beside = Vec::new();
    for finding in shown.iter().filter(|finding| finding.code == Code::AmountDiffers) {
        let named = finding.merchant_code.clone().zip(finding.order_id.clone());
        let Some((merchant_code, order_id)) = named else { continue };
        let key = OrderKey { partner: finding.partner.clone(), merchant_code, order_id };
        let of_order = ledger.of_order(&key)?.into_iter();
        beside.extend(of_order.filter(|known| known.code == Code::CurrencyDiffers));
    }
    Ok(beside)
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

/// The status of the queries about the order of an open finding. An answer may clear the finding.
async fn query_status(
    engines: &Engines,
    queries: &QuerySchedule,
    finding: &FindingChanged,
) -> anyhow::Result<Option<QueryStatus>> {
    let named = finding.merchant_code.clone().zip(finding.order_id.clone());
    let named = named.filter(|_| finding.status == FindingStatus::Open);
    let Some((merchant_code, order_id)) = named else { return Ok(None) };
    let key = OrderKey { partner: finding.partner.clone(), merchant_code, order_id };
    match engines.store()?.load(vec![key]).await?.pop().flatten() {
        Some(order) => queries.of_order(engines, &order).await,
        None => Ok(None),
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

/// Prints the control totals of the last run of each day.
pub(crate) fn totals(ledger: &Ledger, args: &DayArgs) -> anyhow::Result<()> {
    let wanted = ledger.runs().filter(|run| is_wanted(args, run.partner.as_str(), &run.day));
    let totals =
        wanted.flat_map(|run| run.totals.iter().map(move |total| TotalRow::of(run, total)));
    listing::print(args.output.output, totals)
}

/// Prints the last run of each day, with the current number of open and decided findings.
pub(crate) fn runs(ledger: &Ledger, args: &DayArgs) -> anyhow::Result<()> {
    let mut listing = Listing::of::<RunRow<'_>>(args.output.output);
    for run in ledger.runs().filter(|run| is_wanted(args, run.partner.as_str(), &run.day)) {
        listing.row(&run_row(ledger, run)?)?;
    }
    listing.print()
}

fn run_row<'a>(ledger: &'a Ledger, run: &'a RunEnded) -> anyhow::Result<RunRow<'a>> {
    let day = (run.partner.clone(), run.day.clone());
    let (open, decided) = ledger.open_and_decided(&day)?;
    let closed_by = ledger.closed(&day).map(|closed| &closed.author);
    Ok(RunRow { run, now: DayNow { open, decided, closed_by } })
}

#[cfg(test)]
mod tests {
    use payfold_engines::log::sqlite::{SqliteLog, SqliteLogSettings};
    use payfold_engines::log::{EventLog, Message, Topic};
    use payfold_schemas::event::EventAttributes;
    use payfold_schemas::finding::FINDING_CHANGED_TYPE;
    use payfold_schemas::run::RUN_ENDED_TYPE;

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
        let row = FindingRow {
            finding: &finding,
            money_at_risk_minor: 1_250_000,
            exponent: Some(2),
            query: None,
            age_days: 1,
            currencies: &currencies,
        };
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

    #[tokio::test]
    async fn a_run_is_listed_with_what_is_open_now() {
        let (run, finding) = day();
        let folder = tempfile::tempdir().unwrap();
        let log =
            SqliteLog::open(folder.path().join("log.db"), SqliteLogSettings::default()).unwrap();
        let event = |id: String, kind, value| {
            let event = Some(EventAttributes { id, kind, time: run.started_at });
            Message { key: "p".to_owned(), event, value }
        };
        let mut decided = finding.clone();
        (decided.status, decided.version) = (FindingStatus::Decided, finding.version + 1);
        let mut messages = Vec::new();
        for said in [&finding, &decided] {
            messages.push(event(
                said.event_id(),
                FINDING_CHANGED_TYPE,
                serde_json::to_vec(said).unwrap(),
            ));
        }
        messages.push(event(run.event_id(), RUN_ENDED_TYPE, serde_json::to_vec(&run).unwrap()));
        log.append_all(Topic::Findings, messages).await.unwrap();
        let mut ledger = Ledger::in_memory().unwrap();
        ledger.catch_up(&log).await.unwrap();
        assert!(run.findings.open > 0, "the run found it open");
        let run = ledger.runs().next().unwrap();
        let row = run_row(&ledger, run).unwrap();
        assert_eq!((row.now.open, row.now.decided), (0, 1));
    }
}
