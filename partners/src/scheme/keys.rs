//! Owns what an account has for its partner's own scheme: its keys, each ready for the sign blocks it fits, its constants,
//! and what our own calls are signed with. Invariant: a key that fits no block is refused when the vault is read.

use std::collections::BTreeMap;

use payfold_schemas::ids::KeyId;
use payfold_schemas::time::Time;

use super::call::CallKey;
use super::crypt::{Ready, Strength, Unfit, certificate_ends_s, decode_secret};
use super::reading::Of;
use super::unique::Readings;
use super::{Scheme, SignRule};
use crate::document::{AccountEntry, KeyEntry};
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
        self.valid_from <= now && self.valid_until.is_none_or(|until| now < until)
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
    pub(crate) asking: Vec<AskingKey>,
}

/// A key of our own calls.
#[derive(Clone, Debug)]
pub(crate) struct AskingKey {
    channel: Channel,
    valid_from: Time,
    valid_until: Option<Time>,
    secret: Secret,
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
        Ok(Self { keys, opening, constants, readings, asking })
    }
}

fn asking(entry: &AccountEntry, notices: &[SchemeKey]) -> Vec<AskingKey> {
    let of_creates = entry.keys.iter().filter(|key| key.channel == Channel::Create).cloned();
    let own = of_creates.map(|key| {
        let KeyEntry { channel, valid_from, valid_until, secret, .. } = key;
        AskingKey { channel, valid_from, valid_until, secret }
    });
    // A public key checks notices and proves nothing of us.
    let shared = |key: &SchemeKey| {
        let secret = key.ready.iter().flatten().find_map(Ready::secret)?;
        let secret = Secret::from_bytes(secret.to_vec());
        let (valid_from, valid_until) = (key.valid_from, key.valid_until);
        Some(AskingKey { channel: Channel::Ipn, valid_from, valid_until, secret })
    };
    own.chain(notices.iter().filter_map(shared)).collect()
}

impl SchemeKeys {
    /// What our own calls are signed with at `now`: of the keys that count the one that began last.
    pub(crate) fn asking_secret(&self, which: CallKey, now: Time) -> Option<&[u8]> {
        let has_own = self.asking.iter().any(|key| key.channel == Channel::Create);
        let channel = match which {
            CallKey::Shared if !has_own => Channel::Ipn,
            CallKey::Shared | CallKey::Own => Channel::Create,
        };
        let valid = self.asking.iter().filter(|key| {
            key.channel == channel
                && key.valid_from <= now
                && key.valid_until.is_none_or(|until| now < until)
        });
        valid.max_by_key(|key| key.valid_from).map(|key| key.secret.expose())
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
