//! Owns what a decision is on: a finding or a flag of an order, with the evidence that the person
//! has on the page; and the calls that decide it or take a decision back.

use std::fmt;

use payfold_api::call::{Call, Problem};
use payfold_api::decisions::{
    DECIDE_FINDING, DECIDE_FLAG, DecideRequest, WITHDRAW_FINDING, WITHDRAW_FLAG, WithdrawRequest,
};
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Verdict;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Flag;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::client::{CallError, PersonalClient};

/// A finding or a flag, as its page shows it. Forms carry it as `finding@evidence`, or as
/// `partner/merchantCode/orderId FLAG@evidence`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) of: SubjectOf,
    pub(crate) evidence: Digest,
}

/// A finding by its id, or a flag of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SubjectOf {
    Finding(String),
    Flag(OrderKey, Flag),
}

/// What a person does with it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// Decides it: this side is right.
    Decide(Verdict),
    /// Takes their first decision back.
    Withdraw,
}

/// What came of a decision or a withdrawal.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase", tag = "result")]
pub(crate) enum Outcome {
    /// It is decided; `seconded_by` agreed with `author`.
    #[serde(rename_all = "camelCase")]
    Decided { author: String, seconded_by: Option<String> },
    /// It waits for a second person; the decision of `replaces` no longer counts.
    Waits { replaces: Option<String> },
    /// The person's first decision is taken back.
    Withdrawn,
    /// Nothing has changed.
    Refused { detail: String },
    /// There was no answer: it may have been taken or not.
    Unknown,
    /// It was not sent, because there was no answer to one before it.
    NotSent,
}

impl Subject {
    /// Parses what a form carries. `None` for any other text.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (of, evidence) = text.rsplit_once('@')?;
        let of = match of.split_once(' ') {
            Some((order, flag)) => {
                SubjectOf::Flag(OrderKey::parse(order).ok()?, Flag::parse(flag)?)
            }
            None => {
                let is_id = !of.is_empty() && of.bytes().all(|byte| byte.is_ascii_hexdigit());
                SubjectOf::Finding(is_id.then(|| of.to_owned())?)
            }
        };
        Some(Self { of, evidence: evidence.parse().ok()? })
    }

    /// The page that shows it.
    pub(crate) fn path(&self) -> String {
        match &self.of {
            SubjectOf::Finding(id) => format!("/findings/{id}"),
            SubjectOf::Flag(order, _) => format!("/orders/{order}"),
        }
    }

    /// Decides it, or takes the person's decision back. Errors: the session is over.
    pub(crate) async fn change(
        &self,
        client: &PersonalClient<'_>,
        change: Change,
        reason: &str,
    ) -> Result<Outcome, CallError> {
        let reason = reason.to_owned();
        let result = match change {
            Change::Decide(accept) => {
                let request = DecideRequest { accept, reason, evidence: Some(self.evidence) };
                let made = self.call(client, [&DECIDE_FINDING, &DECIDE_FLAG], &request).await;
                made.map(|made| match made.decided {
                    true => Outcome::Decided { author: made.author, seconded_by: made.seconded_by },
                    false => Outcome::Waits { replaces: made.replaces.map(|first| first.author) },
                })
            }
            Change::Withdraw => {
                let request = WithdrawRequest { reason };
                let on = [&WITHDRAW_FINDING, &WITHDRAW_FLAG];
                self.call(client, on, &request).await.map(|_| Outcome::Withdrawn)
            }
        };
        match result {
            Err(CallError::Refused(status, problem)) if status.is_client_error() => {
                Ok(Outcome::Refused { detail: problem.detail })
            }
            Err(CallError::Refused(_, Problem { detail: why, .. }) | CallError::NoAnswer(why)) => {
                tracing::warn!(why, subject = %self, "it is not known whether this is decided");
                Ok(Outcome::Unknown)
            }
            other => other,
        }
    }

    /// Makes the first call for a finding, the second for a flag.
    async fn call<Q: Serialize, A: DeserializeOwned>(
        &self,
        client: &PersonalClient<'_>,
        [on_finding, on_flag]: [&Call<Q, A>; 2],
        request: &Q,
    ) -> Result<A, CallError> {
        match &self.of {
            SubjectOf::Finding(id) => client.call(on_finding, &[id], request).await,
            SubjectOf::Flag(OrderKey { partner, merchant_code, order_id }, flag) => {
                let names =
                    [partner.as_str(), merchant_code.as_str(), order_id.as_str(), flag.as_str()];
                client.call(on_flag, &names, request).await
            }
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.of {
            SubjectOf::Finding(id) => write!(f, "{id}@{}", self.evidence),
            SubjectOf::Flag(order, flag) => write!(f, "{order} {flag}@{}", self.evidence),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_reads_what_it_writes_and_nothing_else() {
        let evidence = Digest::of_bytes(b"evidence");
        let order = OrderKey::parse("p/M/o:1").unwrap();
        for of in
            [SubjectOf::Finding("0123abcd".to_owned()), SubjectOf::Flag(order, Flag::DoublePayment)]
        {
            let subject = Subject { of, evidence };
            assert_eq!(Subject::parse(&subject.to_string()), Some(subject));
        }
        assert_eq!(Subject::parse("0123abcd"), None);
        for text in ["", "@", "0123abcd@00", "../x", "p/M/o NONE", "p/M DOUBLE_PAYMENT"] {
            assert_eq!(Subject::parse(&format!("{text}@{evidence}")), None, "{text}");
        }
    }
}
