//! `payfold reconcile run|close`: comparisons, and the close of a day.

use std::path::Path;
use std::time::Duration;

use chrono::NaiveDate;
use indicatif::{ProgressBar, ProgressStyle};
use payfold_reconcile::request::RunRequest;
use payfold_report::money::{major, signed};
use payfold_schemas::run::{RunEnded, RunResult};

use crate::admin_client::AdminClient;
use crate::args::{Global, OutputFormat, ReconcileRunArgs};
use crate::error::{DifferencesFound, Fixable, unreadable};
use crate::output;
use payfold_api::call::Nothing;
use payfold_api::reconcile::{
    CLOSE, COMPARE, CompareFile, QUERY, QueryPartner, RUN, RunState, Ticket,
};

/// Interval between two checks of a run's progress.
const POLL: Duration = Duration::from_millis(200);

/// Starts a run, waits for its end and prints the result. Errors: `DifferencesFound`; the run is
/// refused or incomplete.
pub(crate) fn run(global: &Global, args: &ReconcileRunArgs) -> anyhow::Result<()> {
    let client = AdminClient::find_for_command(global)?;
    let day = args.day.map(|day| day.to_string());
    let (replace, names) = (args.replace, [args.partner.as_str()]);
    let Ticket { ticket } = match &args.records {
        None => client.call(&QUERY, &names, &QueryPartner { day, replace })?,
        Some(records) => {
            let file = std::fs::File::open(records).map_err(|error| unreadable(records, &error))?;
            let request = CompareFile { day, name: RunRequest::name_of(records), replace };
            client.upload(&COMPARE, &names, &request, file)?
        }
    };
    let ended = wait(&client, &ticket)?;
    match args.output.output {
        OutputFormat::Table => print_run(&ended, args.records.as_deref()),
        format => output::object(format, &ended)?,
    }
    if ended.result == RunResult::Incomplete {
        return Err(Fixable::error(
            format!("the run is incomplete: {}", ended.problems.join("; ")),
            "correct the cause and run it again; until then a payment that was not found may \
             still exist",
        ));
    }
    if ended.findings.open + ended.findings.open_of_other_days > 0 {
        return Err(anyhow::Error::new(DifferencesFound));
    }
    Ok(())
}

fn wait(client: &AdminClient, ticket: &str) -> anyhow::Result<RunEnded> {
    let style = ProgressStyle::with_template("{spinner} {msg}")?;
    let bar = ProgressBar::new_spinner().with_style(style);
    loop {
        match client.call(&RUN, &[ticket], &Nothing {})? {
            RunState::Running { stage, done: 0 } => bar.set_message(stage),
            RunState::Running { stage, done } => bar.set_message(format!("{stage}: {done}")),
            RunState::Ended { run } => {
                bar.finish_and_clear();
                return Ok(*run);
            }
            RunState::Refused { problem } => {
                bar.finish_and_clear();
                anyhow::bail!("{problem}");
            }
        }
        bar.tick();
        std::thread::sleep(POLL);
    }
}

/// Prints a run for people; `file` holds the records, if they were not asked for.
fn print_run(ended: &RunEnded, file: Option<&Path>) {
    let RunEnded { records, compared, findings, .. } = ended;
    output::line(&format!(
        "run       {} of {} {} ({})",
        ended.run, ended.partner, ended.day, ended.zone
    ));
    output::line(&format!(
        "records   {}: {} lines, {} entries, {} ignored, {} bad",
        records.name, records.lines, records.entries, records.ignored, records.bad
    ));
    if file.is_some() && records.entries == 0 && records.ignored > 0 {
        output::line(&format!(
            "          no line is an entry; payfold partner records {} FILE says why each is not",
            ended.partner
        ));
    }
    for bad in &records.bad_lines {
        output::line(&format!("          line {}: {}", bad.line, bad.problem));
    }
    output::line(&format!(
        "compared  {} orders; {} lines agree, {} pending, {} of a neighbouring day",
        compared.orders, compared.matched, compared.pending, compared.cut_off
    ));
    for total in &ended.totals {
        output::line(&format!(
            "total     {} {} {}: ours {} ({}), theirs {} ({}), difference {}",
            total.day,
            total.currency,
            total.status,
            major(total.ours.amount.into(), total.currency),
            total.ours.count,
            major(total.partners.amount.into(), total.currency),
            total.partners.count,
            signed(total.difference().into(), total.currency)
        ));
    }
    output::line(&format!(
        "findings  {} open, {} decided; {} new or changed, {} cleared by this run",
        findings.open, findings.decided, findings.opened, findings.cleared
    ));
    if findings.open_of_other_days > 0 {
        output::line(&format!(
            "          {} of other days are open that this run has opened",
            findings.open_of_other_days
        ));
    }
    if findings.open + findings.open_of_other_days > 0 {
        let of_day =
            if findings.open > 0 { format!(" --day {}", ended.day) } else { String::new() };
        output::line(&format!(
            "next      payfold reconcile findings --open --partner {}{of_day}",
            ended.partner
        ));
    }
}

/// Closes a day.
pub(crate) fn close(global: &Global, partner: &str, day: NaiveDate) -> anyhow::Result<()> {
    let names = [partner, &day.to_string()];
    let closed = AdminClient::find_for_command(global)?.call(&CLOSE, &names, &Nothing {})?;
    output::line(&format!(
        "{day} of {partner} is closed by {}: run {}, seal {}",
        closed.author, closed.run, closed.seal
    ));
    Ok(())
}
