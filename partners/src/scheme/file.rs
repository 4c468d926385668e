//! Owns the TOML format of a custom scheme. Every section is read separately, so that all mistakes
//! of a file are reported at once, each with its place. Unknown keys are refused. The doc comment
//! of a key is what editors show for it, because the JSON Schema of a profile is derived from these
//! types. `docs/reference/profiles.md` explains every key.

pub(super) mod call;
pub(super) mod create;
pub(super) mod oauth;
pub(super) mod query;
pub(crate) mod records;
mod schema_parts;
pub(crate) mod scheme_file;
mod sections;
pub(crate) mod tables;

pub(crate) use self::sections::is_custom_scheme;
pub(super) use self::sections::{CUSTOM_SECTIONS, read, records as read_records};
