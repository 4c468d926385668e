//! Owns the calls we make in a partner's own scheme: what a profile says of one, and the request it becomes with the
//! values of one payment. Pure: where it goes, and whether that may be, is judged by whoever sends it. `putting` puts a
//! request together.

mod putting;

use serde::Deserialize;

use super::BODY;
use super::clock::Format;
use super::crypt::{Algorithm, KeyKind, Output};
use super::document::{Document, Json, form};
use super::encoding::Encoding;
use super::pairs::Pairs;
use super::template::{Source, Template};
use crate::profile::Limits;

pub(crate) use self::putting::{Calling, Common, Sent, Uncallable};

/// What the templates of every call may name, in the order of their numbers; each kind of call has its own behind them.
pub(crate) const COMMON: [&str; 8] =
    ["order", "now", "now_s", "now_ms", "sign", "nonce", "key_serial", "access_token"];
/// The number of `{order}`.
pub(crate) const ORDER: usize = 0;
/// The numbers of what is another one at every moment: `{now}`, `{now_s}`, `{now_ms}` and `{nonce}`.
const OF_THE_MOMENT: [usize; 4] = [1, 2, 3, 5];
/// The number of `{sign}`.
pub(crate) const SIGN: usize = 4;
/// The number of `{key_serial}`.
pub(crate) const KEY_SERIAL: usize = 6;
/// The number of `{access_token}`.
pub(crate) const ACCESS_TOKEN: usize = 7;

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
pub(crate) enum CallKey {
    /// One of the channel `create`, or where there is none the shared one of the notices.
    #[default]
    Shared,
    /// One of the channel `create`; without one nothing is called.
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

/// How a call is signed.
#[derive(Clone, Debug)]
pub(crate) struct CallSign {
    pub(crate) algorithm: Algorithm,
    pub(crate) text: Template,
    pub(crate) output: Output,
}

/// Named values of a call: what is sent where there is no body, and what lists of pairs are made of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Fields {
    /// In the order of the file.
    pub(crate) all: Vec<(String, Template)>,
    /// How they are written into a form or an address.
    pub(crate) encoding: Encoding,
    pub(crate) pairs: Vec<Pairs>,
}

/// The request.
#[derive(Clone, Debug)]
pub(crate) struct CallRule {
    pub(crate) method: Method,
    /// Another address than the partner's own, made of constants.
    pub(crate) base: Option<Template>,
    /// Behind the address, with a query where it has one.
    pub(crate) path: Template,
    pub(crate) headers: Vec<(String, Template)>,
    /// What others are made of.
    pub(crate) texts: Vec<Template>,
    pub(crate) key: CallKey,
    pub(crate) credential: Credential,
    pub(crate) content: BodyContent,
    /// Empty where there is no body, or one made of the fields.
    pub(crate) body: Template,
    pub(crate) fields: Fields,
    pub(crate) sign: Option<CallSign>,
    /// How `{now}` is written.
    pub(crate) now: Format,
}

impl CallRule {
    /// Every template of what is sent; that of the signature's text is none of it.
    pub(crate) fn sent(&self) -> Vec<&Template> {
        let mut all = vec![&self.path, &self.body];
        all.extend(&self.texts);
        all.extend(self.headers.iter().map(|(_, template)| template));
        all.extend(self.fields.all.iter().map(|(_, template)| template));
        match &self.credential {
            Credential::None => {}
            Credential::Basic { user, password } => all.extend([user, password]),
            Credential::Bearer(token) => all.push(token),
        }
        all
    }

    /// Every template, the text of the signature included.
    pub(crate) fn templates(&self) -> Vec<&Template> {
        let mut all = self.sent();
        all.extend(self.sign.as_ref().map(|sign| &sign.text));
        all
    }

    /// Whether a template is made of this, itself or through a text.
    pub(crate) fn reaches(&self, template: &Template, source: &Source) -> bool {
        template.tokens().iter().any(|token| match &token.source {
            // A text names only those before it.
            Source::Text(number) => self.reaches(&self.texts[*number], source),
            other => other == source,
        })
    }

    /// Whether some template names this value.
    pub(crate) fn names(&self, value: usize) -> bool {
        self.templates().iter().any(|template| mentions(template, &Source::Value(value)))
    }

    /// Whether there is nothing to call with as long as there is no shared secret.
    pub(crate) fn needs_secret(&self) -> bool {
        self.sign.as_ref().is_some_and(|sign| sign.algorithm.key_kind() == KeyKind::Shared)
            || self.templates().iter().any(|template| mentions(template, &Source::Secret))
    }

    /// The algorithm a private key of ours signs with; `None` where none does.
    pub(crate) fn signs_with(&self) -> Option<Algorithm> {
        let algorithm = self.sign.as_ref().map(|sign| sign.algorithm);
        algorithm.filter(|algorithm| algorithm.key_kind() == KeyKind::Public)
    }

    /// Where the fields go, if they are sent at all.
    pub(crate) fn place_of_fields(&self) -> Option<FieldsPlace> {
        let is_theirs = !self.fields.all.is_empty() && self.body.pieces.is_empty();
        is_theirs.then_some(match (self.method, self.content) {
            (Method::Get, _) => FieldsPlace::Address,
            (Method::Post, BodyContent::Json) => FieldsPlace::JsonBody,
            (Method::Post, BodyContent::Form | BodyContent::None) => FieldsPlace::FormBody,
        })
    }

    /// Whether a template holds the signature, itself or by a field.
    pub(crate) fn holds_sign(&self, template: &Template) -> bool {
        template.tokens().iter().any(|token| match &token.source {
            Source::Value(SIGN) => true,
            Source::Field(BODY, path) => self.field(path).is_some_and(has_sign),
            _ => false,
        })
    }

    /// Whether one of the fields is the signature.
    pub(crate) fn signs_a_field(&self) -> bool {
        self.fields.all.iter().any(|(_, template)| has_sign(template))
    }

    /// The field a place means.
    pub(crate) fn field(&self, path: &[String]) -> Option<&Template> {
        let name = path.join(".");
        self.fields.all.iter().find(|(other, _)| *other == name).map(|(_, template)| template)
    }
}

/// Where fields go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldsPlace {
    Address,
    FormBody,
    JsonBody,
}

/// Whether a template has a token of this source.
pub(crate) fn mentions(template: &Template, source: &Source) -> bool {
    template.tokens().iter().any(|token| token.source == *source)
}

fn has_sign(template: &Template) -> bool {
    mentions(template, &Source::Value(SIGN))
}

/// What an answer is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerContent {
    Json,
    Form,
}

impl AnswerContent {
    /// An answer's document; `None` for what can't be read.
    pub(crate) fn parse(self, limits: Limits, body: &[u8]) -> Option<Document> {
        let text = std::str::from_utf8(body).ok()?;
        match self {
            Self::Json => Json::parse(text, limits).ok().map(Document::Json),
            Self::Form => form(text, limits).ok(),
        }
    }

    /// What we ask for in `Accept`.
    pub(crate) const fn accept(self) -> Option<&'static str> {
        match self {
            Self::Json => Some("application/json"),
            Self::Form => None,
        }
    }
}
