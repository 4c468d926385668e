//! Owns the HTTP answers to a partner's notices. Where a profile sets none, the contract's answers
//! apply: 200 with an empty body, or a problem document.

use super::template::Template;

/// The outcome of a notice, as far as ingest knows it when it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AckKind {
    /// The notice is durable, or was durable before.
    Accepted,
    /// The notice is authenticated, and the profile ignores its kind: no fact is appended.
    Ignored,
    /// No known key has signed the notice.
    BadSignature,
    /// The notice is authenticated and not admissible. It is kept in quarantine.
    NotAdmissible,
    /// The notice is authenticated, and its time is outside the profile's window. It is kept in
    /// quarantine.
    Stale,
    /// The notice could not be made durable.
    Unavailable,
}

impl AckKind {
    /// All outcomes, in the order of `AckRules::rules`.
    pub const ALL: [AckKind; 6] = [
        Self::Accepted,
        Self::Ignored,
        Self::BadSignature,
        Self::NotAdmissible,
        Self::Stale,
        Self::Unavailable,
    ];
}

/// The body of an answer, as the profile writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AckBody {
    Fixed(String),
    Template(Template),
}

/// One answer of `[acks]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AckRule {
    pub(crate) status: u16,
    pub(crate) content_type: Option<String>,
    pub(crate) body: AckBody,
}

/// An answer with its template filled in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AckResponse {
    /// The HTTP status.
    pub status: u16,
    /// The content type. `None` if there is no body.
    pub content_type: Option<String>,
    /// The body. Empty if there is none. A value of the notice in it is the bytes that came.
    pub body: Vec<u8>,
}

/// The answers of `[acks]`, indexed by `AckKind`. `None` = the contract's answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AckRules {
    pub(crate) rules: [Option<AckRule>; 6],
}

impl AckRules {
    pub(crate) fn rule(&self, ack: AckKind) -> Option<&AckRule> {
        let rule = self.rules[ack as usize].as_ref();
        // An ignored notice is acknowledged like an accepted one, unless the profile sets
        // `acks.ignored`.
        if ack == AckKind::Ignored {
            rule.or(self.rules[AckKind::Accepted as usize].as_ref())
        } else {
            rule
        }
    }

    /// The template of an answer's body, if it has one.
    pub(crate) fn template(&self, ack: AckKind) -> Option<&Template> {
        match &self.rule(ack)?.body {
            AckBody::Template(template) => Some(template),
            AckBody::Fixed(_) => None,
        }
    }

    /// The answer to a request that could not be read. A template's tokens are left empty.
    pub fn plain(&self, ack: AckKind) -> Option<AckResponse> {
        self.rule(ack).map(|rule| rule.answer(&|_| Vec::new()))
    }

    /// The answer to a request that was read; `render` renders a template.
    pub(crate) fn answer(
        &self,
        ack: AckKind,
        render: &dyn Fn(&Template) -> Vec<u8>,
    ) -> Option<AckResponse> {
        self.rule(ack).map(|rule| rule.answer(render))
    }
}

impl AckRule {
    fn answer(&self, render: &dyn Fn(&Template) -> Vec<u8>) -> AckResponse {
        let body = match &self.body {
            AckBody::Fixed(body) => body.clone().into_bytes(),
            AckBody::Template(template) => render(template),
        };
        AckResponse { status: self.status, content_type: self.content_type.clone(), body }
    }
}
