//! Owns the TOML form of `[query]`: how one payment is asked for, and what the answer means.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::{ConditionFile, MapFile, Text};
use crate::scheme::crypt::{Algorithm, Output};
use crate::scheme::query::QueryKey;

/// The section; its parts are read each by itself.
pub(in crate::scheme) struct QueryFile {
    pub(in crate::scheme) head: QueryHeadFile,
    pub(in crate::scheme) sign: Option<QuerySignFile>,
    pub(in crate::scheme) map: Option<MapFile>,
    pub(in crate::scheme) events: Vec<QueryEventFile>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub(in crate::scheme) enum MethodFile {
    Get,
    Post,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::scheme) enum CredentialFile {
    #[default]
    None,
    Basic,
    Bearer,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::scheme) enum BodyFile {
    #[default]
    None,
    Json,
    Form,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::scheme) enum AnswerFile {
    #[default]
    Json,
    Form,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scheme) struct QueryHeadFile {
    pub(in crate::scheme) method: Spanned<MethodFile>,
    pub(in crate::scheme) path: Text,
    #[serde(default)]
    pub(in crate::scheme) headers: BTreeMap<Spanned<String>, Text>,
    #[serde(default)]
    pub(in crate::scheme) key: QueryKey,
    #[serde(default)]
    pub(in crate::scheme) credential: Option<Spanned<CredentialFile>>,
    #[serde(default)]
    pub(in crate::scheme) user: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) password: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) token: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) content: BodyFile,
    #[serde(default)]
    pub(in crate::scheme) body: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) now_format: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) now_zone: Option<Text>,
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
pub(in crate::scheme) struct QuerySignFile {
    pub(in crate::scheme) algorithm: Spanned<Algorithm>,
    pub(in crate::scheme) text: Text,
    pub(in crate::scheme) output: Output,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scheme) struct QueryEventFile {
    #[serde(default)]
    pub(in crate::scheme) when: Vec<Spanned<ConditionFile>>,
    pub(in crate::scheme) outcome: Text,
    #[serde(default, rename = "ref")]
    pub(in crate::scheme) provider_ref: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) amount: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) currency: Option<Text>,
}
