//! `payfold reconcile decide|withdraw`: decisions on findings, one or many with one reason, and on
//! flags of orders. One call of the admin listener for each, so that one that is refused does not
//! stop the others.

use std::collections::HashSet;
use std::io::Read as _;
use std::path::Path;

use anyhow::Context as _;
use payfold_api::call::Call;
use payfold_api::decisions::{
    DECIDE_FINDING, DECIDE_FLAG, DecideRequest, WITHDRAW_FINDING, WITHDRAW_FLAG, WithdrawRequest,
};
use payfold_reconcile::decide::{Decided, ReplacedDecision};
use payfold_reconcile::withdraw::WithdrawnDecision;
use payfold_report::text::counted;
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Verdict;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Flag;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::admin_client::AdminClient;
use crate::args::{ChosenFindings, DecideArgs, Global, OutputFormat, WithdrawArgs};
use crate::error::{Fixable, unreadable};
use crate::output;

/// What the second person does.
const SECOND: &str = "another person runs the same command with their token (payfold token add \
                      NAME --role finance, then --admin-token-file FILE)";

/// The finding or flag that a decision is on.
enum DecisionTarget {
    Finding(SeenFinding),
    Flag(OrderKey, String),
}

/// A finding, and the evidence that was seen if it comes from a listing.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SeenFinding {
    finding_id: String,
    evidence: Option<Digest>,
}

impl DecisionTarget {
    /// The targets that a person chose. Errors: they are no findings, and not one flag.
    fn chosen(chosen: &ChosenFindings) -> anyhow::Result<Vec<Self>> {
        let findings = match (&chosen.from, chosen.what.as_slice()) {
            (Some(path), _) => listed(path)?,
            (None, [order, flag]) if order.contains('/') => {
                return Ok(vec![Self::Flag(OrderKey::parse(order)?, flag.clone())]);
            }
            (None, ids) => ids.iter().map(|id| named(id)).collect::<Result<_, _>>()?,
        };
        let mut known = HashSet::new();
        let findings = findings.into_iter().filter(|one| known.insert(one.finding_id.clone()));
        Ok(findings.map(Self::Finding).collect())
    }

    /// Makes the first call for a finding, the second for a flag.
    fn call<Q: Serialize, A: DeserializeOwned>(
        &self,
        client: &AdminClient,
        [on_finding, on_flag]: [&Call<Q, A>; 2],
        request: &Q,
    ) -> anyhow::Result<A> {
        match self {
            Self::Finding(finding) => client.call(on_finding, &[&finding.finding_id], request),
            Self::Flag(OrderKey { partner, merchant_code, order_id }, flag) => {
                let names = [partner.as_str(), merchant_code.as_str(), order_id.as_str(), flag];
                client.call(on_flag, &names, request)
            }
        }
    }

    /// The evidence that was seen.
    fn evidence(&self) -> Option<Digest> {
        match self {
            Self::Finding(finding) => finding.evidence,
            Self::Flag(..) => None,
        }
    }
}

impl std::fmt::Display for DecisionTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Finding(finding) => f.write_str(&finding.finding_id),
            Self::Flag(order, flag) => write!(f, "{flag} of {order}"),
        }
    }
}

/// The finding with this id. Errors: it is an order or a flag.
fn named(id: &str) -> anyhow::Result<SeenFinding> {
    if id.contains('/') {
        return Err(Fixable::error(
            format!("{id} is an order, and no flag of it is given"),
            format!("give the flag: payfold reconcile decide {id} FLAG --accept … --reason …"),
        ));
    }
    if Flag::parse(id).is_some() {
        return Err(Fixable::error(
            format!("{id} is a flag, and no order is given before it"),
            "write the order as PARTNER/MERCHANT/ORDER, or leave the flag out for a finding",
        ));
    }
    Ok(SeenFinding { finding_id: id.to_owned(), evidence: None })
}

/// The findings of a file: lines that a listing printed as JSON, or ids. Errors: it can't be read;
/// a line is neither.
fn listed(path: &Path) -> anyhow::Result<Vec<SeenFinding>> {
    let mut text = String::new();
    let read = match path.as_os_str() == "-" {
        true => std::io::stdin().read_to_string(&mut text).map(drop),
        false => std::fs::read_to_string(path).map(|read| text = read),
    };
    read.map_err(|error| unreadable(path, &error))?;
    let lines = text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty());
    let findings = lines.map(|(at, line)| {
        if !line.starts_with('{') {
            return named(line);
        }
        serde_json::from_str(line).map_err(|error| {
            Fixable::error(
                format!("line {} of {} is no finding: {error}", at + 1, path.display()),
                "give what payfold reconcile findings --output jsonl prints, or an id on each line",
            )
        })
    });
    let findings: Vec<_> = findings.collect::<Result<_, _>>()?;
    if findings.is_empty() {
        return Err(Fixable::error(
            format!("there is no finding in {}", path.display()),
            "payfold reconcile findings --open --output jsonl prints those that are open",
        ));
    }
    Ok(findings)
}

/// Makes a call for each target, and hands out the answers. Errors: the only one is refused; the
/// system can't be reached or refuses the caller; some of many were refused.
fn each<Q: Serialize, A: DeserializeOwned>(
    global: &Global,
    targets: &[DecisionTarget],
    calls: [&Call<Q, A>; 2],
    request: impl Fn(&DecisionTarget) -> Q,
    mut take: impl FnMut(A),
) -> anyhow::Result<()> {
    let client = AdminClient::find_for_command(global)?;
    if let [target] = targets {
        take(target.call(&client, calls, &request(target))?);
        return Ok(());
    }
    let many = u64::try_from(targets.len())?;
    let progress = output::progress_bar(OutputFormat::Table, many, "findings");
    let mut refused = 0;
    for target in targets {
        progress.inc(1);
        match target.call(&client, calls, &request(target)) {
            Ok(answer) => progress.suspend(|| take(answer)),
            Err(problem) if !problem.is::<Fixable>() => {
                refused += 1;
                progress.suspend(|| output::error_line(&format!("{target}: {problem:#}")));
            }
            Err(problem) => {
                progress.finish_and_clear();
                return Err(problem).context(format!("the calls ended at {target}"));
            }
        }
    }
    progress.finish_and_clear();
    if refused > 0 {
        return Err(Fixable::error(
            format!("{refused} of {} were refused", counted(many, "finding")),
            "the lines above say why; the others are done",
        ));
    }
    Ok(())
}

/// Withdraws the caller's first decisions on findings or a flag.
pub(super) fn withdraw(global: &Global, args: &WithdrawArgs) -> anyhow::Result<()> {
    let targets = DecisionTarget::chosen(&args.chosen)?;
    let request = |_: &DecisionTarget| WithdrawRequest { reason: args.reason.clone() };
    let said = |withdrawn: WithdrawnDecision| {
        output::line(&format!(
            "{} is undecided: {} withdrew {}, which stays in the history",
            withdrawn.what, withdrawn.author, withdrawn.said
        ));
    };
    each(global, &targets, [&WITHDRAW_FINDING, &WITHDRAW_FLAG], request, said)
}

/// Decides findings or a flag.
pub(super) fn decide(global: &Global, args: &DecideArgs) -> anyhow::Result<()> {
    let accept: Verdict = args.accept.into();
    let targets = DecisionTarget::chosen(&args.chosen)?;
    let request = |target: &DecisionTarget| DecideRequest {
        accept,
        reason: args.reason.clone(),
        evidence: target.evidence(),
    };
    let is_alone = targets.len() == 1;
    let mut waiting = 0;
    let said = |decided: Decided| {
        let Decided { what, decided, author, seconded_by, replaces } = decided;
        if decided {
            let second = seconded_by.map_or(String::new(), |by| format!(" and {by}"));
            output::line(&format!("{what} is decided by {author}{second}"));
            return;
        }
        waiting += 1;
        if let Some(ReplacedDecision { author: before, said }) = replaces {
            output::line(&format!(
                "{} replaces the decision of {before}, {said}, which stays in the history",
                accept.as_str()
            ));
        }
        let what = format!("{what} is critical and needs a second person: {author} has decided");
        output::line(&if is_alone { format!("{what}; {SECOND}") } else { what });
    };
    let ended = each(global, &targets, [&DECIDE_FINDING, &DECIDE_FLAG], request, said);
    if waiting > 0 && !is_alone {
        output::error_line(&format!("{waiting} need a second person: {SECOND}"));
    }
    ended
}
