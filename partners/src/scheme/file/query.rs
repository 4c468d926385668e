//! Owns the TOML form of `[query]`: how one payment is asked for, and what the answer means.

use serde::Deserialize;
use toml::Spanned;

use super::call::{AnswerFile, CallFile};
use super::{ConditionFile, MapFile, Text};

/// The section; its parts are read each by itself.
pub(in crate::scheme) struct QueryFile {
    pub(in crate::scheme) call: CallFile,
    pub(in crate::scheme) head: QueryHeadFile,
    pub(in crate::scheme) map: Option<MapFile>,
    pub(in crate::scheme) events: Vec<QueryEventFile>,
}

/// What is not the call's.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scheme) struct QueryHeadFile {
    #[serde(default)]
    pub(in crate::scheme) answer: AnswerFile,
    #[serde(default)]
    pub(in crate::scheme) not_found: Option<Spanned<Vec<u16>>>,
    #[serde(default)]
    pub(in crate::scheme) at_once: Option<Spanned<usize>>,
    #[serde(default)]
    pub(in crate::scheme) per_s: Option<Spanned<usize>>,
    #[serde(default)]
    pub(in crate::scheme) timeout_s: Option<Spanned<usize>>,
    #[serde(default)]
    pub(in crate::scheme) answer_bytes: Option<Spanned<usize>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scheme) struct QueryEventFile {
    #[serde(default)]
    pub(in crate::scheme) when: Vec<Spanned<ConditionFile>>,
    pub(in crate::scheme) outcome: Text,
    #[serde(default)]
    pub(in crate::scheme) order: Option<Text>,
    #[serde(default, rename = "ref")]
    pub(in crate::scheme) provider_ref: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) amount: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) currency: Option<Text>,
}
