//! Owns the rule of a create: its call, its amounts and expiry, and where the answer holds the
//! offer.

use std::collections::BTreeMap;

use payfold_schemas::ids::{OrderId, ProviderRef};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::scheme::amount::AmountRule;
use crate::scheme::call::rule::{AnswerContent, CallRule};
use crate::scheme::clock::TimeFormat;
use crate::scheme::rules::MatchCondition;
use crate::scheme::template::Template;

/// The values that a create's templates may name after those of `COMMON`.
pub(crate) const VALUES: [&str; 12] = [
    "amount",
    "currency",
    "description",
    "return_url",
    "ipn_url",
    "reference",
    "expires",
    "expires_in_s",
    "expires_in_min",
    "payer_ip",
    "expires_asked",
    "presentation",
];

/// The index of `{amount}`; the other values follow in the order of `VALUES`.
pub(crate) const AMOUNT: usize = crate::scheme::call::rule::COMMON.len();

pub(crate) const CURRENCY: usize = AMOUNT + 1;

pub(crate) const DESCRIPTION: usize = AMOUNT + 2;

pub(crate) const RETURN_URL: usize = AMOUNT + 3;

pub(crate) const IPN_URL: usize = AMOUNT + 4;

pub(crate) const REFERENCE: usize = AMOUNT + 5;

pub(crate) const EXPIRES: usize = AMOUNT + 6;

pub(crate) const EXPIRES_IN_S: usize = AMOUNT + 7;

pub(crate) const EXPIRES_IN_MIN: usize = AMOUNT + 8;

pub(crate) const PAYER_IP: usize = AMOUNT + 9;

pub(crate) const EXPIRES_ASKED: usize = AMOUNT + 10;

pub(crate) const PRESENTATION: usize = AMOUNT + 11;

/// Where the end of a session comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ExpirySource {
    /// The answer says it.
    Response,
    /// We ask for it in the request.
    Request,
    /// The partner's sessions always last `ttl_s`.
    Ttl,
}

/// How a payment is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CreateKind {
    /// We call the partner.
    Call,
    /// The payer's browser opens a signed address.
    SignedUrl,
    /// The payer's browser posts a signed form from our page.
    FormPost,
}

/// The compiled `[create]`.
#[derive(Clone, Debug)]
pub(crate) struct SchemeCreate {
    /// Where the section is in the file.
    pub(crate) span: std::ops::Range<usize>,
    pub(crate) kind: CreateKind,
    pub(crate) rule: CallRule,
    /// Where the answer holds the offer. `None` where no call is made and the built address itself
    /// is the offer.
    pub(crate) offer: Option<OfferRule>,
    pub(crate) amount: AmountRule,
    /// Our currency code => the partner's code. Empty = every currency, by its ISO 4217 code.
    pub(crate) currencies: BTreeMap<String, String>,
    pub(crate) expiry: ExpirySource,
    pub(crate) ttl_ms: i64,
    /// The format of `{expires}`.
    pub(crate) expires: TimeFormat,
    /// Timeout of the whole call, from connecting to the last byte of the answer, ms.
    pub(crate) timeout_ms: u64,
    pub(crate) bytes_max: usize,
    pub(crate) grace_ms: i64,
    pub(crate) max_session_ms: i64,
}

/// `[create.answer]`: where the answer holds the offer.
#[derive(Clone, Debug)]
pub(crate) struct OfferRule {
    pub(crate) content: AnswerContent,
    /// The values must be JSON strings, and the answer must not offer both a page and a QR code.
    pub(crate) is_strict: bool,
    /// Conditions that must hold; otherwise the partner declined.
    pub(crate) success: Vec<MatchCondition>,
    /// The partner's code for declining, for our log.
    pub(crate) refusal: Option<Template>,
    /// The transaction. `None` if only a notice names it.
    pub(crate) provider_ref: Option<Template>,
    pub(crate) redirect: Option<Template>,
    pub(crate) qr: Option<Template>,
    pub(crate) expires: Option<(Template, ExpiryFormat)>,
}

/// The format of the expiry in an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExpiryFormat {
    At(TimeFormat),
    /// Seconds from now.
    InSeconds,
}

impl ExpirySource {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Response => "response",
            Self::Request => "request",
            Self::Ttl => "ttl",
        }
    }
}

/// The ref of a session without a known transaction: the order id, which both sides have.
pub(crate) fn ref_of_order(order_id: &OrderId) -> ProviderRef {
    ProviderRef::parse(order_id.as_str()).expect("an order id is printable and shorter")
}
