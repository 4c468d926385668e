//! Owns the access token that our calls carry: the request for it (RFC 6749, 4.4), and judging the
//! answer. Pure: `remote::tokens` makes the call and caches the token.
//!
//! Invariant: no reason or log text of an answer holds the token.

pub(crate) mod rule;

use payfold_schemas::time::Time;

use super::call::CommonValues;
use super::document::Document;
use super::json_document::JsonDocument;
use super::map::conditions_hold;
use super::message::{ParsedMessage, TemplateContext};
use super::request::NoticeRequest;
use super::template::Template;
use super::template_values::TemplateInputs;
use crate::limits::BodyLimits;
use crate::reason::Reason;
use crate::scheme::compiled::Scheme;
use crate::scheme::oauth::rule::{SchemeOauth, TokenGrant, TokenGrantRule};
use crate::secret::Secret;

/// The longest partner's code that is logged, in characters.
const CODE_CHARS_MAX: usize = 64;

/// The longest lifetime of a token, s; a longer one in the answer is cut to it.
const LASTS_S_MAX: u64 = 86_400;

impl SchemeOauth {
    /// The values that the templates may name, for an account.
    pub(crate) fn values(&self, merchant: &str, now: Time) -> Vec<String> {
        CommonValues { subject: merchant, format: &self.rule.now, now }.values()
    }

    /// Describes the token call in one line, for people.
    pub(crate) fn describe(&self) -> String {
        format!("{} {}", self.rule.method.name(), self.rule.path)
    }
}

impl TokenGrantRule {
    /// Judges a complete answer with a success status. Errors: why no token is granted.
    pub(crate) fn judge(
        &self,
        scheme: &Scheme,
        (limits, inputs): (BodyLimits, TemplateInputs<'_>),
        body: &[u8],
    ) -> Result<TokenGrant, Reason> {
        let request = NoticeRequest::default();
        let document =
            document(limits, body).ok_or_else(|| Reason("its answer is no JSON".to_owned()))?;
        let message = ParsedMessage::from_document(scheme, &request, limits, Some(document));
        let context = TemplateContext::without_key(&message, &inputs);
        let text = |template: &Template| context.render_string(template).unwrap_or_default();
        if !conditions_hold(&self.success, context).unwrap_or(false) {
            return Reason::err(format!("it grants none: {}", printable(&text(&self.refusal))));
        }
        let token = text(&self.token);
        if token.is_empty() {
            return Reason::err(format!("{} of its answer is empty", self.token));
        }
        // Only printable ASCII can be sent in a header.
        if !token.bytes().all(|byte| matches!(byte, b'!'..=b'~')) {
            return Reason::err(format!("{} of its answer is no token", self.token));
        }
        let lasts = text(&self.expires_in);
        let lasts_s = if lasts.is_empty() {
            self.ttl_s
        } else {
            // Some servers send a fraction of a second; it is cut off.
            let whole = lasts.split('.').next().unwrap_or_default();
            let seconds = whole.parse::<u64>().map_err(|_| {
                Reason(format!("{} of its answer is no number of seconds", self.expires_in))
            })?;
            seconds.min(LASTS_S_MAX)
        };
        Ok(TokenGrant { token: Secret::from_bytes(token.into_bytes()), lasts_s })
    }

    /// The partner's code in an answer that refuses, limited to printable ASCII for the log. Empty
    /// if there is none.
    pub(crate) fn refusal(
        &self,
        scheme: &Scheme,
        (limits, inputs): (BodyLimits, TemplateInputs<'_>),
        body: &[u8],
    ) -> String {
        let Some(document) = document(limits, body) else { return String::new() };
        let request = NoticeRequest::default();
        let message = ParsedMessage::from_document(scheme, &request, limits, Some(document));
        let text = TemplateContext::without_key(&message, &inputs).render_string(&self.refusal);
        printable(&text.unwrap_or_default())
    }
}

fn document(limits: BodyLimits, body: &[u8]) -> Option<Document> {
    JsonDocument::parse(body, limits).ok().map(Document::Json)
}

fn printable(text: &str) -> String {
    text.chars().filter(|c| matches!(c, ' '..='~')).take(CODE_CHARS_MAX).collect()
}

#[cfg(test)]
pub(crate) mod tests;
