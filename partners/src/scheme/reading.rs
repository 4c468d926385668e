//! Owns the reading of one notice: its documents, and what a template becomes with them. Pure.
//! Invariants: a place that is there twice is never read; what is absent or `null` is empty; nothing is read through a
//! float; a value that is an object or an array stands in a text only where the profile says `raw`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes128Gcm, Aes256Gcm, Nonce};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use super::document::{Document, Json, Kind, Value, form, parts};
use super::filter::Filter;
use super::pairs::{Member, Pairs};
use super::request::Request;
use super::template::{Piece, Source, Template, Token};
use super::{BODY, Content, Decode, DocumentContent, DocumentRule, ITEM, QUERY, Scheme};
use crate::profile::Limits;
use crate::secret::Secret;
use crate::verify::{RejectCode, Rejection};

/// What of an account may stand in a text.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Of<'a> {
    pub(crate) merchant: &'a str,
    pub(crate) constants: &'a BTreeMap<String, String>,
    /// Keys that open what is encrypted.
    pub(crate) opening: &'a [Secret],
    /// What a question is made of; none in a notice.
    pub(crate) values: &'a [String],
}

/// Why a text can't be put together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unusable {
    #[error("{0} is there more than once")]
    Repeated(String),
    #[error(
        "{0} is an object or an array: name what is in it, or in a text that is signed as it stands write {0} with |raw"
    )]
    Composite(String),
    #[error("the account has no constant {0}")]
    NoConstant(String),
    #[error("{0} needs a shared secret, and the key is a public one")]
    NoSecret(String),
}

/// One notice with its documents.
#[derive(Clone)]
pub(crate) struct Reading<'r> {
    scheme: &'r Scheme,
    request: &'r Request<'r>,
    limits: Limits,
    documents: Vec<Option<Document>>,
    item: Option<usize>,
}

impl<'r> Reading<'r> {
    /// Parses the body and the query, and the documents that need no key. Errors: what can't be parsed.
    pub(crate) fn new(
        scheme: &'r Scheme,
        request: &'r Request<'r>,
        limits: Limits,
    ) -> Result<Self, Rejection> {
        let body = body(scheme, request, limits)?;
        let query = form(request.query, limits).map_err(|code| at(code, "the query"))?;
        let mut documents = vec![None; 3 + scheme.documents.len()];
        documents[BODY] = body;
        documents[QUERY] = Some(query);
        Ok(Self { scheme, request, limits, documents, item: None })
    }

    /// A reading of what is parsed already: an answer, or nothing at all while a question is put together.
    pub(crate) fn of_document(
        scheme: &'r Scheme,
        request: &'r Request<'r>,
        limits: Limits,
        document: Option<Document>,
    ) -> Self {
        let mut documents = vec![None; 3 + scheme.documents.len()];
        documents[BODY] = document;
        Self { scheme, request, limits, documents, item: None }
    }

    /// Parses what is wrapped in values, with an account's keys. Errors: what can't be parsed or opened.
    pub(crate) fn unwrap(&mut self, of: &Of<'_>) -> Result<(), Rejection> {
        self.unwrap_where(of, |_, _| true)
    }

    /// The same of the documents at some places; what is unwrapped already stays.
    pub(crate) fn unwrap_where(
        &mut self,
        of: &Of<'_>,
        is_wanted: impl Fn(&Scheme, usize) -> bool,
    ) -> Result<(), Rejection> {
        for (place, rule) in self.scheme.documents.iter().enumerate() {
            if self.documents[3 + place].is_some() || !is_wanted(self.scheme, place) {
                continue;
            }
            let document = self
                .unwrap_one(rule, of)
                .map_err(|code| at(code, &format!("document {}", rule.name)))?;
            self.documents[3 + place] = document;
        }
        Ok(())
    }

    fn unwrap_one(&self, rule: &DocumentRule, of: &Of<'_>) -> Result<Option<Document>, RejectCode> {
        let context = Context::bare(self, of);
        let wrapped = context.text(&rule.from).map_err(|_| RejectCode::MalformedJson)?;
        if wrapped.is_empty() {
            return Ok(None);
        }
        let bytes = decode(rule.decode, wrapped).ok_or(RejectCode::InvalidEncoding)?;
        let bytes = match &rule.decrypt {
            None => bytes,
            Some(rule) => {
                let text = |template| context.text(template).map_err(|_| RejectCode::MalformedJson);
                let (nonce, data) = (text(&rule.nonce)?, text(&rule.associated_data)?);
                let open = |key: &Secret| open(key.expose(), &nonce, (&bytes, &data));
                of.opening.iter().find_map(open).ok_or(RejectCode::Unauthenticated)?
            }
        };
        let text = String::from_utf8(bytes).map_err(|_| RejectCode::InvalidEncoding)?;
        Ok(Some(match &rule.content {
            DocumentContent::Json => Document::Json(Json::parse(&text, self.limits)?),
            DocumentContent::Form => form(&text, self.limits)?,
            DocumentContent::Parts { separator, assign } => {
                parts(&text, (separator, assign), self.limits)
            }
        }))
    }

    /// How many notices are in it: 1, or the items of its array. Errors: there is no such array.
    pub(crate) fn items(&self) -> Result<usize, Rejection> {
        let Some(rule) = &self.scheme.items else { return Ok(1) };
        let document = self.documents[rule.of.0].as_ref();
        let count = document.and_then(|document| document.items(&rule.of.1));
        match count {
            Some(count @ 1..) => Ok(count),
            Some(0) | None => Err(Rejection::new(RejectCode::MalformedJson)
                .with_detail("there are no items where the profile says they are")),
        }
    }

    /// Reads this item from now on.
    pub(crate) fn go_to(&mut self, item: usize) {
        self.item = Some(item);
    }

    /// The document a place is in and its path there, also of a place in the item.
    fn resolved<'p>(
        &self,
        number: usize,
        path: &'p [String],
    ) -> Option<(usize, Cow<'p, [String]>)> {
        if number != ITEM {
            return Some((number, Cow::Borrowed(path)));
        }
        let (rule, item) = (self.scheme.items.as_ref()?, self.item?);
        let whole = rule.of.1.iter().cloned().chain([item.to_string()]);
        Some((rule.of.0, whole.chain(path.iter().cloned()).collect()))
    }

    /// The value at a place.
    fn find(&self, number: usize, path: &[String]) -> Result<Option<Value<'_>>, RejectCode> {
        let Some((number, path)) = self.resolved(number, path) else { return Ok(None) };
        self.document(number).map_or(Ok(None), |found| found.find(&path))
    }

    /// The members a list of pairs is made of; none of a document that is not there.
    fn members(&self, list: &Pairs) -> Vec<Member<'_>> {
        let Some((number, path)) = self.resolved(list.of.0, &list.of.1) else { return Vec::new() };
        self.document(number).map(|found| found.members(&path)).unwrap_or_default()
    }

    pub(crate) fn document(&self, number: usize) -> Option<&Document> {
        self.documents[number].as_ref()
    }

    pub(crate) fn scheme(&self) -> &'r Scheme {
        self.scheme
    }
}

fn at(code: RejectCode, place: &str) -> Rejection {
    match code {
        RejectCode::Unauthenticated => Rejection::new(code),
        _ => Rejection::new(code).with_detail(format!("in {place}")),
    }
}

/// The body as its content says. Errors: what can't be parsed.
fn body(
    scheme: &Scheme,
    request: &Request<'_>,
    limits: Limits,
) -> Result<Option<Document>, Rejection> {
    let text = std::str::from_utf8(request.body).map_err(|error| {
        Rejection::new(RejectCode::InvalidEncoding)
            .with_detail(format!("not UTF-8 at byte {}", error.valid_up_to()))
    })?;
    match scheme.content {
        Content::Json => {
            Json::parse(text, limits).map(|json| Some(Document::Json(json))).map_err(Rejection::new)
        }
        Content::Form if text.is_empty() => Err(Rejection::new(RejectCode::EmptyBody)),
        Content::Form => form(text, limits).map(Some).map_err(Rejection::new),
        Content::Query => Ok(None),
    }
}

fn decode(how: Decode, text: Vec<u8>) -> Option<Vec<u8>> {
    match how {
        Decode::None => Some(text),
        Decode::Hex => hex::decode(text).ok(),
        Decode::Base64 => STANDARD.decode(text).ok(),
        Decode::Base64url => {
            let text = String::from_utf8(text).ok()?;
            URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()
        }
    }
}

/// AES-GCM with a key of 16 or 32 bytes, a nonce of 12, and the tag behind the text.
fn open(key: &[u8], nonce: &[u8], (msg, aad): (&[u8], &[u8])) -> Option<Vec<u8>> {
    if nonce.len() != 12 {
        return None;
    }
    let (nonce, payload) = (Nonce::from_slice(nonce), Payload { msg, aad });
    match key.len() {
        16 => Aes128Gcm::new_from_slice(key).ok()?.decrypt(nonce, payload).ok(),
        32 => Aes256Gcm::new_from_slice(key).ok()?.decrypt(nonce, payload).ok(),
        _ => None,
    }
}

/// A reading for one account, with one of its keys or none.
#[derive(Clone, Copy)]
pub(crate) struct Context<'c> {
    pub(crate) reading: &'c Reading<'c>,
    pub(crate) of: &'c Of<'c>,
    pub(crate) secret: Option<&'c [u8]>,
    /// Other lists of pairs than the scheme's: to try what would have matched.
    pub(crate) lists: Option<&'c [Pairs]>,
    /// Other texts than the scheme's: those of a call.
    pub(crate) texts: Option<&'c [Template]>,
}

impl<'c> Context<'c> {
    /// A reading for an account, without a key.
    pub(crate) const fn bare(reading: &'c Reading<'c>, of: &'c Of<'c>) -> Self {
        Self { reading, of, secret: None, lists: None, texts: None }
    }

    /// What a template becomes.
    pub(crate) fn text(&self, template: &Template) -> Result<Vec<u8>, Unusable> {
        let mut text = Vec::new();
        for piece in &template.pieces {
            match piece {
                Piece::Literal(literal) => text.extend_from_slice(literal.as_bytes()),
                Piece::Token(token) => text.extend(self.token(token)?),
                Piece::Optional(pieces) => self.optional(pieces, &mut text)?,
            }
        }
        Ok(text)
    }

    /// The same as text; what is not UTF-8 is replaced, so it matches nothing.
    pub(crate) fn string(&self, template: &Template) -> Result<String, Unusable> {
        let text = self.text(template)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn optional(&self, pieces: &[Piece], text: &mut Vec<u8>) -> Result<(), Unusable> {
        let mut inside = Vec::new();
        for piece in pieces {
            match piece {
                Piece::Literal(literal) => inside.extend_from_slice(literal.as_bytes()),
                Piece::Token(token) => {
                    let value = self.token(token)?;
                    if value.is_empty() {
                        return Ok(());
                    }
                    inside.extend(value);
                }
                Piece::Optional(pieces) => self.optional(pieces, &mut inside)?,
            }
        }
        text.extend(inside);
        Ok(())
    }

    /// What a token becomes.
    pub(crate) fn token(&self, token: &Token) -> Result<Vec<u8>, Unusable> {
        let value = self.value(token)?;
        Ok(token.filters.iter().fold(value, |value, filter| filter.apply(value)))
    }

    fn value(&self, token: &Token) -> Result<Vec<u8>, Unusable> {
        let request = self.reading.request;
        Ok(match &token.source {
            Source::Body => request.body.to_vec(),
            Source::Method => request.method.as_bytes().to_vec(),
            Source::Path => request.path.as_bytes().to_vec(),
            Source::Query => request.query.as_bytes().to_vec(),
            Source::Url => format!("{}{}", request.base_url, request.target()).into_bytes(),
            Source::Merchant => self.of.merchant.as_bytes().to_vec(),
            Source::Secret => match self.secret {
                Some(secret) => secret.to_vec(),
                None => return Err(Unusable::NoSecret(token.written.clone())),
            },
            Source::Constant(name) => match self.of.constants.get(name) {
                Some(value) => value.as_bytes().to_vec(),
                None => return Err(Unusable::NoConstant(name.clone())),
            },
            Source::Pairs(number) => {
                let lists = self.lists.unwrap_or(&self.reading.scheme.pairs);
                let list = &lists[*number];
                let mut text = Vec::new();
                list.write(self.reading.members(list), &mut text);
                text
            }
            Source::Value(number) => {
                self.of.values.get(*number).map_or(Vec::new(), |value| value.as_bytes().to_vec())
            }
            Source::Text(number) => {
                let texts = self.texts.unwrap_or(&self.reading.scheme.texts);
                self.text(&texts[*number])?
            }
            Source::Header(_) | Source::Field(..) => {
                let is_raw = token.filters.contains(&Filter::Raw);
                match self.found(token)? {
                    None => Vec::new(),
                    Some(value) if is_raw => value.raw.as_bytes().to_vec(),
                    Some(Value { kind: Kind::Composite, .. }) => {
                        return Err(Unusable::Composite(token.written.clone()));
                    }
                    Some(value) => value.text.as_bytes().to_vec(),
                }
            }
        })
    }

    /// The value a token of a header or a document stands for; `None` if it is absent.
    pub(crate) fn found(&self, token: &Token) -> Result<Option<Value<'c>>, Unusable> {
        let repeated = || Unusable::Repeated(token.written.clone());
        match &token.source {
            Source::Header(name) => {
                let mut values = self.reading.request.header_values(name);
                match (values.next(), values.next()) {
                    (_, Some(_)) => Err(repeated()),
                    (one, None) => Ok(one.map(Value::plain)),
                }
            }
            Source::Field(document, path) => {
                self.reading.find(*document, path).map_err(|_| repeated())
            }
            _ => Ok(None),
        }
    }

    /// A member of a list of pairs that could be read another way.
    pub(crate) fn ambiguous_member(&self, number: usize) -> Option<String> {
        let list = &self.reading.scheme.pairs[number];
        list.ambiguous(&self.reading.members(list)).map(str::to_owned)
    }

    /// Whether what a token stands for is there, is not `null` and no empty text.
    pub(crate) fn is_present(&self, token: &Token) -> Result<bool, Unusable> {
        match &token.source {
            Source::Header(_) | Source::Field(..) => {
                Ok(self.found(token)?.is_some_and(|value| !value.text.is_empty()))
            }
            _ => Ok(!self.token(token)?.is_empty()),
        }
    }

    /// Every value at a token's place, where several may stand: several signatures in one header.
    pub(crate) fn every(&self, token: &Token) -> Vec<String> {
        let values: Vec<String> = match &token.source {
            Source::Header(name) => {
                self.reading.request.header_values(name).map(str::to_owned).collect()
            }
            Source::Field(document, path) if *document != ITEM => {
                let found = self.reading.document(*document);
                let all = found.map(|found| found.all(path)).unwrap_or_default();
                all.into_iter().map(|value| value.text.to_owned()).collect()
            }
            _ => {
                let one = self.token(token).ok();
                one.and_then(|text| String::from_utf8(text).ok()).into_iter().collect()
            }
        };
        values.into_iter().filter(|value| !value.is_empty()).collect()
    }
}
