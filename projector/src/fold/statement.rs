//! Owns the statements about each ref of an order: every notice and query answer is one. It decides
//! which of them count.
//!
//! A statement *counts* if it is confirmed and its amount and currency are a C's, or it is a refund
//! below one. A query answer is always confirmed. A notice is confirmed unless its policy marks it
//! unconfirmed; then an answer of equal ref, status, amount and currency confirms it. With no C
//! nothing counts.

use payfold_schemas::fact::QueryAnswer;
use payfold_schemas::ids::{EventRef, ProviderRef};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::order::{Known, KnownFacts, KnownIpn};
use payfold_schemas::time::Time;

use super::content::FactContent;
use super::terms::{Terms, TermsMatch};

/// The source of a statement.
#[derive(Clone, Copy, Debug)]
pub(super) enum Source<'a> {
    Notice(&'a KnownIpn),
    Answer(&'a QueryAnswer),
}

/// A statement about a ref: an IPN (S, F, E, R) or a query answer (P).
#[derive(Clone, Copy, Debug)]
pub(super) struct Statement<'a> {
    pub(super) source: Source<'a>,
    pub(super) status: Status,
    pub(super) amount: Amount,
    pub(super) currency: Currency,
}

impl<'a> Statement<'a> {
    fn of_notice(ipn: &'a KnownIpn) -> Self {
        let (status, money) = (ipn.status, &ipn.money);
        Self { source: Source::Notice(ipn), status, amount: money.amount, currency: money.currency }
    }

    fn of_answer(answer: &'a QueryAnswer) -> Self {
        let QueryAnswer { status, amount, currency, .. } = *answer;
        Self { source: Source::Answer(answer), status, amount, currency }
    }

    pub(super) fn content(&self) -> FactContent<'a> {
        match self.source {
            Source::Notice(ipn) => FactContent::of_kept_ipn(ipn),
            Source::Answer(answer) => FactContent::Answer(answer),
        }
    }

    /// The notice behind the statement; `None` for a query answer.
    pub(super) fn notice(&self) -> Option<&'a KnownIpn> {
        match self.source {
            Source::Notice(ipn) => Some(ipn),
            Source::Answer(_) => None,
        }
    }

    pub(super) fn paid_at(&self) -> Option<Time> {
        self.notice().and_then(|ipn| ipn.money.paid_at)
    }

    pub(super) fn event_ref(&self) -> Option<&'a EventRef> {
        self.notice().and_then(|ipn| ipn.money.event_ref.as_ref())
    }

    pub(super) fn terms_match(&self, terms: Terms<'_>) -> TermsMatch {
        terms.match_amount(self.status, self.amount, self.currency)
    }

    /// Whether both statements have the same status and money.
    pub(super) fn equals(&self, other: &Statement<'_>) -> bool {
        self.status == other.status
            && self.amount == other.amount
            && self.currency == other.currency
    }
}

/// All statements about one ref.
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

    /// Whether a statement is confirmed, by its channel or by a query answer.
    pub(super) fn is_confirmed(&self, statement: &Statement<'_>) -> bool {
        match statement.source {
            Source::Notice(ipn) => {
                !ipn.policy.unconfirmed || self.answers().any(|answer| answer.equals(statement))
            }
            Source::Answer(_) => true,
        }
    }

    /// The statements that count.
    pub(super) fn counting(
        &self,
        terms: Terms<'a>,
    ) -> impl Iterator<Item = (Statement<'a>, TermsMatch)> + use<'a> {
        let view = *self;
        self.statements().filter_map(move |statement| match statement.terms_match(terms) {
            TermsMatch::Foreign => None,
            terms_match @ (TermsMatch::Full | TermsMatch::Part) => {
                view.is_confirmed(&statement).then_some((statement, terms_match))
            }
        })
    }

    /// The confirmed notices, counting or not.
    pub(super) fn confirmed_notices(&self) -> impl Iterator<Item = Statement<'a>> + use<'a> {
        let view = *self;
        self.notices().filter(move |notice| view.is_confirmed(notice))
    }

    /// Whether any confirmed statement, counting or not, has this status.
    pub(super) fn has_status(&self, status: Status) -> bool {
        self.confirmed_notices().chain(self.answers()).any(|one| one.status == status)
    }
}

/// The refs with at least one statement, sorted.
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
