//! Owns the compiled scheme: how a notice is read, which signatures it carries, what its values
//! mean, and how the partner is called.

use std::collections::BTreeMap;

use crate::scheme::ack::AckRules;
use crate::scheme::clock::TimeFormat;
use crate::scheme::pairs::PairList;
use crate::scheme::rules::{
    ConfirmPolicy, DocumentRule, EventRule, FieldRule, ItemsRule, KeptParts, KeyRule, MapRule,
    NameCase, NoticeFormat, OpenParts, Requirement, SignRule,
};
use crate::scheme::template;
use crate::scheme::template::{Template, TemplateToken};

/// A compiled scheme.
#[derive(Clone, Debug)]
pub struct Scheme {
    pub(crate) methods: Vec<String>,
    pub(crate) content: NoticeFormat,
    pub(crate) case: NameCase,
    pub(crate) content_types: Vec<String>,
    /// The profile's constants. `None` = every account sets its own value.
    pub(crate) constants: BTreeMap<String, Option<String>>,
    pub(crate) documents: Vec<DocumentRule>,
    pub(crate) items: Option<ItemsRule>,
    pub(crate) pairs: Vec<PairList>,
    pub(crate) texts: Vec<Template>,
    pub(crate) key: KeyRule,
    pub(crate) signs: Vec<SignRule>,
    pub(crate) require: Vec<Requirement>,
    pub(crate) fields: Vec<FieldRule>,
    pub(crate) map: MapRule,
    pub(crate) events: Vec<EventRule>,
    /// The template and format of the notice's own time.
    pub(crate) time: Option<(Template, TimeFormat)>,
    pub(crate) confirm: ConfirmPolicy,
    pub(crate) acks: AckRules,
    /// `[query]`. `None` if the partner can't be asked about a payment.
    pub(crate) query: Option<crate::scheme::query::rule::SchemeQuery>,
    /// `[create]`. `None` if no payment is created through this profile.
    pub(crate) create: Option<crate::scheme::create::rule::SchemeCreate>,
    /// `[oauth]`. `None` if no call carries an access token.
    pub(crate) oauth: Option<crate::scheme::oauth::rule::SchemeOauth>,
    pub(crate) exceptions: Vec<String>,
    /// Where `exceptions` is in the file.
    pub(crate) exceptions_span: std::ops::Range<usize>,
    /// The parts of a notice that can be read before an account is chosen.
    pub(crate) open: OpenParts,
    /// The parts of a request that must be stored to verify it again.
    pub(crate) kept: KeptParts,
    /// Whether a signed text must have one reading only: some value in it counts without a query.
    pub(crate) needs_one_reading: bool,
}

impl Scheme {
    /// Whether a notice's account can be found from its content alone, as the shared path needs:
    /// the profile reads a merchant, every `[[sign]]` signs a text, and the notice is a posted JSON
    /// document.
    pub(crate) fn is_found_by_merchant(&self) -> bool {
        let merchant = self.map.merchant.as_ref();
        merchant.is_some_and(|merchant| merchant.tokens().iter().any(|token| token.is_place()))
            && self.signs.iter().all(|sign| sign.algorithm.signs_the_text())
            && self.content == NoticeFormat::Json
            && self.takes_method("POST")
            && self.takes_content_type(Some("application/json"))
    }

    /// Whether notices may use this method.
    pub fn takes_method(&self, method: &str) -> bool {
        self.methods.iter().any(|known| known == method)
    }

    /// Whether a body of this content type is read. A notice that is all query needs no content
    /// type.
    pub fn takes_content_type(&self, content_type: Option<&str>) -> bool {
        let Some(content_type) = content_type else { return self.content == NoticeFormat::Query };
        let media = content_type.split(';').next().unwrap_or_default().trim();
        self.content == NoticeFormat::Query
            || self.content_types.iter().any(|known| known.eq_ignore_ascii_case(media))
    }

    /// Describes the query, for people. `None` if there is none.
    pub fn describe_query(&self) -> Option<String> {
        let crate::scheme::query::rule::SchemeQuery { question, pace, .. } = self.query.as_ref()?;
        let tokens: Vec<_> = question.path.tokens().iter().map(|t| t.written.clone()).collect();
        let by = if self.query.as_ref()?.needs_ref() { "its transaction" } else { "its order" };
        let named = if tokens.is_empty() { "in the body".to_owned() } else { tokens.join(" ") };
        let (method, at_once, per_s) = (question.method.name(), pace.at_once, pace.per_s);
        Some(format!("{method} by {by}, {named}; {at_once} at once, {per_s} a second"))
    }

    /// Describes the create, for people. `None` if there is none.
    pub fn describe_create(&self) -> Option<String> {
        self.create.as_ref().map(crate::scheme::create::rule::SchemeCreate::describe)
    }

    /// Describes the token call, for people. `None` if there is none.
    pub fn describe_oauth(&self) -> Option<String> {
        self.oauth.as_ref().map(crate::scheme::oauth::rule::SchemeOauth::describe)
    }

    /// The answers to notices that the profile sets.
    pub fn acks(&self) -> &AckRules {
        &self.acks
    }

    /// Whether a query has to confirm the facts that this `[[sign]]` lets pass.
    pub(crate) fn confirms(&self, sign: &SignRule) -> bool {
        match self.confirm {
            ConfirmPolicy::Always => true,
            ConfirmPolicy::WhenUnsigned => !sign.algorithm.signs_the_text(),
            ConfirmPolicy::Never => false,
        }
    }

    /// Whether a token is always part of some signed text, not inside an optional piece.
    pub(crate) fn always_signs(&self, token: &TemplateToken) -> bool {
        let is_it = |piece: &template::TemplatePiece| match piece {
            template::TemplatePiece::Token(other) => other.source == token.source,
            template::TemplatePiece::Literal(_) | template::TemplatePiece::Optional(_) => false,
        };
        self.signs.iter().any(|sign| sign.text.pieces.iter().any(is_it))
    }
}
