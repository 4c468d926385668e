//! Owns the TOML tables that describe a partner's notices.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::profile::bounds;
use crate::profile::rules::{NonceRule, Stage};
use crate::profile::spanned::Spanned;
use crate::profile::time::TimeKind;
use crate::scheme::amount::AmountUnit;
use crate::scheme::crypt::{KeyEncoding, SignAlgorithm};
use crate::scheme::encoding::PairEncoding;
use crate::scheme::file::schema_parts;
use crate::scheme::lint::EXCEPTIONS;
use crate::scheme::pairs::{EmptyValues, PairOrder, PairWriting};
use crate::scheme::rules::{
    ConfirmPolicy, ForgedItemPolicy, JsonType, NameCase, NoticeFormat, RefundAmount, TextDecoding,
};
use crate::scheme::signature_encoding::SignatureEncoding;

pub(crate) type SpannedText = Spanned<String>;

/// The version of the profile language that this program reads.
pub(crate) const LANGUAGE: u32 = 1;

/// The HTTP methods that a notice may use.
pub(crate) const METHODS: [&str; 2] = ["POST", "GET"];

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HeadFile {
    /// Increases with every change of a frozen profile.
    #[schemars(range(min = 1, max = u32::MAX))]
    pub(crate) version: Spanned<u32>,
    /// The version of this language, 1.
    #[schemars(range(min = LANGUAGE, max = LANGUAGE))]
    pub(crate) language: Option<Spanned<u32>>,
    /// draft while it is written, sandbox while it is tried, frozen once it is agreed, live in
    /// production.
    pub(crate) stage: Stage,
    /// When a fact needs confirmation by a query: never, when_unsigned or always. It needs [query].
    /// Default: never.
    pub(crate) confirm: Option<Spanned<ConfirmPolicy>>,
    /// Whether a notice carries a nonce. Default: unused.
    pub(crate) nonce: Option<Spanned<NonceRule>>,
    /// The agreed deviations from the contract: exactly those that the profile needs.
    #[schemars(transform = schema_parts::items_of(&EXCEPTIONS))]
    pub(crate) exceptions: Option<Spanned<Vec<SpannedText>>>,
    /// true: a notice must name the transaction of the create answer. Default: false.
    #[serde(default)]
    pub(crate) ref_is_session: bool,
    /// Values that mean "no transaction", such as "0".
    #[serde(default)]
    pub(crate) placeholder_refs: Vec<String>,
    /// How many seconds the partner retries a notice. After a rotation the old key is valid at
    /// least as long. Default: 0.
    #[schemars(range(min = bounds::RETRY_HORIZON_S.min, max = bounds::RETRY_HORIZON_S.max))]
    pub(crate) retry_horizon_s: Option<Spanned<i64>>,
    /// true: our connections to the partner show a client certificate, a key of channel tls.
    /// Default: false.
    #[serde(default)]
    pub(crate) client_certificate: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LimitsFile {
    /// The most bytes of the body.
    #[schemars(range(min = bounds::BODY_BYTES.min, max = bounds::BODY_BYTES.max))]
    pub(crate) body_bytes: Spanned<usize>,
    /// The most levels of nesting. The outermost object is level 1.
    #[schemars(range(min = bounds::DEPTH.min, max = bounds::DEPTH.max))]
    pub(crate) depth: Spanned<usize>,
    /// The most names, including nested names and parameters.
    #[schemars(range(min = bounds::KEYS.min, max = bounds::KEYS.max))]
    pub(crate) keys: Spanned<usize>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoticeFile {
    /// The HTTP methods. Default: POST; for content = "query" GET.
    #[schemars(length(min = 1), transform = schema_parts::items_of(&METHODS))]
    pub(crate) methods: Option<Spanned<Vec<SpannedText>>>,
    /// The format of the body: json, form, or query, where all values are in the query.
    pub(crate) content: Spanned<NoticeFormat>,
    /// The accepted content types. Default: application/json or application/x-www-form-urlencoded.
    pub(crate) content_types: Option<Vec<String>>,
    /// same: names of a JSON body that differ only in case are one name, and a body with both is
    /// refused. Default: different.
    #[serde(default)]
    pub(crate) case: NameCase,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DocumentKind {
    Json,
    Form,
    Parts,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DocumentFile {
    /// Letters, digits and _; none of f q i h c p t body.
    pub(crate) name: SpannedText,
    /// A template of the wrapped text. If it is empty, the notice has no such document.
    pub(crate) from: SpannedText,
    /// The format of the unwrapped text.
    pub(crate) content: DocumentKind,
    /// How the text is encoded. Default: none.
    #[serde(default)]
    pub(crate) decode: TextDecoding,
    /// For parts: what separates two parts. Default: a comma.
    pub(crate) separator: Option<SpannedText>,
    /// For parts: what separates name and value. Default: =.
    pub(crate) assign: Option<SpannedText>,
    /// AES-GCM with a key of channel unwrap; the tag follows the text.
    pub(crate) decrypt: Option<DecryptFile>,
}

#[derive(Deserialize, JsonSchema)]
pub(crate) enum DecryptAlgorithm {
    #[serde(rename = "aes-gcm")]
    AesGcm,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecryptFile {
    /// aes-gcm: a key of 16 or 32 bytes, a nonce of 12.
    #[serde(rename = "algorithm")]
    pub(crate) _algorithm: DecryptAlgorithm,
    /// A template of the nonce.
    pub(crate) nonce: SpannedText,
    /// A template of the additional authenticated data. Default: empty.
    pub(crate) associated_data: Option<SpannedText>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ItemsFile {
    /// The path to the array, starting with f or a document: f.notificationItems.
    pub(crate) at: SpannedText,
    /// What happens to the other items if one is forged. Default: refuse_all.
    #[serde(default)]
    pub(crate) forged: ForgedItemPolicy,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PairsFile {
    /// The name of the token.
    pub(crate) name: SpannedText,
    /// Where the members are: q, f, i, a document, or a path in one; in a call s.
    pub(crate) of: SpannedText,
    /// Only these, in this order; absent ones are empty. Not with prefix.
    pub(crate) keys: Option<Spanned<Vec<String>>>,
    /// Only members with this prefix in their names. Not with keys.
    pub(crate) prefix: Option<SpannedText>,
    /// Members that are left out.
    #[serde(default)]
    pub(crate) except: Vec<String>,
    /// sorted: by the bytes of the decoded names; sorted-nocase: the same, case ignored; as-is: as
    /// received. Default: sorted; with keys as-is.
    pub(crate) order: Option<PairOrder>,
    /// What is written of each member. Default: pairs.
    #[serde(default)]
    pub(crate) write: PairWriting,
    /// What separates name and value. Default: =.
    pub(crate) assign: Option<String>,
    /// What separates two members. Default: &.
    pub(crate) separator: Option<String>,
    /// Whether empty and null values are written. Default: keep.
    #[serde(default)]
    pub(crate) empty: EmptyValues,
    /// How names and values are encoded. Default: none.
    #[serde(default)]
    pub(crate) encoding: PairEncoding,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TextFile {
    /// The token's name.
    pub(crate) name: SpannedText,
    /// A template.
    pub(crate) text: SpannedText,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct KeyFile {
    /// The encoding of the secret, as the partner shows it. Default: text.
    #[serde(default)]
    pub(crate) encoding: KeyEncoding,
    /// A prefix that is removed from the secret, if it has it.
    #[serde(default)]
    pub(crate) prefix: String,
    /// A template of the key's id in the notice. Absent = every valid key is tried.
    pub(crate) id: Option<SpannedText>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SignFile {
    /// The name of this block; it is stored with each fact. Default: sign-1, sign-2, …
    pub(crate) name: Option<String>,
    /// An HMAC; a plain digest with {secret} in the text; RSA (PKCS#1 v1.5) or Ed25519; token,
    /// where the secret itself is sent; none, which must be the last.
    pub(crate) algorithm: Spanned<SignAlgorithm>,
    /// The template of the signed text.
    pub(crate) text: Option<SpannedText>,
    /// The place of the signature: one token.
    pub(crate) signature: Option<SpannedText>,
    /// The encoding of the signature.
    pub(crate) output: Option<Spanned<SignatureEncoding>>,
    /// The prefix of the signature. A value without it is no signature.
    #[serde(default)]
    pub(crate) prefix: String,
    /// What separates several signatures in one value.
    pub(crate) split: Option<SpannedText>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RequireFile {
    /// A template.
    pub(crate) value: SpannedText,
    /// A template that the value must be equal to.
    pub(crate) equals: SpannedText,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FieldFile {
    /// One token.
    pub(crate) at: SpannedText,
    /// A regular expression that the whole value must match. Named groups are not allowed.
    pub(crate) pattern: Option<SpannedText>,
    /// The JSON type.
    #[serde(rename = "type")]
    pub(crate) shape: Option<JsonType>,
    /// true: an empty JSON string is refused; false: it counts as absent. Default: false.
    #[serde(default)]
    pub(crate) refuse_empty: bool,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MapFile {
    /// Our account at the partner. Absent = each of the partner's accounts is tried, 8 at most.
    pub(crate) merchant: Option<SpannedText>,
    /// Our order id.
    pub(crate) order: Option<SpannedText>,
    /// The partner's transaction.
    #[serde(rename = "ref")]
    pub(crate) provider_ref: Option<SpannedText>,
    /// Digits as received.
    pub(crate) amount: Option<SpannedText>,
    /// minor: minor units; hundredths: hundredths in every currency; major: decimal text. Default:
    /// minor.
    #[serde(default)]
    pub(crate) amount_unit: AmountUnit,
    /// By currency: the number of decimal digits, where the partner's differs from ISO 4217.
    #[serde(default)]
    #[schemars(transform = schema_parts::values_within(bounds::EXPONENT))]
    pub(crate) exponents: BTreeMap<String, u32>,
    /// An ISO 4217 code, or a key of currencies.
    pub(crate) currency: Option<SpannedText>,
    /// The partner's code = the ISO 4217 code.
    #[serde(default)]
    pub(crate) currencies: BTreeMap<String, String>,
    /// When it was paid.
    pub(crate) paid_at: Option<SpannedText>,
    /// The format of paid_at: unix_s, unix_ms, rfc3339 or a strftime pattern.
    pub(crate) paid_at_format: Option<SpannedText>,
    /// The zone of a pattern without %z: a name or an offset.
    pub(crate) paid_at_zone: Option<SpannedText>,
    /// The partner's id of this event. It distinguishes two refunds of one payment.
    pub(crate) event: Option<SpannedText>,
    /// The place of the nonce.
    pub(crate) nonce: Option<SpannedText>,
    /// What the amount of a refund without its own id means: the total refunded so far, or each
    /// refund alone. Default: total.
    pub(crate) refunds: Option<Spanned<RefundAmount>>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EventFile {
    /// Conditions that must all hold.
    #[serde(default)]
    pub(crate) when: Vec<Spanned<ConditionFile>>,
    /// A status; ignore: acknowledged, no fact; keep: acknowledged, no fact, stored in quarantine;
    /// refuse: not admissible, stored in quarantine.
    #[schemars(extend("enum" = schema_parts::statuses_and(&["ignore", "no_order", "refuse"])))]
    pub(crate) outcome: SpannedText,
    /// For this event, instead of the template in map.
    pub(crate) order: Option<SpannedText>,
    /// For this event, instead of the template in map.
    #[serde(rename = "ref")]
    pub(crate) provider_ref: Option<SpannedText>,
    /// For this event, instead of the template in map.
    pub(crate) amount: Option<SpannedText>,
    /// For this event, instead of the template in map.
    pub(crate) currency: Option<SpannedText>,
    /// For this event, instead of the template in map; the format is that of map.
    pub(crate) paid_at: Option<SpannedText>,
    /// For this event, instead of the template in map.
    pub(crate) event: Option<SpannedText>,
    /// For this event, instead of the template in map.
    pub(crate) nonce: Option<SpannedText>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
// A condition has exactly `value` and one test.
#[schemars(extend("minProperties" = 2, "maxProperties" = 2))]
pub(crate) struct ConditionFile {
    /// One token. The condition needs exactly one test as well.
    pub(crate) value: SpannedText,
    /// The value is this text.
    pub(crate) is: Option<String>,
    /// The value is not this text.
    pub(crate) is_not: Option<String>,
    /// The value is one of these texts.
    pub(crate) one_of: Option<Vec<String>>,
    /// The value is none of these texts.
    pub(crate) none_of: Option<Vec<String>>,
    /// The value starts with this text.
    pub(crate) starts_with: Option<String>,
    /// Whether there is a value; null counts as none.
    pub(crate) present: Option<bool>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TimeFile {
    /// delivery: a retry has a new time; event: a retry has the same time; none: the notice has no
    /// time.
    pub(crate) kind: TimeKind,
    /// A template of the time.
    pub(crate) value: Option<SpannedText>,
    /// The format: unix_s, unix_ms, rfc3339 or a strftime pattern such as %Y%m%d%H%M%S.
    pub(crate) format: Option<SpannedText>,
    /// Of a pattern without %z: a name or an offset such as +07:00.
    pub(crate) zone: Option<SpannedText>,
    /// How many seconds the time may be in the future, and for delivery also in the past.
    #[schemars(range(min = bounds::SKEW_S.min, max = bounds::SKEW_S.max))]
    pub(crate) skew_s: Option<i64>,
    /// Only for event: how many seconds old the time may be.
    #[schemars(range(min = bounds::MAX_AGE_S.min, max = bounds::MAX_AGE_S.max))]
    pub(crate) max_age_s: Option<i64>,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcksFile {
    /// The notice is durable. Default: 200 with an empty body.
    pub(crate) accepted: Option<AckFile>,
    /// Authenticated, and the profile ignores its kind. Default: as accepted.
    pub(crate) ignored: Option<AckFile>,
    /// No known key has signed the notice. Default: a 401 problem.
    pub(crate) bad_signature: Option<AckFile>,
    /// Authenticated and not admissible. Default: a 400 problem.
    pub(crate) not_admissible: Option<AckFile>,
    /// Authenticated, and its time is outside the window. Default: a 403 problem.
    pub(crate) stale: Option<AckFile>,
    /// The notice could not be made durable. Default: a 503 problem.
    pub(crate) unavailable: Option<AckFile>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AckFile {
    /// The HTTP status.
    #[schemars(range(min = bounds::ACK_STATUS.min, max = bounds::ACK_STATUS.max))]
    pub(crate) status: Spanned<u16>,
    /// The content type of the body.
    pub(crate) content_type: Option<String>,
    /// The body as a fixed text.
    pub(crate) body: Option<String>,
    /// A template of the body; literal braces are doubled. Not with body.
    pub(crate) template: Option<SpannedText>,
}
