//! Owns the TOML tables of a profile of the default scheme. Unknown keys are refused. The JSON
//! Schema of a profile is derived from these types, so editors show the doc comment of a key.

use schemars::JsonSchema;
use serde::Deserialize;

use super::create::DefaultCreateFile;
use super::query::DefaultQueryFile;
use crate::field::Field;
use crate::mac::HexCase;
use crate::profile::bounds;
use crate::profile::rules::{NonceRule, Stage, UnknownFields};
use crate::profile::spanned::Spanned;
use crate::profile::time::TimeKind;
use crate::scheme::file::records::RecordsFile;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProfileFile {
    /// The version; a change of a frozen profile needs a higher one.
    #[schemars(range(min = 1, max = u32::MAX))]
    pub(super) version: Spanned<u32>,
    /// draft while it is written, sandbox while it is tried, frozen once it is agreed with the
    /// partner, live in production.
    pub(super) stage: Stage,
    /// Whether a notice carries a nonce. Default: unused.
    pub(super) nonce: Spanned<NonceRule>,
    /// Fields that the contract does not define: allow stores them with the raw body, refuse
    /// answers 400.
    pub(super) unknown_fields: UnknownFields,
    /// true: a notice's transaction must be the one of the create answer. Default: false.
    #[serde(default)]
    pub(super) ref_is_session: bool,
    /// Values of providerRef that stand for no transaction, such as "0".
    #[serde(default)]
    pub(super) placeholder_refs: Vec<String>,
    /// How long the partner goes on retrying, in seconds. After a rotation the old key stays valid
    /// at least as long. Default: 0.
    #[serde(default)]
    #[schemars(range(max = u32::MAX))]
    pub(super) retry_horizon_s: u32,
    /// true: calls to the partner present a TLS client certificate, a key of channel tls. Default:
    /// false.
    #[serde(default)]
    pub(super) client_certificate: bool,
    /// The limits on the body of a notice. They hold before its signature is verified.
    pub(super) limits: DefaultLimitsFile,
    /// The signed fields and the signature.
    pub(super) signature: SignatureFile,
    /// The notice's own time, which protects against replay.
    pub(super) time: Spanned<DefaultTimeFile>,
    /// How a payment is created.
    pub(super) create: Option<DefaultCreateFile>,
    /// How the status of a payment is queried.
    pub(super) query: Option<DefaultQueryFile>,
    // Parsed separately, so that all of its mistakes are reported.
    /// The format of the partner's file of payments.
    #[serde(rename = "records")]
    #[schemars(with = "Option<RecordsFile>")]
    pub(super) _records: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DefaultLimitsFile {
    /// The longest body, in bytes.
    #[schemars(range(min = bounds::DEFAULT_BODY_BYTES.min, max = bounds::DEFAULT_BODY_BYTES.max))]
    pub(super) body_bytes: Spanned<usize>,
    /// The most levels of nesting; the outermost object is level 1.
    #[schemars(range(min = bounds::DEPTH.min, max = bounds::DEPTH.max))]
    pub(super) depth: Spanned<usize>,
    /// The most names in all, nested ones and parameters included.
    #[schemars(range(min = bounds::DEFAULT_KEYS.min, max = bounds::DEFAULT_KEYS.max))]
    pub(super) keys: Spanned<usize>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignatureFile {
    /// HMAC-SHA256.
    #[serde(rename = "algorithm")]
    pub(super) _algorithm: DefaultAlgorithm,
    /// The encoding of the signature.
    pub(super) output: HexCase,
    /// The separator between two values: one printable ASCII character that values don't contain.
    pub(super) separator: Spanned<String>,
    /// The field that contains the signature.
    #[schemars(extend("enum" = [Field::Signature.name()]))]
    pub(super) field: Spanned<Field>,
    /// The fields of the signing text, in order.
    pub(super) fields: Spanned<Vec<Spanned<Field>>>,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) enum DefaultAlgorithm {
    #[serde(rename = "hmac-sha256")]
    HmacSha256,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DefaultTimeFile {
    /// delivery: a retry has a new time; event: a retry has the same time; none: there is no time.
    pub(super) kind: TimeKind,
    /// The field that contains the time.
    #[schemars(extend("enum" = [Field::Timestamp.name(), Field::PaidAt.name()]))]
    pub(super) field: Option<Field>,
    /// How far the time may be ahead of our clock, and for delivery also behind it, in seconds.
    #[schemars(range(min = bounds::SKEW_S.min, max = bounds::SKEW_S.max))]
    pub(super) skew_s: Option<i64>,
    /// Only for event: how old the time may be, in seconds.
    #[schemars(range(min = bounds::MAX_AGE_S.min, max = bounds::MAX_AGE_S.max))]
    pub(super) max_age_s: Option<i64>,
}
