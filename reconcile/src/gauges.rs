//! Owns the gauges of findings: how many are open, how much money is at risk, and when each partner
//! had its last complete run.

use std::collections::BTreeMap;

use payfold_schemas::run::RunResult;

use super::findings_store::FindingsStoreError;
use super::ledger::Ledger;
use crate::shared::SharedContext;

/// Sets the gauges from the ledger.
pub(crate) fn export_gauges(
    shared: &SharedContext,
    ledger: &Ledger,
) -> Result<(), FindingsStoreError> {
    let (mut open, mut flags, mut at_risk) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let mut waiting = 0;
    ledger.findings_store().each_open(|found| {
        let severity = found.severity.as_str();
        *open.entry((found.code.as_str(), severity)).or_insert(0_i64) += 1;
        waiting += i64::from(found.is_waiting);
        if let Some(flag) = found.flag {
            *flags.entry((flag.as_str(), severity)).or_insert(0_i64) += 1;
        }
        if let Some(currency) = found.currency {
            let sum = at_risk.entry(currency.code()).or_insert(0_i64);
            *sum = sum.saturating_add(found.at_risk);
        }
    })?;
    shared.metrics.set_open_findings(&open, &at_risk);
    shared.metrics.set_open_flags(&flags);
    shared.metrics.set_waiting_decisions(waiting);
    for run in ledger.runs().filter(|run| run.result == RunResult::Complete) {
        // Runs come by partner and day, so the gauge keeps a partner's latest day.
        shared.metrics.set_last_complete_run(&run.partner, run.started_at);
    }
    Ok(())
}
