//! Owns the value that is read in a document or header. It is bytes: what is not UTF-8 stays as it
//! is, and matters only to what reads it.

/// The type of a value in its document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// Text without a type: a header, a parameter, a constant.
    Plain,
    /// A JSON string.
    String,
    /// A JSON number.
    Number,
    /// `true` or `false`.
    Bool,
    /// The JSON literal `null`.
    Null,
    /// An object or an array.
    Composite,
}

/// A value of a document or header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundValue<'d> {
    pub(crate) kind: ValueKind,
    /// Strings and parameters are decoded; numbers, objects and arrays are as received; `null` is
    /// empty. A lone surrogate is the three bytes that it would have, which are not UTF-8.
    pub(crate) text: &'d [u8],
    /// As received.
    pub(crate) raw: &'d [u8],
}

impl<'d> FoundValue<'d> {
    /// A value without a type.
    pub(crate) const fn plain(text: &'d str) -> Self {
        Self { kind: ValueKind::Plain, text: text.as_bytes(), raw: text.as_bytes() }
    }
}
