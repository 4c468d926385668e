//! Owns the profile: the format and signature of one partner's notices, and its calls, as data.
//! Invariants of every `Profile`: the signature covers every field that decides about money, and
//! the stamp has the digest of the very bytes that it was read from.

pub(crate) mod bounds;
pub(crate) mod common;
pub(crate) mod create;
mod default_scheme;
pub(crate) mod error;
pub(crate) mod file;
pub(crate) mod mistake;
pub(crate) mod query;
pub(crate) mod rules;
pub(crate) mod shipped;
pub(crate) mod spanned;
pub(crate) mod tables;
pub(crate) mod time;
mod written_out;

use std::sync::Arc;

use payfold_schemas::digest::Digest;
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::ipn::IpnPolicy;
use payfold_schemas::notice_source::ProfileStamp;

use crate::mac::HexCase;
use crate::profile::common::CommonRules;
use crate::profile::default_scheme::DefaultScheme;
use crate::records::RecordsSpec;
use crate::scheme::compiled::Scheme;
use crate::scheme::rules::ConfirmPolicy;

pub use self::rules::{NonceRule, Stage, UnknownFields};
pub use crate::field::Field;
pub use crate::limits::BodyLimits;
pub use create::{CreateField, CreateRule, CreateTerms};
pub use error::ProfileError;
pub use query::{QueryField, QueryPace, QueryRule, StatusMeaning};
pub use shipped::{EARLIER, SHIPPED, STARTERS, ShippedProfile, StarterProfile};
pub use time::{OutOfWindow, TimeKind, TimeRule};

/// The default scheme, as shipped.
pub const DEFAULT_PROFILE: &str = include_str!("../profiles/default.toml");

/// The default scheme as the sandbox partner uses it: the same signatures, and loopback addresses
/// are allowed.
pub const SANDBOX_PROFILE: &str = include_str!("../profiles/sandbox.toml");

/// One partner's profile, parsed and checked.
#[derive(Clone, Debug)]
pub struct Profile {
    common: CommonRules,
    scheme: Arc<Scheme>,
    /// `[signature]`, `[create]` and `[query]` of the default scheme; `None` in a custom scheme.
    /// `scheme` is compiled from them.
    default: Option<Arc<DefaultScheme>>,
    records: Option<Arc<RecordsSpec>>,
    /// Whether its partner is certified at an address that was given for the trial.
    on_trial: bool,
}

impl Profile {
    pub(crate) fn of_scheme(common: CommonRules, scheme: Scheme) -> Self {
        let scheme = Arc::new(scheme);
        Self { common, scheme, default: None, records: None, on_trial: false }
    }

    /// The same profile as one of the default scheme. Its `scheme` was compiled from `default`.
    pub(crate) fn of_default(self, common: CommonRules, default: DefaultScheme) -> Self {
        Self { common, default: Some(Arc::new(default)), ..self }
    }

    /// The default scheme written out as a custom scheme; `scheme` is compiled from this text.
    /// `None` in a custom scheme.
    #[cfg(test)]
    pub(crate) fn written_out(&self) -> Option<String> {
        Some(written_out::written_out(&self.common, self.default.as_ref()?))
    }

    pub(crate) fn with_records(mut self, records: Option<RecordsSpec>) -> Self {
        self.records = records.map(Arc::new);
        self
    }

    /// The format of the partner's file of payments, in either kind of scheme; `None` if the
    /// profile has no `[records]`.
    pub fn records(&self) -> Option<&RecordsSpec> {
        self.records.as_deref()
    }

    /// How its notices are read and verified, and how the partner is called.
    pub fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// Whether it has the default scheme of the contract.
    pub fn is_default_scheme(&self) -> bool {
        self.default.is_some()
    }

    /// The path that its partner sends notices to: the shared path in the default scheme, the
    /// partner's own path in a custom scheme.
    pub fn ipn_path(&self) -> String {
        match self.is_default_scheme() {
            true => "/api/payment/ipn".to_owned(),
            false => format!("/api/payment/ipn/{}", self.partner()),
        }
    }

    /// The partner, the profile's version and the digest of its bytes.
    pub fn stamp(&self) -> &ProfileStamp {
        &self.common.stamp
    }

    /// The partner's code.
    pub fn partner(&self) -> &PartnerCode {
        &self.common.stamp.partner
    }

    /// The digest of the profile's bytes.
    pub fn digest(&self) -> Digest {
        self.common.stamp.digest
    }

    /// The profile's stage on its way into production.
    pub fn stage(&self) -> Stage {
        self.common.stage
    }

    /// Whether notices carry a nonce.
    pub fn nonce(&self) -> NonceRule {
        self.common.nonce
    }

    /// Whether notices may have unknown fields.
    pub fn unknown_fields(&self) -> UnknownFields {
        self.default.as_ref().map_or(UnknownFields::Allow, |default| default.unknown_fields)
    }

    /// The limits on a notice's body.
    pub fn limits(&self) -> BodyLimits {
        self.common.limits
    }

    /// The encoding of a signature of the default scheme.
    pub fn output(&self) -> HexCase {
        self.default.as_ref().map_or(HexCase::Lower, |default| default.output)
    }

    /// The separator of the default scheme's signing text, an ASCII character.
    pub fn separator(&self) -> u8 {
        self.default.as_ref().map_or(b'|', |default| default.separator)
    }

    /// The fields of the default scheme's signing text, in order; none in a custom scheme.
    pub fn signed_fields(&self) -> &[Field] {
        self.default.as_ref().map_or(&[], |default| &default.signed_fields)
    }

    /// How a notice's time is judged.
    pub fn time(&self) -> &TimeRule {
        &self.common.time
    }

    /// The terms that an order keeps about its create call; `None` if the profile has no
    /// `[create]`.
    pub fn create_terms(&self) -> Option<CreateTerms> {
        self.scheme.create.as_ref().map(CreateTerms::of_scheme)
    }

    /// The character that texts sent to the partner must not contain; `None` in a custom scheme,
    /// which escapes all texts.
    pub fn text_separator(&self) -> Option<u8> {
        self.default.as_ref().map(|default| default.separator)
    }

    /// `[create]` of the default scheme, for the sandbox partner; `None` if there is none, and in a
    /// custom scheme.
    pub fn create(&self) -> Option<&CreateRule> {
        self.default.as_ref()?.create.as_ref()
    }

    #[cfg(test)]
    /// `[query]` of the default scheme; `None` if there is none, and in a custom scheme.
    pub(crate) fn query(&self) -> Option<&QueryRule> {
        self.default.as_ref()?.query.as_ref()
    }

    /// The limits on the rate and concurrency of status queries; `None` if the profile has no
    /// `[query]`.
    pub fn query_pace(&self) -> Option<QueryPace> {
        self.scheme.query.as_ref().map(|query| query.pace)
    }

    /// Whether calls to the partner present a TLS client certificate, a key of channel `tls`.
    pub fn needs_client_certificate(&self) -> bool {
        self.common.client_certificate
    }

    /// Whether some notices take effect only after a status query confirms them.
    pub fn confirms(&self) -> bool {
        self.scheme.confirm != ConfirmPolicy::Never
    }

    /// Whether calls may go to this machine and private networks, and use http to this machine.
    pub fn allows_private_addresses(&self) -> bool {
        self.common.stage == Stage::Sandbox || self.on_trial
    }

    /// The same profile for the certification of its partner at an address that may be private. A
    /// frozen profile is so certified unchanged, with its digest.
    pub fn on_trial(self) -> Self {
        Self { on_trial: true, ..self }
    }

    /// How long after an event the partner may send its notice, signed with the key of the event's
    /// time, in ms. 0 if the profile has no `retry_horizon_s`. After a rotation the old key stays
    /// valid at least this long.
    pub fn retry_horizon_ms(&self) -> i64 {
        self.common.retry_horizon_ms
    }

    /// The properties of this profile that the fold needs for an IPN with this ref.
    pub fn policy(&self, provider_ref: &str) -> IpnPolicy {
        let CommonRules { ref_is_session, placeholder_refs, nonce, .. } = &self.common;
        IpnPolicy {
            // The parser refuses a profile if its signature does not cover every value that decides
            // about money, so no query has to confirm the notice.
            unconfirmed: false,
            ref_is_session: *ref_is_session,
            placeholder_ref: placeholder_refs.iter().any(|known| known == provider_ref),
            nonce_required: *nonce == NonceRule::Required,
            refund_so_far: false,
        }
    }
}
