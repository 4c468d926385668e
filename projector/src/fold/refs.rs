//! Owns the view of an order by ref: what notices and query answers say of each, and what of it counts.
//!
//! A statement *counts* if it is confirmed and its amount and currency are a C's, or it is a refund below
//! one. A query answer is confirmed by itself; a notice is unless its policy says otherwise, then by an
//! answer of equal ref, status, amount and currency. With no C nothing counts.

use payfold_schemas::fact::QueryAnswer;
use payfold_schemas::ids::{EventRef, ProviderRef};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::order::{Known, KnownFacts, KnownIpn};
use payfold_schemas::time::Time;

use super::content::Content;
use super::refunds::Refunds;
use super::terms::{Standing, Terms};

/// Who says something of a ref.
#[derive(Clone, Copy, Debug)]
pub(super) enum Voice<'a> {
    Notice(&'a KnownIpn),
    Answer(&'a QueryAnswer),
}

/// One thing said of a ref: an IPN (S, F, E, R) or a query answer (P).
#[derive(Clone, Copy, Debug)]
pub(super) struct Statement<'a> {
    pub(super) voice: Voice<'a>,
    pub(super) status: Status,
    pub(super) amount: Amount,
    pub(super) currency: Currency,
}

impl<'a> Statement<'a> {
    fn of_notice(ipn: &'a KnownIpn) -> Self {
        let (status, money) = (ipn.status, &ipn.money);
        Self { voice: Voice::Notice(ipn), status, amount: money.amount, currency: money.currency }
    }

    fn of_answer(answer: &'a QueryAnswer) -> Self {
        let QueryAnswer { status, amount, currency, .. } = *answer;
        Self { voice: Voice::Answer(answer), status, amount, currency }
    }

    pub(super) fn content(&self) -> Content<'a> {
        match self.voice {
            Voice::Notice(ipn) => Content::of_known(ipn),
            Voice::Answer(answer) => Content::Answer(answer),
        }
    }

    /// The notice it is; none for an answer.
    pub(super) fn notice(&self) -> Option<&'a KnownIpn> {
        match self.voice {
            Voice::Notice(ipn) => Some(ipn),
            Voice::Answer(_) => None,
        }
    }

    pub(super) fn paid_at(&self) -> Option<Time> {
        self.notice().and_then(|ipn| ipn.money.paid_at)
    }

    pub(super) fn event_ref(&self) -> Option<&'a EventRef> {
        self.notice().and_then(|ipn| ipn.money.event_ref.as_ref())
    }

    pub(super) fn standing(&self, terms: Terms<'_>) -> Standing {
        terms.standing(self.status, self.amount, self.currency)
    }

    /// Whether both say the same status and money.
    pub(super) fn says_as(&self, other: &Statement<'_>) -> bool {
        self.status == other.status
            && self.amount == other.amount
            && self.currency == other.currency
    }
}

/// All that is said of one ref.
#[derive(Clone, Copy, Debug)]
pub(super) struct RefView<'a> {
    pub(super) provider_ref: &'a ProviderRef,
    ipns: &'a [Known<KnownIpn>],
    answers: &'a [Known<QueryAnswer>],
}

impl<'a> RefView<'a> {
    pub(super) fn notices(&self) -> impl Iterator<Item = Statement<'a>> + use<'a> {
        self.ipns.iter().map(|known| Statement::of_notice(&known.content))
    }

    pub(super) fn answers(&self) -> impl Iterator<Item = Statement<'a>> + use<'a> {
        self.answers.iter().map(|known| Statement::of_answer(&known.content))
    }

    pub(super) fn statements(&self) -> impl Iterator<Item = Statement<'a>> + use<'a> {
        self.notices().chain(self.answers())
    }

    /// Whether a statement may count as far as its channel goes.
    pub(super) fn is_confirmed(&self, statement: &Statement<'_>) -> bool {
        match statement.voice {
            Voice::Notice(ipn) => {
                !ipn.policy.unconfirmed || self.answers().any(|answer| answer.says_as(statement))
            }
            Voice::Answer(_) => true,
        }
    }

    /// What counts.
    pub(super) fn counting(
        &self,
        terms: Terms<'a>,
    ) -> impl Iterator<Item = (Statement<'a>, Standing)> + use<'a> {
        let view = *self;
        self.statements().filter_map(move |said| match said.standing(terms) {
            Standing::Foreign => None,
            standing @ (Standing::Whole | Standing::Part) => {
                view.is_confirmed(&said).then_some((said, standing))
            }
        })
    }

    /// Whether anything, counting or not, says this status.
    pub(super) fn says(&self, status: Status) -> bool {
        self.statements().any(|said| said.status == status)
    }
}

/// The refs of an order that something is said of, in their order.
pub(super) fn refs_of(facts: &KnownFacts) -> impl Iterator<Item = RefView<'_>> {
    let (mut ipns, mut answers) = (facts.ipns.as_slice(), facts.query_answers.as_slice());
    std::iter::from_fn(move || {
        let by_notice = ipns.first().map(|known| &known.content.provider_ref);
        let by_answer = answers.first().map(|known| &known.content.provider_ref);
        let provider_ref = match (by_notice, by_answer) {
            (Some(notice), Some(answer)) => notice.min(answer),
            (notice, answer) => notice.or(answer)?,
        };
        let of_notices =
            ipns.iter().take_while(|k| k.content.provider_ref == *provider_ref).count();
        let of_answers =
            answers.iter().take_while(|k| k.content.provider_ref == *provider_ref).count();
        let (these_ipns, other_ipns) = ipns.split_at(of_notices);
        let (these_answers, other_answers) = answers.split_at(of_answers);
        (ipns, answers) = (other_ipns, other_answers);
        Some(RefView { provider_ref, ipns: these_ipns, answers: these_answers })
    })
}

/// Whether a session has this ref.
pub(super) fn is_session_ref(facts: &KnownFacts, provider_ref: &ProviderRef) -> bool {
    facts.sessions.iter().any(|known| known.content.provider_ref == *provider_ref)
}

/// What one ref comes to.
#[derive(Clone, Copy, Debug)]
pub(super) struct RefOutcome<'a> {
    pub(super) view: RefView<'a>,
    /// The largest amount of a counting S, minor units.
    pub(super) success: Option<i64>,
    /// The earliest time a counting S was paid.
    pub(super) paid_at: Option<Time>,
    /// A counting F.
    pub(super) failed: bool,
    /// A counting E.
    pub(super) expired: bool,
    /// What went back.
    pub(super) refunds: Refunds,
}

impl<'a> RefOutcome<'a> {
    pub(super) fn of(view: RefView<'a>, terms: Terms<'a>) -> Self {
        let refunds = Refunds::of(&view, terms);
        let mut outcome =
            Self { view, success: None, paid_at: None, failed: false, expired: false, refunds };
        for (said, _) in view.counting(terms) {
            match said.status {
                Status::Success => {
                    outcome.success = outcome.success.max(Some(said.amount.minor()));
                    let times = [outcome.paid_at, said.paid_at()];
                    outcome.paid_at = times.into_iter().flatten().min();
                }
                Status::Failed => outcome.failed = true,
                Status::Expired => outcome.expired = true,
                Status::Refunded => {}
            }
        }
        outcome
    }

    /// S without R (a partial refund leaves a ref paid).
    pub(super) fn is_paid(&self) -> bool {
        self.success.is_some() && !self.refunds.whole
    }
}

/// An order, looked at by ref.
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

    /// Notices that still wait for the answer that confirms them.
    pub(super) fn unconfirmed(&self) -> impl Iterator<Item = Statement<'a>> {
        self.views().flat_map(|view| view.notices().filter(move |said| !view.is_confirmed(said)))
    }
}
