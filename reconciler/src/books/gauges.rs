//! Owns what the metrics tell of findings: how many stand, how much is at risk, when a partner was last compared whole.

use std::collections::BTreeMap;

use payfold_schemas::finding::FindingStatus;
use payfold_schemas::run::RunResult;

use super::ledger::Ledger;
use crate::run::Shared;

/// Shows what the ledger says.
pub(crate) fn show(shared: &Shared, ledger: &Ledger) {
    let (mut open, mut at_risk) = (BTreeMap::new(), BTreeMap::new());
    for finding in ledger.findings().filter(|finding| finding.status == FindingStatus::Open) {
        *open.entry((finding.code.as_str(), finding.severity.as_str())).or_insert(0_i64) += 1;
        if let Some(currency) = finding.currency {
            let sum = at_risk.entry(currency.code()).or_insert(0_i64);
            *sum = sum.saturating_add(finding.money_at_risk);
        }
    }
    shared.metrics.findings_are(&open, &at_risk);
    for run in ledger.runs().filter(|run| run.result == RunResult::Complete) {
        // By partner and day, so the last one of a partner is the latest day's.
        shared.metrics.compared(&run.partner, run.started_at);
    }
}
