//! `payfold reconcile decisions`: who decided what on findings, flags and quarantined notices, and
//! which first decisions were withdrawn or replaced.

use payfold_reconcile::findings_store::FindingFilter;
use payfold_reconcile::ledger::Ledger;
use payfold_schemas::decision::FlagDecided;
use payfold_schemas::digest::Digest;
use payfold_schemas::finding::{
    Code, DecisionEnd, EarlierDecision, FindingChanged, FindingDecision, FindingStatus,
};
use payfold_schemas::ids::Author;
use payfold_schemas::release::NoticeDecided;
use payfold_schemas::released::Because;
use payfold_schemas::time::Time;
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::{DayArgs, OutputFormat};
use crate::listing::{self, Row};

/// Suffix of a decision that its author withdrew.
const WITHDRAWN: &str = " (withdrawn)";

/// A decision on a finding, as JSON output shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownFindingDecision {
    finding: String,
    code: Code,
    status: FindingStatus,
    day: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    decision: Option<FindingDecision>,
    #[serde(skip_serializing_if = "Option::is_none")]
    earlier_decision: Option<EarlierDecision>,
}

impl ShownFindingDecision {
    fn of(finding: &FindingChanged) -> Self {
        Self {
            finding: finding.finding_id.clone(),
            code: finding.code,
            status: finding.status,
            day: finding.day.clone(),
            decision: None,
            earlier_decision: None,
        }
    }
}

/// The table cells of a decision.
#[derive(Serialize)]
struct DecisionCells {
    at: Time,
    what: String,
    code: String,
    accept: String,
    author: Author,
    seconded_by: Option<Author>,
    reason: String,
    evidence: String,
}

/// A row of a decision: the event for JSON, the cells for tables.
#[derive(Serialize)]
#[serde(transparent)]
struct DecisionRow {
    event: Value,
    #[serde(skip)]
    cells: DecisionCells,
}

impl Row for DecisionRow {
    const COLUMNS: &'static str = "at what code accept author seconded_by reason evidence";

    fn shown(&self, column: &str, _format: OutputFormat) -> Option<Value> {
        Some(json!(self.cells)[column].take())
    }
}

/// The last decision on a finding.
fn of_finding(finding: &FindingChanged, decision: &FindingDecision) -> anyhow::Result<DecisionRow> {
    let event = ShownFindingDecision {
        decision: Some(decision.clone()),
        ..ShownFindingDecision::of(finding)
    };
    let cells = DecisionCells {
        at: decision.at,
        what: finding.finding_id.clone(),
        code: finding.code.to_string(),
        accept: decision.accept.as_str().to_owned(),
        author: decision.author.clone(),
        seconded_by: decision.seconded_by.clone(),
        reason: decision.reason.clone(),
        evidence: short(decision.evidence),
    };
    Ok(DecisionRow { event: serde_json::to_value(event)?, cells })
}

/// A decision on a finding that no longer holds.
fn of_earlier(finding: &FindingChanged, earlier: &EarlierDecision) -> anyhow::Result<DecisionRow> {
    let event = ShownFindingDecision {
        earlier_decision: Some(earlier.clone()),
        ..ShownFindingDecision::of(finding)
    };
    let ended = match earlier.ended {
        DecisionEnd::Withdrawn => "withdrawn".to_owned(),
        DecisionEnd::Replaced => format!("replaced by {}", earlier.ended_by),
        DecisionEnd::Reopened => "opened again".to_owned(),
    };
    let cells = DecisionCells {
        at: earlier.at,
        what: finding.finding_id.clone(),
        code: finding.code.to_string(),
        accept: format!("{} ({ended})", earlier.accept.as_str()),
        author: earlier.author.clone(),
        seconded_by: earlier.seconded_by.clone(),
        reason: earlier.reason.clone(),
        evidence: short(finding.evidence),
    };
    Ok(DecisionRow { event: serde_json::to_value(event)?, cells })
}

fn of_flag(said: &FlagDecided) -> anyhow::Result<DecisionRow> {
    let cells = DecisionCells {
        at: said.at,
        what: said.order.to_string(),
        code: said.flag.to_string(),
        accept: format!("{}{}", said.accept.as_str(), if said.withdrawn { WITHDRAWN } else { "" }),
        author: said.author.clone(),
        seconded_by: said.seconded_by.clone(),
        reason: said.reason.clone(),
        evidence: short(said.evidence),
    };
    Ok(DecisionRow { event: serde_json::to_value(said)?, cells })
}

fn of_notice(said: &NoticeDecided) -> anyhow::Result<DecisionRow> {
    let verdict = said.because.map_or(said.verdict.as_str(), Because::as_str);
    let cells = DecisionCells {
        at: said.at,
        what: format!("quarantine {}", said.position),
        code: said.code.clone(),
        accept: format!("{verdict}{}", if said.withdrawn { WITHDRAWN } else { "" }),
        author: said.author.clone(),
        seconded_by: said.seconded_by.clone(),
        reason: said.reason.clone(),
        evidence: short(said.evidence),
    };
    Ok(DecisionRow { event: serde_json::to_value(said)?, cells })
}

/// The first digits of a digest, to distinguish digests.
fn short(evidence: Digest) -> String {
    evidence.to_string().chars().take(12).collect()
}

fn is_wanted(args: &DayArgs, partner: &str, day: &str) -> bool {
    args.partner.as_deref().is_none_or(|only| only == partner)
        && args.day.is_none_or(|only| only.to_string() == day)
}

/// Prints decisions by time: for each finding the last one and those that ended; for flags and
/// notices all.
pub(crate) fn list(ledger: &Ledger, args: &DayArgs) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for finding in ledger.findings(FindingFilter::default()) {
        let finding = finding?;
        if !is_wanted(args, finding.partner.as_str(), &finding.day) {
            continue;
        }
        // The decisions on the finding's flag are listed below, unless a day is given.
        if finding.flag.is_some() && args.day.is_none() {
            continue;
        }
        for earlier in &finding.earlier_decisions {
            rows.push(of_earlier(&finding, earlier)?);
        }
        if let Some(decision) = &finding.decision {
            rows.push(of_finding(&finding, decision)?);
        }
    }
    // Flags and quarantined notices belong to no day of the partner's records.
    if args.day.is_none() {
        let is_of = |partner| args.partner.as_deref().is_none_or(|only| partner == Some(only));
        for said in ledger.flags().filter(|said| is_of(Some(said.order.partner.as_str()))) {
            rows.push(of_flag(said)?);
        }
        for said in ledger.notices().filter(|said| is_of(said.account.split('/').next())) {
            rows.push(of_notice(said)?);
        }
    }
    rows.sort_by_key(|row| row.cells.at);
    listing::print(args.output.output, rows)
}
