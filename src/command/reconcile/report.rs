//! `payfold reconcile report`: the last run of a day as a page.

use std::path::PathBuf;

use anyhow::Context;
use payfold_engines::clock::{Clock, SystemClock};
use payfold_reconciler::books::ledger::Ledger;
use payfold_reconciler::books::shelf::Which;
use payfold_schemas::finding::FindingChanged;
use payfold_schemas::run::RunEnded;

use crate::args::ReportArgs;
use crate::error::Fixable;
use crate::output;
use crate::report::{Report, page};

/// Writes the page.
pub fn write(ledger: &Ledger, args: &ReportArgs) -> anyhow::Result<()> {
    let ended = run_of(ledger, args)?;
    let day = (ended.partner.clone(), ended.day.clone());
    let of_day = Which { partner: Some(&day.0), day: Some(&day.1), ..Which::default() };
    let findings = ledger.findings(of_day).collect::<Result<Vec<FindingChanged>, _>>()?;
    let report =
        Report { ended, findings: &findings, closed: ledger.closed(&day), now: SystemClock.now() };
    let named = || PathBuf::from(format!("report-{}-{}.html", ended.partner, ended.day));
    let out = args.out.clone().unwrap_or_else(named);
    std::fs::write(&out, page(&report))
        .with_context(|| format!("{} can't be written", out.display()))?;
    output::line(&format!("{}", out.display()));
    Ok(())
}

/// The run of the day that is asked for, or of the last one there is.
fn run_of<'a>(ledger: &'a Ledger, args: &ReportArgs) -> anyhow::Result<&'a RunEnded> {
    let day = args.day.map(|day| day.to_string());
    let wanted = |run: &&RunEnded| {
        run.partner.as_str() == args.partner && day.as_ref().is_none_or(|day| run.day == *day)
    };
    ledger.runs().rev().find(wanted).ok_or_else(|| {
        let when = day.as_deref().map_or(String::new(), |day| format!(" of {day}"));
        Fixable::error(
            format!("the records of {}{when} were never compared", args.partner),
            format!("payfold reconcile run {} --day DAY --records FILE", args.partner),
        )
    })
}
