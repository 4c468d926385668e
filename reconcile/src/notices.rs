//! Owns people's decisions on quarantined notices. A release turns the notice into the fact that an
//! admission would have made. A notice that moves money takes two people. The fact is durable
//! before its decision is published, and a fact that is appended twice counts once. So neither a
//! crash between the two steps nor a repeated decision changes anything. The caller has checked
//! that the notice may become a fact.

use payfold_engines::log::{Message, Topic};
use payfold_schemas::event::EventAttributes;
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::{Author, OrderKey};
use payfold_schemas::ipn::Ipn;
use payfold_schemas::notice_source::NoticeSource;
use payfold_schemas::order::Severity;
use payfold_schemas::record::{FactRecord, Parts, Record};
use payfold_schemas::release::{NOTICE_DECIDED_TYPE, NoticeDecided, NoticeVerdict, Quarantined};
use payfold_schemas::released::Because;
use payfold_schemas::time::Time;

use super::decided::{Decided, ReplacedDecision};
use super::error::ReconcileError;
use super::ledger::Ledger;
use super::publish::{append, message};
use super::transition::{DecisionEffect, combine_decisions, format_people};
use crate::shared::SharedContext;

/// A request to release or dismiss a quarantined notice.
#[derive(Clone, Debug)]
pub struct NoticeDecisionRequest {
    /// The quarantined notice.
    pub notice: Quarantined,
    /// The order that the notice names, if that could be parsed.
    pub order: Option<OrderKey>,
    /// The fact that a release appends to `intake`; `None` dismisses the notice.
    pub fact: Option<NoticeFact>,
    /// Critical if the notice moves money, or may: then the decision takes two people.
    pub severity: Severity,
    /// Who decides.
    pub author: Author,
    /// The person's reason.
    pub reason: String,
}

/// The fact that a released notice becomes in `intake`.
#[derive(Clone, Debug)]
pub struct NoticeFact {
    /// The rule that refused the notice and no longer does.
    pub because: Because,
    /// The order.
    pub order: OrderKey,
    /// The notice, normalized.
    pub ipn: Ipn,
    /// The profile, key and request it came with.
    pub source: NoticeSource,
}

impl NoticeDecisionRequest {
    fn verdict(&self) -> NoticeVerdict {
        if self.fact.is_some() { NoticeVerdict::Release } else { NoticeVerdict::Dismiss }
    }

    /// The decision event of a first decision.
    fn first_decision(&self, at: Time) -> NoticeDecided {
        let record = &self.notice.record;
        NoticeDecided {
            position: self.notice.position,
            account: record.account.clone(),
            code: record.code.clone(),
            request_id: record.request_id,
            received_at: record.received_at,
            order: self.order.clone(),
            evidence: self.notice.evidence,
            verdict: self.verdict(),
            because: self.fact.as_ref().map(|fact| fact.because),
            author: self.author.clone(),
            reason: self.reason.clone(),
            at,
            seconded_by: None,
            second_reason: None,
            decided: false,
            decisions_before: 0,
            withdrawn: false,
        }
    }
}

/// Takes a decision on a notice. A decision that is taken already changes nothing.
pub(crate) async fn decide_notice(
    shared: &SharedContext,
    ledger: &mut Ledger,
    request: NoticeDecisionRequest,
) -> Result<Decided, ReconcileError> {
    let said = match next_decision(ledger, &request, shared.storage.clock.now())? {
        NextDecision::Unchanged(known) => return Ok(decided(&known, None)),
        NextDecision::Publish(said) => said,
    };
    let people = (&said.author, said.seconded_by.as_ref());
    shared.people.check(ledger, request.severity, people, said.at)?;
    let waiting = ledger.waiting_notice(said.position, said.evidence);
    let waiting = waiting.map(|before| (&before.author, before.verdict.as_str()));
    let replaces = ReplacedDecision::replaced_by(waiting, said.verdict.as_str());
    if let (true, Some(released), Some(fact)) = (said.decided, said.released(), request.fact) {
        let source = NoticeSource { released: Some(released), ..fact.source };
        let record = FactRecord {
            order: fact.order,
            fact: Fact::Ipn(fact.ipn),
            request_id: shared.storage.clock.request_id(),
            received_at: said.at,
            source: Some(source),
        };
        let key = record.order.to_message_key();
        // A sealed body stays sealed: its seal is bound to the account and the delivery, not to the
        // topic.
        let Quarantined { raw, raw_key_id, .. } = request.notice.clone();
        let value = Record { parts: Parts::Fact(record), raw_key_id, raw }.encode();
        let messages = vec![Message { key, event: None, value, mac: None }];
        let ask = || shared.storage.log.append_all(Topic::Intake, messages.clone());
        shared.storage.ask("append a released notice to intake", ask).await?;
    }
    let result = decided(&said, replaces);
    publish_notice(shared, ledger, said).await?;
    Ok(result)
}

/// Publishes a decision or withdrawal on a notice.
pub(super) async fn publish_notice(
    shared: &SharedContext,
    ledger: &mut Ledger,
    said: NoticeDecided,
) -> Result<(), ReconcileError> {
    let (id, kind, time) = (said.event_id(), NOTICE_DECIDED_TYPE, said.at);
    let attributes = EventAttributes { id, kind, time };
    append(&shared.storage, vec![message(said.account.clone(), attributes, &said)]).await?;
    ledger.add_notice_decision(said);
    Ok(())
}

fn decided(said: &NoticeDecided, replaces: Option<ReplacedDecision>) -> Decided {
    Decided {
        what: said.position.to_string(),
        decided: said.decided,
        author: said.author.to_string(),
        seconded_by: said.seconded_by.as_ref().map(ToString::to_string),
        replaces,
    }
}

/// Why a final decision on a notice can't be changed, and what to do instead.
pub(super) fn final_reason(known: &NoticeDecided) -> String {
    let (position, at) = (known.position, known.at);
    let by = format_people(&known.author, known.seconded_by.as_ref());
    match known.verdict {
        NoticeVerdict::Release => format!(
            "{position} was released by {by} at {at}: a release is final, because the notice is a \
             fact now. If it was wrong, the order gets flags: decide them with `payfold reconcile \
             decide`"
        ),
        NoticeVerdict::Dismiss => format!(
            "{position} was dismissed by {by} at {at}: a dismissal is final, and the notice stays \
             in quarantine as evidence. If it was wrong, ask the partner to send it again: a \
             notice that can be admitted then is taken as a new one"
        ),
    }
}

/// What a decision on a notice leads to.
enum NextDecision {
    /// The same decision was taken already, or waits already.
    Unchanged(NoticeDecided),
    /// This event has to be published.
    Publish(NoticeDecided),
}

/// Combines a decision with the decisions before it. Pure. Errors: why it can't be taken, for
/// people.
fn next_decision(
    ledger: &Ledger,
    request: &NoticeDecisionRequest,
    at: Time,
) -> Result<NextDecision, ReconcileError> {
    let (position, evidence) = (request.notice.position, request.notice.evidence);
    let before = ledger.decisions_on_notice(position, evidence).count();
    let decisions_before = u32::try_from(before).unwrap_or(u32::MAX);
    let first = NoticeDecided { decisions_before, ..request.first_decision(at) };
    match ledger.decided_notice(position, evidence) {
        Some(known) if known.verdict == first.verdict => {
            return Ok(NextDecision::Unchanged(known.clone()));
        }
        Some(known) => return Err(ReconcileError::Refused(final_reason(known))),
        None => {}
    }
    let waiting = ledger.waiting_notice(position, evidence);
    if let Some(known) = waiting.filter(|known| known.author == request.author)
        && known.verdict == first.verdict
    {
        // The same person decides the same again, as a repeated bulk command does: the decision
        // waits as before.
        return Ok(NextDecision::Unchanged(known.clone()));
    }
    let before = waiting.map(|before| (&before.author, before.verdict.as_str()));
    let effect =
        combine_decisions(before, (&request.author, first.verdict.as_str()), request.severity)
            .map_err(|error| ReconcileError::Refused(error.to_string()))?;
    Ok(NextDecision::Publish(match (waiting, effect) {
        (_, DecisionEffect::AwaitsSecond | DecisionEffect::ReplacesFirst) => first,
        (None, _) | (_, DecisionEffect::DecidedAlone) => NoticeDecided { decided: true, ..first },
        (Some(before), DecisionEffect::DecidedBySecond) => NoticeDecided {
            at,
            // The release takes the notice as it was judged now.
            because: first.because,
            order: first.order,
            seconded_by: Some(request.author.clone()),
            second_reason: Some(request.reason.clone()),
            decided: true,
            ..before.clone()
        },
    }))
}
