//! `payfold reconcile report`: the last run of a day as a page.

use payfold_reconciler::books::ledger::Ledger;

use crate::args::ReportArgs;

/// Writes the page.
pub fn write(_ledger: &Ledger, _args: &ReportArgs) -> anyhow::Result<()> {
    anyhow::bail!("not yet")
}
