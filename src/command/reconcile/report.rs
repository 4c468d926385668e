//! `payfold reconcile report`: writes the last run of a day as an HTML page.

use std::path::PathBuf;

use anyhow::Context;
use payfold_engines::clock::{Clock, SystemClock};
use payfold_report::{Report, render_page};
use payfold_schemas::ids::PartnerCode;
use payfold_views::findings::{FindingPage, ListFindings};
use payfold_views::periods::{ListPeriods, PeriodRow};

use crate::args::ReportArgs;
use crate::error::Fixable;
use crate::output;
use crate::reads::Reads;

/// Writes the page.
pub(crate) async fn write(reads: &Reads<'_>, args: &ReportArgs) -> anyhow::Result<()> {
    let PeriodRow { run: ended, closed, .. } = period(reads, args).await?;
    let mut asked = ListFindings {
        partner: Some(ended.partner.clone()),
        day: Some(ended.day.clone()),
        ..Default::default()
    };
    let mut findings = Vec::new();
    loop {
        let FindingPage { findings: page, next, .. } = reads.findings(&asked).await?;
        findings.extend(page.into_iter().map(|row| row.finding));
        asked.after = next;
        if asked.after.is_none() {
            break;
        }
    }
    let report = Report {
        ended: &ended,
        findings: &findings,
        closed: closed.as_ref(),
        now: SystemClock.now(),
    };
    let named = || PathBuf::from(format!("report-{}-{}.html", ended.partner, ended.day));
    let out = args.out.clone().unwrap_or_else(named);
    std::fs::write(&out, render_page(&report))
        .with_context(|| format!("{} can't be written", out.display()))?;
    output::line(&format!("{}", out.display()));
    Ok(())
}

/// The given day, or the partner's last compared day.
async fn period(reads: &Reads<'_>, args: &ReportArgs) -> anyhow::Result<PeriodRow> {
    let day = args.day.map(|day| day.to_string());
    let partner = PartnerCode::parse(&args.partner)?;
    let asked = ListPeriods {
        partner: Some(partner),
        day: day.clone(),
        limit: Some(1),
        ..Default::default()
    };
    reads.periods(&asked).await?.periods.pop().ok_or_else(|| {
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
