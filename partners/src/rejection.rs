//! Owns the refusal of a body that can't be parsed, or that no key of a known account has signed.

use std::borrow::Cow;
use std::fmt;

/// The stable code of a refusal, as the problem document has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectCode {
    /// The body is empty or has only whitespace.
    EmptyBody,
    /// The body is not UTF-8, or has a lone surrogate.
    InvalidEncoding,
    /// The body is not JSON.
    MalformedJson,
    /// The body is JSON, but not an object.
    NotAnObject,
    /// An object has a key twice; keys that differ only in case count as one.
    DuplicateField,
    /// The body is nested too deeply or has too many keys.
    TooComplex,
    /// No key of a known account has signed the body.
    Unauthenticated,
}

impl RejectCode {
    /// The code on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EmptyBody => "empty_body",
            Self::InvalidEncoding => "invalid_encoding",
            Self::MalformedJson => "malformed_json",
            Self::NotAnObject => "not_an_object",
            Self::DuplicateField => "duplicate_field",
            Self::TooComplex => "too_complex",
            Self::Unauthenticated => "unauthenticated",
        }
    }
}

impl fmt::Display for RejectCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A refusal: its code, and where in the body the fault is. It never contains a part of the body or
/// a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}")]
pub struct Rejection {
    code: RejectCode,
    detail: Option<Cow<'static, str>>,
}

impl Rejection {
    pub(crate) const fn new(code: RejectCode) -> Self {
        Self { code, detail: None }
    }

    pub(crate) fn with_detail(self, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }

    /// The code.
    pub fn code(&self) -> RejectCode {
        self.code
    }

    /// Where in the body the fault is; always `None` for `unauthenticated`.
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }
}
