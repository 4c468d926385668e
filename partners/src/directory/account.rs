//! Owns one of our accounts at a partner: its keys ready for use, and what its calls need.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use payfold_schemas::ids::{MerchantCode, PartnerCode, account_name};
use payfold_schemas::time::Time;

use super::Problem;
use crate::document::AccountEntry;
use crate::keys::{Channel, Key, KeySet, NO_KEYS, SECRET_BYTES_LEAST, SECRET_BYTES_MIN};
use crate::profile::Profile;
use crate::scheme::call::ACCESS_TOKEN;
use crate::scheme::crypt::Strength;
use crate::scheme::reading::Of;
use crate::scheme::{Scheme, SchemeKeys};
use crate::sealing::BodyKeys;

/// One of our accounts at a partner, ready to verify with.
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
    constants: BTreeMap<String, String>,
    enabled: bool,
    allow_sources: Vec<IpNet>,
    rate_per_s: Option<u32>,
    scheme_keys: SchemeKeys,
    body_keys: BodyKeys,
}

impl Account {
    /// Which partner.
    pub fn partner(&self) -> &PartnerCode {
        self.profile.partner()
    }

    /// `partner/merchantCode`.
    pub fn name(&self) -> String {
        account_name(self.partner(), &self.merchant_code)
    }

    /// Which account there.
    pub fn merchant_code(&self) -> &MerchantCode {
        &self.merchant_code
    }

    /// How this partner does it.
    pub fn profile(&self) -> &Arc<Profile> {
        &self.profile
    }

    /// Its keys, those of the past and the future included.
    pub fn keys(&self) -> &KeySet {
        &self.keys
    }

    /// The keys of a channel. Where creates or returns have none of their own, those of the IPN channel; for a key that
    /// decrypts and for a private one no shared secret can stand in.
    pub fn keys_of(&self, channel: Channel) -> &KeySet {
        let own = match channel {
            Channel::Ipn => &self.keys,
            Channel::Create => &self.create_keys,
            Channel::Return => &self.return_keys,
            Channel::Unwrap => return &self.unwrap_keys,
            Channel::Sign => return &self.sign_keys,
            Channel::Tls => return &self.tls_keys,
            // They sign nothing and have no set: `body_keys`.
            Channel::Body => return &NO_KEYS,
        };
        if own.keys().is_empty() { &self.keys } else { own }
    }

    /// Whether there is what our create calls are made with at `now`; nothing where the profile has none.
    pub fn can_sign_creates(&self, now: Time) -> bool {
        if self.client_certificate(now).is_err() {
            return false;
        }
        match self.profile.scheme() {
            None => {
                let key = self.keys_of(Channel::Create).signing_key(now);
                self.profile.create().is_some() && key.is_some()
            }
            Some(scheme) => scheme.create.as_ref().is_some_and(|create| {
                let token = scheme.oauth.as_ref().filter(|_| create.rule.names(ACCESS_TOKEN));
                let rules = [Some(&create.rule), token.map(|oauth| &oauth.rule)];
                rules
                    .into_iter()
                    .flatten()
                    .all(|rule| self.scheme_keys.call_keys(rule, now).suffice(rule))
            }),
        }
    }

    /// When its calls are next made with other keys, or shown another certificate, than at `now`, at the earliest.
    pub(crate) fn calls_change_after(&self, now: Time) -> Option<Time> {
        let shown = self.tls_keys.keys().iter().map(|key| (key.valid_from(), key.valid_until()));
        let times = self.scheme_keys.call_times().chain(shown);
        let times = times.flat_map(|(from, until)| [Some(from), until]).flatten();
        times.filter(|at| *at > now).min()
    }

    /// The channels without a key of which none of its calls, or not all, can be made: no other channel's stands in.
    pub fn call_channels(&self) -> Vec<Channel> {
        let mut calls = self.profile.scheme().into_iter().flat_map(Scheme::calls);
        let signs = calls.any(|rule| rule.signs_with().is_some());
        let both =
            [(signs, Channel::Sign), (self.profile.needs_client_certificate(), Channel::Tls)];
        both.into_iter().filter(|(is_needed, _)| *is_needed).map(|(_, channel)| channel).collect()
    }

    /// What its partner's TLS is shown at `now`. `None` where the profile asks for nothing; errors: it asks, and there is none.
    pub(crate) fn client_certificate(&self, now: Time) -> Result<Option<&Key>, NoCertificate> {
        if !self.profile.needs_client_certificate() {
            return Ok(None);
        }
        self.tls_keys.signing_key(now).map(Some).ok_or(NoCertificate)
    }

    /// What the bytes of its notices are sealed with in the log.
    pub fn body_keys(&self) -> &BodyKeys {
        &self.body_keys
    }

    pub(crate) fn scheme_keys(&self) -> &SchemeKeys {
        &self.scheme_keys
    }

    /// What of it may stand in a text of its partner's own scheme.
    pub(crate) fn of(&self) -> Of<'_> {
        let SchemeKeys { constants, opening, .. } = &self.scheme_keys;
        Of { merchant: self.merchant_code.as_str(), constants, opening, values: &[] }
    }

    /// A value its partner has given out for it, such as an access key's id.
    pub fn constant(&self, name: &str) -> Option<&str> {
        self.constants.get(name).map(String::as_str)
    }

    /// Whether its notices are taken; a disabled account is as unknown as one that isn't there.
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Whether a notice may come from this address.
    pub fn allows_source(&self, source: IpAddr) -> bool {
        // A listener on [::] sees IPv4 peers as ::ffff:a.b.c.d.
        let source = source.to_canonical();
        self.allow_sources.is_empty() || self.allow_sources.iter().any(|net| net.contains(&source))
    }

    /// How many signed notices a second it may send.
    pub fn rate_per_s(&self) -> Option<u32> {
        self.rate_per_s
    }

    /// Its place in the vault, which stays when others are added or disabled.
    pub fn index(&self) -> usize {
        self.index
    }
}

/// The profile asks for a client certificate, and the account has none that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoCertificate;

pub(super) fn account(
    index: usize,
    entry: &AccountEntry,
    profiles: &HashMap<PartnerCode, Arc<Profile>>,
) -> Result<Arc<Account>, Problem> {
    let AccountEntry { partner, merchant_code, .. } = entry;
    let name = format!("account {partner}/{merchant_code}");
    let profile = profiles.get(partner).ok_or_else(|| {
        Problem(format!(
            "{name}: no profile for partner {partner}; put [partners.{partner}] into payfold.toml and restart"
        ))
    })?;
    let least = if profile.scheme().is_some() { SECRET_BYTES_LEAST } else { SECRET_BYTES_MIN };
    let keys_of = |channel| {
        entry.key_set_of(channel, least).map_err(|error| Problem(format!("{name}: {error}")))
    };
    let scheme_keys = match profile.scheme() {
        None => SchemeKeys::default(),
        Some(scheme) => SchemeKeys::new(scheme, entry, Strength::Full)
            .map_err(|problem| Problem(format!("{name}: {problem}")))?,
    };
    Ok(Arc::new(Account {
        index,
        merchant_code: merchant_code.clone(),
        profile: Arc::clone(profile),
        keys: keys_of(Channel::Ipn)?,
        create_keys: keys_of(Channel::Create)?,
        return_keys: keys_of(Channel::Return)?,
        unwrap_keys: keys_of(Channel::Unwrap)?,
        sign_keys: keys_of(Channel::Sign)?,
        tls_keys: keys_of(Channel::Tls)?,
        scheme_keys,
        body_keys: BodyKeys::of(entry),
        constants: entry.constants.clone(),
        enabled: entry.enabled,
        allow_sources: entry.allow_sources.clone(),
        rate_per_s: entry.rate_per_s,
    }))
}
