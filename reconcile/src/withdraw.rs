//! Owns the withdrawal of first decisions, which wait for a second person, on findings, flags and
//! quarantined notices. Only the author can withdraw a decision. Nothing is edited: the withdrawal
//! is an event of its own, and the decision stays in the history.

use payfold_schemas::decision::FlagDecided;
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{Author, OrderKey};
use payfold_schemas::order::Flag;
use payfold_schemas::position::Position;
use payfold_schemas::release::NoticeDecided;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::decide::{find_by_id_or_prefix, flag_of, open_flag, publish_finding, publish_flag};
use super::error::ReconcileError;
use super::ledger::Ledger;
use super::notices::{final_reason, publish_notice};
use super::transition::{self, DecideError, Withdrawal};
use crate::shared::SharedContext;

/// The subject of a decision.
#[derive(Clone, Debug)]
pub enum DecisionOn {
    /// A finding, by its id or the id's first digits.
    Finding(String),
    /// A flag of an order.
    Flag(OrderKey, Flag),
    /// A quarantined notice, by its position and the digest of its bytes.
    Notice(Position, Digest),
}

/// A request to withdraw a first decision.
#[derive(Clone, Debug)]
pub struct WithdrawalRequest {
    /// The subject of the decision.
    pub on: DecisionOn,
    /// Who withdraws it.
    pub author: Author,
    /// The person's reason.
    pub reason: String,
}

/// A decision that was taken back.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct WithdrawnDecision {
    /// The finding's id, the order and its flag, or the notice's position.
    pub what: String,
    /// Who withdrew it.
    pub author: String,
    /// What had been decided.
    pub said: String,
}

/// Withdraws a decision. Errors: none waits, or it is another person's.
pub(crate) async fn withdraw_decision(
    shared: &SharedContext,
    ledger: &mut Ledger,
    request: WithdrawalRequest,
) -> Result<WithdrawnDecision, ReconcileError> {
    let WithdrawalRequest { on, author, reason } = request;
    let withdrawal = Withdrawal { author, reason, at: shared.storage.clock.now() };
    match on {
        DecisionOn::Finding(id) => withdraw_from_finding(shared, ledger, &id, withdrawal).await,
        DecisionOn::Flag(order, flag) => {
            withdraw_from_flag(shared, ledger, (&order, flag), withdrawal).await
        }
        DecisionOn::Notice(position, evidence) => {
            withdraw_from_notice(shared, ledger, (position, evidence), withdrawal).await
        }
    }
}

async fn withdraw_from_finding(
    shared: &SharedContext,
    ledger: &mut Ledger,
    id: &str,
    withdrawal: Withdrawal,
) -> Result<WithdrawnDecision, ReconcileError> {
    let known = find_by_id_or_prefix(ledger, id)?;
    if let Some((order, flag)) = flag_of(&known)? {
        return withdraw_from_flag(shared, ledger, (&order, flag), withdrawal).await;
    }
    let (author, at) = (withdrawal.author.to_string(), withdrawal.at);
    let changed = transition::withdraw_decision(&known, withdrawal).map_err(refused)?;
    let said = known.decision.map_or("", |decision| decision.accept.as_str()).to_owned();
    let what = changed.finding_id.clone();
    publish_finding(shared, ledger, (changed, at)).await?;
    Ok(WithdrawnDecision { what, author, said })
}

async fn withdraw_from_flag(
    shared: &SharedContext,
    ledger: &mut Ledger,
    (order, flag): (&OrderKey, Flag),
    withdrawal: Withdrawal,
) -> Result<WithdrawnDecision, ReconcileError> {
    let own = ledger.flags_of(order).iter().rfind(|said| {
        let waiting = ledger.waiting_flag_decision((order, flag), said.evidence);
        waiting == Some(said) && said.author == withdrawal.author
    });
    let own = own.map(|said| said.evidence);
    let raised = open_flag(shared, ledger, (order, flag), own).await?;
    let waiting = ledger.waiting_flag_decision((order, flag), raised.evidence).cloned();
    let first = waiting_decision_of(waiting, |first| &first.author, &withdrawal)?;
    let (what, said) = (format!("{order} {flag}"), first.accept.as_str().to_owned());
    let Withdrawal { author, reason, at } = withdrawal;
    publish_flag(shared, ledger, FlagDecided { withdrawn: true, reason, at, ..first }).await?;
    Ok(WithdrawnDecision { what, author: author.to_string(), said })
}

async fn withdraw_from_notice(
    shared: &SharedContext,
    ledger: &mut Ledger,
    (position, evidence): (Position, Digest),
    withdrawal: Withdrawal,
) -> Result<WithdrawnDecision, ReconcileError> {
    if let Some(known) = ledger.decided_notice(position, evidence) {
        return Err(ReconcileError::Refused(final_reason(known)));
    }
    let waiting = ledger.waiting_notice(position, evidence).cloned();
    let first = waiting_decision_of(waiting, |first| &first.author, &withdrawal)?;
    let said = first.verdict.as_str().to_owned();
    let Withdrawal { author, reason, at } = withdrawal;
    publish_notice(shared, ledger, NoticeDecided { withdrawn: true, reason, at, ..first }).await?;
    Ok(WithdrawnDecision { what: position.to_string(), author: author.to_string(), said })
}

/// The waiting decision. Errors: none waits, or it is another person's.
fn waiting_decision_of<T>(
    waiting: Option<T>,
    author: impl FnOnce(&T) -> &Author,
    withdrawal: &Withdrawal,
) -> Result<T, ReconcileError> {
    let first = waiting.ok_or_else(|| refused(DecideError::NothingWaits))?;
    let by = author(&first).clone();
    if by == withdrawal.author { Ok(first) } else { Err(refused(DecideError::NotTheAuthor { by })) }
}

fn refused(error: DecideError) -> ReconcileError {
    ReconcileError::Refused(error.to_string())
}
