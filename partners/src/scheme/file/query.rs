//! Owns the TOML format of `[query]`: how the partner is asked about one payment, and what the
//! answer means.

use schemars::{JsonSchema, Schema};
use serde::Deserialize;

use super::call::{AnswerFile, CallFile};
use crate::profile::bounds;
use crate::profile::spanned::Spanned;
use crate::scheme::file::schema_parts;
use crate::scheme::file::tables::{ConditionFile, MapFile, SpannedText};

/// The section; `sections` reads its parts one by one.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, transform = method_is_required)]
pub(in crate::scheme) struct QueryFile {
    #[schemars(flatten)]
    pub(in crate::scheme) call: CallFile,
    #[schemars(flatten)]
    pub(in crate::scheme) head: QueryHeadFile,
    /// Where the answer holds the values: {a.path}.
    #[schemars(required, transform = query_map)]
    pub(in crate::scheme) map: Option<MapFile>,
    /// What an answer means: the first event with all its conditions met.
    #[schemars(rename = "event", default)]
    pub(in crate::scheme) events: Vec<QueryEventFile>,
}

/// The keys of the section that are not the call's.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scheme) struct QueryHeadFile {
    /// The format of the answer. Default: json.
    #[serde(default)]
    pub(in crate::scheme) answer: AnswerFile,
    /// true: the answer is an object, its texts are JSON strings and its amount is a JSON number.
    /// Default: false.
    #[serde(default)]
    pub(in crate::scheme) strict: bool,
    /// HTTP statuses that mean: no such payment. Not 401, 403, 408, 429. Default: 404.
    #[schemars(inner(range(min = bounds::NOT_FOUND.min, max = bounds::NOT_FOUND.max)))]
    pub(in crate::scheme) not_found: Option<Spanned<Vec<u16>>>,
    /// The most queries at the same time. Default: 4.
    #[schemars(range(min = bounds::AT_ONCE.min, max = bounds::AT_ONCE.max))]
    pub(in crate::scheme) at_once: Option<Spanned<usize>>,
    /// The most queries begun in one second. Default: 5.
    #[schemars(range(min = bounds::PER_S.min, max = bounds::PER_S.max))]
    pub(in crate::scheme) per_s: Option<Spanned<usize>>,
    /// Timeout of the whole call in seconds. Default: 10.
    #[schemars(range(min = bounds::TIMEOUT_S.min, max = bounds::TIMEOUT_S.max))]
    pub(in crate::scheme) timeout_s: Option<Spanned<usize>>,
    /// The most bytes of the answer. Default: 65536.
    #[schemars(range(min = bounds::ANSWER_BYTES.min, max = bounds::ANSWER_BYTES.max))]
    pub(in crate::scheme) answer_bytes: Option<Spanned<usize>>,
}

/// Required here only: a token call is a POST by default, and not every create is a call.
fn method_is_required(schema: &mut Schema) {
    schema_parts::require(schema, "method");
}

/// An answer does not say when a payment was paid or which event it is.
fn query_map(schema: &mut Schema) {
    let others = ["paid_at", "paid_at_format", "paid_at_zone", "event", "nonce", "refunds"];
    schema_parts::remove(schema, &others);
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scheme) struct QueryEventFile {
    /// Conditions that must all hold.
    #[serde(default)]
    pub(in crate::scheme) when: Vec<Spanned<ConditionFile>>,
    /// A status; pending: not decided, asked again; unknown: there is no such payment, asked again.
    #[schemars(extend("enum" = schema_parts::statuses_and(&["pending", "unknown"])))]
    pub(in crate::scheme) outcome: SpannedText,
    /// For this event, instead of the template in map.
    pub(in crate::scheme) order: Option<SpannedText>,
    /// For this event, instead of the template in map.
    #[serde(rename = "ref")]
    pub(in crate::scheme) provider_ref: Option<SpannedText>,
    /// For this event, instead of the template in map.
    pub(in crate::scheme) amount: Option<SpannedText>,
    /// For this event, instead of the template in map.
    pub(in crate::scheme) currency: Option<SpannedText>,
}
