//! Owns what the metrics tell of findings: how many stand, how much is at risk, when a partner was last compared whole.

use std::collections::BTreeMap;

use payfold_schemas::run::RunResult;

use super::ledger::Ledger;
use super::shelf::ShelfError;
use crate::run::Shared;

/// Shows what the ledger says.
pub(crate) fn show(shared: &Shared, ledger: &Ledger) -> Result<(), ShelfError> {
    let (mut open, mut flags, mut at_risk) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    ledger.shelf().each_open(|found| {
        let severity = found.severity.as_str();
        *open.entry((found.code.as_str(), severity)).or_insert(0_i64) += 1;
        if let Some(flag) = found.flag {
            *flags.entry((flag.as_str(), severity)).or_insert(0_i64) += 1;
        }
        if let Some(currency) = found.currency {
            let sum = at_risk.entry(currency.code()).or_insert(0_i64);
            *sum = sum.saturating_add(found.at_risk);
        }
    })?;
    shared.metrics.findings_are(&open, &at_risk);
    shared.metrics.flags_are(&flags);
    for run in ledger.runs().filter(|run| run.result == RunResult::Complete) {
        // By partner and day, so the last one of a partner is the latest day's.
        shared.metrics.compared(&run.partner, run.started_at);
    }
    Ok(())
}
