//! Owns the tasks of the reconciliation service: each is a request and the sender of its result.

use payfold_schemas::run::{PeriodClosed, RunEnded};

use super::close::CloseDayRequest;
use super::decide::{FindingDecisionRequest, FlagDecisionRequest};
use super::decided::Decided;
use super::error::Reply;
use super::notices::NoticeDecisionRequest;
use super::request::RunRequest;
use super::withdraw::{WithdrawalRequest, WithdrawnDecision};

pub(super) enum Task {
    Run(RunRequest, Reply<RunEnded>),
    DecideFinding(FindingDecisionRequest, Reply<Decided>),
    DecideFlag(FlagDecisionRequest, Reply<Decided>),
    DecideNotice(Box<NoticeDecisionRequest>, Reply<Decided>),
    Withdraw(WithdrawalRequest, Reply<WithdrawnDecision>),
    Close(CloseDayRequest, Reply<PeriodClosed>),
}
