//! The listings: findings, totals and runs.

use chrono::NaiveDate;
use payfold_engines::clock::{Clock, SystemClock};
use payfold_reconciler::books::ledger::Ledger;
use payfold_reconciler::books::shelf::{Standing, Which};
use payfold_schemas::finding::{Code, DecisionEnd, FindingChanged, FindingDecision, FindingStatus};
use payfold_schemas::ids::{OrderKey, PartnerCode};
use payfold_schemas::money::Currency;
use payfold_schemas::run::{ControlTotal, RunEnded, Sum};
use serde_json::{Value, json};

use crate::args::{DayArgs, FindingsArgs, Form};
use crate::command::stuck::{Asking, Askings};
use crate::error::Fixable;
use crate::money::{major, named, plain, plain_named};
use crate::output::{self, Listing};
use crate::report::values::{Currencies, Manner, sides};
use crate::settings::Loaded;
use crate::wiring::Engines;

/// Amounts are in major units; in a spreadsheet with the currency and the minor units in columns of their own.
const FINDINGS: [&str; 13] = [
    "finding", "status", "severity", "code", "order", "ref", "field", "ours", "partners",
    "at_risk", "age_days", "asking", "action",
];
const FINDINGS_CSV: [&str; 15] = [
    "finding",
    "status",
    "severity",
    "code",
    "order",
    "ref",
    "field",
    "ours",
    "partners",
    "at_risk",
    "currency",
    "at_risk_minor",
    "age_days",
    "asking",
    "action",
];
const TOTALS: [&str; 10] = [
    "partner",
    "day",
    "currency",
    "status",
    "ours",
    "our_count",
    "partners",
    "their_count",
    "difference",
    "run",
];
const TOTALS_CSV: [&str; 13] = [
    "partner",
    "day",
    "currency",
    "status",
    "ours",
    "ours_minor",
    "our_count",
    "partners",
    "partners_minor",
    "their_count",
    "difference",
    "difference_minor",
    "run",
];
const RUNS: [&str; 10] = [
    "partner",
    "day",
    "run",
    "result",
    "records",
    "entries",
    "bad",
    "open",
    "decided",
    "closed_by",
];

pub(super) fn is_wanted(args: &DayArgs, partner: &str, day: &str) -> bool {
    args.partner.as_deref().is_none_or(|only| only == partner) && is_day(args.day, day)
}

fn is_day(only: Option<NaiveDate>, day: &str) -> bool {
    only.is_none_or(|only| only.to_string() == day)
}

/// Findings, the most at risk first within a day; of those whose order is being asked about, when and how often.
pub async fn findings(loaded: &Loaded, args: &FindingsArgs) -> anyhow::Result<()> {
    let engines = Engines::open_to_read(&loaded.settings).await?;
    let ledger = super::folded(&engines).await?;
    let code = args.code.as_deref().map(code).transpose()?;
    let partner = args.partner.as_deref().map(PartnerCode::parse).transpose()?;
    let day = args.day.map(|day| day.to_string());
    let wanted = Which {
        partner: partner.as_ref(),
        day: day.as_deref(),
        code,
        standing: args.open.then_some(Standing::Open),
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
    let form = args.output.output;
    let columns = if form == Form::Csv { &FINDINGS_CSV[..] } else { &FINDINGS[..] };
    let mut listing = Listing::new(form, columns);
    let beside = other_currencies(&ledger, &shown)?;
    let currencies = Currencies::of(&beside);
    let now = SystemClock.now();
    let askings = Askings::of(loaded)?;
    for finding in &shown {
        let asking = asking(&engines, &askings, finding).await?;
        let age_days = now.nanos_since(finding.first_seen) / 86_400_000_000_000;
        let mut object = serde_json::to_value(finding)?;
        object["moneyAtRiskMinor"] = finding.money_at_risk.into();
        object["exponent"] = finding.currency.map(|currency| currency.exponent()).into();
        object["asking"] = asking.as_ref().map_or(Value::Null, Asking::object);
        let cells = cells((finding, &currencies), (age_days, asking.as_ref()), form);
        listing.row(cells, &object)?;
    }
    listing.print()?;
    if let (Some(last), Some(_)) = (last, page.next().transpose()?) {
        output::error_line(&format!("more: --after {last}"));
    }
    Ok(())
}

/// The findings that say in which other currency the amounts of these are, whether they are on the page or not.
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
            format!("{word} is no kind of finding"),
            format!("one of {}", codes.join(", ")),
        )
    })
}

/// What the partner is being asked of a finding's order: what it answers may clear it.
async fn asking(
    engines: &Engines,
    askings: &Askings,
    finding: &FindingChanged,
) -> anyhow::Result<Option<Asking>> {
    let named = finding.merchant_code.clone().zip(finding.order_id.clone());
    let named = named.filter(|_| finding.status == FindingStatus::Open);
    let Some((merchant_code, order_id)) = named else { return Ok(None) };
    let key = OrderKey { partner: finding.partner.clone(), merchant_code, order_id };
    match engines.store()?.load(vec![key]).await?.pop().flatten() {
        Some(order) => askings.of_order(engines, &order).await,
        None => Ok(None),
    }
}

/// A row of the listing: amounts as people or as spreadsheets read them.
fn cells(
    (finding, currencies): (&FindingChanged, &Currencies<'_>),
    (age_days, asking): (i64, Option<&Asking>),
    form: Form,
) -> Vec<String> {
    let dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let place = [
        Some(finding.partner.to_string()),
        finding.merchant_code.as_ref().map(ToString::to_string),
        finding.order_id.as_ref().map(ToString::to_string),
    ];
    let status = match (&finding.decision, finding.status) {
        (Some(decision), FindingStatus::Open) if is_contested(finding, decision) => {
            "open (people disagree, needs a second person)"
        }
        (Some(_), FindingStatus::Open) => "open (needs a second person)",
        (_, status) => status.as_str(),
    };
    let is_csv = form == Form::Csv;
    let manner = Manner { zone: None, money: if is_csv { plain_named } else { named } };
    let (ours, partners) = sides(finding, currencies, manner);
    let what = finding.flag.map(|flag| flag.to_string()).or_else(|| finding.field.clone());
    let mut cells = vec![
        finding.finding_id.chars().take(12).collect(),
        status.to_owned(),
        finding.severity.as_str().to_owned(),
        finding.code.to_string(),
        place.into_iter().flatten().collect::<Vec<_>>().join("/"),
        dash(finding.payment_ref.as_ref().map(ToString::to_string)),
        dash(what),
        ours,
        format!("{partners} ({})", finding.partners.source),
    ];
    let (minor, currency) = (i128::from(finding.money_at_risk), finding.currency);
    let written = |write: fn(i128, Currency) -> String| {
        currency.map_or_else(|| minor.to_string(), |currency| write(minor, currency))
    };
    if is_csv {
        let named = currency.map_or_else(String::new, |currency| currency.to_string());
        cells.extend([written(plain), named, minor.to_string()]);
    } else {
        cells.push(written(named));
    }
    cells.extend([
        age_days.to_string(),
        dash(asking.map(Asking::in_words)),
        finding.action.clone(),
    ]);
    cells
}

/// Whether another person decided something else before.
fn is_contested(finding: &FindingChanged, decision: &FindingDecision) -> bool {
    finding
        .earlier_decisions
        .iter()
        .any(|earlier| earlier.ended == DecisionEnd::Replaced && earlier.author != decision.author)
}

/// Control totals of the last run of each day.
pub fn totals(ledger: &Ledger, args: &DayArgs) -> anyhow::Result<()> {
    let form = args.output.output;
    let columns = if form == Form::Csv { &TOTALS_CSV[..] } else { &TOTALS[..] };
    let mut listing = Listing::new(form, columns);
    for run in ledger.runs().filter(|run| is_wanted(args, run.partner.as_str(), &run.day)) {
        for total in &run.totals {
            listing.row(total_cells(run, total, form), &total_object(run, total))?;
        }
    }
    listing.print()
}

fn total_object(run: &RunEnded, total: &ControlTotal) -> Value {
    let sum = |sum: &Sum| json!({ "count": sum.count, "amountMinor": sum.amount });
    json!({
        "partner": run.partner, "day": total.day, "currency": total.currency,
        "exponent": total.currency.exponent(), "status": total.status, "ours": sum(&total.ours),
        "partners": sum(&total.partners), "differenceMinor": total.difference(), "run": run.run,
    })
}

fn total_cells(run: &RunEnded, total: &ControlTotal, form: Form) -> Vec<String> {
    let is_csv = form == Form::Csv;
    let amount = |minor: i64| {
        let write = if is_csv { plain } else { major };
        let mut cells = vec![write(i128::from(minor), total.currency)];
        cells.extend(is_csv.then(|| minor.to_string()));
        cells
    };
    let mut cells = vec![
        run.partner.to_string(),
        total.day.clone(),
        total.currency.to_string(),
        total.status.to_string(),
    ];
    for sum in [&total.ours, &total.partners] {
        cells.extend(amount(sum.amount));
        cells.push(sum.count.to_string());
    }
    cells.extend(amount(total.difference()));
    cells.push(run.run.clone());
    cells
}

/// The last run of each day, with what is open and decided of the day now.
pub fn runs(ledger: &Ledger, args: &DayArgs) -> anyhow::Result<()> {
    let mut listing = Listing::new(args.output.output, &RUNS);
    for run in ledger.runs().filter(|run| is_wanted(args, run.partner.as_str(), &run.day)) {
        let day = (run.partner.clone(), run.day.clone());
        let (now, closed) = (ledger.open_and_decided(&day)?, ledger.closed(&day));
        let closed_by = closed.map(|closed| closed.author.to_string());
        let mut object = serde_json::to_value(run)?;
        object["now"] = json!({ "open": now.0, "decided": now.1, "closedBy": closed_by });
        listing.row(run_cells(run, now, closed_by), &object)?;
    }
    listing.print()
}

fn run_cells(
    run: &RunEnded,
    (open, decided): (u64, u64),
    closed_by: Option<String>,
) -> Vec<String> {
    let closed_by = closed_by.map_or_else(
        || "-".to_owned(),
        |by| match run.adjusts {
            None => by,
            Some(_) => format!("{by} (adjusted since)"),
        },
    );
    let result = format!("{:?}", run.result).to_lowercase();
    vec![
        run.partner.to_string(),
        run.day.clone(),
        run.run.clone(),
        result,
        run.records.name.clone(),
        run.records.entries.to_string(),
        run.records.bad.to_string(),
        open.to_string(),
        decided.to_string(),
        closed_by,
    ]
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
            serde_json::from_str(include_str!("../../report/tests/sample.json")).unwrap();
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
        let currencies = Currencies::default();
        let row = |form| cells((&finding, &currencies), (1, None), form);
        let table = row(Form::Table);
        assert_eq!((&*table[7], &*table[9]), ("12,500.00 EUR", "12,500.00 EUR"));
        assert_eq!(table.len(), FINDINGS.len());
        let csv = row(Form::Csv);
        assert_eq!((csv[7].as_str(), csv.len()), ("12500.00 EUR", FINDINGS_CSV.len()));
        assert_eq!(csv[9..12], ["12500.00", "EUR", "1250000"]);
        // 61 payments of each side, ours more by 0.50 USD.
        let total = &run.totals[1];
        let csv: Vec<_> = TOTALS_CSV.into_iter().zip(total_cells(&run, total, Form::Csv)).collect();
        for (column, cell) in [
            ("ours", "12049.99"),
            ("ours_minor", "1204999"),
            ("our_count", "61"),
            ("partners", "12049.49"),
            ("difference", "0.50"),
            ("difference_minor", "50"),
        ] {
            assert!(csv.contains(&(column, cell.to_owned())), "{column}: {csv:?}");
        }
        assert_eq!(total_cells(&run, total, Form::Table)[4], "12,049.99");
        assert_eq!(total_object(&run, total)["ours"]["amountMinor"], 1_204_999);
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
        let now = ledger.open_and_decided(&(run.partner.clone(), run.day.clone())).unwrap();
        let row = run_cells(run, now, None);
        assert_eq!((&*row[7], &*row[8]), ("0", "1"));
    }
}
