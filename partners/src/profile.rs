//! Owns the profile: what one partner's notices look like and how they are signed, as data.
//! A `Profile` that exists is consistent: every field that decides money is covered by the signature,
//! and its stamp is the digest of the very bytes it was read from.

mod create;
mod error;
pub(crate) mod file;
mod query;
mod shipped;
mod time;

use std::fmt;
use std::sync::Arc;

use payfold_schemas::digest::Digest;
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::ipn::IpnPolicy;
use payfold_schemas::record::ProfileStamp;
use serde::Deserialize;

use crate::mac::Output;
use crate::records::RecordsSpec;
use crate::scheme::compile::Lint;
use crate::scheme::{Confirm, Scheme};

pub use create::{CreateField, CreateRule, CreateTerms};
pub use error::ProfileError;
pub use query::{QueryField, QueryPace, QueryRule, Word};
pub use shipped::{SHIPPED, STARTERS, Shipped, Starter};
pub use time::{OutOfWindow, TimeKind, TimeRule};

/// The default scheme, as shipped.
pub const DEFAULT_PROFILE: &str = include_str!("../profiles/default.toml");

/// The default scheme as the sandbox partner speaks it: the same signatures, loopback addresses allowed.
pub const SANDBOX_PROFILE: &str = include_str!("../profiles/sandbox.toml");

/// A field of the IPN payload (contract 2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Field {
    /// Our account at the partner.
    MerchantCode,
    /// Echo of the platform's order reference.
    OrderId,
    /// The partner's transaction.
    ProviderRef,
    /// SUCCESS, FAILED, EXPIRED or REFUNDED.
    Status,
    /// Integer in minor units.
    Amount,
    /// ISO 4217.
    Currency,
    /// When the payer paid.
    PaidAt,
    /// When the notice was sent.
    Timestamp,
    /// Replay protection beside the timestamp.
    Nonce,
    /// The signature over the others.
    Signature,
}

impl Field {
    /// How many fields there are.
    pub const COUNT: usize = 10;

    /// Every field, in the order of the contract's table.
    pub const ALL: [Field; Self::COUNT] = [
        Self::MerchantCode,
        Self::OrderId,
        Self::ProviderRef,
        Self::Status,
        Self::Amount,
        Self::Currency,
        Self::PaidAt,
        Self::Timestamp,
        Self::Nonce,
        Self::Signature,
    ];

    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MerchantCode => "merchantCode",
            Self::OrderId => "orderId",
            Self::ProviderRef => "providerRef",
            Self::Status => "status",
            Self::Amount => "amount",
            Self::Currency => "currency",
            Self::PaidAt => "paidAt",
            Self::Timestamp => "timestamp",
            Self::Nonce => "nonce",
            Self::Signature => "signature",
        }
    }

    /// The field of this name; case matters.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.name() == name)
    }

    /// Its place in an array with one slot per field.
    pub(crate) const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How far a profile is on its way into production (contract 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Being written.
    Draft,
    /// Tried against the partner's sandbox.
    Sandbox,
    /// Agreed; a change needs a new version.
    Frozen,
    /// In production.
    Live,
}

/// Whether a partner's notices carry a nonce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NonceRule {
    /// Not looked at.
    Unused,
    /// Kept if it is there.
    Optional,
    /// A notice without one is refused.
    Required,
}

/// What to do with fields the profile doesn't know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnknownFields {
    /// Kept raw and counted.
    Allow,
    /// 400 `unknown_field`.
    Refuse,
}

/// What a body may be before anybody has signed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the body; held by the HTTP side, which reads it.
    pub body_bytes: usize,
    /// Levels of nesting; the outermost object is level 1.
    pub depth: usize,
    /// Keys in all, nested and unknown ones included.
    pub keys: usize,
}

/// One partner's way, read and checked.
#[derive(Clone, Debug)]
pub struct Profile {
    stamp: ProfileStamp,
    stage: Stage,
    nonce: NonceRule,
    unknown_fields: UnknownFields,
    ref_is_session: bool,
    placeholder_refs: Vec<String>,
    retry_horizon_ms: i64,
    limits: Limits,
    output: Output,
    separator: u8,
    signed_fields: Vec<Field>,
    time: TimeRule,
    create: Option<CreateRule>,
    /// The partner's own scheme; then separator, output and signed fields are nobody's.
    scheme: Option<Arc<Scheme>>,
    query: Option<QueryRule>,
    records: Option<Arc<RecordsSpec>>,
    /// Our side of a connection shows a certificate.
    client_certificate: bool,
    /// Its partner is on trial at an address that somebody named.
    on_trial: bool,
}

/// What a profile of either kind says.
#[derive(Clone, Debug)]
pub(crate) struct Common {
    pub(crate) stamp: ProfileStamp,
    pub(crate) stage: Stage,
    pub(crate) nonce: NonceRule,
    pub(crate) ref_is_session: bool,
    pub(crate) placeholder_refs: Vec<String>,
    pub(crate) limits: Limits,
    pub(crate) time: TimeRule,
    pub(crate) retry_horizon_ms: i64,
    pub(crate) client_certificate: bool,
}

impl Profile {
    /// Reads `partner`'s profile from TOML. Errors: `ProfileError`, with the place and how to mend it.
    pub fn parse(partner: &PartnerCode, text: &str) -> Result<Self, ProfileError> {
        file::parse(partner, text, Lint::Held)
    }

    /// Reads a profile that notices were admitted under, to judge those again. It is not held to rules that are newer
    /// than it is; nothing new is admitted under it. Errors: `ProfileError`.
    pub fn parse_recorded(partner: &PartnerCode, text: &str) -> Result<Self, ProfileError> {
        file::parse(partner, text, Lint::Skipped)
    }

    /// The default scheme (contract 5), as `partner`'s profile.
    pub fn default_for(partner: &PartnerCode) -> Self {
        Self::parse(partner, DEFAULT_PROFILE).expect("the shipped profile is tested")
    }

    /// The sandbox partner's scheme, as `partner`'s profile.
    pub fn sandbox_for(partner: &PartnerCode) -> Self {
        Self::parse(partner, SANDBOX_PROFILE).expect("the shipped profile is tested")
    }

    /// The shipped profile of this name, as `partner`'s; `None` for another name.
    pub fn shipped(name: &str, partner: &PartnerCode) -> Option<Self> {
        match name {
            "default" => Some(Self::default_for(partner)),
            "sandbox" => Some(Self::sandbox_for(partner)),
            _ => Shipped::of(name).map(|shipped| {
                Self::parse(partner, shipped.profile).expect("the shipped profiles are tested")
            }),
        }
    }

    pub(crate) fn of_scheme(common: Common, scheme: Scheme) -> Self {
        let Common { stamp, stage, nonce, ref_is_session, placeholder_refs, .. } = common;
        Self {
            stamp,
            stage,
            nonce,
            unknown_fields: UnknownFields::Allow,
            ref_is_session,
            placeholder_refs,
            limits: common.limits,
            output: Output::HexLower,
            separator: b'|',
            signed_fields: Vec::new(),
            time: common.time,
            create: None,
            query: None,
            records: None,
            client_certificate: common.client_certificate,
            on_trial: false,
            retry_horizon_ms: common.retry_horizon_ms,
            scheme: Some(Arc::new(scheme)),
        }
    }

    pub(crate) fn with_records(mut self, records: Option<RecordsSpec>) -> Self {
        self.records = records.map(Arc::new);
        self
    }

    /// How the partner's own books are written and read, in either kind of scheme; `None` if there are none.
    pub fn records(&self) -> Option<&RecordsSpec> {
        self.records.as_deref()
    }

    /// The partner's own scheme; `None` for the contract's.
    pub fn scheme(&self) -> Option<&Scheme> {
        self.scheme.as_deref()
    }

    /// Whose profile it is, its version and the digest of its bytes.
    pub fn stamp(&self) -> &ProfileStamp {
        &self.stamp
    }

    /// Whose profile it is.
    pub fn partner(&self) -> &PartnerCode {
        &self.stamp.partner
    }

    /// The digest of the file's bytes.
    pub fn digest(&self) -> Digest {
        self.stamp.digest
    }

    /// How far it is on its way into production.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Whether notices carry a nonce.
    pub fn nonce(&self) -> NonceRule {
        self.nonce
    }

    /// What to do with unknown fields.
    pub fn unknown_fields(&self) -> UnknownFields {
        self.unknown_fields
    }

    /// What a body may be.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// How a signature is written.
    pub fn output(&self) -> Output {
        self.output
    }

    /// What stands between two values of the signing text: one ASCII character.
    pub fn separator(&self) -> u8 {
        self.separator
    }

    /// The fields of the signing text, in order.
    pub fn signed_fields(&self) -> &[Field] {
        &self.signed_fields
    }

    /// How a notice's time is judged.
    pub fn time(&self) -> &TimeRule {
        &self.time
    }

    /// What an order of a payment that is created there has to know, in either kind of scheme; `None` if none is.
    pub fn create_terms(&self) -> Option<CreateTerms> {
        let own = || self.scheme.as_ref()?.create.as_ref().map(CreateTerms::of_scheme);
        self.create.as_ref().map(CreateTerms::of_contract).or_else(own)
    }

    /// What a text must not hold to be sent there; `None` where anything is escaped.
    pub fn text_separator(&self) -> Option<u8> {
        self.scheme.is_none().then_some(self.separator)
    }

    /// How a payment is created in the contract's scheme; `None` if that is not done through this system, or in the
    /// partner's own scheme.
    pub fn create(&self) -> Option<&CreateRule> {
        self.create.as_ref()
    }

    /// How one payment is asked for there; `None` if it can't be.
    pub fn query(&self) -> Option<&QueryRule> {
        self.query.as_ref()
    }

    /// How hard the partner may be asked what a payment came to, in either kind of scheme; `None` if it can't be.
    pub fn query_pace(&self) -> Option<QueryPace> {
        let own = || self.scheme.as_ref()?.query.as_ref().map(|query| query.pace);
        self.query.as_ref().map(|rule| rule.pace).or_else(own)
    }

    /// Whether our side of a connection to the partner shows a certificate: a key of the account's channel `tls`.
    pub fn needs_client_certificate(&self) -> bool {
        self.client_certificate
    }

    /// Whether some notices count only once a query confirms them.
    pub fn confirms(&self) -> bool {
        self.scheme.as_ref().is_some_and(|scheme| scheme.confirm != Confirm::Never)
    }

    /// Whether addresses of this machine and of private networks, and http to this machine, are let pass.
    pub fn allows_private_addresses(&self) -> bool {
        self.stage == Stage::Sandbox || self.on_trial
    }

    /// The same profile for a trial of its partner at an address of a private network that somebody named: what is frozen
    /// is certified as it stands.
    pub fn on_trial(self) -> Self {
        Self { on_trial: true, ..self }
    }

    /// How long after an event the partner may still send its notice, signed with the key of the event's time; ms, 0
    /// where the profile doesn't say. A key counts at least so long beside the one that replaces it.
    pub fn retry_horizon_ms(&self) -> i64 {
        self.retry_horizon_ms
    }

    /// What the fold needs to know of this profile for an IPN with this ref.
    pub fn policy(&self, provider_ref: &str) -> IpnPolicy {
        IpnPolicy {
            // A signature covers all that decides money, or the profile would not have been read.
            unconfirmed: false,
            ref_is_session: self.ref_is_session,
            placeholder_ref: self.placeholder_refs.iter().any(|known| known == provider_ref),
            nonce_required: self.nonce == NonceRule::Required,
            refund_so_far: false,
        }
    }
}
