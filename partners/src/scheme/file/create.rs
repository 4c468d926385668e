//! Owns the TOML format of `[create]`: how a payment is created, and what the answer offers. The
//! ranges here are for the schema; `compile` enforces them.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema};
use serde::Deserialize;

use super::call::{AnswerFile, CallFile};
use crate::profile::bounds;
use crate::profile::spanned::Spanned;
use crate::scheme::amount::AmountUnit;
use crate::scheme::create::rule::ExpirySource;
use crate::scheme::file::schema_parts;
use crate::scheme::file::tables::{ConditionFile, SpannedText};

/// The section. It has no `Deserialize`, because `sections` reads its parts one by one, so that a
/// mistake in one hides none in another. The schema describes it whole.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields, transform = describe_sign)]
pub(in crate::scheme) struct CreateFile {
    #[schemars(flatten)]
    pub(in crate::scheme) call: CallFile,
    #[schemars(flatten)]
    pub(in crate::scheme) head: CreateHeadFile,
    /// Where the answer to the call holds the offer. Required with kind = "call"; the other kinds
    /// have none.
    pub(in crate::scheme) answer: Option<OfferFile>,
}

fn describe_sign(schema: &mut Schema) {
    let sign = schema_parts::property(schema, "sign");
    schema_parts::describe(sign, "Makes {sign}; it must cover {order} and {amount}.");
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::scheme) enum KindFile {
    Call,
    SignedUrl,
    FormPost,
}

/// The keys of the section that are not the call's.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scheme) struct CreateHeadFile {
    /// call: we call the partner; signed_url: the payer gets an address that only we can have
    /// signed; form_post: the payer's browser posts a signed form.
    pub(in crate::scheme) kind: Spanned<KindFile>,
    /// The unit of {amount}.
    pub(in crate::scheme) amount_unit: AmountUnit,
    /// By currency: the number of decimal digits, where the partner's differs from ISO 4217.
    #[serde(default)]
    #[schemars(transform = schema_parts::values_within(bounds::EXPONENT))]
    pub(in crate::scheme) exponents: BTreeMap<Spanned<String>, u32>,
    /// The partner's code = the ISO 4217 code. Other currencies are refused. Absent: every
    /// currency, by its ISO code. {currency} must be sent unless exactly one is listed.
    #[serde(default)]
    pub(in crate::scheme) currencies: BTreeMap<Spanned<String>, SpannedText>,
    /// Where the end of the session comes from: request: we ask for it; response: the answer says
    /// it; ttl: sessions always last ttl_s.
    pub(in crate::scheme) expiry: Spanned<ExpirySource>,
    /// How many seconds a session lasts, or how many are asked for if the shop asks for none.
    #[schemars(range(min = bounds::SESSION_TTL_S.min, max = bounds::SESSION_TTL_S.max))]
    pub(in crate::scheme) ttl_s: Spanned<usize>,
    /// The format of {expires}. Default: RFC 3339 in UTC.
    pub(in crate::scheme) expires_format: Option<SpannedText>,
    /// The zone of a pattern without %z: a name or an offset.
    pub(in crate::scheme) expires_zone: Option<SpannedText>,
    /// Timeout of the whole call in seconds. Default: 10.
    #[schemars(range(min = bounds::TIMEOUT_S.min, max = bounds::TIMEOUT_S.max))]
    pub(in crate::scheme) timeout_s: Option<Spanned<usize>>,
    /// The most bytes of the answer. Default: 65536.
    #[schemars(range(min = bounds::ANSWER_BYTES.min, max = bounds::ANSWER_BYTES.max))]
    pub(in crate::scheme) answer_bytes: Option<Spanned<usize>>,
    /// An order expires this many seconds after its session. Default: 120.
    #[schemars(range(min = bounds::SESSION_GRACE_S.min, max = bounds::SESSION_GRACE_S.max))]
    pub(in crate::scheme) grace_s: Option<Spanned<usize>>,
    /// While no session is known, an order expires this many seconds after its creation. Default:
    /// 1800.
    #[schemars(range(min = bounds::MAX_SESSION_S.min, max = bounds::MAX_SESSION_S.max))]
    pub(in crate::scheme) max_session_s: Option<Spanned<usize>>,
}

/// `[create.answer]`.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::scheme) struct OfferFile {
    /// The format of the answer. Default: json.
    #[serde(default)]
    pub(in crate::scheme) content: AnswerFile,
    /// true: the answer is an object, the values of ref, redirect, qr and expires are JSON strings,
    /// and it offers a page or a QR code, not both. Default: false.
    #[serde(default)]
    pub(in crate::scheme) strict: bool,
    /// Conditions that must all hold; otherwise the partner declined.
    #[serde(default)]
    pub(in crate::scheme) success: Vec<Spanned<ConditionFile>>,
    /// The partner's code for declining. It is only logged.
    pub(in crate::scheme) refusal: Option<SpannedText>,
    /// The transaction, as notices will name it, or "later": only a notice names it.
    #[serde(rename = "ref")]
    pub(in crate::scheme) provider_ref: SpannedText,
    /// The address of the page.
    pub(in crate::scheme) redirect: Option<SpannedText>,
    /// The content of the QR code.
    pub(in crate::scheme) qr: Option<SpannedText>,
    /// With expiry = "response": when the session ends.
    pub(in crate::scheme) expires: Option<SpannedText>,
    /// The format of expires, or in_s: a number of seconds from now.
    pub(in crate::scheme) expires_format: Option<SpannedText>,
    /// The zone of a pattern without %z: a name or an offset.
    pub(in crate::scheme) expires_zone: Option<SpannedText>,
}
