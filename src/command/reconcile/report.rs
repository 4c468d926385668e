//! `payfold reconcile report`: writes the last run of a day as an HTML page.

use std::path::PathBuf;

use anyhow::Context;
use payfold_engines::clock::{Clock, SystemClock};
use payfold_reconcile::findings_store::FindingFilter;
use payfold_reconcile::ledger::Ledger;
use payfold_report::{Report, render_page};
use payfold_schemas::finding::FindingChanged;
use payfold_schemas::run::RunEnded;

use crate::args::ReportArgs;
use crate::error::Fixable;
use crate::output;

/// Writes the page.
pub(crate) fn write(ledger: &Ledger, args: &ReportArgs) -> anyhow::Result<()> {
    let ended = run_of(ledger, args)?;
    let day = (ended.partner.clone(), ended.day.clone());
    let of_day =
        FindingFilter { partner: Some(&day.0), day: Some(&day.1), ..FindingFilter::default() };
    let findings = ledger.findings(of_day).collect::<Result<Vec<FindingChanged>, _>>()?;
    let report =
        Report { ended, findings: &findings, closed: ledger.closed(&day), now: SystemClock.now() };
    let named = || PathBuf::from(format!("report-{}-{}.html", ended.partner, ended.day));
    let out = args.out.clone().unwrap_or_else(named);
    std::fs::write(&out, render_page(&report))
        .with_context(|| format!("{} can't be written", out.display()))?;
    output::line(&format!("{}", out.display()));
    Ok(())
}

/// The last run of the given day, or of the partner's last compared day.
fn run_of<'a>(ledger: &'a Ledger, args: &ReportArgs) -> anyhow::Result<&'a RunEnded> {
    let day = args.day.map(|day| day.to_string());
    let wanted = |run: &&RunEnded| {
        run.partner.as_str() == args.partner && day.as_ref().is_none_or(|day| run.day == *day)
    };
    ledger.runs().rev().find(wanted).ok_or_else(|| {
        let when = day.as_deref().map_or(String::new(), |day| format!(" of {day}"));
        Fixable::error(
            format!("the records of {}{when} were never compared", args.partner),
            format!(
                "compare them: payfold reconcile run {} --day DAY --records FILE",
                args.partner
            ),
        )
    })
}
