//! Owns the taking of people's words: on findings, and on flags of orders. What is critical takes two people. Nothing is
//! changed but by an event or a fact that says who said what on which evidence.

use payfold_engines::log::Message;
use payfold_schemas::decision::{FLAG_DECIDED_TYPE, FlagDecided};
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::{Decision, Fact};
use payfold_schemas::finding::{FindingChanged, FindingDecision, FindingStatus};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::{Order, RaisedFlag};
use serde::Serialize;

use super::BooksError;
use super::day::{append, event, tell};
use super::desk::{OnFinding, OnFlag};
use super::ledger::Ledger;
use super::settle::{self, DecideError, Standing, agree};
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
    let changed = settle::decided(&known, decision)
        .map_err(|error| BooksError::Refused(error.to_string()))?;
    let (decision, said) = (changed.decision.clone(), changed.clone());
    let decided = Decided {
        what: changed.finding_id.clone(),
        decided: changed.status == FindingStatus::Decided,
        author: decision.as_ref().map_or_else(String::new, |d| d.author.to_string()),
        seconded_by: decision.and_then(|d| d.seconded_by).map(|author| author.to_string()),
    };
    tell(shared, ledger, vec![changed], at).await?;
    if ledger.find(&said.finding_id)?.as_ref() != Some(&said) {
        return Err(BooksError::Refused(format!(
            "finding {} has changed meanwhile: look at it again",
            said.finding_id
        )));
    }
    Ok(decided)
}

/// A word on a flag's finding is a word on the flag: deciding one decides the other.
/// Errors: the finding has cleared.
fn on_flag(known: &FindingChanged, word: &OnFinding) -> Result<Option<OnFlag>, BooksError> {
    let named = known.merchant_code.clone().zip(known.order_id.clone()).zip(known.flag);
    let Some(((merchant_code, order_id), flag)) = named else { return Ok(None) };
    if known.status == FindingStatus::Cleared {
        return Err(BooksError::Refused(DecideError::Cleared.to_string()));
    }
    let OnFinding { accept, author, reason, .. } = word.clone();
    let order = OrderKey { partner: known.partner.clone(), merchant_code, order_id };
    Ok(Some(OnFlag { order, flag, accept, author, reason }))
}

/// The finding of this id, or the only one that begins so.
fn named(ledger: &Ledger, id: &str) -> Result<FindingChanged, BooksError> {
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
    let rows = shared.load(std::slice::from_ref(&word.order)).await?;
    let Some(order) = rows.into_iter().flatten().next() else {
        return Err(BooksError::Refused(format!("there is no order {}", word.order)));
    };
    let raised = open_flag(&order, &word)?.clone();
    let waiting = ledger.waiting(&word.order, word.flag, raised.evidence).cloned();
    let said = said(shared, &word, &raised, waiting.as_ref())?;
    let decided = Decided {
        what: format!("{} {}", word.order, word.flag),
        decided: said.decision_id.is_some(),
        author: said.author.to_string(),
        seconded_by: said.seconded_by.as_ref().map(ToString::to_string),
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
    append(shared, vec![event_of(&said)]).await?;
    let changes = findings(ledger, &said)?;
    ledger.flag(said);
    tell(shared, ledger, changes, shared.clock.now()).await?;
    Ok(decided)
}

/// What a word on a flag changes of the flag's findings.
fn findings(ledger: &Ledger, said: &FlagDecided) -> Result<Vec<FindingChanged>, BooksError> {
    let decision = FindingDecision {
        accept: said.accept,
        author: said.author.clone(),
        reason: said.reason.clone(),
        at: said.at,
        evidence: said.evidence,
        seconded_by: said.seconded_by.clone(),
    };
    let word = if said.decision_id.is_some() { Standing::Alone } else { Standing::Waits };
    let of_flag =
        |known: &FindingChanged| known.flag == Some(said.flag) && known.evidence == said.evidence;
    let known = ledger.shelf().of_order(&said.order)?;
    let known = known.into_iter().filter(of_flag);
    Ok(known.filter_map(|known| settle::flag_decided(&known, decision.clone(), word)).collect())
}

fn open_flag<'a>(order: &'a Order, word: &OnFlag) -> Result<&'a RaisedFlag, BooksError> {
    let mut raised =
        order.summary.flags.iter().filter(|raised| raised.flag == word.flag).peekable();
    if raised.peek().is_none() {
        let flags: Vec<_> = order.summary.flags.iter().map(|raised| raised.flag.as_str()).collect();
        let has = if flags.is_empty() { "none".to_owned() } else { flags.join(", ") };
        return Err(BooksError::Refused(format!(
            "{} has no flag {}; its flags: {has}",
            word.order, word.flag
        )));
    }
    raised.find(|raised| raised.is_open()).ok_or_else(|| {
        BooksError::Refused(format!(
            "{} of {} is decided already; `payfold order show --facts` tells by whom",
            word.flag, word.order
        ))
    })
}

/// What is said now, the first word included if there was one.
fn said(
    shared: &Shared,
    word: &OnFlag,
    raised: &RaisedFlag,
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
    };
    let before_it = waiting.map(|before| (&before.author, before.accept.as_str()));
    let standing = agree(before_it, (&word.author, word.accept.as_str()), raised.severity)
        .map_err(|error| BooksError::Refused(error.to_string()))?;
    match (waiting, standing) {
        (_, Standing::Waits) => Ok(first),
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
