//! Owns the rule of one call to a partner: its method, address, headers, body, credential and
//! signature.

use std::{ptr, slice};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::limits::BodyLimits;
use crate::scheme::clock::TimeFormat;
use crate::scheme::crypt::{KeyKind, SignAlgorithm};
use crate::scheme::document::{Document, parse_url_encoded};
use crate::scheme::encoding::PairEncoding;
use crate::scheme::json_document::JsonDocument;
use crate::scheme::pairs::PairList;
use crate::scheme::rules::BODY;
use crate::scheme::signature_encoding::SignatureEncoding;
use crate::scheme::template::{Template, TokenSource};

/// The values that every call's templates may name. A value's index is its number in
/// `TokenSource::Value`. The values of one kind of call have the next indexes.
pub(crate) const COMMON: [&str; 8] =
    ["order", "now", "now_s", "now_ms", "sign", "nonce", "key_serial", "access_token"];

/// The index of `{order}` in `COMMON`.
pub(crate) const ORDER: usize = 0;

/// The indexes of the values that change with the clock: `{now}`, `{now_s}`, `{now_ms}` and
/// `{nonce}`.
pub(crate) const TIME_DEPENDENT: [usize; 4] = [1, NOW_S, NOW_MS, NONCE];

/// The index of `{now_s}` in `COMMON`.
pub(crate) const NOW_S: usize = 2;

/// The index of `{now_ms}` in `COMMON`.
pub(crate) const NOW_MS: usize = 3;

/// The index of `{sign}` in `COMMON`.
pub(crate) const SIGN: usize = 4;

/// The index of `{nonce}` in `COMMON`.
pub(crate) const NONCE: usize = 5;

/// The index of `{key_serial}` in `COMMON`.
pub(crate) const KEY_SERIAL: usize = 6;

/// The index of `{access_token}` in `COMMON`.
pub(crate) const ACCESS_TOKEN: usize = 7;

/// The HTTP method of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallMethod {
    Get,
    Post,
}

impl CallMethod {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
        }
    }
}

/// Which of the account's keys is `{secret}` and signs the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CallKey {
    /// A key of channel `create`; if the account has none, the shared key of its notices.
    #[default]
    Shared,
    /// A key of channel `create`. Without one no call is made.
    Own,
}

/// The format of a call's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyContent {
    None,
    Json,
    Form,
}

/// The credential in the `Authorization` header.
#[derive(Clone, Debug)]
pub(crate) enum CallCredential {
    None,
    Basic { user: Template, password: Template },
    Bearer(Template),
}

/// `[query.sign]`, `[create.sign]` or `[oauth.sign]`: how a call is signed.
#[derive(Clone, Debug)]
pub(crate) struct CallSign {
    pub(crate) algorithm: SignAlgorithm,
    pub(crate) text: Template,
    pub(crate) output: SignatureEncoding,
    /// A mark that no value of the signed text may hold. `None` = any value is signed as it is.
    pub(crate) separator: Option<char>,
}

/// The named fields of a call. They are sent where the profile has no body template, and lists of
/// pairs are made of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallFields {
    /// Name and template, in the order of the file.
    pub(crate) all: Vec<(String, Template)>,
    /// How names and values are encoded in a form or an address.
    pub(crate) encoding: PairEncoding,
    pub(crate) pairs: Vec<PairList>,
}

/// The rule of one call.
#[derive(Clone, Debug)]
pub(crate) struct CallRule {
    pub(crate) method: CallMethod,
    /// Another base address than the setting's, made of literals and constants.
    pub(crate) base: Option<Template>,
    /// Appended to the base address, with a query if it has one.
    pub(crate) path: Template,
    pub(crate) headers: Vec<(String, Template)>,
    /// The `[[….text]]` that other templates name.
    pub(crate) texts: Vec<Template>,
    pub(crate) key: CallKey,
    pub(crate) credential: CallCredential,
    pub(crate) content: BodyContent,
    /// Empty where there is no body, or where the fields are the body.
    pub(crate) body: Template,
    pub(crate) fields: CallFields,
    pub(crate) sign: Option<CallSign>,
    /// The format of `{now}`.
    pub(crate) now: TimeFormat,
}

impl CallRule {
    /// The templates of path, headers, credential and body.
    fn placed_templates(&self) -> Vec<&Template> {
        let mut placed = vec![&self.path, &self.body];
        placed.extend(self.headers.iter().map(|(_, template)| template));
        match &self.credential {
            CallCredential::None => {}
            CallCredential::Basic { user, password } => placed.extend([user, password]),
            CallCredential::Bearer(token) => placed.push(token),
        }
        placed
    }

    /// The templates that are sent: those of path, headers, credential and body, and the texts and
    /// fields that they name. What is only signed is not among them.
    pub(crate) fn sent_templates(&self) -> Vec<&Template> {
        let mut sent = self.placed_templates();
        if self.place_of_fields().is_some() {
            sent.extend(self.fields.all.iter().map(|(_, template)| template));
        }
        let mut seen = 0;
        while let Some(template) = sent.get(seen) {
            let named = template.tokens().into_iter().flat_map(|token| self.named(&token.source));
            let is_new = |one: &&Template| !sent.iter().any(|known| ptr::eq(*known, *one));
            let named: Vec<_> = named.filter(is_new).collect();
            sent.extend(named);
            seen += 1;
        }
        sent
    }

    /// The texts and fields that a source names. A list of fields leaves out those with `{sign}`.
    fn named(&self, source: &TokenSource) -> Vec<&Template> {
        match source {
            TokenSource::Text(number) => vec![&self.texts[*number]],
            TokenSource::Field(BODY, path) => self.field(path).into_iter().collect(),
            TokenSource::Pairs(number) => {
                let list = &self.fields.pairs[*number];
                let is_listed = |(name, template): &&(String, Template)| {
                    !names_sign(template) && list.covers((BODY, slice::from_ref(name)))
                };
                self.fields.all.iter().filter(is_listed).map(|(_, template)| template).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Whether the request carries the value of this index.
    pub(crate) fn sends(&self, value: usize) -> bool {
        let source = TokenSource::Value(value);
        self.sent_templates().iter().any(|template| names_source(template, &source))
    }

    /// Every template, those that are only signed included.
    pub(crate) fn templates(&self) -> Vec<&Template> {
        let mut all = self.placed_templates();
        all.extend(&self.texts);
        all.extend(self.fields.all.iter().map(|(_, template)| template));
        all.extend(self.sign.as_ref().map(|sign| &sign.text));
        all
    }

    /// Whether a template names this source, directly or through texts and fields.
    pub(crate) fn reaches(&self, template: &Template, source: &TokenSource) -> bool {
        // This ends: fields name texts, and a text names only texts before it.
        template.tokens().iter().any(|token| {
            token.source == *source
                || self.named(&token.source).into_iter().any(|named| self.reaches(named, source))
        })
    }

    /// Whether some template names the value of this index.
    pub(crate) fn names(&self, value: usize) -> bool {
        self.templates().iter().any(|template| names_source(template, &TokenSource::Value(value)))
    }

    /// Whether the call can't be made without a shared secret.
    pub(crate) fn needs_secret(&self) -> bool {
        self.sign.as_ref().is_some_and(|sign| sign.algorithm.key_kind() == KeyKind::Shared)
            || self.templates().iter().any(|template| names_source(template, &TokenSource::Secret))
    }

    /// The algorithm our private key signs with. `None` if no private key signs.
    pub(crate) fn signs_with(&self) -> Option<SignAlgorithm> {
        let algorithm = self.sign.as_ref().map(|sign| sign.algorithm);
        algorithm.filter(|algorithm| algorithm.key_kind() == KeyKind::Public)
    }

    /// Where the fields are sent. `None` if they are only signed.
    pub(crate) fn place_of_fields(&self) -> Option<FieldsPlace> {
        let are_sent = !self.fields.all.is_empty() && self.body.pieces.is_empty();
        are_sent.then_some(match (self.method, self.content) {
            (CallMethod::Get, _) => FieldsPlace::Address,
            (CallMethod::Post, BodyContent::Json) => FieldsPlace::JsonBody,
            (CallMethod::Post, BodyContent::Form | BodyContent::None) => FieldsPlace::FormBody,
        })
    }

    /// Whether a template holds the signature, directly or through a field.
    pub(crate) fn holds_sign(&self, template: &Template) -> bool {
        self.reaches(template, &TokenSource::Value(SIGN))
    }

    /// Whether the address holds the signature, and whether the body does.
    pub(crate) fn parts_with_signature(&self) -> (bool, bool) {
        let is_in_field = self.fields.all.iter().any(|(_, template)| names_sign(template));
        let place = self.place_of_fields().filter(|_| is_in_field);
        let in_path = self.holds_sign(&self.path) || place == Some(FieldsPlace::Address);
        let in_body = self.holds_sign(&self.body)
            || matches!(place, Some(FieldsPlace::FormBody | FieldsPlace::JsonBody));
        (in_path, in_body)
    }

    /// The template of the field with this path.
    pub(crate) fn field(&self, path: &[String]) -> Option<&Template> {
        let name = path.join(".");
        self.fields.all.iter().find(|(other, _)| *other == name).map(|(_, template)| template)
    }
}

/// Where a call's fields are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldsPlace {
    Address,
    FormBody,
    JsonBody,
}

/// Whether a template has a token of this source, not counting texts.
pub(crate) fn names_source(template: &Template, source: &TokenSource) -> bool {
    template.tokens().iter().any(|token| token.source == *source)
}

pub(crate) fn names_sign(template: &Template) -> bool {
    names_source(template, &TokenSource::Value(SIGN))
}

/// Limits of an answer. They are wider than those of a notice, because we called this partner and
/// have bounded the answer's bytes while reading it.
const ANSWER_LIMITS: BodyLimits = BodyLimits { body_bytes: 1_048_576, depth: 32, keys: 1_024 };

/// The format of a partner's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerContent {
    Json,
    Form,
}

impl AnswerContent {
    /// Parses an answer. `None` if it can't be parsed.
    pub(crate) fn parse(self, body: &[u8]) -> Option<Document> {
        match self {
            Self::Json => JsonDocument::parse(body, ANSWER_LIMITS).ok().map(Document::Json),
            Self::Form => parse_url_encoded(body, ANSWER_LIMITS).ok(),
        }
    }

    /// The media type for `Accept`. `None` where there is no usual one.
    pub(crate) const fn accept(self) -> Option<&'static str> {
        match self {
            Self::Json => Some("application/json"),
            Self::Form => None,
        }
    }
}
