//! Owns unwrapping a document inside a value: decoding it, and decrypting it with a key of the
//! account. Pure. Invariant: a document that is unwrapped is kept.

use std::sync::Arc;

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes128Gcm, Aes256Gcm, Nonce};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use super::document::{Document, parse_parts, parse_url_encoded};
use super::json_document::JsonDocument;
use super::message::{ParsedMessage, TemplateContext, reject_in};
use super::template_values::TemplateInputs;
use crate::rejection::{RejectCode, Rejection};
use crate::scheme::compiled::Scheme;
use crate::scheme::rules::{DocumentContent, DocumentRule, TextDecoding};
use crate::secret::Secret;

impl ParsedMessage<'_> {
    /// Unwraps all documents with an account's keys. Errors: a document that can't be parsed or
    /// decrypted.
    pub(crate) fn unwrap_documents(
        &mut self,
        inputs: &TemplateInputs<'_>,
    ) -> Result<(), Rejection> {
        self.unwrap_selected(inputs, |_, _| true)
    }

    /// Unwraps the documents that `is_wanted` selects. A document that is unwrapped already is
    /// kept. Errors: a document that can't be parsed or decrypted.
    pub(crate) fn unwrap_selected(
        &mut self,
        inputs: &TemplateInputs<'_>,
        is_wanted: impl Fn(&Scheme, usize) -> bool,
    ) -> Result<(), Rejection> {
        let scheme = self.scheme();
        for (place, rule) in scheme.documents.iter().enumerate() {
            if self.documents[3 + place].is_some() || !is_wanted(scheme, place) {
                continue;
            }
            let document = self
                .unwrap_document(rule, inputs)
                .map_err(|code| reject_in(code, &format!("document {}", rule.name)))?;
            self.documents[3 + place] = document.map(Arc::new);
        }
        Ok(())
    }

    fn unwrap_document(
        &self,
        rule: &DocumentRule,
        inputs: &TemplateInputs<'_>,
    ) -> Result<Option<Document>, RejectCode> {
        let context = TemplateContext::without_key(self, inputs);
        let wrapped = context.render(&rule.from).map_err(|_| RejectCode::MalformedJson)?;
        if wrapped.is_empty() {
            return Ok(None);
        }
        let bytes = decode(rule.decode, wrapped).ok_or(RejectCode::InvalidEncoding)?;
        let bytes = match &rule.decrypt {
            None => bytes,
            Some(rule) => {
                let text =
                    |template| context.render(template).map_err(|_| RejectCode::MalformedJson);
                let (nonce, data) = (text(&rule.nonce)?, text(&rule.associated_data)?);
                let open = |key: &Secret| open(key.expose(), &nonce, (&bytes, &data));
                inputs.decryption_keys.iter().find_map(open).ok_or(RejectCode::Unauthenticated)?
            }
        };
        Ok(Some(match &rule.content {
            DocumentContent::Json => Document::Json(JsonDocument::parse(&bytes, self.limits)?),
            DocumentContent::Form => parse_url_encoded(&bytes, self.limits)?,
            DocumentContent::Parts { separator, assign } => {
                let text = String::from_utf8(bytes).map_err(|_| RejectCode::InvalidEncoding)?;
                parse_parts(&text, (separator, assign), self.limits)
            }
        }))
    }
}

/// Decodes a wrapped text. `None` if it has another encoding.
fn decode(how: TextDecoding, text: Vec<u8>) -> Option<Vec<u8>> {
    match how {
        TextDecoding::None => Some(text),
        TextDecoding::Hex => hex::decode(text).ok(),
        TextDecoding::Base64 => STANDARD.decode(text).ok(),
        TextDecoding::Base64url => {
            let text = String::from_utf8(text).ok()?;
            URL_SAFE_NO_PAD.decode(text.trim_end_matches('=')).ok()
        }
    }
}

/// Decrypts AES-GCM with a key of 16 or 32 bytes and a nonce of 12 bytes. The tag follows the text.
/// `None` if the key does not fit or the tag is wrong.
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
