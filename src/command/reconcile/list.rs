//! The listings: findings, totals, runs and decisions.

use chrono::NaiveDate;
use payfold_engines::clock::{Clock, SystemClock};
use payfold_reconciler::books::ledger::Ledger;
use payfold_reconciler::books::shelf::{Standing, Which};
use payfold_schemas::finding::{Code, FindingChanged, FindingStatus};
use payfold_schemas::ids::{OrderKey, PartnerCode};
use payfold_schemas::money::Currency;
use payfold_schemas::release::{Because, NoticeDecided};
use payfold_schemas::run::RunEnded;
use serde_json::{Value, json};

use crate::args::{DayArgs, FindingsArgs};
use crate::command::stuck::{Asking, Askings};
use crate::error::Fixable;
use crate::output::{self, Listing};
use crate::settings::Loaded;
use crate::wiring::Engines;

const FINDINGS: [&str; 13] = [
    "finding", "status", "severity", "code", "order", "ref", "field", "ours", "partners",
    "at_risk", "age_days", "asking", "action",
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
const DECISIONS: [&str; 8] =
    ["at", "what", "code", "accept", "author", "seconded_by", "reason", "evidence"];

fn is_wanted(args: &DayArgs, partner: &str, day: &str) -> bool {
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
    let mut listing = Listing::new(args.output.output, &FINDINGS);
    let now = SystemClock.now();
    let askings = Askings::of(loaded)?;
    for finding in &shown {
        let asking = asking(&engines, &askings, finding).await?;
        let age_days = now.nanos_since(finding.first_seen) / 86_400_000_000_000;
        let mut object = serde_json::to_value(finding)?;
        object["asking"] = asking.as_ref().map_or(Value::Null, Asking::object);
        listing.row(cells(finding, age_days, asking.as_ref()), &object)?;
    }
    listing.print()?;
    if let (Some(last), Some(_)) = (last, page.next().transpose()?) {
        output::error_line(&format!("more: --after {last}"));
    }
    Ok(())
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

fn cells(finding: &FindingChanged, age_days: i64, asking: Option<&Asking>) -> Vec<String> {
    let dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let place = [
        Some(finding.partner.to_string()),
        finding.merchant_code.as_ref().map(ToString::to_string),
        finding.order_id.as_ref().map(ToString::to_string),
    ];
    let status = match (&finding.decision, finding.status) {
        (Some(_), FindingStatus::Open) => "open (needs a second person)",
        (_, status) => status.as_str(),
    };
    vec![
        finding.finding_id.chars().take(12).collect(),
        status.to_owned(),
        finding.severity.as_str().to_owned(),
        finding.code.to_string(),
        place.into_iter().flatten().collect::<Vec<_>>().join("/"),
        dash(finding.payment_ref.as_ref().map(ToString::to_string)),
        dash(finding.field.clone()),
        finding.ours.value.clone(),
        format!("{} ({})", finding.partners.value, finding.partners.source),
        money(finding.money_at_risk, finding.currency),
        age_days.to_string(),
        dash(asking.map(Asking::in_words)),
        finding.action.clone(),
    ]
}

fn money(minor: i64, currency: Option<Currency>) -> String {
    currency.map_or_else(|| minor.to_string(), |currency| format!("{minor} {currency}"))
}

/// Control totals of the last run of each day.
pub fn totals(ledger: &Ledger, args: &DayArgs) -> anyhow::Result<()> {
    let mut listing = Listing::new(args.output.output, &TOTALS);
    for run in ledger.runs().filter(|run| is_wanted(args, run.partner.as_str(), &run.day)) {
        for total in &run.totals {
            let object = json!({
                "partner": run.partner, "day": total.day, "currency": total.currency, "status": total.status,
                "ours": total.ours, "partners": total.partners, "difference": total.difference(), "run": run.run,
            });
            let cells = vec![
                run.partner.to_string(),
                total.day.clone(),
                total.currency.to_string(),
                total.status.to_string(),
                total.ours.amount.to_string(),
                total.ours.count.to_string(),
                total.partners.amount.to_string(),
                total.partners.count.to_string(),
                total.difference().to_string(),
                run.run.clone(),
            ];
            listing.row(cells, &object)?;
        }
    }
    listing.print()
}

/// The last run of each day.
pub fn runs(ledger: &Ledger, args: &DayArgs) -> anyhow::Result<()> {
    let mut listing = Listing::new(args.output.output, &RUNS);
    for run in ledger.runs().filter(|run| is_wanted(args, run.partner.as_str(), &run.day)) {
        let closed = ledger.closed(&(run.partner.clone(), run.day.clone()));
        listing.row(run_cells(run, closed.map(|closed| closed.author.to_string())), run)?;
    }
    listing.print()
}

fn run_cells(run: &RunEnded, closed_by: Option<String>) -> Vec<String> {
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
        run.findings.open.to_string(),
        run.findings.decided.to_string(),
        closed_by,
    ]
}

fn cells_of_notice(said: &NoticeDecided) -> Vec<String> {
    let second = said.seconded_by.as_ref().map(ToString::to_string);
    vec![
        output::time(said.at),
        format!("quarantine {}", said.position),
        said.code.clone(),
        said.because.map_or(said.verdict.as_str(), Because::as_str).to_owned(),
        said.author.to_string(),
        second.unwrap_or_else(|| "-".to_owned()),
        said.reason.clone(),
        said.evidence.to_string().chars().take(12).collect(),
    ]
}

/// Who decided what: of findings the last word on each, of flags and of notices every word.
pub fn decisions(ledger: &Ledger, args: &DayArgs) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for finding in ledger.findings(Which::default()) {
        let finding = finding?;
        let Some(decision) = &finding.decision else { continue };
        if is_wanted(args, finding.partner.as_str(), &finding.day) {
            let object = json!({
                "finding": finding.finding_id, "code": finding.code, "status": finding.status,
                "day": finding.day, "decision": decision,
            });
            let second = decision.seconded_by.as_ref().map(ToString::to_string);
            let cells = vec![
                output::time(decision.at),
                finding.finding_id.clone(),
                finding.code.to_string(),
                decision.accept.as_str().to_owned(),
                decision.author.to_string(),
                second.unwrap_or_else(|| "-".to_owned()),
                decision.reason.clone(),
                decision.evidence.to_string().chars().take(12).collect(),
            ];
            rows.push((decision.at, cells, object));
        }
    }
    // A flag is of no day of the partner's.
    for said in ledger.flags().filter(|_| args.day.is_none()) {
        if args.partner.as_deref().is_some_and(|only| only != said.order.partner.as_str()) {
            continue;
        }
        let second = said.seconded_by.as_ref().map(ToString::to_string);
        let cells = vec![
            output::time(said.at),
            said.order.to_string(),
            said.flag.to_string(),
            said.accept.as_str().to_owned(),
            said.author.to_string(),
            second.unwrap_or_else(|| "-".to_owned()),
            said.reason.clone(),
            said.evidence.to_string().chars().take(12).collect(),
        ];
        rows.push((said.at, cells, serde_json::to_value(said)?));
    }
    // Nor is a notice in quarantine.
    for said in ledger.notices().filter(|_| args.day.is_none()) {
        if args.partner.as_deref().is_some_and(|only| said.account.split('/').next() != Some(only))
        {
            continue;
        }
        rows.push((said.at, cells_of_notice(said), serde_json::to_value(said)?));
    }
    rows.sort_by_key(|(at, ..)| *at);
    let mut listing = Listing::new(args.output.output, &DECISIONS);
    for (_, cells, object) in rows {
        listing.row(cells, &object)?;
    }
    listing.print()
}
