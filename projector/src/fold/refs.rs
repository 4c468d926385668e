//! Owns the view of an order by ref, with the outcome of each ref's statements.

use payfold_schemas::ids::ProviderRef;
use payfold_schemas::ipn::Status;
use payfold_schemas::order::KnownFacts;
use payfold_schemas::time::Time;

use super::refunds::Refunds;
use super::statement::{RefView, Statement, refs_of};
use super::terms::Terms;

/// Whether a session has this ref.
pub(super) fn is_session_ref(facts: &KnownFacts, provider_ref: &ProviderRef) -> bool {
    facts.sessions.iter().any(|known| known.content.provider_ref == *provider_ref)
}

/// The outcome of the statements about one ref.
#[derive(Clone, Copy, Debug)]
pub(super) struct RefOutcome<'a> {
    pub(super) view: RefView<'a>,
    /// The largest amount of a counting S, minor units.
    pub(super) success: Option<i64>,
    /// The earliest time a counting S was paid.
    pub(super) paid_at: Option<Time>,
    /// Whether an F counts.
    pub(super) failed: bool,
    /// Whether an E counts.
    pub(super) expired: bool,
    /// The refunds of the ref.
    pub(super) refunds: Refunds,
}

impl<'a> RefOutcome<'a> {
    pub(super) fn of(view: RefView<'a>, terms: Terms<'a>) -> Self {
        let refunds = Refunds::of(&view, terms);
        let mut outcome =
            Self { view, success: None, paid_at: None, failed: false, expired: false, refunds };
        for (statement, _) in view.counting(terms) {
            match statement.status {
                Status::Success => {
                    outcome.success = outcome.success.max(Some(statement.amount.minor()));
                    let times = [outcome.paid_at, statement.paid_at()];
                    outcome.paid_at = times.into_iter().flatten().min();
                }
                Status::Failed => outcome.failed = true,
                Status::Expired => outcome.expired = true,
                Status::Refunded => {}
            }
        }
        outcome
    }

    /// Whether the ref is paid: an S counts, and the ref is not refunded in full.
    pub(super) fn is_paid(&self) -> bool {
        self.success.is_some() && !self.refunds.whole
    }
}

/// An order by ref.
#[derive(Debug)]
pub(super) struct View<'a> {
    pub(super) facts: &'a KnownFacts,
    pub(super) terms: Terms<'a>,
    pub(super) refs: Vec<RefOutcome<'a>>,
}

impl<'a> View<'a> {
    pub(super) fn of(facts: &'a KnownFacts) -> Self {
        let terms = Terms::new(&facts.creates);
        let refs = refs_of(facts).map(|view| RefOutcome::of(view, terms)).collect();
        Self { facts, terms, refs }
    }

    pub(super) fn views(&self) -> impl Iterator<Item = RefView<'a>> {
        self.refs.iter().map(|outcome| outcome.view)
    }

    /// The notices that no query answer has confirmed yet.
    pub(super) fn unconfirmed(&self) -> impl Iterator<Item = Statement<'a>> {
        self.views()
            .flat_map(|view| view.notices().filter(move |statement| !view.is_confirmed(statement)))
    }
}
