//! The listings: findings, totals, runs and decisions.

use chrono::NaiveDate;
use payfold_engines::clock::{Clock, SystemClock};
use payfold_reconciler::books::ledger::Ledger;
use payfold_schemas::finding::{Code, FindingChanged, FindingStatus};
use payfold_schemas::money::Currency;
use payfold_schemas::release::{Because, NoticeDecided};
use payfold_schemas::run::RunEnded;
use serde_json::json;

use crate::args::{DayArgs, FindingsArgs};
use crate::error::Fixable;
use crate::output::{self, Listing};

const FINDINGS: [&str; 12] = [
    "finding", "status", "severity", "code", "order", "ref", "field", "ours", "partners",
    "at_risk", "age_days", "action",
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

/// Findings, the most at risk first within a day.
pub fn findings(ledger: &Ledger, args: &FindingsArgs) -> anyhow::Result<()> {
    let code = args.code.as_deref().map(code).transpose()?;
    let wanted = |finding: &&FindingChanged| {
        (!args.open || finding.status == FindingStatus::Open)
            && args.partner.as_deref().is_none_or(|only| only == finding.partner.as_str())
            && is_day(args.day, &finding.day)
            && code.is_none_or(|code| code == finding.code)
    };
    let mut found: Vec<&FindingChanged> = ledger.findings().filter(wanted).collect();
    found.sort_by(|a, b| a.finding_id.cmp(&b.finding_id));
    let after = args.page.after.as_deref().unwrap_or_default();
    let mut page = found.into_iter().filter(|finding| finding.finding_id.as_str() > after);
    let mut shown: Vec<&FindingChanged> = page.by_ref().take(args.page.limit).collect();
    let last = shown.last().map(|finding| finding.finding_id.clone());
    shown.sort_by_key(|finding| (&finding.day, std::cmp::Reverse(finding.severity), finding.code));
    let mut listing = Listing::new(args.output.output, &FINDINGS);
    let now = SystemClock.now();
    for finding in shown {
        let age_days = now.nanos_since(finding.first_seen) / 86_400_000_000_000;
        listing.row(cells(finding, age_days), finding)?;
    }
    listing.print()?;
    if let (Some(last), Some(_)) = (last, page.next()) {
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

fn cells(finding: &FindingChanged, age_days: i64) -> Vec<String> {
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
    for finding in ledger.findings() {
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
