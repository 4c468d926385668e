//! Owns the second, independent implementation of the fold (order-state.md), written to be read
//! beside the law and not to be fast: every answer is a comprehension over all facts ever of one
//! order, in log order. Nothing is capped here; `overflows` says whether a capped fold leaves a
//! fact out.

mod flags;
mod money;
mod shown;

use std::collections::{BTreeMap, BTreeSet};

use payfold_schemas::digest::Digest;
use payfold_schemas::fact::{
    Create, CreateFailed, Decision, Fact, QueryAnswer, Session, SharedRef,
};
use payfold_schemas::ids::{EventRef, ProviderRef, Reference};
use payfold_schemas::ipn::{IpnPolicy, MoneyContent, Status};
use payfold_schemas::money::Currency;
use payfold_schemas::order::{Flag, OrderState, Severity};
use payfold_schemas::time::Time;

/// What a fold of these facts has to show; fields as in `Summary`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    pub state: OrderState,
    pub fulfil: bool,
    /// (flag, severity, open), at most one of each (flag, severity).
    pub flags: BTreeSet<(Flag, Severity, bool)>,
    pub reference: Option<Reference>,
    pub attempt: Option<u32>,
    pub amount: Option<i64>,
    pub currency: Option<Currency>,
    pub paid_amount: i64,
    pub refunded_amount: i64,
    pub overpaid: i64,
    pub refunded_at_least: bool,
    pub session_ref: Option<ProviderRef>,
    pub payment_ref: Option<ProviderRef>,
    pub paid_at: Option<Time>,
    pub deadline: Option<Time>,
    pub version: u64,
}

type Content = (ProviderRef, Status, MoneyContent);

/// An IPN or a query's answer: somebody at the partner says a status of a ref.
#[derive(Clone)]
struct Saying {
    provider_ref: ProviderRef,
    status: Status,
    amount: i64,
    currency: Currency,
    digest: Digest,
    by: By,
}

#[derive(Clone)]
enum By {
    Ipn { paid_at: Option<Time>, event_ref: Option<EventRef>, policy: IpnPolicy },
    Query,
}

/// All facts of one order as sets.
#[derive(Default)]
pub struct Oracle {
    creates: BTreeSet<Create>,
    sessions: BTreeSet<Session>,
    failures: BTreeSet<CreateFailed>,
    ipns: BTreeMap<Content, IpnPolicy>,
    passed: BTreeSet<Time>,
    answers: BTreeSet<QueryAnswer>,
    shared: BTreeSet<SharedRef>,
    decisions: BTreeMap<String, Decision>,
    sayings: Vec<Saying>,
    version: u64,
}

impl Oracle {
    /// Knows these facts.
    pub fn of(facts: &[Fact]) -> Self {
        let mut oracle = Self::default();
        for fact in facts {
            oracle.version += u64::from(oracle.learn(fact.clone()));
        }
        let ipns = oracle.ipns.iter().map(|(content, policy)| Saying {
            provider_ref: content.0.clone(),
            status: content.1,
            amount: content.2.amount.minor(),
            currency: content.2.currency,
            digest: Digest::of_content("ipn", content),
            by: By::Ipn {
                paid_at: content.2.paid_at,
                event_ref: content.2.event_ref.clone(),
                policy: *policy,
            },
        });
        let answers = oracle.answers.iter().map(|answer| Saying {
            provider_ref: answer.provider_ref.clone(),
            status: answer.status,
            amount: answer.amount.minor(),
            currency: answer.currency,
            digest: Digest::of_content("P", answer),
            by: By::Query,
        });
        oracle.sayings = ipns.chain(answers).collect();
        oracle
    }

    /// Adds a fact; whether that changed the set.
    fn learn(&mut self, fact: Fact) -> bool {
        match fact {
            Fact::CreateRequested(create) => self.creates.insert(create),
            Fact::SessionOpened(session) => self.sessions.insert(session),
            Fact::CreateFailed(failure) => self.failures.insert(failure),
            Fact::Ipn(ipn) => {
                let content = (ipn.provider_ref, ipn.status, ipn.money);
                let before = self.ipns.get(&content).copied();
                let after = before.map_or(ipn.policy, |known| known.merge(ipn.policy));
                self.ipns.insert(content, after);
                before != Some(after)
            }
            Fact::DeadlinePassed { deadline } => self.passed.insert(deadline),
            Fact::QueryAnswered(answer) => self.answers.insert(answer),
            Fact::RefShared(shared) => self.shared.insert(shared),
            Fact::Decided(decision) => {
                // Of two with one id the smaller stands.
                let known = self.decisions.get(&decision.id);
                let stands = known.is_none_or(|known| decision < *known);
                if stands {
                    self.decisions.insert(decision.id.clone(), decision);
                }
                stands
            }
        }
    }

    /// What has to be shown. `named` returns the evidence digest that a decision on a raised flag
    /// has to name, because each implementation chooses its own digests.
    pub fn expect(&self, named: impl Fn(Flag, Severity) -> Option<Digest>) -> Expected {
        let flags: BTreeSet<_> = self
            .raised()
            .into_keys()
            .map(|(flag, severity)| {
                let closed =
                    named(flag, severity).is_some_and(|evidence| self.is_decided(flag, evidence));
                (flag, severity, !closed)
            })
            .collect();
        let state = self.state();
        let critical =
            flags.iter().any(|(_, severity, open)| *open && *severity == Severity::Critical);
        let shown = self.creates.first();
        Expected {
            state,
            fulfil: state == OrderState::Paid && !critical,
            flags,
            reference: shown.map(|create| create.reference.clone()),
            attempt: shown.map(|create| create.attempt),
            amount: shown.map(|create| create.amount.minor()),
            currency: shown.map(|create| create.currency),
            paid_amount: self.paid_amount(),
            refunded_amount: self.refunded_amount(),
            overpaid: self.overpaid(),
            refunded_at_least: self.refs().iter().any(|name| self.is_at_least(name)),
            session_ref: self.session_ref(),
            payment_ref: self.payment_ref(),
            paid_at: self.paid_at(),
            deadline: (self.sessions.iter().map(|session| session.deadline).max())
                .or_else(|| self.creates.iter().map(|create| create.deadline).max()),
            version: self.version,
        }
    }

    /// Whether a decision of this flag and evidence exists, and none contradicts it.
    fn is_decided(&self, flag: Flag, evidence: Digest) -> bool {
        let verdicts: BTreeSet<_> = (self.decisions.values())
            .filter(|decision| decision.flag == flag && decision.evidence == evidence)
            .map(|decision| decision.accept)
            .collect();
        verdicts.len() == 1
    }

    fn disputed(&self) -> Vec<Digest> {
        (self.decisions.values())
            .filter(|one| {
                self.decisions.values().any(|other| {
                    (one.flag, one.evidence) == (other.flag, other.evidence)
                        && one.accept != other.accept
                })
            })
            .map(|decision| Digest::of_set(decision.flag.as_str(), vec![decision.evidence]))
            .collect()
    }

    // What counts.

    fn equals_a_create(&self, saying: &Saying) -> bool {
        (self.creates.iter()).any(|create| {
            create.amount.minor() == saying.amount && create.currency == saying.currency
        })
    }

    /// "C" of a currency: the largest, should there be two.
    fn create_amount(&self, currency: Currency) -> Option<i64> {
        (self.creates.iter())
            .filter(|create| create.currency == currency)
            .map(|create| create.amount.minor())
            .max()
    }

    fn largest_create(&self) -> i64 {
        self.creates.iter().map(|create| create.amount.minor()).max().unwrap_or(0)
    }

    /// R below C.
    fn is_partial(&self, saying: &Saying) -> bool {
        saying.status == Status::Refunded
            && !self.equals_a_create(saying)
            && self.create_amount(saying.currency).is_some_and(|amount| saying.amount < amount)
    }

    /// Whether it needs a query's answer and there is none.
    fn is_unconfirmed(&self, saying: &Saying) -> bool {
        let same = |answer: &QueryAnswer| {
            answer.provider_ref == saying.provider_ref
                && answer.status == saying.status
                && answer.amount.minor() == saying.amount
                && answer.currency == saying.currency
        };
        saying.is_called_unconfirmed() && !self.answers.iter().any(same)
    }

    /// Whether a fact is a notice that still needs a query's answer.
    pub fn is_left_unconfirmed(&self, fact: &Fact) -> bool {
        let Fact::Ipn(ipn) = fact else { return false };
        let content = (&ipn.provider_ref, ipn.status, &ipn.money);
        let digest = Digest::of_content("ipn", &content);
        self.sayings.iter().any(|one| one.digest == digest && self.is_unconfirmed(one))
    }

    fn counts(&self, saying: &Saying) -> bool {
        self.equals_a_create(saying) && !self.is_unconfirmed(saying)
    }

    fn counting(&self, status: Status) -> impl Iterator<Item = &Saying> {
        self.sayings.iter().filter(move |saying| saying.status == status && self.counts(saying))
    }

    fn said(&self, name: &ProviderRef, status: Status) -> Vec<&Saying> {
        (self.sayings.iter())
            .filter(|saying| saying.provider_ref == *name && saying.status == status)
            .collect()
    }

    fn refs(&self) -> BTreeSet<&ProviderRef> {
        self.sayings.iter().map(|saying| &saying.provider_ref).collect()
    }

    // What is shown.

    fn state(&self) -> OrderState {
        let ended = (self.passed.iter())
            .any(|passed| self.sessions.iter().all(|session| *passed >= session.deadline));
        if self.creates.is_empty() {
            OrderState::Unmatched
        } else if !self.paid_refs().is_empty() {
            OrderState::Paid
        } else if !self.refunded_refs().is_empty() {
            OrderState::Refunded
        } else if self.counting(Status::Failed).next().is_some()
            || (!self.failures.is_empty() && self.sessions.is_empty())
        {
            OrderState::Failed
        } else if self.counting(Status::Expired).next().is_some() || ended {
            OrderState::Expired
        } else if self.sayings.iter().any(|saying| self.is_unconfirmed(saying)) {
            OrderState::Unconfirmed
        } else if !self.sessions.is_empty() {
            OrderState::Pending
        } else {
            OrderState::Requested
        }
    }

    fn payment_ref(&self) -> Option<ProviderRef> {
        let (paid, refunded) = (self.paid_refs(), self.refunded_refs());
        paid.first().or(refunded.first()).map(|name| (*name).clone())
    }

    fn session_ref(&self) -> Option<ProviderRef> {
        let of_sessions = || self.sessions.iter().map(|session| session.provider_ref.clone());
        of_sessions()
            .find(|name| self.payment_ref().as_ref() == Some(name))
            .or(of_sessions().next())
    }

    fn paid_at(&self) -> Option<Time> {
        let payment_ref = self.payment_ref()?;
        self.counting(Status::Success)
            .filter(|saying| saying.provider_ref == payment_ref)
            .filter_map(Saying::paid_at)
            .min()
    }
}

impl Saying {
    fn is_ipn(&self) -> bool {
        matches!(self.by, By::Ipn { .. })
    }

    /// Whether it needs a query's answer.
    fn is_called_unconfirmed(&self) -> bool {
        matches!(&self.by, By::Ipn { policy, .. } if policy.unconfirmed)
    }

    fn paid_at(&self) -> Option<Time> {
        match &self.by {
            By::Ipn { paid_at, .. } => *paid_at,
            By::Query => None,
        }
    }

    fn event_ref(&self) -> Option<&EventRef> {
        match &self.by {
            By::Ipn { event_ref, .. } => event_ref.as_ref(),
            By::Query => None,
        }
    }
}
