//! `payfold reconcile decide|withdraw`: decisions on findings, one or many with one reason, and on
//! flags of orders. One call of the admin listener for each, so that one that is refused does not
//! stop the others.

use std::collections::BTreeMap;
use std::path::Path;

use payfold_api::call::{Call, Nothing};
use payfold_api::decisions::{
    DECIDE_FINDING, DECIDE_FLAG, DecideRequest, WITHDRAW_FINDING, WITHDRAW_FLAG, WithdrawRequest,
};
use payfold_api::reads::{FINDINGS, PERSON};
use payfold_reconcile::decide::ID_DIGITS_MIN;
use payfold_reconcile::decided::{Decided, ReplacedDecision};
use payfold_reconcile::transition::format_people;
use payfold_reconcile::withdraw::WithdrawnDecision;
use payfold_report::text::{counted, shown};
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Verdict;
use payfold_schemas::finding::FindingStatus;
use payfold_schemas::ids::OrderKey;
use payfold_views::findings::{FindingRow, ListFindings};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::admin_client::{AdminClient, RefusedCall};
use crate::args::{ChosenFindings, DecideArgs, Global, OutputFormat, WithdrawArgs};
use crate::error::{Fixable, unreadable};
use crate::output;

/// What the second person does.
const SECOND: &str = "another person runs the same command with their token (payfold token add \
                      NAME --role finance, then --admin-token-file FILE)";
/// The digits of an id.
const ID_DIGITS: usize = 32;

/// The finding or flag that a decision is on.
enum DecisionTarget {
    /// A finding, and the evidence that was seen if it comes from a listing.
    Finding(String, Option<Digest>),
    Flag(OrderKey, String),
}

/// A finding as a listing prints it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedFinding {
    finding_id: String,
    evidence: Digest,
}

/// The findings to decide, by id, with the evidence that was seen.
#[derive(Default)]
struct ChosenIds(BTreeMap<String, Option<Digest>>);

impl ChosenIds {
    /// Adds a finding. Errors: it is in the list with other evidence.
    fn add(&mut self, id: String, evidence: Option<Digest>) -> anyhow::Result<()> {
        let known = self.0.entry(id).or_default();
        match (*known, evidence) {
            (Some(known), Some(other)) if known != other => Err(Fixable::error(
                "a finding is listed with two evidences: it has changed between the listings",
                "list the findings once more, and look at them",
            )),
            (known_before, _) => {
                *known = known_before.or(evidence);
                Ok(())
            }
        }
    }

    /// The targets. First digits of an id that is there whole are the same finding.
    fn targets(self) -> Vec<DecisionTarget> {
        let ids: Vec<_> = self.0.keys().cloned().collect();
        let mut behind = ids.iter().skip(1);
        let repeats = |id: &str, next: Option<&String>| next.is_some_and(|it| it.starts_with(id));
        let once = self.0.into_iter().filter(|(id, _)| !repeats(id, behind.next()));
        once.map(|(id, evidence)| DecisionTarget::Finding(id, evidence)).collect()
    }
}

impl DecisionTarget {
    /// The targets that a person chose. Errors: they are no findings, and not one flag.
    fn chosen(chosen: &ChosenFindings) -> anyhow::Result<Vec<Self>> {
        let mut ids = ChosenIds::default();
        match (&chosen.from, chosen.what.as_slice()) {
            (Some(path), _) => read_list(path, &mut ids)?,
            (None, [order, flag]) if order.contains('/') => {
                return Ok(vec![Self::Flag(OrderKey::parse(order)?, flag.clone())]);
            }
            (None, named) => named.iter().try_for_each(|id| {
                assert_id(id)?;
                ids.add(id.clone(), None)
            })?,
        }
        Ok(ids.targets())
    }

    /// Makes the first call for a finding, the second for a flag.
    fn call<Q: Serialize, A: DeserializeOwned>(
        &self,
        client: &AdminClient,
        [on_finding, on_flag]: [&Call<Q, A>; 2],
        request: &Q,
    ) -> anyhow::Result<A> {
        match self {
            Self::Finding(id, _) => client.call(on_finding, &[id], request),
            Self::Flag(OrderKey { partner, merchant_code, order_id }, flag) => {
                let names = [partner.as_str(), merchant_code.as_str(), order_id.as_str(), flag];
                client.call(on_flag, &names, request)
            }
        }
    }

    /// The evidence that was seen.
    fn evidence(&self) -> Option<Digest> {
        match self {
            Self::Finding(_, evidence) => *evidence,
            Self::Flag(..) => None,
        }
    }
}

impl std::fmt::Display for DecisionTarget {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Finding(id, _) => f.write_str(id),
            Self::Flag(order, flag) => write!(f, "{flag} of {order}"),
        }
    }
}

/// Checks that this is the id of a finding or its first digits, before anything is decided. Errors:
/// it is not.
fn assert_id(id: &str) -> anyhow::Result<()> {
    let is_id = (ID_DIGITS_MIN..=ID_DIGITS).contains(&id.len())
        && id.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    if is_id {
        return Ok(());
    }
    let id = shown(id);
    if id.contains('/') {
        return Err(Fixable::error(
            format!("{id} is an order, and no flag of it is given"),
            format!("give one order and its flag: payfold reconcile decide {id} FLAG --accept …"),
        ));
    }
    Err(Fixable::error(
        format!("{id} is no finding: an id has 6 to 32 of the digits 0 to 9 and a to f"),
        "give ids as payfold reconcile findings prints them; a flag stands behind its order, \
         PARTNER/MERCHANT/ORDER FLAG; a reason of several words stands in quotes",
    ))
}

/// The finding of a line of a list. Errors: it is none.
fn listed(line: &str) -> anyhow::Result<(String, Option<Digest>)> {
    if !line.starts_with('{') {
        assert_id(line)?;
        return Ok((line.to_owned(), None));
    }
    let ListedFinding { finding_id, evidence } = serde_json::from_str(line)?;
    assert_id(&finding_id)?;
    Ok((finding_id, Some(evidence)))
}

/// Reads the findings of a file: lines that a listing printed as JSON, or ids. Errors: it can't be
/// read; a line is neither; a finding is there with two evidences.
fn read_list(path: &Path, ids: &mut ChosenIds) -> anyhow::Result<()> {
    let text = match path.as_os_str() == "-" {
        true => std::io::read_to_string(std::io::stdin()),
        false => std::fs::read_to_string(path),
    };
    let text = text.map_err(|error| unreadable(path, &error))?;
    let text = text.trim_start_matches('\u{feff}');
    let lines = text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty());
    for (at, line) in lines {
        let (id, evidence) = listed(line).map_err(|problem| {
            Fixable::error(
                format!("line {} of {} is no finding: {problem}", at + 1, path.display()),
                "give what payfold reconcile findings --output jsonl prints, or an id on each line",
            )
        })?;
        ids.add(id, evidence)?;
    }
    if ids.0.is_empty() {
        return Err(Fixable::error(
            format!("there is no finding in {}", path.display()),
            "payfold reconcile findings --open --output jsonl prints those that are open",
        ));
    }
    Ok(())
}

/// Acts on each target, and prints what came of it once all are done: a pipe that is closed stops
/// none. Errors: the only one is refused; an answer that is no refusal, which ends it; some of many
/// were refused.
fn each(
    targets: &[DecisionTarget],
    mut act: impl FnMut(&DecisionTarget) -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    if let [target] = targets {
        output::line(&act(target)?);
        return Ok(());
    }
    let many = u64::try_from(targets.len())?;
    let progress = output::progress_bar(OutputFormat::Table, many, "findings");
    let (mut done, mut refused, mut stopped) = (Vec::new(), Vec::new(), None);
    for target in targets {
        progress.inc(1);
        match act(target) {
            Ok(said) => done.push(said),
            Err(problem) if is_refusal(&problem) => refused.push(format!("{target}: {problem:#}")),
            Err(problem) => {
                stopped = Some(problem.context(format!("{target} may be done or not")));
                break;
            }
        }
    }
    progress.finish_and_clear();
    refused.iter().for_each(|line| output::error_line(line));
    done.iter().for_each(|line| output::line(line));
    if let Some(problem) = stopped {
        let untried = targets.len() - done.len() - refused.len() - 1;
        let (done, refused) = (done.len(), refused.len());
        let so_far = format!("{done} are done, {refused} refused, {untried} not tried");
        return Err(problem.context(so_far));
    }
    if !refused.is_empty() {
        return Err(Fixable::error(
            format!("{} of {} were refused", refused.len(), counted(many, "finding")),
            "the lines above say why; the others are done",
        ));
    }
    Ok(())
}

/// Whether a call was refused because of what it names.
fn is_refusal(problem: &anyhow::Error) -> bool {
    problem.downcast_ref::<RefusedCall>().is_some_and(RefusedCall::is_of_its_subject)
}

/// What is said of a refused decision on a finding that is so already: by two people, or waiting as
/// this person decided. Errors: it is not so, with the refusal.
fn already(
    client: &AdminClient,
    target: &DecisionTarget,
    accept: Verdict,
    problem: anyhow::Error,
) -> anyhow::Result<String> {
    let (true, DecisionTarget::Finding(id, seen)) = (is_refusal(&problem), target) else {
        return Err(problem);
    };
    let asked = ListFindings { finding: Some(id.clone()), ..ListFindings::default() };
    let found = client.call(&FINDINGS, &[], &asked)?.findings.pop();
    let Some(FindingRow { finding, .. }) = found else { return Err(problem) };
    let is_as_seen = seen.is_none_or(|seen| seen == finding.evidence);
    let decision = finding.decision.filter(|said| said.accept == accept && is_as_seen);
    match (finding.status, decision) {
        (FindingStatus::Decided, Some(said)) => {
            let people = format_people(&said.author, said.seconded_by.as_ref());
            Ok(format!("{id} was decided so by {people}"))
        }
        (FindingStatus::Open, Some(said))
            if client.call(&PERSON, &[], &Nothing {})?.name == said.author =>
        {
            Ok(format!("{id} waits for a second person: {} has decided so", said.author))
        }
        _ => Err(problem),
    }
}

/// Withdraws the caller's first decisions on findings or a flag.
pub(super) fn withdraw(global: &Global, args: &WithdrawArgs) -> anyhow::Result<()> {
    let targets = DecisionTarget::chosen(&args.chosen)?;
    let client = AdminClient::find_for_command(global)?;
    let request = WithdrawRequest { reason: args.reason.clone() };
    each(&targets, |target| {
        let withdrawn: WithdrawnDecision =
            target.call(&client, [&WITHDRAW_FINDING, &WITHDRAW_FLAG], &request)?;
        Ok(format!(
            "{} is undecided: {} withdrew {}, which stays in the history",
            withdrawn.what, withdrawn.author, withdrawn.said
        ))
    })
}

/// Decides findings or a flag.
pub(super) fn decide(global: &Global, args: &DecideArgs) -> anyhow::Result<()> {
    let accept: Verdict = args.accept.into();
    let targets = DecisionTarget::chosen(&args.chosen)?;
    let client = AdminClient::find_for_command(global)?;
    let is_alone = targets.len() == 1;
    let mut waiting = 0;
    let ended = each(&targets, |target| {
        let (reason, evidence) = (args.reason.clone(), target.evidence());
        let request = DecideRequest { accept, reason, evidence };
        match target.call(&client, [&DECIDE_FINDING, &DECIDE_FLAG], &request) {
            Ok(decided) => {
                waiting += usize::from(!decided.decided);
                let said = in_words(decided, accept);
                let needs_hint = is_alone && waiting > 0;
                Ok(if needs_hint { format!("{said}; {SECOND}") } else { said })
            }
            Err(problem) if is_alone => Err(problem),
            Err(problem) => already(&client, target, accept, problem),
        }
    });
    if waiting > 0 && !is_alone {
        output::error_line(&format!("{waiting} need a second person: {SECOND}"));
    }
    ended
}

/// What came of a decision.
fn in_words(decided: Decided, accept: Verdict) -> String {
    if decided.decided {
        return format!("{} is decided by {}", decided.what, decided.people());
    }
    let Decided { what, author, replaces, .. } = decided;
    let replaced = replaces.map_or(String::new(), |ReplacedDecision { author, said }| {
        let accept = accept.as_str();
        format!("{accept} replaces the decision of {author}, {said}, which stays in the history\n")
    });
    format!("{replaced}{what} is critical and needs a second person: {author} has decided")
}
