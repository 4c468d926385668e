//! Owns people's decisions on findings and on flags of orders. A critical finding or flag takes two
//! people. Every decision is an event or a fact of its own. It holds the author, the decision and
//! the evidence. Nothing is edited in place.

use std::cmp::Reverse;

use payfold_engines::log::Message;
use payfold_schemas::decision::{FLAG_DECIDED_TYPE, FlagDecided};
use payfold_schemas::digest::Digest;
use payfold_schemas::event::EventAttributes;
use payfold_schemas::fact::{Decision, Fact, Verdict};
use payfold_schemas::finding::{FindingChanged, FindingDecision, FindingStatus};
use payfold_schemas::ids::{Author, OrderKey};
use payfold_schemas::order::{Flag, RaisedFlag};
use payfold_schemas::time::Time;

use super::decided::{Decided, ReplacedDecision};
use super::error::ReconcileError;
use super::ledger::Ledger;
use super::publish::{append, message, publish_findings};
use super::transition::{
    self, DecideError, DecisionEffect, Withdrawal, combine_decisions, format_people,
};
use crate::shared::SharedContext;

/// What a person decides.
#[derive(Clone, Debug)]
pub struct NewDecision {
    /// The side that is accepted as right.
    pub accept: Verdict,
    /// Who decides.
    pub author: Author,
    /// The person's reason.
    pub reason: String,
    /// The evidence that the person has seen, if they name it: no other is decided.
    pub evidence: Option<Digest>,
}

impl NewDecision {
    /// Checks that the person has seen this evidence.
    fn assert_seen(&self, evidence: Digest) -> Result<(), ReconcileError> {
        if self.evidence.is_none_or(|seen| seen == evidence) {
            return Ok(());
        }
        let problem = "its evidence has changed since you saw it, so your decision was not taken: \
            look at it again and decide then";
        Err(ReconcileError::Refused(problem.to_owned()))
    }
}

/// A request to decide a finding.
#[derive(Clone, Debug)]
pub struct FindingDecisionRequest {
    /// The finding's id, or its first digits.
    pub finding: String,
    /// What is decided.
    pub decision: NewDecision,
}

/// A request to decide a flag of an order.
#[derive(Clone, Debug)]
pub struct FlagDecisionRequest {
    /// The order.
    pub order: OrderKey,
    /// Which flag.
    pub flag: Flag,
    /// What is decided.
    pub decision: NewDecision,
}

/// The fewest first digits of an id that name a finding.
pub const ID_DIGITS_MIN: usize = 6;

/// Takes a decision on a finding. Errors: there is no such finding; `DecideError`.
pub(crate) async fn decide_finding(
    shared: &SharedContext,
    ledger: &mut Ledger,
    request: FindingDecisionRequest,
) -> Result<Decided, ReconcileError> {
    let known = find_by_id_or_prefix(ledger, &request.finding)?;
    let new = request.decision;
    if let Some((order, flag)) = flag_of(&known)? {
        let request = FlagDecisionRequest { order, flag, decision: new };
        return decide_flag(shared, ledger, request).await;
    }
    new.assert_seen(known.evidence)?;
    let at = shared.storage.clock.now();
    let decision = FindingDecision {
        accept: new.accept,
        author: new.author,
        reason: new.reason,
        at,
        evidence: known.evidence,
        seconded_by: None,
        second_reason: None,
    };
    let waiting = known.decision.as_ref().filter(|first| first.evidence == known.evidence);
    let waiting = waiting.map(|first| (&first.author, first.accept.as_str()));
    let replaces = ReplacedDecision::replaced_by(waiting, decision.accept.as_str());
    let changed = transition::apply_decision(&known, decision)
        .map_err(|error| ReconcileError::Refused(error.to_string()))?;
    let decision = changed.decision.clone();
    if let Some(FindingDecision { author, seconded_by, .. }) = &decision {
        let people = (author, seconded_by.as_ref());
        shared.people.check(ledger, known.severity, people, at)?;
    }
    let decided = Decided {
        what: changed.finding_id.clone(),
        decided: changed.status == FindingStatus::Decided,
        author: decision.as_ref().map_or_else(String::new, |d| d.author.to_string()),
        seconded_by: decision.and_then(|d| d.seconded_by).map(|author| author.to_string()),
        replaces,
    };
    publish_finding(shared, ledger, (changed, at)).await?;
    Ok(decided)
}

/// The flag that a finding is about. Errors: the finding has cleared.
pub(super) fn flag_of(known: &FindingChanged) -> Result<Option<(OrderKey, Flag)>, ReconcileError> {
    let Some((order, flag)) = known.order_key().zip(known.flag) else { return Ok(None) };
    if known.status == FindingStatus::Cleared {
        return Err(ReconcileError::Refused(DecideError::Cleared.to_string()));
    }
    Ok(Some((order, flag)))
}

/// Publishes a person's change of a finding. Errors: another change of it came first.
pub(super) async fn publish_finding(
    shared: &SharedContext,
    ledger: &mut Ledger,
    (changed, at): (FindingChanged, Time),
) -> Result<(), ReconcileError> {
    let published = changed.clone();
    publish_findings(shared, ledger, vec![changed], at).await?;
    if ledger.find(&published.finding_id)?.as_ref() == Some(&published) {
        return Ok(());
    }
    let problem = format!(
        "finding {} was changed by somebody else meanwhile, so your decision was not taken: look \
         at the finding and decide again",
        published.finding_id
    );
    Err(ReconcileError::Refused(problem))
}

/// The finding with this id, or the only finding with an id that begins with these 6 digits or
/// more. Errors: no finding matches, or more than one.
pub(super) fn find_by_id_or_prefix(
    ledger: &Ledger,
    id: &str,
) -> Result<FindingChanged, ReconcileError> {
    if let Some(known) = ledger.find(id)? {
        return Ok(known);
    }
    let mut matches = ledger.findings_store().find_by_prefix(id)?.into_iter();
    match (matches.next(), matches.next()) {
        (Some(known), None) if id.len() >= ID_DIGITS_MIN => Ok(known),
        (None, _) => Err(ReconcileError::Refused(format!(
            "there is no finding {id}; `payfold reconcile findings` lists them"
        ))),
        (Some(_), _) => Err(ReconcileError::Refused(format!(
            "{id} is the beginning of more than one finding's id, or has less than 6 digits: give \
             more digits of the id"
        ))),
    }
}

/// Takes a decision on a flag. A final decision also appends the fact `Decided` to `intake`, before
/// its event is published.
pub(crate) async fn decide_flag(
    shared: &SharedContext,
    ledger: &mut Ledger,
    request: FlagDecisionRequest,
) -> Result<Decided, ReconcileError> {
    let of = (&request.order, request.flag);
    let raised = open_flag(shared, ledger, of, request.decision.evidence).await?;
    request.decision.assert_seen(raised.evidence)?;
    let waiting = ledger.waiting_flag_decision(of, raised.evidence).cloned();
    let before = ledger.decisions_on_flag(of, raised.evidence).count();
    let said = decision_event(shared, &request, (&raised, before), waiting.as_ref())?;
    let people = (&said.author, said.seconded_by.as_ref());
    shared.people.check(ledger, raised.severity, people, shared.storage.clock.now())?;
    let waiting = waiting.as_ref().map(|before| (&before.author, before.accept.as_str()));
    let decided = Decided {
        what: format!("{} {}", request.order, request.flag),
        decided: said.decision_id.is_some(),
        author: said.author.to_string(),
        seconded_by: said.seconded_by.as_ref().map(ToString::to_string),
        replaces: ReplacedDecision::replaced_by(waiting, request.decision.accept.as_str()),
    };
    if let Some(id) = said.decision_id.clone() {
        let decision = Decision {
            id,
            flag: said.flag,
            evidence: said.evidence,
            accept: said.accept,
            author: said.author.clone(),
            reason: said.reason.clone(),
            seconded_by: said.seconded_by.clone(),
        };
        // The fact first: if the process dies before the event, the projector folds the decision,
        // and the next recheck decides the finding.
        shared.storage.append(vec![(request.order.clone(), Fact::Decided(decision))]).await?;
    }
    publish_flag(shared, ledger, said).await?;
    Ok(decided)
}

/// The changes of the flag's findings that a decision or withdrawal makes.
fn flag_finding_changes(
    ledger: &Ledger,
    said: &FlagDecided,
) -> Result<Vec<FindingChanged>, ReconcileError> {
    let known = ledger.findings_store().of_order(&said.order)?;
    let known = known
        .into_iter()
        .filter(|known| known.flag == Some(said.flag) && known.evidence == said.evidence);
    if said.withdrawn {
        let withdrawal =
            Withdrawal { author: said.author.clone(), reason: said.reason.clone(), at: said.at };
        // A finding without a waiting decision has nothing to withdraw.
        return Ok(known
            .filter_map(|one| transition::withdraw_decision(&one, withdrawal.clone()).ok())
            .collect());
    }
    let decision = FindingDecision {
        accept: said.accept,
        author: said.author.clone(),
        reason: said.reason.clone(),
        at: said.at,
        evidence: said.evidence,
        seconded_by: said.seconded_by.clone(),
        second_reason: said.second_reason.clone(),
    };
    let effect = if said.decision_id.is_some() {
        DecisionEffect::DecidedAlone
    } else {
        DecisionEffect::AwaitsSecond
    };
    Ok(known
        .filter_map(|known| transition::apply_flag_decision(&known, decision.clone(), effect))
        .collect())
}

/// Publishes a decision or withdrawal on a flag, and the changes of the flag's findings.
pub(super) async fn publish_flag(
    shared: &SharedContext,
    ledger: &mut Ledger,
    said: FlagDecided,
) -> Result<(), ReconcileError> {
    append(&shared.storage, vec![event_of(&said)]).await?;
    let changes = flag_finding_changes(ledger, &said)?;
    ledger.add_flag_decision(said);
    publish_findings(shared, ledger, changes, shared.storage.clock.now()).await
}

/// Loads an open flag of an order: the one with the evidence that a person saw, else the most
/// severe, because a flag may hold on two sets of facts. Errors: there is no such order or flag;
/// the flag is decided.
pub(super) async fn open_flag(
    shared: &SharedContext,
    ledger: &Ledger,
    (order, flag): (&OrderKey, Flag),
    seen: Option<Digest>,
) -> Result<RaisedFlag, ReconcileError> {
    let refused = |problem: String| Err(ReconcileError::Refused(problem));
    let rows = shared.storage.load(std::slice::from_ref(order)).await?;
    let Some(row) = rows.into_iter().flatten().next() else {
        return refused(format!(
            "there is no order {order}; `payfold order find` finds the whole name of an order"
        ));
    };
    let mut raised: Vec<_> =
        row.summary.flags.iter().filter(|raised| raised.flag == flag).cloned().collect();
    raised.sort_by_key(|one| {
        let is_over = !one.is_open() || ledger.decided_flag((order, flag), one.evidence).is_some();
        (Some(one.evidence) != seen, is_over, Reverse(one.severity))
    });
    let Some(raised) = raised.into_iter().next() else {
        let flags: Vec<_> = row.summary.flags.iter().map(|raised| raised.flag.as_str()).collect();
        let has = if flags.is_empty() { "none".to_owned() } else { flags.join(", ") };
        return refused(format!("{order} has no flag {flag}; its flags: {has}"));
    };
    // The ledger may hold a final decision that the projector has not folded into the order yet.
    if let Some(said) = ledger.decided_flag((order, flag), raised.evidence) {
        let by = format_people(&said.author, said.seconded_by.as_ref());
        return refused(format!(
            "{flag} of {order} was decided by {by} at {}: {}. A decision is final on its \
             evidence; if the evidence changes, the flag opens again",
            said.at,
            said.accept.as_str()
        ));
    }
    if raised.is_open() {
        return Ok(raised);
    }
    refused(format!(
        "{flag} of {order} is decided already; `payfold order show --facts` shows by whom"
    ))
}

/// The decision event to publish. A second person's agreement completes the first decision's event.
fn decision_event(
    shared: &SharedContext,
    request: &FlagDecisionRequest,
    (raised, before): (&RaisedFlag, usize),
    waiting: Option<&FlagDecided>,
) -> Result<FlagDecided, ReconcileError> {
    let at = shared.storage.clock.now();
    let NewDecision { accept, author, reason, .. } = request.decision.clone();
    let first = FlagDecided {
        order: request.order.clone(),
        flag: request.flag,
        evidence: raised.evidence,
        accept,
        author,
        reason,
        at,
        seconded_by: None,
        second_reason: None,
        decision_id: None,
        decisions_before: u32::try_from(before).unwrap_or(u32::MAX),
        withdrawn: false,
    };
    let first_decision = waiting.map(|before| (&before.author, before.accept.as_str()));
    let effect =
        combine_decisions(first_decision, (&first.author, first.accept.as_str()), raised.severity)
            .map_err(|error| ReconcileError::Refused(error.to_string()))?;
    match (waiting, effect) {
        (_, DecisionEffect::AwaitsSecond | DecisionEffect::ReplacesFirst) => Ok(first),
        (None, _) | (_, DecisionEffect::DecidedAlone) => {
            Ok(FlagDecided { decision_id: Some(decision_id(&first)), ..first })
        }
        (Some(before), DecisionEffect::DecidedBySecond) => Ok(FlagDecided {
            at,
            seconded_by: Some(first.author),
            second_reason: Some(first.reason),
            decision_id: Some(decision_id(before)),
            ..before.clone()
        }),
    }
}

/// The id of a decision. It depends on the content only, so a repeated append adds no second fact.
fn decision_id(said: &FlagDecided) -> String {
    let said = format!(
        "{} {} {} {} {}",
        said.order,
        said.flag,
        said.evidence,
        said.accept.as_str(),
        said.author
    );
    let mut id = Digest::of_bytes(said.as_bytes()).to_string();
    id.truncate(32);
    id
}

fn event_of(said: &FlagDecided) -> Message {
    let (id, kind, time) = (said.event_id(), FLAG_DECIDED_TYPE, said.at);
    let attributes = EventAttributes { id, kind, time };
    message(said.order.to_message_key(), attributes, said)
}
