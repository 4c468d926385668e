//! Owns what the metrics tell of findings: how many stand, how much is at risk, when a partner was last compared whole.

use std::collections::BTreeMap;

use payfold_schemas::run::RunResult;

use super::ledger::Ledger;
use super::shelf::ShelfError;
use crate::run::Shared;

/// Shows what the ledger says.
pub(crate) fn show(shared: &Shared, ledger: &Ledger) -> Result<(), ShelfError> {
    let (mut open, mut at_risk) = (BTreeMap::new(), BTreeMap::new());
    ledger.shelf().each_open(|code, currency, minor| {
        *open.entry((code.as_str(), code.severity().as_str())).or_insert(0_i64) += 1;
        if let Some(currency) = currency {
            let sum = at_risk.entry(currency.code()).or_insert(0_i64);
            *sum = sum.saturating_add(minor);
        }
    })?;
    shared.metrics.findings_are(&open, &at_risk);
    for run in ledger.runs().filter(|run| run.result == RunResult::Complete) {
        // By partner and day, so the last one of a partner is the latest day's.
        shared.metrics.compared(&run.partner, run.started_at);
    }
    Ok(())
}
