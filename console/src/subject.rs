//! Owns what a decision is on: a finding or a flag of an order, with the evidence that the person
//! has on the page, or a quarantined notice; and the calls that decide it or take a decision back.

use std::fmt;

use payfold_api::call::Problem;
use payfold_api::decisions::{
    DECIDE_FINDING, DECIDE_FLAG, DecideRequest, WITHDRAW_FINDING, WITHDRAW_FLAG, WithdrawRequest,
};
use payfold_api::quarantine::{self, DecideNotice};
use payfold_report::text::short_id;
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Flag;
use payfold_schemas::position::Position;
use payfold_schemas::release::NoticeVerdict;
use serde::Serialize;

use crate::choice::Choice;
use crate::client::{CallError, PersonalClient};

/// What is decided, as its page shows it. Forms carry it as `finding@evidence`, as
/// `partner/merchantCode/orderId FLAG@evidence`, or as the position of a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// A finding by its id.
    Finding(String, Digest),
    /// A flag of an order.
    Flag(OrderKey, Flag, Digest),
    /// A quarantined notice: what is stored at a position never changes.
    Notice(Position),
}

/// What a person does with it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Change {
    /// Decides it.
    Decide(Choice),
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
        let Some((of, evidence)) = text.rsplit_once('@') else {
            return text.parse().ok().map(Self::Notice);
        };
        let evidence = evidence.parse().ok()?;
        if let Some((order, flag)) = of.split_once(' ') {
            return Some(Self::Flag(OrderKey::parse(order).ok()?, Flag::parse(flag)?, evidence));
        }
        let is_id = !of.is_empty() && of.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| Self::Finding(of.to_owned(), evidence))
    }

    /// What can be chosen about it.
    pub(crate) fn choices(&self) -> &'static [Choice] {
        match self {
            Self::Finding(..) | Self::Flag(..) => Choice::RECORDS,
            Self::Notice(_) => Choice::NOTICES,
        }
    }

    /// The page that shows it.
    pub(crate) fn path(&self) -> String {
        match self {
            Self::Finding(id, _) => format!("/findings/{id}"),
            Self::Flag(order, ..) => format!("/orders/{order}"),
            Self::Notice(position) => format!("/quarantine/{position}"),
        }
    }

    /// What a person knows it by.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Finding(id, _) => format!("finding {}", short_id(id)),
            Self::Flag(order, flag, _) => format!("{flag} of {}", order.order_id),
            Self::Notice(position) => format!("notice {position}"),
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
            Change::Decide(choice) => self.decide(client, choice, reason).await,
            Change::Withdraw => self.withdraw(client, reason).await.map(|()| Outcome::Withdrawn),
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

    async fn decide(
        &self,
        client: &PersonalClient<'_>,
        choice: Choice,
        reason: String,
    ) -> Result<Outcome, CallError> {
        let names = self.names();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let made = match (self, choice) {
            (Self::Finding(_, evidence), Choice::Accept(accept)) => {
                let request = DecideRequest { accept, reason, evidence: Some(*evidence) };
                client.call(&DECIDE_FINDING, &names, &request).await?
            }
            (Self::Flag(_, _, evidence), Choice::Accept(accept)) => {
                let request = DecideRequest { accept, reason, evidence: Some(*evidence) };
                client.call(&DECIDE_FLAG, &names, &request).await?
            }
            (Self::Notice(_), Choice::Release(because)) => {
                let (verdict, because) = (NoticeVerdict::Release, Some(because));
                let request = DecideNotice { verdict, because, reason };
                client.call(&quarantine::DECIDE, &names, &request).await?
            }
            (Self::Notice(_), Choice::Dismiss) => {
                let (verdict, because) = (NoticeVerdict::Dismiss, None);
                let request = DecideNotice { verdict, because, reason };
                client.call(&quarantine::DECIDE, &names, &request).await?
            }
            (Self::Notice(_), Choice::Accept(_)) | (_, Choice::Release(_) | Choice::Dismiss) => {
                let detail = format!("“{}” is no choice here.", choice.label());
                return Ok(Outcome::Refused { detail });
            }
        };
        Ok(match made.decided {
            true => Outcome::Decided { author: made.author, seconded_by: made.seconded_by },
            false => Outcome::Waits { replaces: made.replaces.map(|first| first.author) },
        })
    }

    async fn withdraw(&self, client: &PersonalClient<'_>, reason: String) -> Result<(), CallError> {
        let call = match self {
            Self::Finding(..) => &WITHDRAW_FINDING,
            Self::Flag(..) => &WITHDRAW_FLAG,
            Self::Notice(_) => &quarantine::WITHDRAW,
        };
        let names = self.names();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        client.call(call, &names, &WithdrawRequest { reason }).await.map(drop)
    }

    /// The names in the path of a call on it.
    fn names(&self) -> Vec<String> {
        match self {
            Self::Finding(id, _) => vec![id.clone()],
            Self::Flag(OrderKey { partner, merchant_code, order_id }, flag, _) => {
                let order = [partner.as_str(), merchant_code.as_str(), order_id.as_str()];
                order.into_iter().chain([flag.as_str()]).map(str::to_owned).collect()
            }
            Self::Notice(position) => vec![position.to_string()],
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Finding(id, evidence) => write!(f, "{id}@{evidence}"),
            Self::Flag(order, flag, evidence) => write!(f, "{order} {flag}@{evidence}"),
            Self::Notice(position) => write!(f, "{position}"),
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
        for subject in [
            Subject::Finding("0123abcd".to_owned(), evidence),
            Subject::Flag(order, Flag::DoublePayment, evidence),
            Subject::Notice(Position { partition: 3, offset: 12 }),
        ] {
            assert_eq!(Subject::parse(&subject.to_string()), Some(subject));
        }
        assert_eq!(Subject::parse("0123abcd"), None);
        for text in ["0-1x", "0-12@00", ""] {
            assert_eq!(Subject::parse(text), None, "{text}");
        }
        for text in ["", "@", "0123abcd@00", "0-12", "../x", "p/M/o NONE", "p/M DOUBLE_PAYMENT"] {
            assert_eq!(Subject::parse(&format!("{text}@{evidence}")), None, "{text}");
        }
    }
}
