//! Owns the TOML form of `[create]`: how a payment is created, and what the answer offers.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::call::{AnswerFile, CallFile};
use super::{ConditionFile, Text};
use crate::scheme::amount::Unit;
use crate::scheme::create::Expiry;

/// The section; its parts are read each by itself.
pub(in crate::scheme) struct CreateFile {
    pub(in crate::scheme) call: CallFile,
    pub(in crate::scheme) head: CreateHeadFile,
    pub(in crate::scheme) answer: Option<OfferFile>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::scheme) enum KindFile {
    Call,
    SignedUrl,
    FormPost,
}

/// What is not the call's.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scheme) struct CreateHeadFile {
    pub(in crate::scheme) kind: Spanned<KindFile>,
    pub(in crate::scheme) amount_unit: Unit,
    #[serde(default)]
    pub(in crate::scheme) exponents: BTreeMap<Spanned<String>, u32>,
    #[serde(default)]
    pub(in crate::scheme) currencies: BTreeMap<Spanned<String>, Text>,
    pub(in crate::scheme) expiry: Spanned<Expiry>,
    pub(in crate::scheme) ttl_s: Spanned<usize>,
    #[serde(default)]
    pub(in crate::scheme) expires_format: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) expires_zone: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) timeout_s: Option<Spanned<usize>>,
    #[serde(default)]
    pub(in crate::scheme) answer_bytes: Option<Spanned<usize>>,
    #[serde(default)]
    pub(in crate::scheme) grace_s: Option<Spanned<usize>>,
    #[serde(default)]
    pub(in crate::scheme) max_session_s: Option<Spanned<usize>>,
}

/// What the answer to a call offers.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scheme) struct OfferFile {
    #[serde(default)]
    pub(in crate::scheme) content: AnswerFile,
    #[serde(default)]
    pub(in crate::scheme) success: Vec<Spanned<ConditionFile>>,
    #[serde(default)]
    pub(in crate::scheme) refusal: Option<Text>,
    #[serde(rename = "ref")]
    pub(in crate::scheme) provider_ref: Text,
    #[serde(default)]
    pub(in crate::scheme) redirect: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) qr: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) expires: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) expires_format: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) expires_zone: Option<Text>,
}
