//! Owns an account's keys and constants for its scheme: the keys of its notices, each prepared for
//! the `[[sign]]` blocks it fits, and the keys of our calls. Invariant: a key of notices that fits
//! no block is refused when the vault is read.

use std::collections::BTreeMap;
use std::sync::Arc;

use payfold_schemas::ids::KeyId;
use payfold_schemas::time::Time;

use super::ambiguity::SignedTextReadings;
use super::crypt::{KeyStrength, ReadyKey, UnfitKey, certificate_ends_s, decode_secret};
use super::template_values::TemplateInputs;
use crate::document::{AccountEntry, KeyEntry};
use crate::identity::PrivateKey;
use crate::key_window::KeyWindow;
use crate::keys::Channel;
use crate::scheme::call::rule::{CallKey, CallRule};
use crate::scheme::compiled::Scheme;
use crate::scheme::rules::SignRule;
use crate::secret::Secret;

/// One key of an account, prepared for the `[[sign]]` blocks it fits.
#[derive(Clone, Debug)]
pub(crate) struct SchemeKey {
    pub(crate) id: KeyId,
    /// The partner's name for the key, if it differs from its id.
    pub(crate) serial: Option<String>,
    pub(crate) window: KeyWindow,
    /// By `[[sign]]` block; `None` where the key does not fit.
    pub(crate) ready: Vec<Option<ReadyKey>>,
}

impl SchemeKey {
    /// Whether the key is valid at `now`.
    pub(crate) fn is_valid_at(&self, now: Time) -> bool {
        self.window.is_valid_at(now)
    }

    pub(crate) fn window(&self) -> KeyWindow {
        self.window
    }

    /// The partner's name for the key.
    pub(crate) fn name(&self) -> &str {
        self.serial.as_deref().unwrap_or(self.id.as_str())
    }
}

/// Why a key or a constant can't be used, and how to fix it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct SchemeKeyError(String);

/// An account's keys and constants for its partner's scheme.
#[derive(Clone, Debug, Default)]
pub struct SchemeKeys {
    pub(crate) keys: Vec<SchemeKey>,
    pub(crate) decryption_keys: Vec<Secret>,
    pub(crate) constants: BTreeMap<String, String>,
    /// By `[[sign]]` block: the readings of its signed text, to detect an ambiguous one.
    pub(crate) readings: Vec<Option<SignedTextReadings>>,
    /// The secrets of our calls: keys of channel `create`, and the shared keys of notices.
    call_secrets: Vec<CallSecret>,
    /// The private keys that sign our calls, channel `sign`.
    signing_keys: Vec<CallSigningKey>,
}

/// A secret of our calls.
#[derive(Clone, Debug)]
struct CallSecret {
    channel: Channel,
    window: KeyWindow,
    secret: Secret,
    /// The partner's name for the key.
    name: String,
}

/// A private key of our calls.
#[derive(Clone, Debug)]
struct CallSigningKey {
    window: KeyWindow,
    key: Arc<PrivateKey>,
    name: String,
}

/// The keys of one call at one time.
#[derive(Clone, Copy, Default)]
pub(crate) struct CallKeys<'a> {
    /// `{secret}` in templates; it also signs with a shared secret.
    pub(crate) secret: Option<&'a [u8]>,
    /// The private key that signs, where the partner knows our public key.
    pub(crate) private: Option<&'a PrivateKey>,
    /// The partner's name for the key that signs, `{key_serial}`.
    pub(crate) serial: &'a str,
}

impl CallKeys<'_> {
    /// Whether these keys are all that a call needs.
    pub(crate) fn suffice(&self, rule: &CallRule) -> bool {
        let has_private = rule
            .signs_with()
            .is_none_or(|algorithm| self.private.is_some_and(|key| key.fits(algorithm)));
        has_private && (self.secret.is_some() || !rule.needs_secret())
    }
}

impl SchemeKeys {
    /// Prepares an account's keys. Errors: a key or a constant that can't be used, with how to fix
    /// it.
    pub(crate) fn new(
        scheme: &Scheme,
        entry: &AccountEntry,
        strength: KeyStrength,
    ) -> Result<Self, SchemeKeyError> {
        let is_short = scheme.exceptions.iter().any(|name| name == "short_key");
        let strength =
            if is_short && strength == KeyStrength::Full { KeyStrength::Short } else { strength };
        let mut keys = Vec::new();
        for key in entry.keys.iter().filter(|key| key.channel == Channel::Ipn) {
            keys.push(prepare_key(scheme, key, strength)?);
        }
        let of_unwrap = entry.keys.iter().filter(|key| key.channel == Channel::Unwrap);
        let decryption_keys = of_unwrap.map(|key| key.secret.clone()).collect();
        let mut constants = BTreeMap::new();
        for (name, value) in &scheme.constants {
            let Some(value) = entry.constants.get(name).or(value.as_ref()) else {
                return Err(SchemeKeyError(format!(
                    "its partner's profile needs the constant {name}; with the first key `payfold \
                     key add … --constant {name}=…` gives it, later `payfold account set {} {} \
                     --constant {name}=…`",
                    entry.partner, entry.merchant_code
                )));
            };
            constants.insert(name.clone(), value.clone());
        }
        let call_secrets = call_secrets(entry, &keys);
        let signing_keys = signing_keys(scheme, entry)?;
        // Readings are large, so only `with_readings` compiles them.
        let readings = vec![None; scheme.signs.len()];
        Ok(Self { keys, decryption_keys, constants, readings, call_secrets, signing_keys })
    }

    /// Adds the readings of each signed text, some hundred KiB. Accounts of the default scheme
    /// don't need them: their notices take the fast path. Errors: the patterns of the fields are
    /// too large together.
    pub(crate) fn with_readings(
        self,
        scheme: &Scheme,
        entry: &AccountEntry,
    ) -> Result<Self, SchemeKeyError> {
        let merchant = entry.merchant_code.as_str();
        let inputs = TemplateInputs {
            merchant,
            constants: &self.constants,
            decryption_keys: &[],
            values: &[],
        };
        let readings = scheme.signs.iter().map(|sign| {
            SignedTextReadings::compile(scheme, sign, &inputs)
                .map_err(|error| SchemeKeyError(format!("[[sign]] {}: {error}", sign.name)))
        });
        let readings = readings.collect::<Result<_, _>>()?;
        Ok(Self { readings, ..self })
    }
}

fn call_secrets(entry: &AccountEntry, notices: &[SchemeKey]) -> Vec<CallSecret> {
    let of_creates = entry.keys.iter().filter(|key| key.channel == Channel::Create).cloned();
    let own = of_creates.map(|key| {
        let name = key.serial.unwrap_or_else(|| key.id.to_string());
        let window = KeyWindow { begins: key.valid_from, ends: key.valid_until };
        CallSecret { channel: key.channel, window, secret: key.secret, name }
    });
    // A public key verifies notices; it can't authenticate us.
    let shared = |key: &SchemeKey| {
        let secret = key.ready.iter().flatten().find_map(ReadyKey::secret)?;
        let secret = Secret::from_bytes(secret.to_vec());
        let (window, name) = (key.window, key.name().to_owned());
        Some(CallSecret { channel: Channel::Ipn, window, secret, name })
    };
    own.chain(notices.iter().filter_map(shared)).collect()
}

/// Reads the private keys of our calls. Errors: a key does not fit the profile's algorithm.
fn signing_keys(
    scheme: &Scheme,
    entry: &AccountEntry,
) -> Result<Vec<CallSigningKey>, SchemeKeyError> {
    let algorithms: Vec<_> = scheme.calls().filter_map(CallRule::signs_with).collect();
    let of_calls = entry.keys.iter().filter(|key| key.channel == Channel::Sign);
    let read = of_calls.map(|entry| {
        let key = PrivateKey::read(&entry.secret)
            .map_err(|unfit| SchemeKeyError(format!("key {} {unfit}", entry.id)))?;
        if let Some(other) = algorithms.iter().find(|algorithm| !key.fits(**algorithm)) {
            return Err(SchemeKeyError(format!(
                "key {} is of another kind than {}, which its partner's profile signs calls with",
                entry.id,
                other.name()
            )));
        }
        let window = KeyWindow { begins: entry.valid_from, ends: entry.valid_until };
        let name = entry.serial.clone().unwrap_or_else(|| entry.id.to_string());
        Ok(CallSigningKey { window, key: Arc::new(key), name })
    });
    read.collect()
}

impl SchemeKeys {
    /// When the keys of our calls are valid.
    pub(crate) fn call_windows(&self) -> impl Iterator<Item = KeyWindow> {
        let signing_keys = self.signing_keys.iter().map(|key| key.window);
        self.call_secrets.iter().map(|key| key.window).chain(signing_keys)
    }

    /// The keys of a call at `now`: of the valid keys those that became valid last.
    pub(crate) fn call_keys(&self, rule: &CallRule, now: Time) -> CallKeys<'_> {
        let valid = self.signing_keys.iter().filter(|key| key.window.is_valid_at(now));
        // During a rotation two keys are valid. The newer one is used, because the older is about
        // to end.
        let private = valid.max_by_key(|key| key.window.begins);
        let shared = self.call_secret(rule.key, now);
        let serial = match rule.signs_with() {
            Some(_) => private.map(|key| key.name.as_str()),
            None => shared.map(|key| key.name.as_str()),
        };
        CallKeys {
            secret: shared.map(|key| key.secret.expose()),
            private: private.map(|key| key.key.as_ref()),
            serial: serial.unwrap_or_default(),
        }
    }

    fn call_secret(&self, which: CallKey, now: Time) -> Option<&CallSecret> {
        let has_own = self.call_secrets.iter().any(|key| key.channel == Channel::Create);
        // Where an account has a create key, no call is signed with a key of notices.
        let channel = match which {
            CallKey::Shared if !has_own => Channel::Ipn,
            CallKey::Shared | CallKey::Own => Channel::Create,
        };
        let of_channel = self.call_secrets.iter().filter(|key| key.channel == channel);
        of_channel.filter(|key| key.window.is_valid_at(now)).max_by_key(|key| key.window.begins)
    }
}

fn prepare_key(
    scheme: &Scheme,
    key: &KeyEntry,
    strength: KeyStrength,
) -> Result<SchemeKey, SchemeKeyError> {
    let KeyEntry { id, serial, secret, .. } = key;
    let named = |unfit: UnfitKey| SchemeKeyError(format!("key {id} {unfit}"));
    let secret = decode_secret(secret, scheme.key.encoding, &scheme.key.prefix).map_err(named)?;
    let of = |sign: &SignRule| ReadyKey::new(sign.algorithm, secret.clone(), strength);
    let tried: Vec<_> = scheme.signs.iter().map(of).collect();
    if !tried.iter().any(Result::is_ok) {
        let first = tried.into_iter().find_map(Result::err);
        return Err(
            first.map_or_else(|| SchemeKeyError(format!("key {id} fits no [[sign]]")), named)
        );
    }
    let ready = tried.into_iter().map(Result::ok).collect();
    // A certificate is valid until its notAfter.
    let ends =
        certificate_ends_s(secret.expose()).map(|s| Time::from_unix_ms(s.saturating_mul(1_000)));
    let ends = key.valid_until.into_iter().chain(ends).min();
    let window = KeyWindow { begins: key.valid_from, ends };
    Ok(SchemeKey { id: id.clone(), serial: serial.clone(), window, ready })
}
