//! Owns what an account has for its partner's own scheme: its keys, each ready for the sign blocks it fits, its constants,
//! and what our own calls are signed with. Invariant: a key that fits no block is refused when the vault is read.

use std::collections::BTreeMap;
use std::sync::Arc;

use payfold_schemas::ids::KeyId;
use payfold_schemas::time::Time;

use super::call::{CallKey, CallRule};
use super::crypt::{Ready, Strength, Unfit, certificate_ends_s, decode_secret};
use super::reading::Of;
use super::unique::Readings;
use super::{Scheme, SignRule};
use crate::document::{AccountEntry, KeyEntry};
use crate::identity::PrivateKey;
use crate::keys::Channel;
use crate::secret::Secret;

/// One key of an account, ready for the sign blocks it fits.
#[derive(Clone, Debug)]
pub(crate) struct SchemeKey {
    pub(crate) id: KeyId,
    /// What the partner calls it, where that is not its id.
    pub(crate) serial: Option<String>,
    pub(crate) valid_from: Time,
    pub(crate) valid_until: Option<Time>,
    /// By sign block; `None` where it can't be used.
    pub(crate) ready: Vec<Option<Ready>>,
}

impl SchemeKey {
    /// Whether it counts at `now`.
    pub(crate) fn is_valid_at(&self, now: Time) -> bool {
        counts((self.valid_from, self.valid_until), now)
    }

    /// What the partner calls it.
    pub(crate) fn name(&self) -> &str {
        self.serial.as_deref().unwrap_or(self.id.as_str())
    }
}

/// What an account has for its partner's own scheme.
#[derive(Clone, Debug, Default)]
pub struct SchemeKeys {
    pub(crate) keys: Vec<SchemeKey>,
    pub(crate) opening: Vec<Secret>,
    pub(crate) constants: BTreeMap<String, String>,
    /// By sign block: how its text could be read in more than one way.
    pub(crate) readings: Vec<Option<Readings>>,
    /// What our own calls are signed with: the keys of creates, and the shared ones of notices.
    asking: Vec<AskingKey>,
    /// The private keys that sign our own calls.
    signing: Vec<SigningKey>,
}

/// A key of our own calls.
#[derive(Clone, Debug)]
struct AskingKey {
    channel: Channel,
    valid_from: Time,
    valid_until: Option<Time>,
    secret: Secret,
    /// What the partner calls it.
    name: String,
}

/// A private key of our own calls.
#[derive(Clone, Debug)]
struct SigningKey {
    valid_from: Time,
    valid_until: Option<Time>,
    key: Arc<PrivateKey>,
    name: String,
}

/// What a call is made with at one moment.
#[derive(Clone, Copy, Default)]
pub(crate) struct CallKeys<'a> {
    /// `{secret}`.
    pub(crate) secret: Option<&'a [u8]>,
    /// What signs where the partner knows our public key.
    pub(crate) private: Option<&'a PrivateKey>,
    /// What the partner calls the key that signs.
    pub(crate) serial: &'a str,
}

impl CallKeys<'_> {
    /// Whether they are all that a call needs.
    pub(crate) fn suffice(&self, rule: &CallRule) -> bool {
        let has_private = rule
            .signs_with()
            .is_none_or(|algorithm| self.private.is_some_and(|key| key.fits(algorithm)));
        has_private && (self.secret.is_some() || !rule.needs_secret())
    }
}

impl SchemeKeys {
    /// Makes an account's keys ready. Errors: a key or a constant that can't be used, with how to mend it.
    pub(crate) fn new(
        scheme: &Scheme,
        entry: &AccountEntry,
        strength: Strength,
    ) -> Result<Self, String> {
        let is_short = scheme.exceptions.iter().any(|name| name == "short_key");
        let strength =
            if is_short && strength == Strength::Full { Strength::Short } else { strength };
        let mut keys = Vec::new();
        for key in entry.keys.iter().filter(|key| key.channel == Channel::Ipn) {
            keys.push(ready(scheme, key, strength)?);
        }
        let of_unwrap = entry.keys.iter().filter(|key| key.channel == Channel::Unwrap);
        let opening = of_unwrap.map(|key| key.secret.clone()).collect();
        let mut constants = BTreeMap::new();
        for (name, value) in &scheme.constants {
            let Some(value) = entry.constants.get(name).or(value.as_ref()) else {
                return Err(format!(
                    "its partner's profile needs the constant {name}; with the first key `payfold key add … --constant \
                     {name}=…` gives it, later `payfold account set {} {} --constant {name}=…`",
                    entry.partner, entry.merchant_code
                ));
            };
            constants.insert(name.clone(), value.clone());
        }
        let merchant = entry.merchant_code.as_str();
        let of = Of { merchant, constants: &constants, opening: &[], values: &[] };
        let readings = scheme.signs.iter().map(|sign| {
            Readings::of(scheme, sign, &of)
                .map_err(|error| format!("[[sign]] {}: {error}", sign.name))
        });
        let readings = readings.collect::<Result<_, _>>()?;
        let asking = asking(entry, &keys);
        let signing = signing(scheme, entry)?;
        Ok(Self { keys, opening, constants, readings, asking, signing })
    }
}

fn asking(entry: &AccountEntry, notices: &[SchemeKey]) -> Vec<AskingKey> {
    let of_creates = entry.keys.iter().filter(|key| key.channel == Channel::Create).cloned();
    let own = of_creates.map(|key| {
        let name = key.serial.unwrap_or_else(|| key.id.to_string());
        let KeyEntry { channel, valid_from, valid_until, secret, .. } = key;
        AskingKey { channel, valid_from, valid_until, secret, name }
    });
    // A public key checks notices and proves nothing of us.
    let shared = |key: &SchemeKey| {
        let secret = key.ready.iter().flatten().find_map(Ready::secret)?;
        let secret = Secret::from_bytes(secret.to_vec());
        let (valid_from, valid_until) = (key.valid_from, key.valid_until);
        let name = key.name().to_owned();
        Some(AskingKey { channel: Channel::Ipn, valid_from, valid_until, secret, name })
    };
    own.chain(notices.iter().filter_map(shared)).collect()
}

/// The private keys, each of a kind that the profile's calls are signed with.
fn signing(scheme: &Scheme, entry: &AccountEntry) -> Result<Vec<SigningKey>, String> {
    let algorithms: Vec<_> = scheme.calls().filter_map(CallRule::signs_with).collect();
    let of_calls = entry.keys.iter().filter(|key| key.channel == Channel::Sign);
    let read = of_calls.map(|entry| {
        let key =
            PrivateKey::read(&entry.secret).map_err(|unfit| format!("key {} {unfit}", entry.id))?;
        if let Some(other) = algorithms.iter().find(|algorithm| !key.fits(**algorithm)) {
            return Err(format!(
                "key {} is of another kind than {}, which its partner's profile signs calls with",
                entry.id,
                other.name()
            ));
        }
        let KeyEntry { valid_from, valid_until, .. } = *entry;
        let name = entry.serial.clone().unwrap_or_else(|| entry.id.to_string());
        Ok(SigningKey { valid_from, valid_until, key: Arc::new(key), name })
    });
    read.collect()
}

fn counts((from, until): (Time, Option<Time>), now: Time) -> bool {
    from <= now && until.is_none_or(|until| now < until)
}

impl SchemeKeys {
    /// When each key of our own calls begins and ends.
    pub(crate) fn call_times(&self) -> impl Iterator<Item = (Time, Option<Time>)> {
        let signing = self.signing.iter().map(|key| (key.valid_from, key.valid_until));
        self.asking.iter().map(|key| (key.valid_from, key.valid_until)).chain(signing)
    }

    /// What a call is made with at `now`: of the keys that count those that began last.
    pub(crate) fn call_keys(&self, rule: &CallRule, now: Time) -> CallKeys<'_> {
        let valid = self.signing.iter().filter(|k| counts((k.valid_from, k.valid_until), now));
        let private = valid.max_by_key(|key| key.valid_from);
        let shared = self.asking_key(rule.key, now);
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

    fn asking_key(&self, which: CallKey, now: Time) -> Option<&AskingKey> {
        let has_own = self.asking.iter().any(|key| key.channel == Channel::Create);
        let channel = match which {
            CallKey::Shared if !has_own => Channel::Ipn,
            CallKey::Shared | CallKey::Own => Channel::Create,
        };
        let valid = self
            .asking
            .iter()
            .filter(|key| key.channel == channel && counts((key.valid_from, key.valid_until), now));
        valid.max_by_key(|key| key.valid_from)
    }
}

fn ready(scheme: &Scheme, key: &KeyEntry, strength: Strength) -> Result<SchemeKey, String> {
    let KeyEntry { id, serial, secret, valid_from, valid_until, .. } = key;
    let named = |unfit: Unfit| format!("key {id} {unfit}");
    let secret = decode_secret(secret, scheme.key.encoding, &scheme.key.prefix).map_err(named)?;
    let of = |sign: &SignRule| Ready::new(sign.algorithm, secret.clone(), strength);
    let tried: Vec<_> = scheme.signs.iter().map(of).collect();
    if !tried.iter().any(Result::is_ok) {
        let first = tried.into_iter().find_map(Result::err);
        return Err(first.map_or_else(|| format!("key {id} fits no [[sign]]"), named));
    }
    let ready = tried.into_iter().map(Result::ok).collect();
    // A certificate counts no longer than it says itself.
    let ends =
        certificate_ends_s(secret.expose()).map(|s| Time::from_unix_ms(s.saturating_mul(1_000)));
    let valid_until = (*valid_until).into_iter().chain(ends).min();
    Ok(SchemeKey {
        id: id.clone(),
        serial: serial.clone(),
        valid_from: *valid_from,
        valid_until,
        ready,
    })
}
