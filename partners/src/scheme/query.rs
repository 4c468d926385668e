//! Owns the query call of a partner's own scheme: what a profile says of it, and the request one question becomes.
//! Pure: where it goes, and whether that may be, is judged by whoever sends it. `answer` judges what comes back.
//!
//! Invariants: what stands in the address is percent-encoded, so no order and no ref leads anywhere else; the secret
//! never stands in the address; a question that names the transaction is not asked while none is known.

mod answer;

use payfold_schemas::ids::ProviderRef;
use payfold_schemas::ipn::Status;
use payfold_schemas::time::Time;
use serde::Deserialize;

use super::clock::Format;
use super::crypt::{Algorithm, Output, Ready, Strength};
use super::reading::{Context, Of, Reading, Unusable};
use super::request::Request;
use super::template::{Source, Template};
use super::{Condition, MapRule, Places, Scheme};
use crate::profile::{Limits, QueryPace, Word};
use crate::query::Question;
use crate::secret::Secret;

pub(crate) use self::answer::judge;

/// What a template of the question may name, in the order of their numbers; those of the answer the first two.
pub(crate) const VALUES: [&str; 6] = ["order", "ref", "now", "now_s", "now_ms", "sign"];
/// The number of `{ref}`.
pub(crate) const REF: usize = 1;
/// The number of `{sign}`.
pub(crate) const SIGN: usize = 5;

/// How a payment is asked for.
#[derive(Clone, Debug)]
pub(crate) struct SchemeQuery {
    pub(crate) question: QuestionRule,
    pub(crate) answer: AnswerRule,
    /// The whole call, from connecting to the last byte of the answer, ms.
    pub(crate) timeout_ms: u64,
    pub(crate) pace: QueryPace,
}

/// By which method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Post,
}

impl Method {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
        }
    }
}

/// Which key is `{secret}` and signs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum QueryKey {
    /// One of the channel `create`, or where there is none the shared one of the notices.
    #[default]
    Shared,
    /// One of the channel `create`; without one nothing is asked.
    Own,
}

/// What our body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyContent {
    None,
    Json,
    Form,
}

/// Who we are there.
#[derive(Clone, Debug)]
pub(crate) enum Credential {
    None,
    Basic { user: Template, password: Template },
    Bearer(Template),
}

/// How the question is signed.
#[derive(Clone, Debug)]
pub(crate) struct QuerySign {
    pub(crate) algorithm: Algorithm,
    pub(crate) text: Template,
    pub(crate) output: Output,
}

/// The request.
#[derive(Clone, Debug)]
pub(crate) struct QuestionRule {
    pub(crate) method: Method,
    /// Behind the partner's address, with a query where it has one.
    pub(crate) path: Template,
    pub(crate) headers: Vec<(String, Template)>,
    pub(crate) key: QueryKey,
    pub(crate) credential: Credential,
    pub(crate) content: BodyContent,
    pub(crate) body: Template,
    pub(crate) sign: Option<QuerySign>,
    /// How `{now}` is written.
    pub(crate) now: Format,
}

/// What an answer is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerContent {
    Json,
    Form,
}

/// One kind of answer: the first whose conditions all hold says what it is.
#[derive(Clone, Debug)]
pub(crate) struct AnswerEvent {
    pub(crate) when: Vec<Condition>,
    pub(crate) word: Word,
    pub(crate) places: Places,
}

/// What is made of an answer.
#[derive(Clone, Debug)]
pub(crate) struct AnswerRule {
    pub(crate) content: AnswerContent,
    /// The statuses that mean: no such payment.
    pub(crate) not_found: Vec<u16>,
    pub(crate) bytes_max: usize,
    pub(crate) map: MapRule,
    pub(crate) events: Vec<AnswerEvent>,
}

impl AnswerEvent {
    /// The status an answer of this kind ends a payment with.
    pub(crate) fn status(&self) -> Option<Status> {
        match self.word {
            Word::Terminal(status) => Some(status),
            Word::Pending | Word::Unknown => None,
        }
    }
}

/// A question as it goes out. It has no `Debug`: a credential stands in it.
pub(crate) struct Asked {
    pub(crate) method: Method,
    /// Path and query behind the partner's address.
    pub(crate) target: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// Why a question can't be put.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unaskable {
    #[error("no transaction is known yet, and the partner is asked for transactions only")]
    NoRef,
    #[error("no key is valid now")]
    NoKey,
    #[error("{0}")]
    Unusable(#[from] Unusable),
    #[error("a value would lead to another address")]
    Elsewhere,
}

impl QuestionRule {
    /// Every template, the text of the signature included.
    pub(crate) fn templates(&self) -> Vec<&Template> {
        let mut all = vec![&self.path, &self.body];
        all.extend(self.headers.iter().map(|(_, template)| template));
        match &self.credential {
            Credential::None => {}
            Credential::Basic { user, password } => all.extend([user, password]),
            Credential::Bearer(token) => all.push(token),
        }
        all.extend(self.sign.as_ref().map(|sign| &sign.text));
        all
    }

    /// Whether it asks for one transaction, so that the answer must be about that one.
    pub(crate) fn names_ref(&self) -> bool {
        self.templates().iter().any(|template| mentions(template, &Source::Value(REF)))
    }

    /// Whether it can't be asked without one.
    pub(crate) fn needs_ref(&self) -> bool {
        self.templates().iter().any(|template| template.needs(&Source::Value(REF)))
    }

    fn needs_secret(&self) -> bool {
        self.sign.is_some()
            || self.templates().iter().any(|template| mentions(template, &Source::Secret))
    }
}

/// Whether a template has a token of this source.
pub(crate) fn mentions(template: &Template, source: &Source) -> bool {
    template.tokens().iter().any(|token| token.source == *source)
}

/// What a question is put together with.
pub(crate) struct Asking<'a> {
    pub(crate) scheme: &'a Scheme,
    pub(crate) rule: &'a QuestionRule,
    pub(crate) limits: Limits,
    pub(crate) of: Of<'a>,
    /// The key of our calls that counts now.
    pub(crate) secret: Option<&'a [u8]>,
    /// The partner's address, without a `/` at its end.
    pub(crate) api_url: &'a str,
}

impl Asking<'_> {
    /// The request a question becomes. Errors: `Unaskable`.
    pub(crate) fn asked(&self, question: &Question, now: Time) -> Result<Asked, Unaskable> {
        let rule = self.rule;
        let provider_ref = question.provider_ref.as_ref().map_or("", ProviderRef::as_str);
        if provider_ref.is_empty() && rule.needs_ref() {
            return Err(Unaskable::NoRef);
        }
        if self.secret.is_none() && rule.needs_secret() {
            return Err(Unaskable::NoKey);
        }
        let ms = now.unix_ms();
        let mut values: Vec<String> = vec![
            question.order_id.to_string(),
            provider_ref.to_owned(),
            rule.now.write(now),
            ms.div_euclid(1_000).to_string(),
            ms.to_string(),
            String::new(),
        ];
        // What the signature stands in is put together after it, and is no part of its text.
        let none = Draft::default();
        let unsigned = |template: &Template| !mentions(template, &Source::Value(SIGN));
        let mut draft = Draft::default();
        if unsigned(&rule.path) {
            draft.target = self.string(&rule.path, &none, &values)?;
        }
        if unsigned(&rule.body) {
            draft.body = self.string(&rule.body, &none, &values)?;
        }
        if let Some(sign) = &rule.sign {
            let text = self.string(&sign.text, &draft, &values)?;
            values[SIGN] = self.signature(sign, text.as_bytes())?;
        }
        if !unsigned(&rule.path) {
            draft.target = self.string(&rule.path, &none, &values)?;
        }
        if !unsigned(&rule.body) {
            draft.body = self.string(&rule.body, &draft, &values)?;
        }
        let path = draft.target.split('?').next().unwrap_or_default();
        if path.split('/').any(|step| matches!(step, "." | "..")) {
            return Err(Unaskable::Elsewhere);
        }
        let headers = self.headers(&draft, &values)?;
        let Draft { target, body } = draft;
        Ok(Asked { method: rule.method, target, headers, body: body.into_bytes() })
    }

    fn headers(
        &self,
        draft: &Draft,
        values: &[String],
    ) -> Result<Vec<(String, String)>, Unaskable> {
        let mut headers = Vec::new();
        for (name, template) in &self.rule.headers {
            headers.push((name.clone(), self.string(template, draft, values)?));
        }
        let is_there =
            |name: &str| self.rule.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
        if !is_there("accept") && self.accepts_json() {
            headers.push(("accept".to_owned(), "application/json".to_owned()));
        }
        let content_type = match self.rule.content {
            BodyContent::None => None,
            BodyContent::Json => Some("application/json"),
            BodyContent::Form => Some("application/x-www-form-urlencoded"),
        };
        if let Some(content_type) = content_type.filter(|_| !is_there("content-type")) {
            headers.push(("content-type".to_owned(), content_type.to_owned()));
        }
        let credential = match &self.rule.credential {
            Credential::None => None,
            Credential::Basic { user, password } => {
                let [user, password] = [user, password].map(|t| self.string(t, draft, values));
                let both = format!("{}:{}", user?, password?);
                let written = super::filter::Filter::Base64.apply(both.into_bytes());
                Some(format!("Basic {}", String::from_utf8_lossy(&written)))
            }
            Credential::Bearer(token) => {
                Some(format!("Bearer {}", self.string(token, draft, values)?))
            }
        };
        headers.extend(credential.map(|credential| ("authorization".to_owned(), credential)));
        Ok(headers)
    }

    fn accepts_json(&self) -> bool {
        self.scheme.query.as_ref().is_some_and(|query| query.answer.content == AnswerContent::Json)
    }

    fn signature(&self, sign: &QuerySign, text: &[u8]) -> Result<String, Unaskable> {
        let secret = Secret::from_bytes(self.secret.ok_or(Unaskable::NoKey)?.to_vec());
        // Which algorithms are taken, and how long keys are, was held when both were read.
        let ready = Ready::new(sign.algorithm, secret, Strength::Any);
        let signature = ready.ok().and_then(|ready| ready.expected(sign.algorithm, text));
        Ok(sign.output.write(&signature.ok_or(Unaskable::NoKey)?))
    }

    fn string(
        &self,
        template: &Template,
        draft: &Draft,
        values: &[String],
    ) -> Result<String, Unaskable> {
        let (path, query) = draft.target.split_once('?').unwrap_or((&draft.target, ""));
        let method = self.rule.method.name();
        let (base_url, body) = (self.api_url, draft.body.as_bytes());
        let request = Request { method, base_url, path, query, headers: Vec::new(), body };
        let reading = Reading::of_document(self.scheme, &request, self.limits, None);
        let of = Of { values, ..self.of };
        let context = Context { secret: self.secret, ..Context::bare(&reading, &of) };
        Ok(context.string(template)?)
    }
}

/// What of a request is put together already.
#[derive(Default)]
struct Draft {
    target: String,
    body: String,
}

#[cfg(test)]
mod tests;
