//! Owns what a partner is answered. Where a profile says nothing, the contract's answers hold: 200 with an empty
//! body, or a problem document.

use super::reading::Context;
use super::template::Template;

/// What ingest can know of a notice when it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ack {
    /// Durable, or known already.
    Accepted,
    /// Genuine, and of a kind that is no fact.
    Ignored,
    /// Nobody known has signed it.
    BadSignature,
    /// Genuine, and it can't be taken as it is; kept in quarantine.
    NotAdmissible,
    /// Genuine, and too old or from the future; kept in quarantine.
    Stale,
    /// Not durable.
    Unavailable,
}

impl Ack {
    /// Every outcome.
    pub const ALL: [Ack; 6] = [
        Self::Accepted,
        Self::Ignored,
        Self::BadSignature,
        Self::NotAdmissible,
        Self::Stale,
        Self::Unavailable,
    ];

    /// The name in a profile.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Ignored => "ignored",
            Self::BadSignature => "bad_signature",
            Self::NotAdmissible => "not_admissible",
            Self::Stale => "stale",
            Self::Unavailable => "unavailable",
        }
    }
}

/// The body of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AckBody {
    Fixed(String),
    Template(Template),
}

/// One answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AckRule {
    pub(crate) status: u16,
    pub(crate) content_type: Option<String>,
    pub(crate) body: AckBody,
}

/// An answer ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// `None` where there is no body.
    pub content_type: Option<String>,
    /// As it goes out.
    pub body: String,
}

/// The answers of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Acks {
    pub(crate) rules: [Option<AckRule>; 6],
}

impl Acks {
    pub(crate) fn rule(&self, ack: Ack) -> Option<&AckRule> {
        let rule = self.rules[ack as usize].as_ref();
        // What is ignored is acknowledged as what is taken, unless the profile says otherwise.
        if ack == Ack::Ignored {
            rule.or(self.rules[Ack::Accepted as usize].as_ref())
        } else {
            rule
        }
    }

    /// The answer to what nothing of could be read; what a template takes from the notice is left out.
    pub fn plain(&self, ack: Ack) -> Option<Answer> {
        self.rule(ack).map(|rule| rule.answer(None))
    }

    pub(crate) fn answer(&self, ack: Ack, context: Context<'_>) -> Option<Answer> {
        self.rule(ack).map(|rule| rule.answer(Some(context)))
    }
}

impl AckRule {
    fn answer(&self, context: Option<Context<'_>>) -> Answer {
        let body = match &self.body {
            AckBody::Fixed(body) => body.clone(),
            AckBody::Template(template) => {
                context.and_then(|context| context.string(template).ok()).unwrap_or_default()
            }
        };
        Answer { status: self.status, content_type: self.content_type.clone(), body }
    }
}
