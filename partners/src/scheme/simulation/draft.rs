//! A message that is being written: values are put at their places, then its documents are encoded
//! into the body, the query and the headers.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::Value;

use super::draft_document::{DraftDocument, Place};
use super::error::SimulationError;
use super::inverse::{apply, split, unfiltered};
use crate::scheme::call::rule::AnswerContent;
use crate::scheme::compiled::Scheme;
use crate::scheme::rules::{
    BODY, DocumentContent, FieldRule, ITEM, JsonType, NoticeFormat, QUERY, TextDecoding,
};
use crate::scheme::template::{Template, TemplateToken, TokenSource};
use crate::scheme::template_values::TemplateInputs;

/// A message that is being written.
#[derive(Clone)]
pub(super) struct MessageDraft<'s> {
    scheme: &'s Scheme,
    inputs: TemplateInputs<'s>,
    /// The `[[field]]` rules of notices; none for an answer.
    fields: &'s [FieldRule],
    documents: Vec<DraftDocument>,
    pub(super) headers: Vec<(String, String)>,
}

/// How a value without a `[[field]]` is written into JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum JsonKind {
    Text,
    /// A number, if the text is one.
    Number,
}

/// The parts of a request that the documents of a draft are written into.
pub(super) struct EncodedMessage {
    pub(super) query: String,
    pub(super) headers: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl<'s> MessageDraft<'s> {
    /// An empty notice.
    pub(super) fn of_notice(scheme: &'s Scheme, inputs: TemplateInputs<'s>) -> Self {
        let body = match scheme.content {
            NoticeFormat::Json => DraftDocument::Json(Value::Null),
            NoticeFormat::Form | NoticeFormat::Query => DraftDocument::Pairs(Vec::new()),
        };
        let item = DraftDocument::Json(Value::Null);
        let mut documents = vec![body, DraftDocument::Pairs(Vec::new()), item];
        documents.extend(scheme.documents.iter().map(|rule| match rule.content {
            DocumentContent::Json => DraftDocument::Json(Value::Null),
            DocumentContent::Form | DocumentContent::Parts { .. } => {
                DraftDocument::Pairs(Vec::new())
            }
        }));
        Self { scheme, inputs, fields: &scheme.fields, documents, headers: Vec::new() }
    }

    /// An empty answer to a call.
    pub(super) fn of_answer(
        scheme: &'s Scheme,
        inputs: TemplateInputs<'s>,
        content: AnswerContent,
    ) -> Self {
        let body = match content {
            AnswerContent::Json => DraftDocument::Json(Value::Null),
            AnswerContent::Form => DraftDocument::Pairs(Vec::new()),
        };
        Self { scheme, inputs, fields: &[], documents: vec![body], headers: Vec::new() }
    }

    /// The `[[field]]` of a token.
    fn field(&self, token: &TemplateToken) -> Option<&'s FieldRule> {
        self.fields.iter().find(|rule| rule.at.source == token.source)
    }

    /// Whether a place may have this text: the template renders it, and the `[[field]]` of each
    /// token takes its value.
    pub(super) fn fits(&self, template: &Template, text: &str) -> bool {
        let values = self.solve(template, text);
        values.is_ok_and(|values| values.iter().all(|(token, value)| self.takes(token, value)))
    }

    /// Whether the `[[field]]` of a token takes this value.
    fn takes(&self, token: &TemplateToken, value: &str) -> bool {
        let Some(rule) = self.field(token) else { return true };
        let has_shape = match rule.shape {
            Some(JsonType::Integer) => value.parse::<i64>().is_ok(),
            Some(JsonType::Number) => as_number(value).is_some(),
            Some(JsonType::Bool) => matches!(value, "true" | "false"),
            Some(JsonType::String) | None => true,
        };
        has_shape && rule.pattern.as_ref().is_none_or(|pattern| pattern.is_match(value))
    }

    /// Values for the tokens of a template with which it renders this text. Tokens of the account
    /// and the profile have theirs already. Errors: there are none.
    fn solve<'t>(
        &self,
        template: &'t Template,
        text: &str,
    ) -> Result<Vec<(&'t TemplateToken, String)>, SimulationError>
    where
        's: 't,
    {
        let refused = |why| SimulationError::place(template, why);
        let tokens = split(template, &self.scheme.texts, &self.inputs, text)
            .ok_or_else(|| refused("the profile has another text there"))?;
        let mut values = Vec::new();
        for (token, rendered) in tokens {
            if !token.is_place() {
                return Err(refused("a simulated partner chooses no value there"));
            }
            let value = unfiltered(&token.filters, &rendered).into_iter().next();
            values.push((token, value.ok_or_else(|| refused("its filters can't be undone"))?));
        }
        Ok(values)
    }

    /// Puts values where the template then renders `text`. Errors: it can't render it, or a place
    /// has another value already.
    pub(super) fn put(
        &mut self,
        template: &Template,
        text: &str,
        kind: JsonKind,
    ) -> Result<(), SimulationError> {
        let values = self.solve(template, text)?;
        if !values.iter().all(|(token, value)| self.takes(token, value)) {
            let why = "the [[field]] of its place takes another text";
            return Err(SimulationError::place(template, why));
        }
        for (token, value) in values {
            self.put_value(token, &value, kind)?;
        }
        Ok(())
    }

    /// Puts a value where the token, with its filters, then renders `text`.
    pub(super) fn put_token(
        &mut self,
        token: &TemplateToken,
        text: &str,
        kind: JsonKind,
    ) -> Result<(), SimulationError> {
        let value = unfiltered(&token.filters, text).into_iter().next();
        let refused = || SimulationError::place(&token.written, "its filters can't be undone");
        self.put_value(token, &value.ok_or_else(refused)?, kind)
    }

    fn put_value(
        &mut self,
        token: &TemplateToken,
        value: &str,
        kind: JsonKind,
    ) -> Result<(), SimulationError> {
        let conflict = || SimulationError::place(&token.written, "it needs two values");
        match &token.source {
            TokenSource::Header(name) => {
                let known = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
                match known {
                    Some((_, known)) if known == value => Ok(()),
                    Some(_) => Err(conflict()),
                    None => {
                        self.headers.push((name.clone(), value.to_owned()));
                        Ok(())
                    }
                }
            }
            TokenSource::Field(document, path) => {
                let json = self.json_value(token, value, kind);
                let known = self.documents[*document].text(path).unwrap_or_default();
                if known == value {
                    return Ok(());
                }
                match self.documents[*document].place(path) {
                    Some(Place::Json(place)) if known.is_empty() => *place = json,
                    Some(Place::Pair(place)) if known.is_empty() => value.clone_into(place),
                    Some(_) | None => return Err(conflict()),
                }
                Ok(())
            }
            _ => Err(SimulationError::place(&token.written, "it is no place in a message")),
        }
    }

    fn json_value(&self, token: &TemplateToken, value: &str, kind: JsonKind) -> Value {
        let shape = self.field(token).and_then(|rule| rule.shape);
        match (shape, kind) {
            (Some(JsonType::Bool), _) => Some(Value::Bool(value == "true")),
            (Some(JsonType::Number | JsonType::Integer), _) => as_number(value),
            (None, JsonKind::Number) => value.parse::<i64>().ok().map(Value::from),
            (Some(JsonType::String), _) | (None, JsonKind::Text) => None,
        }
        .unwrap_or_else(|| value.into())
    }

    /// The text at a token's place, filters included. Empty if nothing was put there.
    pub(super) fn text(&self, token: &TemplateToken) -> String {
        let value = match &token.source {
            TokenSource::Header(name) => {
                let known = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
                known.map(|(_, value)| value.clone())
            }
            TokenSource::Field(document, path) => self.documents[*document].text(path),
            TokenSource::Merchant => Some(self.inputs.merchant.to_owned()),
            TokenSource::Constant(name) => self.inputs.constants.get(name).cloned(),
            _ => None,
        };
        let filtered = apply(&token.filters, &value.unwrap_or_default());
        String::from_utf8_lossy(&filtered).into_owned()
    }

    /// Removes what was put where this template reads.
    pub(super) fn remove(&mut self, template: &Template) {
        for token in template.tokens() {
            if let TokenSource::Field(document, path) = &token.source {
                self.documents[*document].remove(path);
            }
        }
    }

    /// Turns the number at a template's place into a text, or the text into a number.
    pub(super) fn change_kind(&mut self, template: &Template) {
        for token in template.tokens() {
            let TokenSource::Field(document, path) = &token.source else { continue };
            if let Some(Place::Json(place)) = self.documents[*document].place(path) {
                *place = match &*place {
                    Value::String(text) => text.parse::<i64>().map_or(Value::Null, Value::from),
                    other => other.to_string().into(),
                };
            }
        }
    }

    /// Encodes an answer.
    pub(super) fn encode_answer(self) -> Vec<u8> {
        self.documents[BODY].bytes(None)
    }

    /// Encodes a notice, the innermost documents first. Errors: a document has no place.
    pub(super) fn encode(mut self) -> Result<EncodedMessage, SimulationError> {
        let scheme = self.scheme;
        for (place, rule) in scheme.documents.iter().enumerate().rev() {
            let number = ITEM + 1 + place;
            if self.documents[number].is_empty() {
                continue;
            }
            if rule.decrypt.is_some() {
                let why = "a simulated partner encrypts nothing";
                return Err(SimulationError::place(&rule.name, why));
            }
            let bytes = self.documents[number].bytes(match &rule.content {
                DocumentContent::Parts { separator, assign } => Some((separator, assign)),
                DocumentContent::Json | DocumentContent::Form => None,
            });
            let text = match rule.decode {
                TextDecoding::None => String::from_utf8_lossy(&bytes).into_owned(),
                TextDecoding::Hex => hex::encode(&bytes),
                TextDecoding::Base64 => STANDARD.encode(&bytes),
                TextDecoding::Base64url => URL_SAFE_NO_PAD.encode(&bytes),
            };
            self.put(&rule.from, &text, JsonKind::Text)?;
        }
        if let Some(rule) = &scheme.items
            && let Some(DraftDocument::Json(item)) = self.documents.get(ITEM).cloned()
        {
            let written = || SimulationError::place("items.at", "it has another value");
            match self.documents[rule.of.0].place(&rule.of.1).ok_or_else(written)? {
                Place::Json(place) => *place = Value::Array(vec![item]),
                Place::Pair(_) => return Err(written()),
            }
        }
        let query = self.documents.get(QUERY).map(|query| query.bytes(None)).unwrap_or_default();
        let body = match (&self.documents[BODY], scheme.content) {
            (DraftDocument::Pairs(pairs), NoticeFormat::Query) if pairs.is_empty() => Vec::new(),
            (body, _) => body.bytes(None),
        };
        let query = String::from_utf8_lossy(&query).into_owned();
        Ok(EncodedMessage { query, headers: self.headers, body })
    }
}

/// A JSON number of these digits. `None` if they are none.
fn as_number(text: &str) -> Option<Value> {
    serde_json::from_str(text).ok().filter(Value::is_number)
}
