//! Owns the compiled rules of a scheme: where values are in a notice, how it is signed, and what
//! its events mean.

use std::collections::BTreeMap;

use payfold_schemas::ipn::Status;
use regex::Regex;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::scheme::amount::AmountRule;
use crate::scheme::clock::TimeFormat;
use crate::scheme::crypt::{KeyEncoding, SignAlgorithm};
use crate::scheme::signature_encoding::SignatureEncoding;
use crate::scheme::template::{Template, TemplateToken};

/// The numbers of the documents that every scheme has; the profile's own follow.
pub(crate) const BODY: usize = 0;

pub(crate) const QUERY: usize = 1;

pub(crate) const ITEM: usize = 2;

/// The format of a notice's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NoticeFormat {
    Json,
    Form,
    /// No body: all values are in the query.
    Query,
}

impl NoticeFormat {
    /// The content types that are accepted by default.
    pub(crate) fn usual_types(self) -> Vec<String> {
        match self {
            Self::Json => vec!["application/json".to_owned()],
            Self::Form => vec!["application/x-www-form-urlencoded".to_owned()],
            Self::Query => Vec::new(),
        }
    }
}

/// Whether names of a JSON body that differ only in ASCII case are one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum NameCase {
    /// They are two names.
    #[default]
    Different,
    /// They are one name, and a body that has both is refused.
    Same,
}

/// The encoding of a wrapped text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TextDecoding {
    #[default]
    None,
    Hex,
    Base64,
    Base64url,
}

/// The format of a wrapped text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DocumentContent {
    Json,
    Form,
    Parts { separator: String, assign: String },
}

/// AES-GCM encryption of a document.
#[derive(Clone, Debug)]
pub(crate) struct DecryptRule {
    pub(crate) nonce: Template,
    pub(crate) associated_data: Template,
}

/// `[[document]]`: a document inside a value.
#[derive(Clone, Debug)]
pub(crate) struct DocumentRule {
    pub(crate) name: String,
    pub(crate) from: Template,
    pub(crate) decode: TextDecoding,
    pub(crate) decrypt: Option<DecryptRule>,
    pub(crate) content: DocumentContent,
}

/// What happens to an array if one of its items is not signed by a known key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ForgedItemPolicy {
    /// The whole array is refused.
    #[default]
    RefuseAll,
    /// The other items are accepted.
    RefuseItem,
}

/// `[items]`: an array of notices.
#[derive(Clone, Debug)]
pub(crate) struct ItemsRule {
    pub(crate) of: (usize, Vec<String>),
    pub(crate) forged: ForgedItemPolicy,
}

/// `[key]`: how an account's secret becomes a key.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyRule {
    pub(crate) encoding: KeyEncoding,
    pub(crate) prefix: String,
    /// The id of the key that signed, if the notice names it. `None` = every valid key is tried.
    pub(crate) id: Option<Template>,
}

/// `[[sign]]`: one way a notice may be signed.
#[derive(Clone, Debug)]
pub(crate) struct SignRule {
    /// Where it is in the file, in bytes.
    pub(crate) span: std::ops::Range<usize>,
    pub(crate) name: String,
    pub(crate) algorithm: SignAlgorithm,
    pub(crate) text: Template,
    /// The place of the signature. `None` only for the algorithm `none`.
    pub(crate) signature: Option<TemplateToken>,
    /// What separates several signatures in one value.
    pub(crate) split: Option<String>,
    pub(crate) prefix: String,
    pub(crate) output: SignatureEncoding,
    /// Whether it covers every value that decides, the time and the merchant included.
    pub(crate) covers_all: bool,
    /// Whether it covers the notice's own time.
    pub(crate) covers_time: bool,
}

/// `[[require]]`: two texts that must be equal; otherwise the notice is not for us.
#[derive(Clone, Debug)]
pub(crate) struct Requirement {
    pub(crate) value: Template,
    pub(crate) equals: Template,
}

/// `[[field]]`: the required format of a value.
#[derive(Clone, Debug)]
pub(crate) struct FieldRule {
    pub(crate) at: TemplateToken,
    pub(crate) pattern: Option<Regex>,
    pub(crate) shape: Option<JsonType>,
    /// Whether an empty JSON string is refused; otherwise it counts as absent.
    pub(crate) refuses_empty: bool,
}

/// The JSON type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum JsonType {
    String,
    Number,
    Integer,
    Bool,
}

/// The test of a condition.
#[derive(Clone, Debug)]
pub(crate) enum ConditionTest {
    Is(String),
    IsNot(String),
    OneOf(Vec<String>),
    NoneOf(Vec<String>),
    StartsWith(String),
    Present,
    Absent,
}

impl ConditionTest {
    /// Whether it compares with the empty text. No value is empty: an empty one counts as absent.
    pub(crate) fn names_nothing(&self) -> bool {
        match self {
            Self::Is(text) | Self::IsNot(text) | Self::StartsWith(text) => text.is_empty(),
            Self::OneOf(texts) | Self::NoneOf(texts) => texts.iter().any(String::is_empty),
            Self::Present | Self::Absent => false,
        }
    }

    /// Whether a value passes. `None` = the value is absent or empty.
    pub(crate) fn takes(&self, text: Option<&str>) -> bool {
        let is = |wanted: &String| text == Some(wanted.as_str());
        match self {
            Self::Is(wanted) => is(wanted),
            Self::IsNot(wanted) => !is(wanted),
            Self::OneOf(wanted) => wanted.iter().any(is),
            Self::NoneOf(wanted) => !wanted.iter().any(is),
            Self::StartsWith(start) => text.is_some_and(|text| text.starts_with(start)),
            Self::Present => text.is_some(),
            Self::Absent => text.is_none(),
        }
    }
}

/// One condition of an event.
#[derive(Clone, Debug)]
pub(crate) struct MatchCondition {
    pub(crate) value: TemplateToken,
    pub(crate) test: ConditionTest,
}

/// The templates of a notice's values; an event may replace them.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValuePlaces {
    pub(crate) order: Option<Template>,
    pub(crate) provider_ref: Option<Template>,
    pub(crate) amount: Option<Template>,
    pub(crate) currency: Option<Template>,
    pub(crate) paid_at: Option<Template>,
    pub(crate) event: Option<Template>,
    pub(crate) nonce: Option<Template>,
}

/// `[map]`: where values are and how they are read.
#[derive(Clone, Debug)]
pub(crate) struct MapRule {
    pub(crate) merchant: Option<Template>,
    pub(crate) places: ValuePlaces,
    pub(crate) amount: AmountRule,
    /// The partner's code for a currency => ours (ISO 4217).
    pub(crate) currencies: BTreeMap<String, String>,
    pub(crate) paid_at_format: TimeFormat,
    pub(crate) refunds: RefundAmount,
}

/// What the amount of a refund without its own id means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RefundAmount {
    /// The total refunded of the payment so far.
    #[default]
    Total,
    /// This refund alone.
    Each,
}

/// What happens to a notice of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventOutcome {
    Status(Status),
    /// It is acknowledged, and no fact is appended.
    Ignore,
    /// Money that belongs to no order here: the notice is acknowledged, no fact is appended, and it
    /// is stored in quarantine.
    NoOrder,
    /// It is not admissible.
    Refuse,
}

/// `[[event]]`: the first event with conditions that all hold gives the meaning of a notice.
#[derive(Clone, Debug)]
pub(crate) struct EventRule {
    /// Where it is in the file, in bytes.
    pub(crate) span: std::ops::Range<usize>,
    pub(crate) when: Vec<MatchCondition>,
    pub(crate) outcome: EventOutcome,
    pub(crate) places: ValuePlaces,
}

/// When a fact of this partner counts only after a query has confirmed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ConfirmPolicy {
    #[default]
    Never,
    WhenUnsigned,
    Always,
}

/// The parts of a notice that can be read before an account is chosen.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenParts {
    /// By `[[document]]`: whether it can be unwrapped without an account's keys and constants.
    pub(crate) documents: Vec<bool>,
    /// Whether `map.merchant`, and the array of notices if there is one, can be read.
    pub(crate) names_account: bool,
}

/// The parts of a request, beside body and query, that must be stored to verify a notice again.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptParts {
    /// The headers that are signed or read.
    pub(crate) headers: Vec<String>,
    /// Whether our address, as the partner knows it, is signed or read.
    pub(crate) address: bool,
}
