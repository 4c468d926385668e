//! `payfold reconcile run|decide|withdraw|close`: the commands that change something.

use std::path::Path;
use std::time::Duration;

use chrono::NaiveDate;
use indicatif::{ProgressBar, ProgressStyle};
use payfold_reconcile::decide::{Decided, ReplacedDecision};
use payfold_reconcile::request::RunRequest;
use payfold_report::money::{major, signed};
use payfold_schemas::fact::Verdict;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::run::{RunEnded, RunResult};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::admin_client::AdminClient;
use crate::args::{DecideArgs, Global, OutputFormat, ReconcileRunArgs, WithdrawArgs};
use crate::error::{DifferencesFound, Fixable, unreadable};
use crate::output;
use payfold_api::call::{Call, Nothing};
use payfold_api::decisions::{
    DECIDE_FINDING, DECIDE_FLAG, DecideRequest, WITHDRAW_FINDING, WITHDRAW_FLAG, WithdrawRequest,
};
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

/// The finding or flag that a decision is on.
enum DecisionTarget {
    Finding(String),
    Flag(OrderKey, String),
}

impl DecisionTarget {
    fn of(what: &str, flag: Option<&str>) -> anyhow::Result<Self> {
        match (flag, what.contains('/')) {
            (None, false) => Ok(Self::Finding(what.to_owned())),
            (Some(flag), true) => Ok(Self::Flag(OrderKey::parse(what)?, flag.to_owned())),
            (None, true) => Err(Fixable::error(
                format!("{what} is an order, and no flag of it is given"),
                format!(
                    "give the flag: payfold reconcile decide {what} FLAG --accept … --reason …"
                ),
            )),
            (Some(flag), false) => Err(Fixable::error(
                format!("{what} is not an order, so it has no flag {flag}"),
                "write the order as PARTNER/MERCHANT/ORDER, or leave the flag out for a finding",
            )),
        }
    }

    /// Makes the first call for a finding, the second for a flag.
    fn call<Q: Serialize, A: DeserializeOwned>(
        &self,
        global: &Global,
        [on_finding, on_flag]: [&Call<Q, A>; 2],
        request: &Q,
    ) -> anyhow::Result<A> {
        let client = AdminClient::find_for_command(global)?;
        match self {
            Self::Finding(finding) => client.call(on_finding, &[finding], request),
            Self::Flag(OrderKey { partner, merchant_code, order_id }, flag) => {
                let names = [partner.as_str(), merchant_code.as_str(), order_id.as_str(), flag];
                client.call(on_flag, &names, request)
            }
        }
    }
}

/// Withdraws the caller's first decision on a finding or a flag.
pub(crate) fn withdraw(global: &Global, args: &WithdrawArgs) -> anyhow::Result<()> {
    let request = WithdrawRequest { reason: args.reason.clone() };
    let on = DecisionTarget::of(&args.what, args.flag.as_deref())?;
    let withdrawn = on.call(global, [&WITHDRAW_FINDING, &WITHDRAW_FLAG], &request)?;
    output::line(&format!(
        "{} is undecided: {} withdrew {}, which stays in the history",
        withdrawn.what, withdrawn.author, withdrawn.said
    ));
    Ok(())
}

/// Decides a finding or a flag.
pub(crate) fn decide(global: &Global, args: &DecideArgs) -> anyhow::Result<()> {
    let accept: Verdict = args.accept.into();
    let request = DecideRequest { accept, reason: args.reason.clone(), evidence: None };
    let on = DecisionTarget::of(&args.what, args.flag.as_deref())?;
    let Decided { what, decided, author, seconded_by, replaces } =
        on.call(global, [&DECIDE_FINDING, &DECIDE_FLAG], &request)?;
    if decided {
        let second = seconded_by.map_or(String::new(), |by| format!(" and {by}"));
        output::line(&format!("{what} is decided by {author}{second}"));
        return Ok(());
    }
    if let Some(ReplacedDecision { author: before, said }) = replaces {
        output::line(&format!(
            "{} replaces the decision of {before}, {said}, which stays in the history",
            accept.as_str()
        ));
    }
    output::line(&format!(
        "{what} is critical and needs a second person: {author} has decided; another person runs \
         the same command with their token (payfold token add NAME --role finance, then \
         --admin-token-file FILE)"
    ));
    Ok(())
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
