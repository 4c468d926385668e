//! Owns the access token our calls carry: how a profile says it is asked for (RFC 6749, 4.4), and what an answer grants.
//! Pure: `remote::tokens` asks, and keeps what was granted.
//!
//! Invariant: nothing that is told of an answer holds the token.

use payfold_schemas::time::Time;

use super::call::{CallRule, Common};
use super::document::{Document, Json};
use super::map::holds;
use super::reading::{Context, Of, Reading};
use super::request::Request;
use super::template::Template;
use super::{Condition, Scheme};
use crate::profile::Limits;
use crate::secret::Secret;

/// Characters of a partner's code that are logged.
const CODE_CHARS_MAX: usize = 64;
/// A token lasts no longer than this, whatever the answer says, s.
const LASTS_S_MAX: u64 = 86_400;

/// How an access token is asked for.
#[derive(Clone, Debug)]
pub(crate) struct SchemeToken {
    pub(crate) rule: CallRule,
    pub(crate) grant: GrantRule,
    /// The whole call, from connecting to the last byte of the answer, ms.
    pub(crate) timeout_ms: u64,
}

/// Where an answer says what it grants.
#[derive(Clone, Debug)]
pub(crate) struct GrantRule {
    /// What must hold, or nothing is granted.
    pub(crate) success: Vec<Condition>,
    /// The partner's code for a no, for our log.
    pub(crate) refusal: Template,
    pub(crate) token: Template,
    /// In how many seconds it ends.
    pub(crate) expires_in: Template,
    /// How long it lasts where the answer does not say, s.
    pub(crate) ttl_s: u64,
}

/// What was granted.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) token: Secret,
    /// For how long, s.
    pub(crate) lasts_s: u64,
}

impl SchemeToken {
    /// What the templates may name, for an account.
    pub(crate) fn values(&self, merchant: &str, now: Time) -> Vec<String> {
        Common { about: merchant, format: &self.rule.now, now }.values()
    }

    /// In one line, for people.
    pub(crate) fn describe(&self) -> String {
        format!("{} {}", self.rule.method.name(), self.rule.path)
    }
}

impl GrantRule {
    /// Judges a complete answer with a success status. Errors: why nothing is granted.
    pub(crate) fn judge(
        &self,
        scheme: &Scheme,
        (limits, of): (Limits, Of<'_>),
        body: &[u8],
    ) -> Result<Grant, String> {
        let request = Request::default();
        let document = document(limits, body).ok_or("its answer is no JSON")?;
        let reading = Reading::of_document(scheme, &request, limits, Some(document));
        let context = Context::bare(&reading, &of);
        let text = |template: &Template| context.string(template).unwrap_or_default();
        if !holds(&self.success, context).unwrap_or(false) {
            return Err(format!("it grants none: {}", printable(&text(&self.refusal))));
        }
        let token = text(&self.token);
        if token.is_empty() {
            return Err(format!("{} of its answer is empty", self.token));
        }
        // What a header can carry.
        if !token.bytes().all(|byte| matches!(byte, b'!'..=b'~')) {
            return Err(format!("{} of its answer is no token", self.token));
        }
        let lasts = text(&self.expires_in);
        let lasts_s = if lasts.is_empty() {
            self.ttl_s
        } else {
            let whole = lasts.split('.').next().unwrap_or_default();
            let seconds = whole.parse::<u64>().map_err(|_| {
                format!("{} of its answer is no number of seconds", self.expires_in)
            })?;
            seconds.min(LASTS_S_MAX)
        };
        Ok(Grant { token: Secret::from_bytes(token.into_bytes()), lasts_s })
    }

    /// The partner's code in an answer that says no, as far as it can be logged; empty where it says none.
    pub(crate) fn refusal(
        &self,
        scheme: &Scheme,
        (limits, of): (Limits, Of<'_>),
        body: &[u8],
    ) -> String {
        let Some(document) = document(limits, body) else { return String::new() };
        let request = Request::default();
        let reading = Reading::of_document(scheme, &request, limits, Some(document));
        let text = Context::bare(&reading, &of).string(&self.refusal);
        printable(&text.unwrap_or_default())
    }
}

fn document(limits: Limits, body: &[u8]) -> Option<Document> {
    let text = std::str::from_utf8(body).ok()?;
    Json::parse(text, limits).ok().map(Document::Json)
}

fn printable(text: &str) -> String {
    text.chars().filter(|c| matches!(c, ' '..='~')).take(CODE_CHARS_MAX).collect()
}

#[cfg(test)]
pub(crate) mod tests;
