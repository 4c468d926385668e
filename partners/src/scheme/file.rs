//! Owns the TOML form of a partner's own scheme. Every section is read by itself, so that all mistakes of a file are
//! told at once, each with its place. Nothing unknown is let pass. `docs/partners.md` explains every key.

pub(super) mod call;
pub(super) mod create;
pub(super) mod oauth;
pub(super) mod query;
pub(super) mod records;
mod sections;

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::amount::Unit;
use super::crypt::{Algorithm, KeyEncoding, Output};
use super::encoding::Encoding;
use super::pairs::{Empty, Order, Write};
use super::{Confirm, Content, Decode, Forged, Shape};
use crate::profile::{NonceRule, Stage, TimeKind};

pub(crate) use self::sections::is_own_scheme;
pub(super) use self::sections::{OWN_SECTIONS, read, records as read_records};

pub(super) type Text = Spanned<String>;

/// The whole file; a section that can't be read is its default, and its mistake is among the errors.
#[derive(Default)]
pub(super) struct SchemeFile {
    pub(super) head: Option<HeadFile>,
    pub(super) limits: Option<LimitsFile>,
    pub(super) notice: Option<NoticeFile>,
    pub(super) constants: BTreeMap<String, String>,
    pub(super) documents: Vec<DocumentFile>,
    pub(super) items: Option<ItemsFile>,
    pub(super) pairs: Vec<PairsFile>,
    pub(super) texts: Vec<TextFile>,
    pub(super) key: Option<KeyFile>,
    pub(super) signs: Vec<SignFile>,
    pub(super) require: Vec<RequireFile>,
    pub(super) fields: Vec<FieldFile>,
    pub(super) map: Option<MapFile>,
    pub(super) events: Vec<EventFile>,
    pub(super) time: Option<Spanned<TimeFile>>,
    pub(super) acks: BTreeMap<String, AckFile>,
    pub(super) query: Option<query::QueryFile>,
    pub(super) create: Option<create::CreateFile>,
    pub(super) oauth: Option<oauth::OauthFile>,
    pub(super) records: Option<records::RecordsFile>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HeadFile {
    pub(super) version: Spanned<u32>,
    #[serde(default)]
    pub(super) language: Option<Spanned<u32>>,
    pub(super) stage: Stage,
    #[serde(default)]
    pub(super) confirm: Option<Spanned<Confirm>>,
    #[serde(default)]
    pub(super) nonce: Option<Spanned<NonceRule>>,
    #[serde(default)]
    pub(super) exceptions: Option<Spanned<Vec<Text>>>,
    #[serde(default)]
    pub(super) ref_is_session: bool,
    #[serde(default)]
    pub(super) placeholder_refs: Vec<String>,
    #[serde(default)]
    pub(super) retry_horizon_s: Option<Spanned<i64>>,
    #[serde(default)]
    pub(super) client_certificate: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitsFile {
    pub(super) body_bytes: Spanned<usize>,
    pub(super) depth: Spanned<usize>,
    pub(super) keys: Spanned<usize>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NoticeFile {
    #[serde(default)]
    pub(super) methods: Option<Spanned<Vec<Text>>>,
    pub(super) content: Spanned<Content>,
    #[serde(default)]
    pub(super) content_types: Option<Vec<String>>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum DocumentKind {
    Json,
    Form,
    Parts,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DocumentFile {
    pub(super) name: Text,
    pub(super) from: Text,
    pub(super) content: DocumentKind,
    #[serde(default)]
    pub(super) decode: Decode,
    #[serde(default)]
    pub(super) separator: Option<Text>,
    #[serde(default)]
    pub(super) assign: Option<Text>,
    #[serde(default)]
    pub(super) decrypt: Option<DecryptFile>,
}

#[derive(Deserialize)]
enum DecryptAlgorithm {
    #[serde(rename = "aes-gcm")]
    AesGcm,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DecryptFile {
    #[serde(rename = "algorithm")]
    _algorithm: DecryptAlgorithm,
    pub(super) nonce: Text,
    #[serde(default)]
    pub(super) associated_data: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ItemsFile {
    pub(super) at: Text,
    #[serde(default)]
    pub(super) forged: Forged,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PairsFile {
    pub(super) name: Text,
    pub(super) of: Text,
    #[serde(default)]
    pub(super) keys: Option<Spanned<Vec<String>>>,
    #[serde(default)]
    pub(super) prefix: Option<Text>,
    #[serde(default)]
    pub(super) except: Vec<String>,
    #[serde(default)]
    pub(super) order: Option<Order>,
    #[serde(default)]
    pub(super) write: Write,
    #[serde(default)]
    pub(super) assign: Option<String>,
    #[serde(default)]
    pub(super) separator: Option<String>,
    #[serde(default)]
    pub(super) empty: Empty,
    #[serde(default)]
    pub(super) encoding: Encoding,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TextFile {
    pub(super) name: Text,
    pub(super) text: Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeyFile {
    #[serde(default)]
    pub(super) encoding: KeyEncoding,
    #[serde(default)]
    pub(super) prefix: String,
    #[serde(default)]
    pub(super) id: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SignFile {
    #[serde(default)]
    pub(super) name: Option<String>,
    pub(super) algorithm: Spanned<Algorithm>,
    #[serde(default)]
    pub(super) text: Option<Text>,
    #[serde(default)]
    pub(super) signature: Option<Text>,
    #[serde(default)]
    pub(super) output: Option<Spanned<Output>>,
    #[serde(default)]
    pub(super) prefix: String,
    #[serde(default)]
    pub(super) split: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequireFile {
    pub(super) value: Text,
    pub(super) equals: Text,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FieldFile {
    pub(super) at: Text,
    #[serde(default)]
    pub(super) pattern: Option<Text>,
    #[serde(default, rename = "type")]
    pub(super) shape: Option<Shape>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MapFile {
    #[serde(default)]
    pub(super) merchant: Option<Text>,
    #[serde(default)]
    pub(super) order: Option<Text>,
    #[serde(default, rename = "ref")]
    pub(super) provider_ref: Option<Text>,
    #[serde(default)]
    pub(super) amount: Option<Text>,
    #[serde(default)]
    pub(super) amount_unit: Unit,
    #[serde(default)]
    pub(super) exponents: BTreeMap<String, u32>,
    #[serde(default)]
    pub(super) currency: Option<Text>,
    #[serde(default)]
    pub(super) currencies: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) paid_at: Option<Text>,
    #[serde(default)]
    pub(super) paid_at_format: Option<Text>,
    #[serde(default)]
    pub(super) paid_at_zone: Option<Text>,
    #[serde(default)]
    pub(super) event: Option<Text>,
    #[serde(default)]
    pub(super) nonce: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventFile {
    #[serde(default)]
    pub(super) when: Vec<Spanned<ConditionFile>>,
    pub(super) outcome: Text,
    #[serde(default)]
    pub(super) order: Option<Text>,
    #[serde(default, rename = "ref")]
    pub(super) provider_ref: Option<Text>,
    #[serde(default)]
    pub(super) amount: Option<Text>,
    #[serde(default)]
    pub(super) currency: Option<Text>,
    #[serde(default)]
    pub(super) paid_at: Option<Text>,
    #[serde(default)]
    pub(super) event: Option<Text>,
    #[serde(default)]
    pub(super) nonce: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ConditionFile {
    pub(super) value: Text,
    #[serde(default)]
    pub(super) is: Option<String>,
    #[serde(default)]
    pub(super) is_not: Option<String>,
    #[serde(default)]
    pub(super) one_of: Option<Vec<String>>,
    #[serde(default)]
    pub(super) none_of: Option<Vec<String>>,
    #[serde(default)]
    pub(super) starts_with: Option<String>,
    #[serde(default)]
    pub(super) present: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TimeFile {
    pub(super) kind: TimeKind,
    #[serde(default)]
    pub(super) value: Option<Text>,
    #[serde(default)]
    pub(super) format: Option<Text>,
    #[serde(default)]
    pub(super) zone: Option<Text>,
    #[serde(default)]
    pub(super) skew_s: Option<i64>,
    #[serde(default)]
    pub(super) max_age_s: Option<i64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AckFile {
    pub(super) status: Spanned<u16>,
    #[serde(default)]
    pub(super) content_type: Option<String>,
    #[serde(default)]
    pub(super) body: Option<String>,
    #[serde(default)]
    pub(super) template: Option<Text>,
}
