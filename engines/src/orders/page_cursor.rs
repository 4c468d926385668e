//! Owns the cursor of a listing.

/// The end of a page, where the next page starts. It is opaque to callers, and printable so that it
/// can be passed to `--after`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub String);
