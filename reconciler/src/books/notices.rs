//! Owns the taking of people's words on quarantined notices: released, a notice becomes the fact it would have been; what
//! moves money takes two people. The fact is durable before its decision is told, and the same fact twice is one, so a crash
//! between the two, or the same word again, changes nothing. Whether a notice may be a fact at all was judged before.

use payfold_engines::log::{Message, Topic};
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::{Author, OrderKey};
use payfold_schemas::ipn::Ipn;
use payfold_schemas::order::Severity;
use payfold_schemas::record::{FactRecord, NoticeSource, Parts, Record};
use payfold_schemas::release::{
    Because, NOTICE_DECIDED_TYPE, NoticeDecided, NoticeVerdict, Quarantined,
};
use payfold_schemas::time::Time;

use super::BooksError;
use super::day::{append, event};
use super::decide::{Decided, ReplacedDecision};
use super::ledger::Ledger;
use super::settle::{Standing, agree, people};
use crate::run::Shared;

/// A word on a quarantined notice.
#[derive(Clone, Debug)]
pub struct OnNotice {
    /// The notice as it stands.
    pub notice: Quarantined,
    /// The order it names, as far as that can be read.
    pub order: Option<OrderKey>,
    /// What it would be in `intake`, for a release.
    pub fact: Option<NoticeFact>,
    /// Critical where it moves money, or may: then it takes two people.
    pub severity: Severity,
    /// Who says so.
    pub author: Author,
    /// Why.
    pub reason: String,
}

/// What a released notice is in `intake`.
#[derive(Clone, Debug)]
pub struct NoticeFact {
    /// Which rule no longer speaks against it.
    pub because: Because,
    /// The order.
    pub order: OrderKey,
    /// The notice, normalised.
    pub ipn: Ipn,
    /// Profile, key and request.
    pub source: NoticeSource,
}

impl OnNotice {
    fn verdict(&self) -> NoticeVerdict {
        if self.fact.is_some() { NoticeVerdict::Release } else { NoticeVerdict::Dismiss }
    }

    /// It as the first word.
    fn first(&self, at: Time) -> NoticeDecided {
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
            decided: false,
            decisions_before: 0,
            withdrawn: false,
        }
    }
}

/// Takes a word on a notice: what it came to. What is decided so already stays as it is.
pub(crate) async fn notice(
    shared: &Shared,
    ledger: &mut Ledger,
    word: OnNotice,
) -> Result<Decided, BooksError> {
    let said = match next(ledger, &word, shared.clock.now()).map_err(BooksError::Refused)? {
        Next::Known(known) => return Ok(told(&known, None)),
        Next::Said(said) => said,
    };
    let waiting = ledger.waiting_notice(said.position, said.evidence);
    let waiting = waiting.map(|before| (&before.author, before.verdict.as_str()));
    let replaces = ReplacedDecision::by(waiting, said.verdict.as_str());
    if let (true, Some(released), Some(fact)) = (said.decided, said.released(), word.fact) {
        let source = NoticeSource { released: Some(released), ..fact.source };
        let record = FactRecord {
            order: fact.order,
            fact: Fact::Ipn(fact.ipn),
            request_id: shared.clock.request_id(),
            received_at: said.at,
            source: Some(source),
        };
        let key = record.order.to_message_key();
        // What is sealed stays so: it is bound to the account and the delivery, not to the topic.
        let Quarantined { raw, raw_key_id, .. } = word.notice.clone();
        let value = Record { parts: Parts::Fact(record), raw_key_id, raw }.encode();
        let messages = vec![Message { key, event: None, value }];
        let ask = || shared.log.append_all(Topic::Intake, messages.clone());
        shared.ask("append a released notice to intake", ask).await?;
    }
    let decided = told(&said, replaces);
    publish_notice(shared, ledger, said).await?;
    Ok(decided)
}

/// Publishes what a person says of a notice.
pub(super) async fn publish_notice(
    shared: &Shared,
    ledger: &mut Ledger,
    said: NoticeDecided,
) -> Result<(), BooksError> {
    let named = (said.event_id(), NOTICE_DECIDED_TYPE, said.at);
    append(shared, vec![event(said.account.clone(), named, &said)]).await?;
    ledger.notice(said);
    Ok(())
}

fn told(said: &NoticeDecided, replaces: Option<ReplacedDecision>) -> Decided {
    Decided {
        what: said.position.to_string(),
        decided: said.decided,
        author: said.author.to_string(),
        seconded_by: said.seconded_by.as_ref().map(ToString::to_string),
        replaces,
    }
}

/// Why a notice that is decided stays as it is, and what to do.
pub(super) fn final_reason(known: &NoticeDecided) -> String {
    let (position, at) = (known.position, known.at);
    let by = people(&known.author, known.seconded_by.as_ref());
    match known.verdict {
        NoticeVerdict::Release => format!(
            "{position} was released by {by} at {at}: what is a fact stays one. If it was wrong, the order's flags tell, \
             and `payfold reconcile decide` settles them"
        ),
        NoticeVerdict::Dismiss => format!(
            "{position} was dismissed by {by} at {at}: a dismissal is final, and the notice stays in quarantine as \
             evidence. If it was wrong, ask the partner to send it again: what can be admitted then is taken as new"
        ),
    }
}

enum Next {
    /// It is decided so already.
    Known(NoticeDecided),
    /// This is to be told.
    Said(NoticeDecided),
}

/// What a word makes of what was said before. Pure. Errors: why it can't be taken, for people.
fn next(ledger: &Ledger, word: &OnNotice, at: Time) -> Result<Next, String> {
    let (position, evidence) = (word.notice.position, word.notice.evidence);
    let before = ledger.words_on_notice(position, evidence).count();
    let decisions_before = u32::try_from(before).unwrap_or(u32::MAX);
    let first = NoticeDecided { decisions_before, ..word.first(at) };
    match ledger.decided_notice(position, evidence) {
        Some(known) if known.verdict == first.verdict => return Ok(Next::Known(known.clone())),
        Some(known) => return Err(final_reason(known)),
        None => {}
    }
    let waiting = ledger.waiting_notice(position, evidence);
    if let Some(known) = waiting.filter(|known| known.author == word.author)
        && known.verdict == first.verdict
    {
        // Said again, as a repeated bulk does: it waits as before.
        return Ok(Next::Known(known.clone()));
    }
    let before = waiting.map(|before| (&before.author, before.verdict.as_str()));
    let standing = agree(before, (&word.author, first.verdict.as_str()), word.severity)
        .map_err(|error| error.to_string())?;
    Ok(Next::Said(match (waiting, standing) {
        (_, Standing::Waits | Standing::Replaces) => first,
        (None, _) | (_, Standing::Alone) => NoticeDecided { decided: true, ..first },
        (Some(before), Standing::Seconded) => NoticeDecided {
            at,
            // What is released is what was judged now.
            because: first.because,
            order: first.order,
            seconded_by: Some(word.author.clone()),
            decided: true,
            ..before.clone()
        },
    }))
}
