//! A partner's own scheme, compiled: how a notice of theirs is read, who signed it, and what it says in the
//! contract's words. A profile is either the contract's scheme (`[signature]`) or one of these (`[[sign]]`, `[map]`).
//!
//! The way of one notice: `reading` parses what is there, `verify` finds the account and the key, `map` chooses
//! the event and reads its values. `file` and `compile` make a scheme of TOML, `lint` holds what makes one safe:
//! a scheme that exists covers with its signature all that decides money, or has it confirmed by a query.

pub(crate) mod ack;
pub(crate) mod amount;
pub(crate) mod call;
pub(crate) mod candidates;
pub(crate) mod claims;
pub(crate) mod clock;
pub(crate) mod compile;
pub(crate) mod create;
pub(crate) mod crypt;
pub(crate) mod document;
pub(crate) mod encoding;
pub(crate) mod explain;
pub(crate) mod file;
pub(crate) mod filter;
pub(crate) mod keys;
pub(crate) mod lint;
pub(crate) mod map;
mod marks;
pub(crate) mod oauth;
pub(crate) mod pairs;
pub(crate) mod query;
pub(crate) mod reading;
pub(crate) mod request;
pub(crate) mod schema;
mod shown;
mod signed_text;
pub(crate) mod template;
pub(crate) mod unique;
pub(crate) mod vectors;
pub(crate) mod verify;
pub(crate) mod work;

use std::collections::BTreeMap;

use payfold_schemas::ipn::Status;
use regex::Regex;
use serde::Deserialize;

use self::ack::Acks;
use self::amount::AmountRule;
use self::candidates::OpenParts;
use self::clock::Format;
use self::crypt::{Algorithm, KeyEncoding, Output};
use self::pairs::Pairs;
use self::template::{Source, Template, Token};

pub use self::ack::{Ack, Answer};
pub use self::create::PaymentForm;
pub use self::explain::{Attempt, Explanation, Place};
pub use self::keys::SchemeKeys;
pub use self::map::{Fault, FaultKind, Mapped, Said};
pub use self::request::Request;
pub use self::schema::profile_schema;
pub use self::vectors::{VectorReport, check_vectors};
pub use self::verify::VerifiedNotice;

/// The numbers of the documents every scheme has.
pub(crate) const BODY: usize = 0;
pub(crate) const QUERY: usize = 1;
pub(crate) const ITEM: usize = 2;

/// What a notice's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Content {
    Json,
    Form,
    /// There is none: all is in the query.
    Query,
}

/// How a wrapped text is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Decode {
    #[default]
    None,
    Hex,
    Base64,
    Base64url,
}

/// What a wrapped text is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DocumentContent {
    Json,
    Form,
    Parts { separator: String, assign: String },
}

/// AES-GCM around a document.
#[derive(Clone, Debug)]
pub(crate) struct DecryptRule {
    pub(crate) nonce: Template,
    pub(crate) associated_data: Template,
}

/// A document inside a value.
#[derive(Clone, Debug)]
pub(crate) struct DocumentRule {
    pub(crate) name: String,
    pub(crate) from: Template,
    pub(crate) decode: Decode,
    pub(crate) decrypt: Option<DecryptRule>,
    pub(crate) content: DocumentContent,
}

/// What is done with an array of which one item nobody has signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Forged {
    /// Nothing of it is taken.
    #[default]
    RefuseAll,
    /// The others are taken.
    RefuseItem,
}

/// An array of notices.
#[derive(Clone, Debug)]
pub(crate) struct ItemsRule {
    pub(crate) of: (usize, Vec<String>),
    pub(crate) forged: Forged,
}

/// How an account's secret becomes a key.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyRule {
    pub(crate) encoding: KeyEncoding,
    pub(crate) prefix: String,
    /// Names the key, where the partner says which it used; absent = every key that counts is tried.
    pub(crate) id: Option<Template>,
}

/// One way a notice may be signed.
#[derive(Clone, Debug)]
pub(crate) struct SignRule {
    /// Where it stands in the file.
    pub(crate) span: std::ops::Range<usize>,
    pub(crate) name: String,
    pub(crate) algorithm: Algorithm,
    pub(crate) text: Template,
    /// Where the signature stands; absent only for `none`.
    pub(crate) signature: Option<Token>,
    /// Between several signatures in one value.
    pub(crate) split: Option<String>,
    pub(crate) prefix: String,
    pub(crate) output: Output,
}

/// Two texts that must be the same, or the notice is for somebody else.
#[derive(Clone, Debug)]
pub(crate) struct Requirement {
    pub(crate) value: Template,
    pub(crate) equals: Template,
}

/// What a value must look like.
#[derive(Clone, Debug)]
pub(crate) struct FieldRule {
    pub(crate) at: Token,
    pub(crate) pattern: Option<Regex>,
    pub(crate) shape: Option<Shape>,
}

/// A JSON type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Shape {
    String,
    Number,
    Integer,
    Bool,
}

/// What a test compares.
#[derive(Clone, Debug)]
pub(crate) enum Test {
    Is(String),
    IsNot(String),
    OneOf(Vec<String>),
    NoneOf(Vec<String>),
    StartsWith(String),
    Present,
    Absent,
}

impl Test {
    /// Whether it compares with an empty text, which no value is: one that is empty is absent.
    pub(crate) fn names_nothing(&self) -> bool {
        match self {
            Self::Is(text) | Self::IsNot(text) | Self::StartsWith(text) => text.is_empty(),
            Self::OneOf(texts) | Self::NoneOf(texts) => texts.iter().any(String::is_empty),
            Self::Present | Self::Absent => false,
        }
    }

    /// Whether a value passes; `None` is one that is absent or empty.
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
pub(crate) struct Condition {
    pub(crate) value: Token,
    pub(crate) test: Test,
}

/// Where the values of a notice stand; an event may have its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    pub(crate) order: Option<Template>,
    pub(crate) provider_ref: Option<Template>,
    pub(crate) amount: Option<Template>,
    pub(crate) currency: Option<Template>,
    pub(crate) paid_at: Option<Template>,
    pub(crate) event: Option<Template>,
    pub(crate) nonce: Option<Template>,
}

/// How values are read wherever they stand.
#[derive(Clone, Debug)]
pub(crate) struct MapRule {
    pub(crate) merchant: Option<Template>,
    pub(crate) places: Places,
    pub(crate) amount: AmountRule,
    /// The partner's word for a currency => ours.
    pub(crate) currencies: BTreeMap<String, String>,
    pub(crate) paid_at_format: Format,
}

/// What becomes of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Status(Status),
    /// Acknowledged, and no fact.
    Ignore,
    /// Acknowledged, no fact, and kept whole: money that is nobody's order.
    Keep,
    /// Neither taken nor acknowledged.
    Refuse,
}

/// One kind of notice: the first whose conditions all hold says what it is.
#[derive(Clone, Debug)]
pub(crate) struct EventRule {
    /// Where it stands in the file.
    pub(crate) span: std::ops::Range<usize>,
    pub(crate) when: Vec<Condition>,
    pub(crate) outcome: Outcome,
    pub(crate) places: Places,
}

/// When a fact of this partner counts only after its own word on it was fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Confirm {
    #[default]
    Never,
    WhenUnsigned,
    Always,
}

/// A partner's own scheme.
#[derive(Clone, Debug)]
pub struct Scheme {
    pub(crate) methods: Vec<String>,
    pub(crate) content: Content,
    pub(crate) content_types: Vec<String>,
    /// Absent = every account has its own.
    pub(crate) constants: BTreeMap<String, Option<String>>,
    pub(crate) documents: Vec<DocumentRule>,
    pub(crate) items: Option<ItemsRule>,
    pub(crate) pairs: Vec<Pairs>,
    pub(crate) texts: Vec<Template>,
    pub(crate) key: KeyRule,
    pub(crate) signs: Vec<SignRule>,
    pub(crate) require: Vec<Requirement>,
    pub(crate) fields: Vec<FieldRule>,
    pub(crate) map: MapRule,
    pub(crate) events: Vec<EventRule>,
    /// Where the notice's own time stands and how it is written.
    pub(crate) time: Option<(Template, Format)>,
    pub(crate) confirm: Confirm,
    pub(crate) acks: Acks,
    /// How a payment is asked for there; absent if it can't be.
    pub(crate) query: Option<query::SchemeQuery>,
    /// How a payment is created there; absent if none is.
    pub(crate) create: Option<create::SchemeCreate>,
    /// How the access token is asked for that calls carry; absent if none does.
    pub(crate) oauth: Option<oauth::SchemeToken>,
    pub(crate) exceptions: Vec<String>,
    /// Where they stand in the file.
    pub(crate) exceptions_span: std::ops::Range<usize>,
    /// What can be read before an account is chosen.
    pub(crate) open: OpenParts,
    /// Whether a signed text is held to one reading: something it says counts without a query.
    pub(crate) needs_one_reading: bool,
}

#[cfg(test)]
mod tests;

impl Scheme {
    /// Whether the account of a notice can be found by what stands in it: the profile says where, nothing passes without a
    /// signature, and it is a JSON document that is posted.
    pub(crate) fn is_found_by_merchant(&self) -> bool {
        let is_place =
            |token: &&Token| matches!(token.source, Source::Header(_) | Source::Field(..));
        let merchant = self.map.merchant.as_ref();
        merchant.is_some_and(|merchant| merchant.tokens().iter().any(is_place))
            && self.signs.iter().all(|sign| sign.algorithm.signs_the_text())
            && self.content == Content::Json
            && self.takes_method("POST")
            && self.takes_content_type(Some("application/json"))
    }

    /// Whether notices come by this method.
    pub fn takes_method(&self, method: &str) -> bool {
        self.methods.iter().any(|known| known == method)
    }

    /// Whether a body of this content type is read; a notice that is all query may have none.
    pub fn takes_content_type(&self, content_type: Option<&str>) -> bool {
        let Some(content_type) = content_type else { return self.content == Content::Query };
        let media = content_type.split(';').next().unwrap_or_default().trim();
        self.content == Content::Query
            || self.content_types.iter().any(|known| known.eq_ignore_ascii_case(media))
    }

    /// What a question looks like; `None` if none can be asked.
    pub fn describe_query(&self) -> Option<String> {
        let query::SchemeQuery { question, pace, .. } = self.query.as_ref()?;
        let tokens: Vec<_> = question.path.tokens().iter().map(|t| t.written.clone()).collect();
        let by = if self.query.as_ref()?.needs_ref() { "its transaction" } else { "its order" };
        let named = if tokens.is_empty() { "in the body".to_owned() } else { tokens.join(" ") };
        let (method, at_once, per_s) = (question.method.name(), pace.at_once, pace.per_s);
        Some(format!("{method} by {by}, {named}; {at_once} at once, {per_s} a second"))
    }

    /// How a payment is created; `None` if none is.
    pub fn describe_create(&self) -> Option<String> {
        self.create.as_ref().map(create::SchemeCreate::describe)
    }

    /// How an access token is asked for; `None` if no call carries one.
    pub fn describe_oauth(&self) -> Option<String> {
        self.oauth.as_ref().map(oauth::SchemeToken::describe)
    }

    /// The answer to a notice of this outcome, where the profile has its own.
    pub fn acks(&self) -> &Acks {
        &self.acks
    }

    /// Whether a value stands in a signed text whatever else does, not in a part that may be left out.
    pub(crate) fn always_signs(&self, token: &Token) -> bool {
        let is_it = |piece: &template::Piece| match piece {
            template::Piece::Token(other) => other.source == token.source,
            template::Piece::Literal(_) | template::Piece::Optional(_) => false,
        };
        self.signs.iter().any(|sign| sign.text.pieces.iter().any(is_it))
    }

    /// Whether it reads our address as the partner knows it.
    pub fn signs_address(&self) -> bool {
        lint::every_token(self).iter().any(|token| token.source == template::Source::Url)
    }

    /// The headers that are signed or read: what has to be kept to check a notice again.
    pub fn headers(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for token in lint::every_token(self) {
            if let template::Source::Header(name) = &token.source
                && !names.iter().any(|other| other.eq_ignore_ascii_case(name))
            {
                names.push(name);
            }
        }
        names
    }
}
