//! Owns the type of a whole profile file.

use std::collections::BTreeMap;

use schemars::JsonSchema;

use crate::profile::spanned::Spanned;
use crate::scheme::file::tables::{
    AcksFile, DocumentFile, EventFile, FieldFile, HeadFile, ItemsFile, KeyFile, LimitsFile,
    MapFile, NoticeFile, PairsFile, RequireFile, SignFile, TextFile, TimeFile,
};
use crate::scheme::file::{create, oauth, query, records};

/// A whole file. A section that can't be read is its default, and its mistake is among the errors.
#[derive(Default, JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(crate) struct SchemeFile {
    #[schemars(flatten, required)]
    pub(in crate::scheme) head: Option<HeadFile>,
    /// The limits of a body; they are checked before its signature.
    #[schemars(required)]
    pub(in crate::scheme) limits: Option<LimitsFile>,
    /// The HTTP request of a notice.
    #[schemars(required)]
    pub(in crate::scheme) notice: Option<NoticeFile>,
    /// Texts that are signed or compared but not sent, as {c.name}. An empty one must be set for
    /// each account.
    #[schemars(default)]
    pub(in crate::scheme) constants: BTreeMap<String, String>,
    /// A document inside a value. Tokens of it start with its name.
    #[schemars(rename = "document", default)]
    pub(in crate::scheme) documents: Vec<DocumentFile>,
    /// Notices that come as an array: each is verified, stored and mapped by itself.
    pub(in crate::scheme) items: Option<ItemsFile>,
    /// A list of names and values for a signing text: {p.name}.
    #[schemars(default)]
    pub(in crate::scheme) pairs: Vec<PairsFile>,
    /// A text that other templates use as {t.name}.
    #[schemars(rename = "text", default)]
    pub(in crate::scheme) texts: Vec<TextFile>,
    /// How the account's secret becomes the key.
    pub(in crate::scheme) key: Option<KeyFile>,
    /// How a notice may be signed; any one may match.
    #[schemars(rename = "sign", length(min = 1))]
    pub(in crate::scheme) signs: Vec<SignFile>,
    /// A condition under which a notice is for us. A notice that fails it gets a 401.
    #[schemars(default)]
    pub(in crate::scheme) require: Vec<RequireFile>,
    /// The required format of a value in a notice that becomes a fact.
    #[schemars(rename = "field", default)]
    pub(in crate::scheme) fields: Vec<FieldFile>,
    /// Where the notice holds the contract's values: templates. A text without braces is a
    /// constant.
    #[schemars(required)]
    pub(in crate::scheme) map: Option<MapFile>,
    /// What a notice means: the first event with all its conditions met. The last event must have
    /// no when.
    #[schemars(rename = "event", length(min = 1))]
    pub(in crate::scheme) events: Vec<EventFile>,
    /// The notice's own time, against replay.
    #[schemars(required)]
    pub(in crate::scheme) time: Option<Spanned<TimeFile>>,
    /// The answers to the partner, where they differ from the contract's.
    #[schemars(default)]
    pub(in crate::scheme) acks: AcksFile,
    /// How the partner is asked for the outcome of a payment.
    pub(in crate::scheme) query: Option<query::QueryFile>,
    /// How a payment is created.
    pub(in crate::scheme) create: Option<create::CreateFile>,
    /// How an access token is asked for. It is the token {access_token} of query and create (OAuth
    /// 2, client credentials).
    pub(in crate::scheme) oauth: Option<oauth::OauthFile>,
    /// The format of the partner's payment records: its file of payments.
    pub(in crate::scheme) records: Option<records::RecordsFile>,
}
