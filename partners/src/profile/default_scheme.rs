//! Owns the options of the default scheme: the fields, separator and encoding of its signature, and
//! its calls.

use super::create::CreateRule;
use super::query::QueryRule;
use super::rules::UnknownFields;
use crate::field::Field;
use crate::mac::HexCase;

/// The default scheme with the options of one profile.
#[derive(Clone, Debug)]
pub(crate) struct DefaultScheme {
    pub(crate) unknown_fields: UnknownFields,
    pub(crate) output: HexCase,
    pub(crate) separator: u8,
    pub(crate) signed_fields: Vec<Field>,
    pub(crate) create: Option<CreateRule>,
    pub(crate) query: Option<QueryRule>,
}
