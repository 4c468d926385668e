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
            (Flag::RefundWithoutSuccess, Critical, self.refunds_without_success()),
            (Flag::RefundAndNegative, High, self.both(Status::Refunded, &NEGATIVE)),
            (Flag::PartialRefund, Critical, self.partial_refunds(Critical)),
            (Flag::PartialRefund, High, self.partial_refunds(High)),
            (Flag::UnknownOrder, High, self.without_create()),
            (Flag::QueryDisagrees, High, self.disagreeing()),
            (Flag::Unconfirmed, High, self.pick(|saying| self.is_unconfirmed(saying))),
            (Flag::SettledByQuery, Info, self.settled_by_query()),
            (Flag::ProviderRefUnexpected, High, self.unexpected_refs()),
            (Flag::FactOverflow, Critical, self.overflowing(Critical)),
            (Flag::FactOverflow, High, self.overflowing(High)),
            (Flag::DecisionsConflict, High, self.disputed()),
        ];
        all.into_iter()
            .filter(|(_, _, evidence)| !evidence.is_empty())
            .map(|(flag, severity, evidence)| {
                ((flag, severity), Digest::of_set(flag.as_str(), evidence))
            })
            .collect()
    }

    /// How bad it is that there are more facts than are kept, whichever is dropped then: only high
    /// if, without the notices that their profile calls unconfirmed, there are not.
    pub fn overflows(&self) -> Option<Severity> {
        let is_sure = |saying: &Saying| !saying.is_called_unconfirmed();
        if self.are_too_many(is_sure) {
            Some(Severity::Critical)
        } else {
            self.are_too_many(|_| true).then_some(Severity::High)
        }
    }

    /// Whether there are more facts than are kept, if these sayings are all.
    fn are_too_many(&self, counts: impl Fn(&Saying) -> bool) -> bool {
        let sayings = || self.sayings.iter().filter(|saying| counts(saying));
        let most = |is_ipn: bool| {
            let mut counts: BTreeMap<_, usize> = BTreeMap::new();
            for saying in sayings().filter(|saying| saying.is_ipn() == is_ipn) {
                *counts.entry((&saying.provider_ref, saying.status)).or_default() += 1;
            }
            counts.into_values().max().unwrap_or(0)
        };
        let refs: BTreeSet<_> = sayings().map(|saying| &saying.provider_ref).collect();
        let own = [self.creates.len(), self.sessions.len(), self.failures.len(), self.passed.len()];
        own.into_iter().any(|count| count > OWN_MAX)
            || most(true) > CONTENTS_MAX
            || most(false) > CONTENTS_MAX
            || refs.len() > REFS_MAX
            || self.shared.len() > SHARED_MAX
            || self.decisions.len() > DECISIONS_MAX
    }

    fn overflowing(&self, severity: Severity) -> Vec<Digest> {
        let is_evidence =
            |saying: &Saying| severity == Severity::Critical || saying.is_called_unconfirmed();
        if self.overflows() == Some(severity) { self.pick(is_evidence) } else { Vec::new() }
    }

    fn pick(&self, holds: impl Fn(&Saying) -> bool) -> Vec<Digest> {
        self.sayings.iter().filter(|saying| holds(saying)).map(|saying| saying.digest).collect()
    }

    /// Of those that no query has still to confirm.
    fn pick_sure(&self, holds: impl Fn(&Saying) -> bool) -> Vec<Digest> {
        self.pick(|saying| !self.is_unconfirmed(saying) && holds(saying))
    }

    /// Whether a ref has a sure saying of this status.
    fn has_sure(&self, name: &ProviderRef, status: Status) -> bool {
        self.said(name, status).into_iter().any(|saying| !self.is_unconfirmed(saying))
    }

    /// Of a C's currency but no such C's amount, or of no C's currency and of no C's amount either.
    fn with_other_amount(&self) -> Vec<Digest> {
        self.pick_sure(|saying| {
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
        self.pick_sure(|saying| {
            !self.creates.is_empty()
                && self.creates.iter().all(|create| create.currency != saying.currency)
        })
    }

    /// The IPNs of every dedup key that has two contents with a difference of this severity. An R
    /// without an event reference has no key: it may be a refund of its own.
    fn variants(&self, severity: Severity) -> Vec<Digest> {
        type Key<'a> = (&'a ProviderRef, Status, Option<&'a EventRef>);
        let mut groups: BTreeMap<Key<'_>, Vec<&Saying>> = BTreeMap::new();
        let sure = |saying: &&Saying| saying.is_ipn() && !self.is_unconfirmed(saying);
        for ipn in self.sayings.iter().filter(sure) {
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
        let has = |name: &ProviderRef, status: Status| self.has_sure(name, status);
        self.pick_sure(|saying| {
            let name = &saying.provider_ref;
            (saying.status == one || others.contains(&saying.status))
                && has(name, one)
                && others.iter().any(|other| has(name, *other))
        })
    }

    fn refunds_without_success(&self) -> Vec<Digest> {
        self.pick_sure(|saying| {
            saying.status == Status::Refunded
                && !self.has_sure(&saying.provider_ref, Status::Success)
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

    fn partial_refunds(&self, severity: Severity) -> Vec<Digest> {
        (self.refs().into_iter())
            .filter(|name| self.may_all_have_gone(name) == (severity == Severity::Critical))
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
                && !(self.said(&answer.provider_ref, answer.status).into_iter())
                    .any(|saying| saying.is_ipn() && !self.is_unconfirmed(saying))
        })
    }

    fn unexpected_refs(&self) -> Vec<Digest> {
        self.pick_sure(|saying| {
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
