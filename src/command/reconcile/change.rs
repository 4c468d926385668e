//! The verbs that change something: a run, a decision, the closing of a day.

use std::time::Duration;

use anyhow::Context;
use chrono::NaiveDate;
use indicatif::{ProgressBar, ProgressStyle};
use payfold_reconciler::books::day::Request;
use payfold_schemas::fact::Verdict;
use payfold_schemas::run::{RunEnded, RunResult};
use serde_json::{Value, json};

use crate::args::{DecideArgs, Form, Global, RunBooksArgs, WithdrawArgs};
use crate::data_dir::DataDir;
use crate::error::{DifferencesFound, Fixable};
use crate::money::{major, signed};
use crate::running::AdminClient;
use crate::{output, settings};

/// Between two questions how far it is.
const POLL: Duration = Duration::from_millis(200);

fn client(global: &Global) -> anyhow::Result<AdminClient> {
    let settings = settings::load(global)?.settings;
    AdminClient::find(global, &DataDir::of(&settings))
}

/// Sends the file, waits for the end, tells what it came to. Errors: `DifferencesFound`; a run that is refused or
/// incomplete.
pub fn run(global: &Global, args: &RunBooksArgs) -> anyhow::Result<()> {
    let client = client(global)?;
    let day = args.day.map(|day| day.to_string());
    let mut query: Vec<_> = day.as_deref().map(|day| ("day", day)).into_iter().collect();
    query.extend(args.replace.then_some(("replace", "true")));
    let path = format!("/v1/reconcile/{}", args.partner);
    let taken = match &args.records {
        None => {
            let words: Vec<_> =
                query.iter().map(|(name, value)| format!("{name}={value}")).collect();
            client.post(&format!("{path}/query?{}", words.join("&")), &json!({}))?
        }
        Some(records) => {
            let file = std::fs::File::open(records)
                .with_context(|| format!("{} can't be read", records.display()))?;
            let name = Request::name_of(records);
            query.push(("name", name.as_str()));
            client.send_file(&path, &query, file)?
        }
    };
    let ticket = taken["ticket"].as_str().context("a ticket")?;
    let ended = wait(&client, ticket)?;
    match args.output.output {
        Form::Table => tell(&ended),
        form => output::object(form, &ended)?,
    }
    if ended.result == RunResult::Incomplete {
        return Err(Fixable::error(
            format!("the run is incomplete: {}", ended.problems.join("; ")),
            "nothing may be concluded from what was not found; mend that and run it again",
        ));
    }
    if ended.findings.open > 0 {
        return Err(anyhow::Error::new(DifferencesFound));
    }
    Ok(())
}

fn wait(client: &AdminClient, ticket: &str) -> anyhow::Result<RunEnded> {
    let style = ProgressStyle::with_template("{spinner} {msg}")?;
    let bar = ProgressBar::new_spinner().with_style(style);
    loop {
        let answer = client.get(&format!("/v1/reconcile/runs/{ticket}"))?;
        match answer["state"].as_str() {
            Some("running") => bar.set_message(progress(&answer)),
            Some("ended") => {
                bar.finish_and_clear();
                return Ok(serde_json::from_value(answer["run"].clone())?);
            }
            _ => {
                bar.finish_and_clear();
                anyhow::bail!("{}", answer["problem"].as_str().unwrap_or("no reason given"));
            }
        }
        bar.tick();
        std::thread::sleep(POLL);
    }
}

fn progress(answer: &Value) -> String {
    let stage = answer["stage"].as_str().unwrap_or_default();
    match answer["done"].as_u64() {
        None | Some(0) => stage.to_owned(),
        Some(done) => format!("{stage}: {done}"),
    }
}

/// A run in few lines.
fn tell(ended: &RunEnded) {
    let RunEnded { records, compared, findings, .. } = ended;
    output::line(&format!(
        "run       {} of {} {} ({})",
        ended.run, ended.partner, ended.day, ended.zone
    ));
    output::line(&format!(
        "records   {}: {} lines, {} entries, {} ignored, {} bad",
        records.name, records.lines, records.entries, records.ignored, records.bad
    ));
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
    if findings.open > 0 {
        output::line(&format!(
            "next      payfold reconcile findings --open --partner {} --day {}",
            ended.partner, ended.day
        ));
    }
}

/// Where decisions on a finding, or on a flag of an order, are made.
fn path_of(what: &str, flag: Option<&str>) -> anyhow::Result<String> {
    match (flag, what.contains('/')) {
        (None, false) => Ok(format!("/v1/findings/{what}")),
        (Some(flag), true) => Ok(format!("/v1/orders/{what}/flags/{flag}")),
        (None, true) => Err(Fixable::error(
            format!("{what} is an order: which of its flags is decided?"),
            format!("payfold reconcile decide {what} FLAG --accept … --reason …"),
        )),
        (Some(flag), false) => Err(Fixable::error(
            format!("{what} names no order, so {flag} is nothing of it"),
            "name the order as PARTNER/MERCHANT/ORDER, or leave the flag out for a finding",
        )),
    }
}

/// Takes back a first decision on a finding or a flag.
pub fn withdraw(global: &Global, args: &WithdrawArgs) -> anyhow::Result<()> {
    let path = format!("{}/withdrawal", path_of(&args.what, args.flag.as_deref())?);
    let withdrawn = client(global)?.post(&path, &json!({ "reason": args.reason }))?;
    let text = |name: &str| withdrawn[name].as_str().unwrap_or_default().to_owned();
    output::line(&format!(
        "{} is undecided: {} took back {}, which stays in the history",
        text("what"),
        text("author"),
        text("said")
    ));
    Ok(())
}

/// Decides a finding or a flag.
pub fn decide(global: &Global, args: &DecideArgs) -> anyhow::Result<()> {
    let path = format!("{}/decision", path_of(&args.what, args.flag.as_deref())?);
    let accept: Verdict = args.accept.into();
    let word = json!({ "accept": accept, "reason": args.reason });
    let decided = client(global)?.post(&path, &word)?;
    let (what, author) = (&decided["what"], &decided["author"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if decided["decided"] == true {
        let second =
            decided["secondedBy"].as_str().map_or(String::new(), |by| format!(" and {by}"));
        output::line(&format!("{} is decided by {}{second}", text(what), text(author)));
    } else {
        if let (Some(before), Some(said)) =
            (decided["replaces"]["author"].as_str(), decided["replaces"]["said"].as_str())
        {
            output::line(&format!(
                "{} takes the place of what {before} decided, {said}, which stays in the history",
                accept.as_str()
            ));
        }
        output::line(&format!(
            "{} is critical: {} has decided, a second person has to say the same with another token (payfold token \
             add NAME, then --admin-token-file FILE)",
            text(what),
            text(author)
        ));
    }
    Ok(())
}

/// Closes a day.
pub fn close(global: &Global, partner: &str, day: NaiveDate) -> anyhow::Result<()> {
    let closed = client(global)?.post(&format!("/v1/periods/{partner}/{day}/close"), &json!({}))?;
    let text = |name: &str| closed[name].as_str().unwrap_or_default().to_owned();
    output::line(&format!(
        "{day} of {partner} is closed by {}: run {}, seal {}",
        text("author"),
        text("run"),
        text("seal")
    ));
    Ok(())
}
