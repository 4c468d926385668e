//! Owns the values that a template may name besides those of a message, and the reasons why a value
//! can't be rendered. Invariant: a reason shows the token as written, and never a value.

use std::collections::BTreeMap;

use crate::secret::Secret;

/// The values of an account and a call that a template may name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TemplateInputs<'a> {
    pub(crate) merchant: &'a str,
    pub(crate) constants: &'a BTreeMap<String, String>,
    /// Keys that decrypt documents, channel `unwrap`.
    pub(crate) decryption_keys: &'a [Secret],
    /// The values of a call, by index. Empty for a notice.
    pub(crate) values: &'a [String],
}

/// Why a template can't be rendered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TemplateValueError {
    #[error("{0} occurs more than once")]
    Repeated(String),
    #[error(
        "{0} is an object or an array: name a value in it, or write {0} with |raw in a signed text"
    )]
    Composite(String),
    #[error("{0} is not UTF-8")]
    NotText(String),
    #[error("the account has no constant {0}")]
    NoConstant(String),
    #[error("{0} needs a shared secret, and the key is a public one")]
    NoSecret(String),
}

impl TemplateValueError {
    /// Whether a value that came can't be used. Another request would be rendered.
    pub(crate) const fn is_of_value(&self) -> bool {
        matches!(self, Self::Repeated(_) | Self::Composite(_) | Self::NotText(_))
    }
}
