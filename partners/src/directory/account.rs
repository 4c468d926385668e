//! Owns one of our accounts at a partner: its keys, ready for use, and what its calls need.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use payfold_schemas::ids::{MerchantCode, PartnerCode, account_name};
use payfold_schemas::time::Time;

use crate::directory::problem::DirectoryProblem;
use crate::document::AccountEntry;
use crate::keys::{Channel, Key, KeySet, NO_KEYS};
use crate::mac::SIGNATURE_BYTES;
use crate::profile::Profile;
use crate::scheme::call::rule::ACCESS_TOKEN;
use crate::scheme::crypt::KeyStrength;
use crate::scheme::keys::SchemeKeys;
use crate::scheme::template_values::TemplateInputs;
use crate::sealing::BodyKeys;
use crate::secret::{SECRET_BYTES_LEAST, SECRET_BYTES_MIN};

/// One of our accounts at a partner, ready to verify notices and to sign calls.
#[derive(Debug)]
pub struct Account {
    index: usize,
    merchant_code: MerchantCode,
    profile: Arc<Profile>,
    keys: KeySet,
    create_keys: KeySet,
    return_keys: KeySet,
    unwrap_keys: KeySet,
    sign_keys: KeySet,
    tls_keys: KeySet,
    enabled: bool,
    allow_sources: Vec<IpNet>,
    rate_per_s: Option<u32>,
    scheme_keys: SchemeKeys,
    body_keys: BodyKeys,
}

impl Account {
    /// The partner's code.
    pub fn partner(&self) -> &PartnerCode {
        self.profile.partner()
    }

    /// `partner/merchantCode`.
    pub fn name(&self) -> String {
        account_name(self.partner(), &self.merchant_code)
    }

    /// Our account's code at the partner.
    pub fn merchant_code(&self) -> &MerchantCode {
        &self.merchant_code
    }

    /// The partner's profile.
    pub fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }

    /// The keys of the IPN channel, with those that are not valid yet or no longer.
    pub fn keys(&self) -> &KeySet {
        &self.keys
    }

    /// The keys of a channel. The keys of the IPN channel stand in for the `create` and `return`
    /// channels if those have no keys. No other channel has a substitute.
    pub fn keys_of(&self, channel: Channel) -> &KeySet {
        let keys = match channel {
            Channel::Ipn => &self.keys,
            Channel::Create => &self.create_keys,
            Channel::Return => &self.return_keys,
            Channel::Unwrap => return &self.unwrap_keys,
            Channel::Sign => return &self.sign_keys,
            Channel::Tls => return &self.tls_keys,
            // Body keys sign nothing; `body_keys` has them.
            Channel::Body => return &NO_KEYS,
        };
        if keys.keys().is_empty() { &self.keys } else { keys }
    }

    /// Whether a key of the account's calls that is valid at `now` has signed a text of the
    /// contract.
    pub fn has_signed_call(&self, text: &[u8], claimed: &[u8; SIGNATURE_BYTES], now: Time) -> bool {
        self.keys_of(Channel::Create).has_signed(text, claimed, now)
    }

    /// Whether the account has the keys and the certificate that its create calls need at `now`.
    /// False if the profile has no `[create]`.
    pub fn can_sign_creates(&self, now: Time) -> bool {
        if self.client_certificate(now).is_err() {
            return false;
        }
        let scheme = self.profile.scheme();
        let Some(create) = &scheme.create else { return false };
        let token = scheme.oauth.as_ref().filter(|_| create.rule.names(ACCESS_TOKEN));
        let mut rules = std::iter::once(&create.rule).chain(token.map(|oauth| &oauth.rule));
        rules.all(|rule| self.scheme_keys.call_keys(rule, now).suffice(rule))
    }

    /// The earliest time after `now` at which the keys or the client certificate of its calls
    /// change.
    pub(crate) fn calls_change_after(&self, now: Time) -> Option<Time> {
        let shown = self.tls_keys.keys().iter().map(Key::window);
        let windows = self.scheme_keys.call_windows().chain(shown);
        let times = windows.flat_map(|window| [Some(window.begins), window.ends]).flatten();
        times.filter(|at| *at > now).min()
    }

    /// The channels that need a key before all of its calls can be made, and that have no
    /// substitute.
    pub fn call_channels(&self) -> Vec<Channel> {
        let mut calls = self.profile.scheme().calls();
        let signs = calls.any(|rule| rule.signs_with().is_some());
        let both =
            [(signs, Channel::Sign), (self.profile.needs_client_certificate(), Channel::Tls)];
        both.into_iter().filter(|(is_needed, _)| *is_needed).map(|(_, channel)| channel).collect()
    }

    /// The client certificate for TLS to the partner at `now`. `None` if the profile requires none.
    /// Errors: the profile requires one, and none is valid.
    pub(crate) fn client_certificate(&self, now: Time) -> Result<Option<&Key>, NoCertificate> {
        if !self.profile.needs_client_certificate() {
            return Ok(None);
        }
        self.tls_keys.signing_key(now).map(Some).ok_or(NoCertificate)
    }

    /// The keys that seal the bytes of its notices in the log.
    pub fn body_keys(&self) -> &BodyKeys {
        &self.body_keys
    }

    pub(crate) fn scheme_keys(&self) -> &SchemeKeys {
        &self.scheme_keys
    }

    /// The account's values that texts of its custom scheme may contain.
    pub(crate) fn template_inputs(&self) -> TemplateInputs<'_> {
        let SchemeKeys { constants, decryption_keys, .. } = &self.scheme_keys;
        TemplateInputs {
            merchant: self.merchant_code.as_str(),
            constants,
            decryption_keys,
            values: &[],
        }
    }

    /// Whether its notices are accepted. The notices of a disabled account are refused like those
    /// of an unknown one.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// The networks that its notices may come from; empty if they may come from anywhere.
    pub fn allow_sources(&self) -> &[IpNet] {
        &self.allow_sources
    }

    /// Whether a notice may come from this address.
    pub fn allows_source(&self, source: IpAddr) -> bool {
        // A listener on [::] sees IPv4 peers as ::ffff:a.b.c.d.
        let source = source.to_canonical();
        self.allow_sources.is_empty() || self.allow_sources.iter().any(|net| net.contains(&source))
    }

    /// The most signed notices that it may send in a second; `None` if it has no limit of its own.
    pub fn rate_per_s(&self) -> Option<u32> {
        self.rate_per_s
    }

    /// Its index in the vault, which does not change when accounts are added or disabled.
    pub fn index(&self) -> usize {
        self.index
    }
}

/// The profile requires a client certificate, and no certificate of the account is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoCertificate;

pub(super) fn account(
    index: usize,
    entry: &AccountEntry,
    profiles: &HashMap<PartnerCode, Arc<Profile>>,
) -> Result<Arc<Account>, DirectoryProblem> {
    let AccountEntry { partner, merchant_code, .. } = entry;
    let name = format!("account {partner}/{merchant_code}");
    let profile = profiles.get(partner).ok_or_else(|| {
        DirectoryProblem(format!(
            "{name}: no profile for partner {partner}; put [partners.{partner}] into payfold.toml \
             and restart"
        ))
    })?;
    let least = if profile.is_default_scheme() { SECRET_BYTES_MIN } else { SECRET_BYTES_LEAST };
    let keys_of = |channel| {
        entry
            .key_set_of(channel, least)
            .map_err(|error| DirectoryProblem(format!("{name}: {error}")))
    };
    let keys = keys_of(Channel::Ipn)?;
    let scheme = profile.scheme();
    let scheme_keys = SchemeKeys::new(scheme, entry, KeyStrength::Full);
    let scheme_keys = match profile.is_default_scheme() {
        true => scheme_keys,
        false => scheme_keys.and_then(|keys| keys.with_readings(scheme, entry)),
    };
    let scheme_keys =
        scheme_keys.map_err(|problem| DirectoryProblem(format!("{name}: {problem}")))?;
    Ok(Arc::new(Account {
        index,
        merchant_code: merchant_code.clone(),
        profile: Arc::clone(profile),
        keys,
        create_keys: keys_of(Channel::Create)?,
        return_keys: keys_of(Channel::Return)?,
        unwrap_keys: keys_of(Channel::Unwrap)?,
        sign_keys: keys_of(Channel::Sign)?,
        tls_keys: keys_of(Channel::Tls)?,
        scheme_keys,
        body_keys: BodyKeys::of(entry),
        enabled: entry.enabled,
        allow_sources: entry.allow_sources.clone(),
        rate_per_s: entry.rate_per_s,
    }))
}
