//! Owns the error of the template parser.

use std::fmt;

/// Why a text is no template. The message says how to fix it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TemplateError(pub(crate) String);

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
