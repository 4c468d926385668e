//! Owns the taking of people's words: on findings, and on flags of orders. What is critical takes two people. Nothing is
//! changed but by an event or a fact that says who said what on which evidence.

use payfold_engines::log::Message;
use payfold_schemas::decision::{FLAG_DECIDED_TYPE, FlagDecided};
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::{Decision, Fact};
use payfold_schemas::finding::{FindingChanged, FindingDecision, FindingStatus};
use payfold_schemas::ids::{Author, OrderKey};
use payfold_schemas::order::{Flag, RaisedFlag};
use payfold_schemas::time::Time;
use serde::Serialize;

use super::BooksError;
use super::day::{append, event, tell};
use super::desk::{OnFinding, OnFlag};
use super::ledger::Ledger;
use super::settle::{self, DecideError, Standing, Withdrawal, agree, people};
use crate::run::Shared;

/// What a word came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decided {
    /// The finding's id, or the order and its flag.
    pub what: String,
    /// Whether it is decided; otherwise it waits for a second person.
    pub decided: bool,
    /// Whose word is the first.
    pub author: String,
    /// Who said the same, where it takes two.
    pub seconded_by: Option<String>,
    /// The first decision that it takes the place of, as it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaces: Option<ReplacedDecision>,
}

/// A first decision that another one took the place of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplacedDecision {
    /// Whose it was.
    pub author: String,
    /// What it was.
    pub said: String,
}

impl ReplacedDecision {
    /// The decision that waits, if what is said now is another one and does not second it.
    pub(super) fn by(waiting: Option<(&Author, &'static str)>, said: &'static str) -> Option<Self> {
        let (author, before) = waiting.filter(|(_, before)| *before != said)?;
        Some(Self { author: author.to_string(), said: before.to_owned() })
    }
}

/// Takes a word on a finding.
pub(crate) async fn finding(
    shared: &Shared,
    ledger: &mut Ledger,
    word: OnFinding,
) -> Result<Decided, BooksError> {
    let known = named(ledger, &word.finding)?;
    if let Some(word) = on_flag(&known, &word)? {
        return flag(shared, ledger, word).await;
    }
    let at = shared.clock.now();
    let decision = FindingDecision {
        accept: word.accept,
        author: word.author,
        reason: word.reason,
        at,
        evidence: known.evidence,
        seconded_by: None,
    };
    let waiting = known.decision.as_ref().filter(|first| first.evidence == known.evidence);
    let waiting = waiting.map(|first| (&first.author, first.accept.as_str()));
    let replaces = ReplacedDecision::by(waiting, decision.accept.as_str());
    let changed = settle::decided(&known, decision)
        .map_err(|error| BooksError::Refused(error.to_string()))?;
    let decision = changed.decision.clone();
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

/// What a word on a flag's finding says of the flag: deciding one decides the other. Errors: as `flag_of`.
fn on_flag(known: &FindingChanged, word: &OnFinding) -> Result<Option<OnFlag>, BooksError> {
    let OnFinding { accept, author, reason, .. } = word.clone();
    Ok(flag_of(known)?.map(|(order, flag)| OnFlag { order, flag, accept, author, reason }))
}

/// The flag that a finding is about. Errors: the finding has cleared.
pub(super) fn flag_of(known: &FindingChanged) -> Result<Option<(OrderKey, Flag)>, BooksError> {
    let named = known.merchant_code.clone().zip(known.order_id.clone()).zip(known.flag);
    let Some(((merchant_code, order_id), flag)) = named else { return Ok(None) };
    if known.status == FindingStatus::Cleared {
        return Err(BooksError::Refused(DecideError::Cleared.to_string()));
    }
    Ok(Some((OrderKey { partner: known.partner.clone(), merchant_code, order_id }, flag)))
}

/// Publishes a person's change of a finding. Errors: it changed meanwhile.
pub(super) async fn publish_finding(
    shared: &Shared,
    ledger: &mut Ledger,
    (changed, at): (FindingChanged, Time),
) -> Result<(), BooksError> {
    let said = changed.clone();
    tell(shared, ledger, vec![changed], at).await?;
    if ledger.find(&said.finding_id)?.as_ref() == Some(&said) {
        return Ok(());
    }
    let problem = format!("finding {} has changed meanwhile: look at it again", said.finding_id);
    Err(BooksError::Refused(problem))
}

/// The finding of this id, or the only one that begins so.
pub(super) fn named(ledger: &Ledger, id: &str) -> Result<FindingChanged, BooksError> {
    if let Some(known) = ledger.find(id)? {
        return Ok(known);
    }
    let mut named = ledger.shelf().beginning(id)?.into_iter();
    match (named.next(), named.next()) {
        (Some(known), None) if id.len() >= 6 => Ok(known),
        (None, _) => Err(BooksError::Refused(format!(
            "there is no finding {id}; `payfold reconcile findings` lists them"
        ))),
        (Some(_), _) => Err(BooksError::Refused(format!(
            "{id} names more than one finding, or has less than 6 digits: give more of its id"
        ))),
    }
}

/// Takes a word on a flag: the fact D, once it takes no other person.
pub(crate) async fn flag(
    shared: &Shared,
    ledger: &mut Ledger,
    word: OnFlag,
) -> Result<Decided, BooksError> {
    let of = (&word.order, word.flag);
    let raised = open_flag(shared, ledger, of).await?;
    let waiting = ledger.waiting(of, raised.evidence).cloned();
    let before = ledger.decisions_on_flag(of, raised.evidence).count();
    let said = said(shared, &word, (&raised, before), waiting.as_ref())?;
    let waiting = waiting.as_ref().map(|before| (&before.author, before.accept.as_str()));
    let decided = Decided {
        what: format!("{} {}", word.order, word.flag),
        decided: said.decision_id.is_some(),
        author: said.author.to_string(),
        seconded_by: said.seconded_by.as_ref().map(ToString::to_string),
        replaces: ReplacedDecision::by(waiting, word.accept.as_str()),
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
        shared.append(vec![(word.order.clone(), Fact::Decided(decision))]).await?;
    }
    publish_flag(shared, ledger, said).await?;
    Ok(decided)
}

/// What a word on a flag changes of the flag's findings.
fn findings(ledger: &Ledger, said: &FlagDecided) -> Result<Vec<FindingChanged>, BooksError> {
    let known = ledger.shelf().of_order(&said.order)?;
    let known = known
        .into_iter()
        .filter(|known| known.flag == Some(said.flag) && known.evidence == said.evidence);
    if said.withdrawn {
        let withdrawal =
            Withdrawal { author: said.author.clone(), reason: said.reason.clone(), at: said.at };
        // A finding that holds no such decision has nothing to take back.
        return Ok(known
            .filter_map(|one| settle::withdrawn(&one, withdrawal.clone()).ok())
            .collect());
    }
    let decision = FindingDecision {
        accept: said.accept,
        author: said.author.clone(),
        reason: said.reason.clone(),
        at: said.at,
        evidence: said.evidence,
        seconded_by: said.seconded_by.clone(),
    };
    let word = if said.decision_id.is_some() { Standing::Alone } else { Standing::Waits };
    Ok(known.filter_map(|known| settle::flag_decided(&known, decision.clone(), word)).collect())
}

/// Publishes what a person says of a flag, and what that changes of the flag's findings.
pub(super) async fn publish_flag(
    shared: &Shared,
    ledger: &mut Ledger,
    said: FlagDecided,
) -> Result<(), BooksError> {
    append(shared, vec![event_of(&said)]).await?;
    let changes = findings(ledger, &said)?;
    ledger.flag(said);
    tell(shared, ledger, changes, shared.clock.now()).await
}

/// A flag of an order that nobody has decided. Errors: there is none; who decided it and when.
pub(super) async fn open_flag(
    shared: &Shared,
    ledger: &Ledger,
    (order, flag): (&OrderKey, Flag),
) -> Result<RaisedFlag, BooksError> {
    let refused = |problem: String| Err(BooksError::Refused(problem));
    let rows = shared.load(std::slice::from_ref(order)).await?;
    let Some(row) = rows.into_iter().flatten().next() else {
        return refused(format!("there is no order {order}"));
    };
    let mut raised: Vec<_> =
        row.summary.flags.iter().filter(|raised| raised.flag == flag).cloned().collect();
    raised.sort_by_key(|raised| !raised.is_open());
    let Some(raised) = raised.into_iter().next() else {
        let flags: Vec<_> = row.summary.flags.iter().map(|raised| raised.flag.as_str()).collect();
        let has = if flags.is_empty() { "none".to_owned() } else { flags.join(", ") };
        return refused(format!("{order} has no flag {flag}; its flags: {has}"));
    };
    // A decision may be known here before it is folded.
    if let Some(said) = ledger.decided_flag((order, flag), raised.evidence) {
        let by = people(&said.author, said.seconded_by.as_ref());
        return refused(format!(
            "{flag} of {order} was decided by {by} at {}: {}. A decision is final on its evidence; if the evidence \
             changes, the flag is open again",
            said.at,
            said.accept.as_str()
        ));
    }
    if raised.is_open() {
        return Ok(raised);
    }
    refused(format!(
        "{flag} of {order} is decided already; `payfold order show --facts` tells by whom"
    ))
}

/// What is said now, the first word included if there was one.
fn said(
    shared: &Shared,
    word: &OnFlag,
    (raised, before): (&RaisedFlag, usize),
    waiting: Option<&FlagDecided>,
) -> Result<FlagDecided, BooksError> {
    let at = shared.clock.now();
    let first = FlagDecided {
        order: word.order.clone(),
        flag: word.flag,
        evidence: raised.evidence,
        accept: word.accept,
        author: word.author.clone(),
        reason: word.reason.clone(),
        at,
        seconded_by: None,
        decision_id: None,
        decisions_before: u32::try_from(before).unwrap_or(u32::MAX),
        withdrawn: false,
    };
    let before_it = waiting.map(|before| (&before.author, before.accept.as_str()));
    let standing = agree(before_it, (&word.author, word.accept.as_str()), raised.severity)
        .map_err(|error| BooksError::Refused(error.to_string()))?;
    match (waiting, standing) {
        (_, Standing::Waits | Standing::Replaces) => Ok(first),
        (None, _) | (_, Standing::Alone) => {
            Ok(FlagDecided { decision_id: Some(decision_id(&first)), ..first })
        }
        (Some(before), Standing::Seconded) => Ok(FlagDecided {
            at,
            seconded_by: Some(word.author.clone()),
            decision_id: Some(decision_id(before)),
            ..before.clone()
        }),
    }
}

/// One id for one decision: told twice, it is one fact.
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
    let named = (said.event_id(), FLAG_DECIDED_TYPE, said.at);
    event(said.order.to_message_key(), named, said)
}
