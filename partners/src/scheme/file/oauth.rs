//! Owns the TOML format of `[oauth]`: how an access token is asked for, and where the answer holds
//! it.

use schemars::{JsonSchema, Schema};
use serde::Deserialize;

use super::call::CallFile;
use crate::profile::bounds;
use crate::profile::spanned::Spanned;
use crate::scheme::file::schema_parts;
use crate::scheme::file::tables::{ConditionFile, SpannedText};

/// The section; `sections` reads its parts one by one.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, transform = method_has_a_default)]
pub(in crate::scheme) struct OauthFile {
    #[schemars(flatten)]
    pub(in crate::scheme) call: CallFile,
    #[schemars(flatten)]
    pub(in crate::scheme) head: OauthHeadFile,
    /// Where the answer holds the token. Default: as RFC 6749 defines it.
    #[schemars(default)]
    pub(in crate::scheme) answer: GrantFile,
}

fn method_has_a_default(schema: &mut Schema) {
    schema_parts::describe(schema_parts::property(schema, "method"), "POST (default) or GET.");
}

/// The keys of the section that are not the call's.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scheme) struct OauthHeadFile {
    /// How many seconds a token is valid if the answer does not say. Default: 300.
    #[schemars(range(min = bounds::TOKEN_TTL_S.min, max = bounds::TOKEN_TTL_S.max))]
    pub(in crate::scheme) ttl_s: Option<Spanned<usize>>,
    /// Timeout of the whole call in seconds. Default: 10.
    #[schemars(range(min = bounds::TIMEOUT_S.min, max = bounds::TIMEOUT_S.max))]
    pub(in crate::scheme) timeout_s: Option<Spanned<usize>>,
}

/// `[oauth.answer]`.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scheme) struct GrantFile {
    /// Conditions that must all hold; otherwise no token is granted.
    #[serde(default)]
    pub(in crate::scheme) success: Vec<Spanned<ConditionFile>>,
    /// The partner's code for refusing. It is only logged. Default: {a.error}.
    pub(in crate::scheme) refusal: Option<SpannedText>,
    /// The place of the token. Default: {a.access_token}.
    pub(in crate::scheme) token: Option<SpannedText>,
    /// The place of the token's lifetime in seconds. Default: {a.expires_in}.
    pub(in crate::scheme) expires_in: Option<SpannedText>,
}
