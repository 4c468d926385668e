//! Owns the content of a fact, which identifies the fact within its order, and the content's
//! digest. Of a notice neither position, policy, `timestamp` nor nonce is part of it. The digests
//! are the evidence of flags and findings: another digest opens every decision again.

use payfold_schemas::digest::Digest;
use payfold_schemas::fact::{
    Create, CreateFailed, Decision, Fact, QueryAnswer, Session, SharedRef,
};
use payfold_schemas::ids::ProviderRef;
use payfold_schemas::ipn::{Ipn, MoneyContent, Status};
use payfold_schemas::order::KnownIpn;
use payfold_schemas::time::Time;

/// The parts of a fact that identify it within its order, borrowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FactContent<'a> {
    /// C: the whole fact.
    Create(&'a Create),
    /// O: the whole fact.
    Session(&'a Session),
    /// CF: its code.
    CreateFailed(&'a CreateFailed),
    /// S, F, E, R: the ref, the status and the money.
    Ipn(&'a ProviderRef, Status, &'a MoneyContent),
    /// X: the deadline.
    DeadlinePassed(Time),
    /// P: the whole fact.
    Answer(&'a QueryAnswer),
    /// K: the whole fact.
    Shared(&'a SharedRef),
    /// D: its id alone.
    Decision(&'a str),
}

impl<'a> FactContent<'a> {
    /// The content of a fact.
    pub fn of_fact(fact: &'a Fact) -> Self {
        match fact {
            Fact::CreateRequested(create) => Self::Create(create),
            Fact::SessionOpened(session) => Self::Session(session),
            Fact::CreateFailed(failed) => Self::CreateFailed(failed),
            Fact::Ipn(ipn) => Self::of_ipn(ipn),
            Fact::DeadlinePassed { deadline } => Self::DeadlinePassed(*deadline),
            Fact::QueryAnswered(answer) => Self::Answer(answer),
            Fact::RefShared(shared) => Self::Shared(shared),
            Fact::Decided(decision) => Self::of_decision(decision),
        }
    }

    /// The content of an IPN as it was received.
    pub(crate) fn of_ipn(ipn: &'a Ipn) -> Self {
        Self::Ipn(&ipn.provider_ref, ipn.status, &ipn.money)
    }

    /// The content of an IPN as it is kept.
    pub fn of_kept_ipn(ipn: &'a KnownIpn) -> Self {
        Self::Ipn(&ipn.provider_ref, ipn.status, &ipn.money)
    }

    /// The content of a decision.
    pub(crate) fn of_decision(decision: &'a Decision) -> Self {
        Self::Decision(&decision.id)
    }

    /// The digest of this content, under the fact's kind (`Fact::kind`) as tag.
    pub fn digest(self) -> Digest {
        match self {
            Self::Create(create) => Digest::of_content("createRequested", create),
            Self::Session(session) => Digest::of_content("sessionOpened", session),
            Self::CreateFailed(failed) => Digest::of_content("createFailed", failed),
            Self::Ipn(provider_ref, status, money) => {
                Digest::of_content("ipn", &(provider_ref, status, money))
            }
            Self::DeadlinePassed(deadline) => Digest::of_content("deadlinePassed", &deadline),
            Self::Answer(answer) => Digest::of_content("queryAnswered", answer),
            Self::Shared(shared) => Digest::of_content("refShared", shared),
            Self::Decision(id) => Digest::of_content("decided", &id),
        }
    }
}
