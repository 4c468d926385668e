//! Owns the TOML form of what `[query]` and `[create]` have in common: the request of a call of ours.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::{PairsFile, Text, TextFile};
use crate::scheme::call::CallKey;
use crate::scheme::crypt::{Algorithm, Output};
use crate::scheme::encoding::Encoding;

/// A call; its parts are read each by itself.
pub(in crate::scheme) struct CallFile {
    /// Where the section stands.
    pub(in crate::scheme) span: std::ops::Range<usize>,
    pub(in crate::scheme) head: CallHeadFile,
    pub(in crate::scheme) fields: BTreeMap<Spanned<String>, Text>,
    pub(in crate::scheme) texts: Vec<TextFile>,
    pub(in crate::scheme) pairs: Vec<PairsFile>,
    pub(in crate::scheme) sign: Option<CallSignFile>,
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

/// The plain keys of a call.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scheme) struct CallHeadFile {
    #[serde(default)]
    pub(in crate::scheme) method: Option<Spanned<MethodFile>>,
    #[serde(default)]
    pub(in crate::scheme) base: Option<Text>,
    pub(in crate::scheme) path: Text,
    #[serde(default)]
    pub(in crate::scheme) headers: BTreeMap<Spanned<String>, Text>,
    #[serde(default)]
    pub(in crate::scheme) key: CallKey,
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
    pub(in crate::scheme) encoding: Option<Spanned<Encoding>>,
    #[serde(default)]
    pub(in crate::scheme) now_format: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) now_zone: Option<Text>,
}

impl CallHeadFile {
    /// Its keys: what is taken out of a section for it.
    pub(in crate::scheme) const KEYS: [&str; 14] = [
        "method",
        "base",
        "path",
        "headers",
        "key",
        "credential",
        "user",
        "password",
        "token",
        "content",
        "body",
        "encoding",
        "now_format",
        "now_zone",
    ];
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scheme) struct CallSignFile {
    pub(in crate::scheme) algorithm: Spanned<Algorithm>,
    pub(in crate::scheme) text: Text,
    pub(in crate::scheme) output: Output,
}
