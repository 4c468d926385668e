//! Owns the oracle's flags: for each, the comprehension of the facts that raise it, and the
//! overflow.

use std::collections::{BTreeMap, BTreeSet};

use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{EventRef, ProviderRef};
use payfold_schemas::ipn::Status;
use payfold_schemas::order::{Flag, Severity};
use payfold_schemas::time::Time;

use super::{By, Oracle, Saying};

const NEGATIVE: [Status; 2] = [Status::Failed, Status::Expired];
/// The caps: of C, O, CF and X each; of contents of one (ref, status) of IPNs and of answers each;
/// of refs that somebody says something of; of K; of D.
const OWN_MAX: usize = 8;
const CONTENTS_MAX: usize = 8;
const REFS_MAX: usize = 32;
const SHARED_MAX: usize = 32;
const DECISIONS_MAX: usize = 64;

impl Oracle {
    /// Every flag that holds, with the digest of the facts that raise it.
    pub fn raised(&self) -> BTreeMap<(Flag, Severity), Digest> {
        use Severity::{Critical, High, Info, Warn};
        let creates = self.creates.iter().map(|fact| Digest::of_content("C", fact));
        let sessions = self.sessions.iter().map(|fact| Digest::of_content("O", fact));
        let all = [
            (Flag::AmountMismatch, Critical, self.with_other_amount()),
            (Flag::CurrencyMismatch, Critical, self.with_other_currency()),
            (Flag::ContentVariant, Critical, self.variants(Critical)),
            (Flag::ContentVariant, Info, self.variants(Info)),
            (Flag::DoublePayment, Critical, self.double_payments()),
            (
                Flag::ProviderRefReused,
                Critical,
                self.shared.iter().map(|fact| Digest::of_content("K", fact)).collect(),
            ),
            (Flag::CreateConflict, Critical, two_or_none(creates.collect())),
            (Flag::SecondSession, Critical, two_or_none(sessions.collect())),
            (Flag::SuccessAndFailed, Warn, self.both(Status::Success, &[Status::Failed])),
            (Flag::SuccessAndExpired, Warn, self.both(Status::Success, &[Status::Expired])),
            (Flag::PaidAfterDeadline, High, self.paid_late()),
            (Flag::RefundWithoutSuccess, High, self.refunds_without_success()),
            (Flag::RefundAndNegative, High, self.both(Status::Refunded, &NEGATIVE)),
            (Flag::PartialRefund, High, self.partial_refunds()),
            (Flag::UnknownOrder, High, self.without_create()),
            (Flag::QueryDisagrees, High, self.disagreeing()),
            (Flag::Unconfirmed, High, self.pick(|saying| self.is_unconfirmed(saying))),
            (Flag::SettledByQuery, Info, self.settled_by_query()),
            (Flag::ProviderRefUnexpected, High, self.unexpected_refs()),
            (Flag::FactOverflow, Critical, self.overflowing()),
            (Flag::DecisionsConflict, High, self.disputed()),
        ];
        all.into_iter()
            .filter(|(_, _, evidence)| !evidence.is_empty())
            .map(|(flag, severity, evidence)| {
                ((flag, severity), Digest::of_set(flag.as_str(), evidence))
            })
            .collect()
    }

    /// Whether there are more facts than are kept: whichever is dropped then, one fact is too many.
    pub fn overflows(&self) -> bool {
        let most = |counts: BTreeMap<_, usize>| counts.into_values().max().unwrap_or(0);
        let by_status = |ipn: bool| {
            let mut counts = BTreeMap::new();
            for saying in self.sayings.iter().filter(|saying| saying.is_ipn() == ipn) {
                *counts.entry((&saying.provider_ref, saying.status)).or_default() += 1;
            }
            counts
        };
        let own = [self.creates.len(), self.sessions.len(), self.failures.len(), self.passed.len()];
        own.into_iter().any(|count| count > OWN_MAX)
            || most(by_status(true)) > CONTENTS_MAX
            || most(by_status(false)) > CONTENTS_MAX
            || self.refs().len() > REFS_MAX
            || self.shared.len() > SHARED_MAX
            || self.decisions.len() > DECISIONS_MAX
    }

    fn overflowing(&self) -> Vec<Digest> {
        if self.overflows() { self.pick(|_| true) } else { Vec::new() }
    }

    fn pick(&self, holds: impl Fn(&Saying) -> bool) -> Vec<Digest> {
        self.sayings.iter().filter(|saying| holds(saying)).map(|saying| saying.digest).collect()
    }

    /// Of a C's currency but no such C's amount, or of no C's currency and of no C's amount either.
    fn with_other_amount(&self) -> Vec<Digest> {
        self.pick(|saying| {
            let same_currency: Vec<_> =
                self.creates.iter().filter(|create| create.currency == saying.currency).collect();
            let compared = if same_currency.is_empty() {
                self.creates.iter().collect()
            } else {
                same_currency
            };
            !compared.is_empty()
                && !self.is_partial(saying)
                && compared.iter().all(|create| create.amount.minor() != saying.amount)
        })
    }

    fn with_other_currency(&self) -> Vec<Digest> {
        self.pick(|saying| {
            !self.creates.is_empty()
                && self.creates.iter().all(|create| create.currency != saying.currency)
        })
    }

    /// The IPNs of every dedup key that has two contents with a difference of this severity. An R
    /// without an event reference has no key: it may be a refund of its own.
    fn variants(&self, severity: Severity) -> Vec<Digest> {
        type Key<'a> = (&'a ProviderRef, Status, Option<&'a EventRef>);
        let mut groups: BTreeMap<Key<'_>, Vec<&Saying>> = BTreeMap::new();
        for ipn in self.sayings.iter().filter(|saying| saying.is_ipn()) {
            let event = match ipn.status {
                Status::Refunded if ipn.event_ref().is_none() => continue,
                Status::Refunded => ipn.event_ref(),
                Status::Success | Status::Failed | Status::Expired => None,
            };
            groups.entry((&ipn.provider_ref, ipn.status, event)).or_default().push(ipn);
        }
        let found = |group: &Vec<&Saying>| {
            let money: BTreeSet<_> = group.iter().map(|ipn| (ipn.amount, ipn.currency)).collect();
            if money.len() > 1 { Severity::Critical } else { Severity::Info }
        };
        (groups.into_values())
            .filter(|group| group.len() > 1 && found(group) == severity)
            .flatten()
            .map(|ipn| ipn.digest)
            .collect()
    }

    fn double_payments(&self) -> Vec<Digest> {
        let paid = self.paid_refs();
        if paid.len() < 2 {
            return Vec::new();
        }
        self.pick(|saying| {
            saying.status == Status::Success
                && self.counts(saying)
                && paid.contains(&saying.provider_ref)
        })
    }

    /// The sayings of `one` and of any of `others` on the refs that have both, whether they count
    /// or not.
    fn both(&self, one: Status, others: &[Status]) -> Vec<Digest> {
        let has = |name: &ProviderRef, status: Status| !self.said(name, status).is_empty();
        self.pick(|saying| {
            let name = &saying.provider_ref;
            (saying.status == one || others.contains(&saying.status))
                && has(name, one)
                && others.iter().any(|other| has(name, *other))
        })
    }

    fn refunds_without_success(&self) -> Vec<Digest> {
        self.pick(|saying| {
            saying.status == Status::Refunded
                && self.said(&saying.provider_ref, Status::Success).is_empty()
        })
    }

    fn paid_late(&self) -> Vec<Digest> {
        let latest = |of: Option<&ProviderRef>| -> Option<Time> {
            (self.sessions.iter())
                .filter(|session| of.is_none_or(|name| session.provider_ref == *name))
                .map(|session| session.deadline)
                .max()
        };
        self.pick(|saying| {
            let deadline = latest(Some(&saying.provider_ref)).or_else(|| latest(None));
            let late = matches!((saying.paid_at(), deadline), (Some(at), Some(end)) if at > end);
            saying.status == Status::Success && late && self.counts(saying)
        })
    }

    fn partial_refunds(&self) -> Vec<Digest> {
        (self.refs().into_iter())
            .flat_map(|name| self.open_partials(name))
            .map(|saying| saying.digest)
            .collect()
    }

    fn without_create(&self) -> Vec<Digest> {
        self.pick(|_| self.creates.is_empty())
    }

    fn disagreeing(&self) -> Vec<Digest> {
        let contradict = |a: Status, b: Status| {
            (a == Status::Success && NEGATIVE.contains(&b))
                || (b == Status::Success && NEGATIVE.contains(&a))
        };
        self.pick(|one| {
            self.sayings.iter().any(|other| {
                one.provider_ref == other.provider_ref
                    && one.is_ipn() != other.is_ipn()
                    && contradict(one.status, other.status)
            })
        })
    }

    fn settled_by_query(&self) -> Vec<Digest> {
        self.pick(|answer| {
            !answer.is_ipn()
                && (self.counts(answer) || self.is_partial(answer))
                && !(self.said(&answer.provider_ref, answer.status).into_iter()).any(Saying::is_ipn)
        })
    }

    fn unexpected_refs(&self) -> Vec<Digest> {
        self.pick(|saying| {
            let must_match = matches!(&saying.by, By::Ipn { policy, .. } if policy.ref_is_session);
            must_match
                && !self.sessions.is_empty()
                && self.sessions.iter().all(|session| session.provider_ref != saying.provider_ref)
        })
    }
}

fn two_or_none(digests: Vec<Digest>) -> Vec<Digest> {
    if digests.len() < 2 { Vec::new() } else { digests }
}
