//! Owns the TOML form of `[records]`: how a partner's file of payments is written, and what its lines mean.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::{ConditionFile, EventFile, Text};
use crate::records::cells::Encoding;
use crate::records::money::Refunds;
use crate::scheme::amount::Unit;

/// The section; its parts are read each by itself.
pub(in crate::scheme) struct RecordsFile {
    /// Where it stands.
    pub(in crate::scheme) span: std::ops::Range<usize>,
    /// `None` if it can't be read, and then its mistake is among the errors; so are the others.
    pub(in crate::scheme) head: Option<RecordsHeadFile>,
    pub(in crate::scheme) map: Option<RecordsMapFile>,
    pub(in crate::scheme) tail: Option<Spanned<TailFile>>,
    pub(in crate::scheme) events: Vec<EventFile>,
    /// Whether parts are there, read or not.
    pub(in crate::scheme) has_map: bool,
    pub(in crate::scheme) has_events: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::scheme) enum FormatFile {
    Csv,
    Jsonl,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::scheme) enum MatchFile {
    Order,
    Ref,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scheme) struct RecordsHeadFile {
    pub(in crate::scheme) format: Spanned<FormatFile>,
    pub(in crate::scheme) zone: Text,
    #[serde(default)]
    pub(in crate::scheme) file: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) delimiter: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) quote: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) cell_prefix: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) encoding: Option<Spanned<Encoding>>,
    #[serde(default)]
    pub(in crate::scheme) header: Option<Spanned<bool>>,
    #[serde(default)]
    pub(in crate::scheme) columns: Option<Spanned<usize>>,
    #[serde(default)]
    pub(in crate::scheme) skip_head: Option<Spanned<usize>>,
    #[serde(default)]
    pub(in crate::scheme) comment: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) empty: bool,
    #[serde(default, rename = "match")]
    pub(in crate::scheme) match_by: Option<Spanned<MatchFile>>,
    #[serde(default)]
    pub(in crate::scheme) lists: Option<Spanned<Vec<Text>>>,
    #[serde(default)]
    pub(in crate::scheme) refunds: Refunds,
    #[serde(default)]
    pub(in crate::scheme) grace_s: Option<Spanned<usize>>,
    #[serde(default)]
    pub(in crate::scheme) cut_off_s: Option<Spanned<usize>>,
    #[serde(default)]
    pub(in crate::scheme) time_tolerance_s: Option<Spanned<usize>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scheme) struct RecordsMapFile {
    #[serde(default)]
    pub(in crate::scheme) merchant: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) order: Option<Text>,
    #[serde(default, rename = "ref")]
    pub(in crate::scheme) provider_ref: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) amount: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) amount_unit: Unit,
    #[serde(default)]
    pub(in crate::scheme) decimal_point: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) grouping: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) exponents: BTreeMap<String, u32>,
    #[serde(default)]
    pub(in crate::scheme) currency: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) currencies: BTreeMap<String, String>,
    pub(in crate::scheme) at: Text,
    #[serde(default)]
    pub(in crate::scheme) at_format: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) at_zone: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) paid_at: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) paid_at_format: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) paid_at_zone: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) event: Option<Text>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::scheme) struct TailFile {
    #[serde(default)]
    pub(in crate::scheme) when: Vec<Spanned<ConditionFile>>,
    #[serde(default)]
    pub(in crate::scheme) lines: Option<Spanned<usize>>,
    #[serde(default)]
    pub(in crate::scheme) row: Option<Spanned<usize>>,
    #[serde(default)]
    pub(in crate::scheme) count: Option<Text>,
    #[serde(default)]
    pub(in crate::scheme) sum: Option<Text>,
}
