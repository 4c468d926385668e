//! Owns the taking back of first decisions, which wait for a second person: on findings, flags and quarantined notices. Only
//! the author takes a decision back. Nothing is edited: the withdrawal is an event of its own, and the decision stays in the
//! history.

use payfold_schemas::decision::FlagDecided;
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{Author, OrderKey};
use payfold_schemas::order::Flag;
use payfold_schemas::record::Position;
use payfold_schemas::release::NoticeDecided;
use serde::Serialize;

use super::BooksError;
use super::decide::{flag_of, named, open_flag, publish_finding, publish_flag};
use super::ledger::Ledger;
use super::notices::{final_reason, publish_notice};
use super::settle::{self, DecideError, Withdrawal};
use crate::run::Shared;

/// What a decision is on.
#[derive(Clone, Debug)]
pub enum DecisionOn {
    /// A finding, by its id or the first digits of it.
    Finding(String),
    /// A flag of an order.
    Flag(OrderKey, Flag),
    /// A quarantined notice: where it stands, and the digest of its bytes.
    Notice(Position, Digest),
}

/// A person takes a first decision back.
#[derive(Clone, Debug)]
pub struct Withdraw {
    /// What it is on.
    pub on: DecisionOn,
    /// Who.
    pub author: Author,
    /// Why.
    pub reason: String,
}

/// A decision that was taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WithdrawnDecision {
    /// The finding's id, the order and its flag, or the notice's position.
    pub what: String,
    /// Who took it back.
    pub author: String,
    /// What had been decided.
    pub said: String,
}

/// Takes a decision back. Errors: none waits, or it is another person's.
pub(crate) async fn withdraw(
    shared: &Shared,
    ledger: &mut Ledger,
    asked: Withdraw,
) -> Result<WithdrawnDecision, BooksError> {
    let Withdraw { on, author, reason } = asked;
    let withdrawal = Withdrawal { author, reason, at: shared.clock.now() };
    match on {
        DecisionOn::Finding(id) => from_finding(shared, ledger, &id, withdrawal).await,
        DecisionOn::Flag(order, flag) => {
            from_flag(shared, ledger, (&order, flag), withdrawal).await
        }
        DecisionOn::Notice(position, evidence) => {
            from_notice(shared, ledger, (position, evidence), withdrawal).await
        }
    }
}

async fn from_finding(
    shared: &Shared,
    ledger: &mut Ledger,
    id: &str,
    withdrawal: Withdrawal,
) -> Result<WithdrawnDecision, BooksError> {
    let known = named(ledger, id)?;
    if let Some((order, flag)) = flag_of(&known)? {
        return from_flag(shared, ledger, (&order, flag), withdrawal).await;
    }
    let (author, at) = (withdrawal.author.to_string(), withdrawal.at);
    let changed = settle::withdrawn(&known, withdrawal).map_err(refused)?;
    let said = known.decision.map_or("", |decision| decision.accept.as_str()).to_owned();
    let what = changed.finding_id.clone();
    publish_finding(shared, ledger, (changed, at)).await?;
    Ok(WithdrawnDecision { what, author, said })
}

async fn from_flag(
    shared: &Shared,
    ledger: &mut Ledger,
    (order, flag): (&OrderKey, Flag),
    withdrawal: Withdrawal,
) -> Result<WithdrawnDecision, BooksError> {
    let raised = open_flag(shared, ledger, (order, flag)).await?;
    let waiting = ledger.waiting((order, flag), raised.evidence).cloned();
    let first = own(waiting, |first| &first.author, &withdrawal)?;
    let (what, said) = (format!("{order} {flag}"), first.accept.as_str().to_owned());
    let Withdrawal { author, reason, at } = withdrawal;
    publish_flag(shared, ledger, FlagDecided { withdrawn: true, reason, at, ..first }).await?;
    Ok(WithdrawnDecision { what, author: author.to_string(), said })
}

async fn from_notice(
    shared: &Shared,
    ledger: &mut Ledger,
    (position, evidence): (Position, Digest),
    withdrawal: Withdrawal,
) -> Result<WithdrawnDecision, BooksError> {
    if let Some(known) = ledger.decided_notice(position, evidence) {
        return Err(BooksError::Refused(final_reason(known)));
    }
    let waiting = ledger.waiting_notice(position, evidence).cloned();
    let first = own(waiting, |first| &first.author, &withdrawal)?;
    let said = first.verdict.as_str().to_owned();
    let Withdrawal { author, reason, at } = withdrawal;
    publish_notice(shared, ledger, NoticeDecided { withdrawn: true, reason, at, ..first }).await?;
    Ok(WithdrawnDecision { what: position.to_string(), author: author.to_string(), said })
}

/// The decision that waits, if it is the person's own.
fn own<T>(
    waiting: Option<T>,
    author: impl FnOnce(&T) -> &Author,
    withdrawal: &Withdrawal,
) -> Result<T, BooksError> {
    let first = waiting.ok_or_else(|| refused(DecideError::NothingWaits))?;
    let by = author(&first).clone();
    if by == withdrawal.author { Ok(first) } else { Err(refused(DecideError::NotTheAuthor { by })) }
}

fn refused(error: DecideError) -> BooksError {
    BooksError::Refused(error.to_string())
}
