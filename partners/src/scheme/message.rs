//! Owns a parsed message (a notice, or a partner's answer) and rendering templates with its values.
//! Pure. Invariants: a repeated value is never read; an absent or `null` value is empty; no value
//! goes through a float; an object or array is rendered only with the filter `raw`.

use std::borrow::Cow;
use std::sync::Arc;

use super::document::{Document, parse_url_encoded};
use super::filter::Filter;
use super::found_value::{FoundValue, ValueKind};
use super::pairs::{Member, PairList};
use super::request::NoticeRequest;
use super::template::{Template, TemplatePiece, TemplateToken, TokenSource};
use crate::limits::BodyLimits;
use crate::rejection::{RejectCode, Rejection};
use crate::scheme::compiled::Scheme;
use crate::scheme::rules::{BODY, ITEM, QUERY};
use crate::scheme::template_values::{TemplateInputs, TemplateValueError};

/// A notice or an answer with its parsed documents.
#[derive(Clone)]
pub(crate) struct ParsedMessage<'r> {
    scheme: &'r Scheme,
    request: &'r NoticeRequest<'r>,
    pub(super) limits: BodyLimits,
    /// Shared by the copies of the message that each account reads.
    pub(super) documents: Vec<Option<Arc<Document>>>,
    item: Option<usize>,
}

impl<'r> ParsedMessage<'r> {
    /// Parses the body and the query of a notice. Errors: what can't be parsed.
    pub(crate) fn new(
        scheme: &'r Scheme,
        request: &'r NoticeRequest<'r>,
        limits: BodyLimits,
    ) -> Result<Self, Rejection> {
        let format = (scheme.content, scheme.case);
        let body = Document::parse_body(format, request.body, limits)?;
        let query = parse_url_encoded(request.query.as_bytes(), limits)
            .map_err(|code| reject_in(code, "the query"))?;
        let mut message = Self::from_document(scheme, request, limits, body);
        message.documents[QUERY] = Some(Arc::new(query));
        Ok(message)
    }

    /// Wraps a parsed answer, or no document at all while a call is built.
    pub(crate) fn from_document(
        scheme: &'r Scheme,
        request: &'r NoticeRequest<'r>,
        limits: BodyLimits,
        document: Option<Document>,
    ) -> Self {
        let mut documents = vec![None; 3 + scheme.documents.len()];
        documents[BODY] = document.map(Arc::new);
        Self { scheme, request, limits, documents, item: None }
    }

    /// How many notices it holds: 1, or the items of its array. Errors: the array is absent or
    /// empty.
    pub(crate) fn count_items(&self) -> Result<usize, Rejection> {
        let Some(rule) = &self.scheme.items else { return Ok(1) };
        let document = self.document(rule.of.0);
        let count = document.and_then(|document| document.count_items(&rule.of.1));
        match count {
            Some(count @ 1..) => Ok(count),
            Some(0) | None => Err(Rejection::new(RejectCode::MalformedJson)
                .with_detail("there are no items at the place of items.at")),
        }
    }

    /// Selects the item that `{i.…}` reads from now on.
    pub(crate) fn select_item(&mut self, item: usize) {
        self.item = Some(item);
    }

    /// Resolves a place to a document and a path in it; a place in the item becomes one in the
    /// array's document.
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

    /// Finds the value at a place.
    fn find(&self, number: usize, path: &[String]) -> Result<Option<FoundValue<'_>>, RejectCode> {
        let Some((number, path)) = self.resolved(number, path) else { return Ok(None) };
        self.document(number).map_or(Ok(None), |found| found.find(&path))
    }

    /// The members of a list of pairs. Empty if its document is absent.
    fn members(&self, list: &PairList) -> Vec<Member<'_>> {
        let Some((number, path)) = self.resolved(list.of.0, &list.of.1) else { return Vec::new() };
        self.document(number).map(|found| found.members(&path)).unwrap_or_default()
    }

    pub(crate) fn document(&self, number: usize) -> Option<&Document> {
        self.documents[number].as_deref()
    }

    pub(crate) fn scheme(&self) -> &'r Scheme {
        self.scheme
    }
}

pub(super) fn reject_in(code: RejectCode, place: &str) -> Rejection {
    match code {
        RejectCode::Unauthenticated => Rejection::new(code),
        _ => Rejection::new(code).with_detail(format!("in {place}")),
    }
}

/// A message with an account's values and, for a signed text, one of its keys. It renders
/// templates.
#[derive(Clone, Copy)]
pub(crate) struct TemplateContext<'c> {
    pub(crate) message: &'c ParsedMessage<'c>,
    pub(crate) inputs: &'c TemplateInputs<'c>,
    pub(crate) secret: Option<&'c [u8]>,
    /// Replaces the scheme's lists of pairs: a call's own, or variants that `explain` tries.
    pub(crate) lists: Option<&'c [PairList]>,
    /// Replaces the scheme's texts by those of a call.
    pub(crate) texts: Option<&'c [Template]>,
}

impl<'c> TemplateContext<'c> {
    /// A context without a key: `{secret}` can't be rendered.
    pub(crate) const fn without_key(
        message: &'c ParsedMessage<'c>,
        inputs: &'c TemplateInputs<'c>,
    ) -> Self {
        Self { message, inputs, secret: None, lists: None, texts: None }
    }

    /// Renders a template.
    pub(crate) fn render(&self, template: &Template) -> Result<Vec<u8>, TemplateValueError> {
        let mut text = Vec::new();
        template.pieces.iter().try_for_each(|piece| self.render_piece(piece, &mut text))?;
        Ok(text)
    }

    /// Renders a template with what can be rendered. What can't is left out, as an absent value is.
    pub(crate) fn render_readable(&self, template: &Template) -> Vec<u8> {
        let mut text = Vec::new();
        for piece in &template.pieces {
            let before = text.len();
            if self.render_piece(piece, &mut text).is_err() {
                text.truncate(before);
            }
        }
        text
    }

    /// Appends a piece of a template, or nothing if it can't be rendered.
    fn render_piece(
        &self,
        piece: &TemplatePiece,
        text: &mut Vec<u8>,
    ) -> Result<(), TemplateValueError> {
        match piece {
            TemplatePiece::Literal(literal) => text.extend_from_slice(literal.as_bytes()),
            TemplatePiece::Token(token) => self.append_token(token, text)?,
            TemplatePiece::Optional(pieces) => self.render_optional(pieces, text)?,
        }
        Ok(())
    }

    /// Renders a template as text. Errors: a value can't be rendered, or is no text (`NotText`).
    pub(crate) fn render_string(&self, template: &Template) -> Result<String, TemplateValueError> {
        String::from_utf8(self.render(template)?)
            .map_err(|_| TemplateValueError::NotText(self.first_not_text(template)))
    }

    /// The first token of a template with a value that is no text, as written.
    fn first_not_text(&self, template: &Template) -> String {
        let is_odd = |token: &&TemplateToken| {
            self.render_token(token).is_ok_and(|value| std::str::from_utf8(&value).is_err())
        };
        let token = template.tokens().into_iter().find(is_odd);
        token.map_or_else(String::new, |token| token.written.clone())
    }

    fn render_optional(
        &self,
        pieces: &[TemplatePiece],
        text: &mut Vec<u8>,
    ) -> Result<(), TemplateValueError> {
        let mut inside = Vec::new();
        for piece in pieces {
            let before = inside.len();
            self.render_piece(piece, &mut inside)?;
            if matches!(piece, TemplatePiece::Token(_)) && inside.len() == before {
                return Ok(());
            }
        }
        text.extend(inside);
        Ok(())
    }

    /// Renders a token with its filters.
    pub(crate) fn render_token(
        &self,
        token: &TemplateToken,
    ) -> Result<Vec<u8>, TemplateValueError> {
        let mut text = Vec::new();
        self.append_token(token, &mut text)?;
        Ok(text)
    }

    fn append_token(
        &self,
        token: &TemplateToken,
        text: &mut Vec<u8>,
    ) -> Result<(), TemplateValueError> {
        if token.filters.is_empty() {
            return self.append_value(token, text);
        }
        let mut value = Vec::new();
        self.append_value(token, &mut value)?;
        text.extend(token.filters.iter().fold(value, |value, filter| filter.apply(value)));
        Ok(())
    }

    /// Appends the value of a token, without its filters.
    fn append_value(
        &self,
        token: &TemplateToken,
        text: &mut Vec<u8>,
    ) -> Result<(), TemplateValueError> {
        let (message, inputs) = (self.message, self.inputs);
        let target;
        let value = match &token.source {
            TokenSource::Body => message.request.body,
            TokenSource::Method => message.request.method.as_bytes(),
            TokenSource::Path => message.request.path.as_bytes(),
            TokenSource::Query => message.request.query.as_bytes(),
            TokenSource::Url => {
                text.extend_from_slice(message.request.base_url.as_bytes());
                target = message.request.target();
                target.as_bytes()
            }
            TokenSource::Merchant => inputs.merchant.as_bytes(),
            TokenSource::Value(number) => {
                inputs.values.get(*number).map_or("", String::as_str).as_bytes()
            }
            TokenSource::Secret => {
                self.secret.ok_or_else(|| TemplateValueError::NoSecret(token.written.clone()))?
            }
            TokenSource::Constant(name) => match inputs.constants.get(name) {
                Some(value) => value.as_bytes(),
                None => return Err(TemplateValueError::NoConstant(name.clone())),
            },
            TokenSource::Pairs(number) => {
                let list = &self.lists.unwrap_or(&message.scheme.pairs)[*number];
                list.write(message.members(list), text);
                &[]
            }
            TokenSource::Text(number) => {
                let template = &self.texts.unwrap_or(&message.scheme.texts)[*number];
                template.pieces.iter().try_for_each(|piece| self.render_piece(piece, text))?;
                &[]
            }
            TokenSource::Header(_) | TokenSource::Field(..) => match self.find_value(token)? {
                None => &[],
                Some(value) if token.filters.contains(&Filter::Raw) => value.raw,
                Some(FoundValue { kind: ValueKind::Composite, .. }) => {
                    return Err(TemplateValueError::Composite(token.written.clone()));
                }
                Some(value) => value.text,
            },
        };
        text.extend_from_slice(value);
        Ok(())
    }

    /// Finds the value of a header or document token. `None` if it is absent. Errors: `Repeated`.
    pub(crate) fn find_value(
        &self,
        token: &TemplateToken,
    ) -> Result<Option<FoundValue<'c>>, TemplateValueError> {
        let repeated = || TemplateValueError::Repeated(token.written.clone());
        match &token.source {
            TokenSource::Header(name) => {
                let mut values = self.message.request.header_values(name);
                match (values.next(), values.next()) {
                    (_, Some(_)) => Err(repeated()),
                    (one, None) => Ok(one.map(FoundValue::plain)),
                }
            }
            TokenSource::Field(document, path) => {
                self.message.find(*document, path).map_err(|_| repeated())
            }
            _ => Ok(None),
        }
    }

    /// The name of a member that makes the text of a list ambiguous.
    pub(crate) fn ambiguous_member(&self, number: usize) -> Option<String> {
        let list = &self.message.scheme.pairs[number];
        list.find_ambiguous_member(&self.message.members(list))
    }

    /// Whether a token's value is present, not `null` and not empty.
    pub(crate) fn is_present(&self, token: &TemplateToken) -> Result<bool, TemplateValueError> {
        match &token.source {
            TokenSource::Header(_) | TokenSource::Field(..) => {
                Ok(self.find_value(token)?.is_some_and(|value| !value.text.is_empty()))
            }
            _ => Ok(!self.render_token(token)?.is_empty()),
        }
    }

    /// Whether the value of a one-token template has this kind or is absent. A template with more
    /// pieces passes.
    pub(crate) fn is_of_kind(&self, template: &Template, kind: ValueKind) -> bool {
        let found = template.single().and_then(|token| self.find_value(token).ok().flatten());
        found.is_none_or(|value| value.kind == kind || value.kind == ValueKind::Null)
    }

    /// Every value of a token that may repeat, such as several signatures in one header.
    pub(crate) fn find_all_values(&self, token: &TemplateToken) -> Vec<String> {
        let values: Vec<String> = match &token.source {
            TokenSource::Header(name) => {
                self.message.request.header_values(name).map(str::to_owned).collect()
            }
            TokenSource::Field(document, path) if *document != ITEM => {
                let found = self.message.document(*document);
                let all = found.map(|found| found.find_all(path)).unwrap_or_default();
                let text = |value: FoundValue<'_>| String::from_utf8(value.text.to_vec()).ok();
                all.into_iter().filter_map(text).collect()
            }
            _ => {
                let one = self.render_token(token).ok();
                one.and_then(|text| String::from_utf8(text).ok()).into_iter().collect()
            }
        };
        values.into_iter().filter(|value| !value.is_empty()).collect()
    }
}
