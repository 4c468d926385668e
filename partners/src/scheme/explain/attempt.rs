//! Owns the content of an explanation: the values read, and the result of each signature check. It
//! is printed as JSON by `payfold explain`.

use serde::Serialize;

/// One place that the scheme reads, and its value in the request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedField {
    /// The token, as the profile writes it.
    #[serde(rename = "field")]
    pub token: String,
    /// `absent`, `repeated`, or the type: text, string, number, bool, null, object or array.
    pub kind: &'static str,
    /// The value; empty if absent.
    pub value: String,
}

/// One `[[sign]]` tried with one key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SignatureAttempt {
    /// Partner and merchantCode.
    pub account: String,
    /// The name of the `[[sign]]`.
    pub sign: String,
    /// The key id, and whether the key was valid then.
    pub key: String,
    #[serde(skip)]
    pub(super) is_valid: bool,
    /// The signed text, with the secret masked.
    #[serde(rename = "signingText")]
    pub text: String,
    /// The signature of that text. `None` if only the partner can make it.
    pub expected: Option<String>,
    /// The signatures in the request.
    pub received: Vec<String>,
    /// Whether a received signature is valid.
    pub matches: bool,
    /// The changes of the profile that would make it match.
    #[serde(rename = "wouldMatchWith")]
    pub would_match: Vec<String>,
}

/// Why a request was accepted or refused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Explanation {
    /// The first reason for the refusal, or what the notice means if it is accepted.
    pub verdict: String,
    /// The values at the places that the scheme reads.
    #[serde(rename = "fields")]
    pub places: Vec<ExplainedField>,
    /// Every `[[sign]]` tried with every key.
    pub attempts: Vec<SignatureAttempt>,
}
