//! The listing of `payfold reconcile decisions`: who decided what on findings, flags and quarantined notices, and which first
//! decisions were taken back or replaced.

use payfold_reconciler::books::ledger::Ledger;
use payfold_reconciler::books::shelf::Which;
use payfold_schemas::finding::{DecisionEnd, EarlierDecision, FindingChanged};
use payfold_schemas::release::{Because, NoticeDecided};
use serde_json::json;

use super::list::is_wanted;
use crate::args::DayArgs;
use crate::output::{self, Listing};

/// Behind what was decided, where its author took it back.
const WITHDRAWN: &str = " (withdrawn)";

const DECISIONS: [&str; 8] =
    ["at", "what", "code", "accept", "author", "seconded_by", "reason", "evidence"];

fn cells_of_notice(said: &NoticeDecided) -> Vec<String> {
    let second = said.seconded_by.as_ref().map(ToString::to_string);
    vec![
        output::time(said.at),
        format!("quarantine {}", said.position),
        said.code.clone(),
        format!(
            "{}{}",
            said.because.map_or(said.verdict.as_str(), Because::as_str),
            if said.withdrawn { WITHDRAWN } else { "" }
        ),
        said.author.to_string(),
        second.unwrap_or_else(|| "-".to_owned()),
        said.reason.clone(),
        said.evidence.to_string().chars().take(12).collect(),
    ]
}

fn earlier_cells(finding: &FindingChanged, earlier: &EarlierDecision) -> Vec<String> {
    let ended = match earlier.ended {
        DecisionEnd::Withdrawn => "withdrawn".to_owned(),
        DecisionEnd::Replaced => format!("replaced by {}", earlier.ended_by),
    };
    vec![
        output::time(earlier.at),
        finding.finding_id.clone(),
        finding.code.to_string(),
        format!("{} ({ended})", earlier.accept.as_str()),
        earlier.author.to_string(),
        "-".to_owned(),
        earlier.reason.clone(),
        finding.evidence.to_string().chars().take(12).collect(),
    ]
}

/// Who decided what: of findings the last decision on each and those it took the place of, of flags and of notices all.
pub fn list(ledger: &Ledger, args: &DayArgs) -> anyhow::Result<()> {
    let mut rows = Vec::new();
    for finding in ledger.findings(Which::default()) {
        let finding = finding?;
        if !is_wanted(args, finding.partner.as_str(), &finding.day) {
            continue;
        }
        // Without a day the words on its flag are listed below.
        if finding.flag.is_some() && args.day.is_none() {
            continue;
        }
        for earlier in &finding.earlier_decisions {
            let object = json!({
                "finding": finding.finding_id, "code": finding.code, "status": finding.status,
                "day": finding.day, "earlierDecision": earlier,
            });
            rows.push((earlier.at, earlier_cells(&finding, earlier), object));
        }
        if let Some(decision) = &finding.decision {
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
            format!("{}{}", said.accept.as_str(), if said.withdrawn { WITHDRAWN } else { "" }),
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
