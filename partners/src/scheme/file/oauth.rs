//! Owns the TOML form of `[oauth]`: how an access token is asked for, and where the answer says what it grants.

use serde::Deserialize;
use toml::Spanned;

use super::call::CallFile;
use super::{ConditionFile, Text};

/// The section; its parts are read each by itself.
pub(in crate::scheme) struct OauthFile {
    pub(in crate::scheme) call: CallFile,
    pub(in crate::scheme) head: OauthHeadFile,
    pub(in crate::scheme) answer: GrantFile,
}

/// What is not the call's.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scheme) struct OauthHeadFile {
    #[serde(default)]
    pub(in crate::scheme) ttl_s: Option<Spanned<usize>>,
    #[serde(default)]
    pub(in crate::scheme) timeout_s: Option<Spanned<usize>>,
}

/// What the answer grants.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scheme) struct GrantFile {
    #[serde(default)]
    pub(in crate::scheme) success: Vec<Spanned<ConditionFile>>,
    #[serde(default)]
    pub(in crate::scheme) refusal: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) token: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) expires_in: Option<Text>,
}
