//! Owns the keys of one account and channel: which keys are valid at a time, and which of them has
//! signed a text. Invariants: a key is valid if `valid_from <= now < valid_until`. At no time are
//! more than `VALID_KEYS_MAX` keys valid. No `Debug` shows a secret.

use payfold_schemas::ids::KeyId;
use payfold_schemas::time::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::identity::{ClientCertificate, PrivateKey};
use crate::key_window::KeyWindow;
use crate::mac::{MacKey, SIGNATURE_BYTES};
use crate::scheme::crypt::UnfitKey;
use crate::secret::Secret;

pub use crate::secret::{SECRET_BYTES_LEAST, SECRET_BYTES_MIN};

/// The most keys that may be valid at one time. Each costs one HMAC for a forged notice.
pub(crate) const VALID_KEYS_MAX: usize = 8;

/// The shortest secret of the `unwrap` channel, in bytes: an AES-128 key.
pub(crate) const UNWRAP_BYTES_MIN: usize = 16;

/// The shortest secret of the `body` channel, in bytes.
pub(crate) const BODY_BYTES_MIN: usize = 32;

/// The use of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Channel {
    /// Verifies notices (contract 4.2). Also used for creates and returns if those have no keys.
    Ipn,
    /// Signs our calls to the partner (contract 4.1).
    Create,
    /// Verifies the query string that a payer's browser brings back (contract 4.3).
    Return,
    /// Decrypts encrypted notices. It signs nothing, and has no substitute.
    Unwrap,
    /// Seals the bytes of notices in the log, one key for each month. The partner does not know it
    /// (`crate::sealing`).
    Body,
    /// A private key that signs our calls, for partners that verify them with its public key.
    Sign,
    /// A client certificate with its private key, for TLS connections to the partner.
    Tls,
}

impl Channel {
    /// Every channel.
    pub const ALL: [Channel; 7] =
        [Self::Ipn, Self::Create, Self::Return, Self::Unwrap, Self::Body, Self::Sign, Self::Tls];

    /// The name in the vault and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ipn => "ipn",
            Self::Create => "create",
            Self::Return => "return",
            Self::Unwrap => "unwrap",
            Self::Body => "body",
            Self::Sign => "sign",
            Self::Tls => "tls",
        }
    }

    /// The channel of this name.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|channel| channel.name() == name)
    }

    /// The shortest secret of this channel, in bytes. 0 for a private key: its text has no minimum
    /// length.
    pub(crate) const fn secret_bytes_min(self) -> usize {
        match self {
            Self::Ipn | Self::Create | Self::Return => SECRET_BYTES_MIN,
            Self::Unwrap => UNWRAP_BYTES_MIN,
            Self::Body => BODY_BYTES_MIN,
            Self::Sign | Self::Tls => 0,
        }
    }
}

/// One key of an account.
#[derive(Clone, Debug)]
pub struct Key {
    id: KeyId,
    channel: Channel,
    window: KeyWindow,
    mac: MacKey,
    /// The secret of a key that decrypts, or the PEM of a private key; `None` for an HMAC key, of
    /// which only the keyed state is kept.
    secret: Option<Secret>,
}

/// Why keys can't be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The secret is too short, so it could be guessed.
    #[error(
        "key {id} has {bytes} bytes, {least} or more are needed; ask the partner for a longer one"
    )]
    TooShort {
        /// The key's id.
        id: KeyId,
        /// The secret's length, in bytes.
        bytes: usize,
        /// The shortest accepted length, in bytes.
        least: usize,
    },
    /// The secret of a cipher is too short.
    #[error(
        "key {id} has {bytes} bytes, a key that decrypts has {UNWRAP_BYTES_MIN} or more; check \
         whether it is text, hex or base64"
    )]
    TooShortToUnwrap {
        /// The key's id.
        id: KeyId,
        /// The secret's length, in bytes.
        bytes: usize,
    },
    /// The secret of a body key is too short.
    #[error(
        "key {id} has {bytes} bytes, a body key has {BODY_BYTES_MIN} or more; make it of random \
         bytes"
    )]
    TooShortToSeal {
        /// The key's id.
        id: KeyId,
        /// The secret's length, in bytes.
        bytes: usize,
    },
    /// The private key or certificate is malformed or too weak.
    #[error("key {id} {problem}")]
    Unfit {
        /// The key's id.
        id: KeyId,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// The certificate ends before its key becomes valid.
    #[error("the certificate of key {id} ended at {ended}; ask the partner for a new one")]
    Ended {
        /// The key's id.
        id: KeyId,
        /// The end of the certificate.
        ended: Time,
    },
    /// The key's end is before its beginning.
    #[error("key {id} is valid until before it is valid from; swap or correct the times")]
    Window {
        /// The key's id.
        id: KeyId,
    },
    /// Two keys have the same id.
    #[error("key {id} is there twice; give the new one another id")]
    Duplicate {
        /// The key's id.
        id: KeyId,
    },
    /// Too many keys are valid at one time.
    #[error("{count} keys are valid at {at}, at most {VALID_KEYS_MAX} may be; retire some")]
    TooMany {
        /// The number of valid keys.
        count: usize,
        /// The time at which they are valid.
        at: Time,
    },
}

impl Key {
    /// A key of the IPN channel. Errors: `TooShort`, `Window`.
    pub fn new(
        id: KeyId,
        secret: &Secret,
        valid_from: Time,
        valid_until: Option<Time>,
    ) -> Result<Self, KeyError> {
        Self::of_channel((Channel::Ipn, SECRET_BYTES_MIN), id, secret, (valid_from, valid_until))
    }

    /// A key of any channel. `least` is the shortest accepted secret, in bytes, if the channel does
    /// not accept a shorter one. Errors: `TooShort`, `TooShortToUnwrap`, `TooShortToSeal`, `Unfit`,
    /// `Ended`, `Window`.
    pub(crate) fn of_channel(
        (channel, least): (Channel, usize),
        id: KeyId,
        secret: &Secret,
        (valid_from, valid_until): (Time, Option<Time>),
    ) -> Result<Self, KeyError> {
        let bytes = secret.expose().len();
        let least = match channel {
            Channel::Body => BODY_BYTES_MIN,
            _ => least.min(channel.secret_bytes_min()),
        };
        if bytes < least {
            return Err(match channel {
                Channel::Body => KeyError::TooShortToSeal { id, bytes },
                Channel::Unwrap => KeyError::TooShortToUnwrap { id, bytes },
                _ => KeyError::TooShort { id, bytes, least },
            });
        }
        if valid_until.is_some_and(|until| until < valid_from) {
            return Err(KeyError::Window { id });
        }
        let unfit = |problem: UnfitKey| KeyError::Unfit { id: id.clone(), problem: problem.0 };
        let (mut valid_from, mut valid_until) = (valid_from, valid_until);
        match channel {
            Channel::Sign => drop(PrivateKey::read(secret).map_err(unfit)?),
            // The certificate's own validity limits that of the key.
            Channel::Tls => {
                let ClientCertificate { begins, ends } =
                    ClientCertificate::read(secret).map_err(unfit)?;
                if ends <= valid_from {
                    return Err(KeyError::Ended { id, ended: ends });
                }
                valid_from = valid_from.max(begins);
                let end = valid_until.map_or(ends, |until| until.min(ends));
                valid_until = Some(end.max(valid_from));
            }
            _ => {}
        }
        let mac = MacKey::new(secret.expose());
        let is_used_itself = matches!(channel, Channel::Unwrap | Channel::Sign | Channel::Tls);
        let secret = is_used_itself.then(|| secret.clone());
        let window = KeyWindow { begins: valid_from, ends: valid_until };
        Ok(Self { id, channel, window, mac, secret })
    }

    /// The key's id.
    pub fn id(&self) -> &KeyId {
        &self.id
    }

    /// The key's use.
    pub fn channel(&self) -> Channel {
        self.channel
    }

    /// The beginning of its validity, inclusive.
    pub fn valid_from(&self) -> Time {
        self.window.begins
    }

    /// The end of its validity, exclusive; `None` if it has none.
    pub fn valid_until(&self) -> Option<Time> {
        self.window.ends
    }

    /// Whether the key is valid at `now`.
    pub fn is_valid_at(&self, now: Time) -> bool {
        self.window.is_valid_at(now)
    }

    pub(crate) fn window(&self) -> KeyWindow {
        self.window
    }

    /// Whether the key has signed a text.
    pub(crate) fn has_signed(&self, text: &[u8], claimed: &[u8; SIGNATURE_BYTES]) -> bool {
        self.mac.verifies(text, claimed)
    }

    /// The secret of a key that decrypts, or the PEM of a private key; `None` for an HMAC key.
    pub(crate) fn secret(&self) -> Option<&Secret> {
        self.secret.as_ref()
    }
}

/// The keys of one account and channel, with those that are not valid yet or no longer.
#[derive(Clone, Debug, Default)]
pub struct KeySet {
    keys: Vec<Key>,
    valid_at_once_max: usize,
}

/// An empty key set.
pub(crate) static NO_KEYS: KeySet = KeySet { keys: Vec::new(), valid_at_once_max: 0 };

impl KeySet {
    /// A set of these keys. Errors: `Duplicate`, `TooMany`.
    pub fn new(keys: Vec<Key>) -> Result<Self, KeyError> {
        let mut valid_at_once_max = 0;
        for (place, key) in keys.iter().enumerate() {
            if keys[..place].iter().any(|other| other.id == key.id) {
                return Err(KeyError::Duplicate { id: key.id.clone() });
            }
            // The number of valid keys grows only where a key begins, so only those times are
            // checked.
            let at = key.window.begins;
            let count = keys.iter().filter(|other| other.is_valid_at(at)).count();
            if count > VALID_KEYS_MAX {
                return Err(KeyError::TooMany { count, at });
            }
            valid_at_once_max = count.max(valid_at_once_max);
        }
        Ok(Self { keys, valid_at_once_max })
    }

    /// Every key, in the order of the vault.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// The key to sign with at `now`: the valid key with the latest beginning.
    pub(crate) fn signing_key(&self, now: Time) -> Option<&Key> {
        let valid = self.keys.iter().filter(|key| key.is_valid_at(now));
        valid.max_by_key(|key| key.window.begins)
    }

    /// The newest key that began after the key of this id and is valid at `now`. If there is one,
    /// the key of this id is the old key of a rotation.
    pub fn replacement_of(&self, id: &KeyId, now: Time) -> Option<&Key> {
        let begun = self.keys.iter().find(|key| key.id == *id)?.window.begins;
        self.signing_key(now).filter(|newest| newest.window.begins > begun)
    }

    /// The time until which some key is valid without a gap, from `now` on: `now` itself if no key
    /// is valid now, `None` if one has no end.
    pub fn covered_until(&self, now: Time) -> Option<Time> {
        covered_until(now, |at| {
            let valid = self.keys.iter().filter(|key| key.is_valid_at(at));
            valid.map(|key| key.window.ends).collect()
        })
    }

    /// The most keys that are valid at one time.
    pub(crate) fn valid_at_once_max(&self) -> usize {
        self.valid_at_once_max
    }

    /// Whether a key that is valid at `now` has signed `text`.
    pub(crate) fn has_signed(
        &self,
        text: &[u8],
        claimed: &[u8; SIGNATURE_BYTES],
        now: Time,
    ) -> bool {
        let mut valid = self.keys.iter().filter(|key| key.is_valid_at(now));
        valid.any(|key| key.has_signed(text, claimed))
    }
}

/// The time until which some key is valid without a gap, from `now` on; `None` if one has no end.
/// `ends_at` yields the ends of the keys that are valid at a time.
pub(crate) fn covered_until<F: Fn(Time) -> Vec<Option<Time>>>(
    now: Time,
    ends_at: F,
) -> Option<Time> {
    let mut covered = now;
    loop {
        let mut furthest = covered;
        for end in ends_at(covered) {
            furthest = furthest.max(end?);
        }
        if furthest == covered {
            return Some(covered);
        }
        covered = furthest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_window::{EARLY_TRIED_MAX, early_begins, tried_at};

    fn at(second: i64) -> Time {
        Time::from_unix_ms(second * 1_000)
    }

    fn secret(id: &str) -> Secret {
        Secret::from_bytes(format!("hush, the secret of key {id}").into_bytes())
    }

    fn key(id: &str, from: i64, until: Option<i64>) -> Key {
        Key::new(KeyId::parse(id).unwrap(), &secret(id), at(from), until.map(at)).unwrap()
    }

    /// The id of the key that `keys` finds for a text signed with the secret of `id`.
    fn signer(keys: &KeySet, id: &str, now: Time) -> Option<String> {
        let signature = MacKey::new(secret(id).expose()).sign(b"text");
        let mut valid = keys.keys().iter().filter(|key| key.is_valid_at(now));
        Some(valid.find(|key| key.has_signed(b"text", &signature))?.id().to_string())
    }

    #[test]
    fn a_key_is_valid_from_its_beginning_to_before_its_end() {
        let keys = KeySet::new(vec![key("old", 10, Some(30)), key("new", 20, None)]).unwrap();
        let before = |second| at(second).plus_ms(0).unix_nanos() - 1;
        for (now, old, new) in [
            (Time::from_unix_nanos(before(10)), false, false),
            (at(10), true, false),
            (Time::from_unix_nanos(before(20)), true, false),
            (at(20), true, true),
            (Time::from_unix_nanos(before(30)), true, true),
            (at(30), false, true),
            (at(1_000_000), false, true),
        ] {
            assert_eq!(signer(&keys, "old", now).as_deref(), old.then_some("old"), "{now}");
            assert_eq!(signer(&keys, "new", now).as_deref(), new.then_some("new"), "{now}");
            assert_eq!(signer(&keys, "other", now), None);
        }
        assert_eq!(keys.valid_at_once_max(), 2);
        let retired = key("retired", 40, Some(40));
        let keys = [keys.keys(), &[retired]].concat();
        let counts: [(i64, &[&str]); 4] =
            [(5, &["old", "new"]), (15, &["old", "new"]), (25, &["old", "new"]), (35, &["new"])];
        for (now, ids) in counts {
            let tried = tried_at(&keys, Key::window, at(now)).map(|key| key.id().as_str());
            assert_eq!(tried.collect::<Vec<_>>(), ids, "{now}");
        }
        assert_eq!(early_begins(&keys, Key::window).collect::<Vec<_>>(), [at(10), at(20)]);
        let many: Vec<_> = (0..20).map(|n| key(&format!("k{n}"), 100 + n, None)).collect();
        assert_eq!(tried_at(&many, Key::window, at(0)).count(), EARLY_TRIED_MAX);
    }

    #[test]
    fn keys_that_can_t_be_used_are_refused() {
        let id = KeyId::parse("k").unwrap();
        let short = Secret::from_bytes(vec![1; 23]);
        let error = Key::new(id.clone(), &short, at(0), None).unwrap_err();
        assert_eq!(error, KeyError::TooShort { id: id.clone(), bytes: 23, least: 24 });
        let error = Key::new(id.clone(), &secret("k"), at(2), Some(at(1))).unwrap_err();
        assert_eq!(error, KeyError::Window { id: id.clone() });
        let twice = vec![key("k", 0, Some(1)), key("k", 2, None)];
        assert_eq!(KeySet::new(twice).unwrap_err(), KeyError::Duplicate { id });
    }

    #[test]
    fn the_number_of_valid_keys_is_bounded() {
        let past: Vec<_> = (0..20).map(|n| key(&format!("past{n}"), n, Some(n + 1))).collect();
        let many = |count: i64| (0..count).map(|n| key(&format!("k{n}"), 100 - n, None));
        let keys = KeySet::new(past.iter().cloned().chain(many(8)).collect()).unwrap();
        assert_eq!((keys.keys().len(), keys.valid_at_once_max()), (28, 8));
        let error = KeySet::new(past.into_iter().chain(many(9)).collect()).unwrap_err();
        assert_eq!(error, KeyError::TooMany { count: 9, at: at(100) });
    }

    #[test]
    fn a_key_is_replaced_while_a_newer_one_is_valid() {
        let keys = vec![key("a", 10, Some(30)), key("b", 20, Some(40)), key("c", 50, None)];
        let keys = KeySet::new(keys).unwrap();
        let replaced = |id, now| {
            let id = KeyId::parse(id).unwrap();
            keys.replacement_of(&id, at(now)).map(|key| key.id().to_string())
        };
        for (id, now, by) in [
            ("a", 19, None),
            ("a", 20, Some("b")),
            ("b", 25, None),
            ("a", 45, None),
            ("b", 50, Some("c")),
            ("c", 60, None),
            ("z", 60, None),
        ] {
            assert_eq!(replaced(id, now).as_deref(), by, "{id} at {now}");
        }
    }

    #[test]
    fn keys_cover_the_time_up_to_their_first_gap() {
        let until = |keys: Vec<Key>, now| KeySet::new(keys).unwrap().covered_until(at(now));
        let three = || vec![key("a", 10, Some(30)), key("b", 20, Some(40)), key("d", 50, Some(60))];
        for (now, end) in [(5, 5), (10, 40), (35, 40), (40, 40), (50, 60), (70, 70)] {
            assert_eq!(until(three(), now), Some(at(end)), "{now}");
        }
        let handed_over = vec![key("a", 10, Some(30)), key("b", 30, None)];
        assert_eq!(until(handed_over, 10), None);
        assert_eq!(until(Vec::new(), 1), Some(at(1)));
    }

    #[test]
    fn a_key_that_decrypts_keeps_its_secret_and_may_be_shorter() {
        let id = KeyId::parse("k").unwrap();
        let of = |channel, bytes| {
            let secret = Secret::from_bytes(vec![b'h'; bytes]);
            Key::of_channel(channel, id.clone(), &secret, (at(0), None))
        };
        let key = of((Channel::Unwrap, SECRET_BYTES_MIN), 16).unwrap();
        assert_eq!(key.secret().unwrap().expose(), [b'h'; 16]);
        assert!(!format!("{key:?}").contains("104"), "{key:?}");
        assert!(of((Channel::Ipn, SECRET_BYTES_MIN), 24).unwrap().secret().is_none());
        let error = of((Channel::Unwrap, SECRET_BYTES_MIN), 15).unwrap_err();
        assert_eq!(error, KeyError::TooShortToUnwrap { id: id.clone(), bytes: 15 });
        assert!(matches!(
            of((Channel::Return, SECRET_BYTES_MIN), 23),
            Err(KeyError::TooShort { bytes: 23, .. })
        ));
    }

    #[test]
    fn debug_shows_no_secret() {
        let shown = format!("{:?}", KeySet::new(vec![key("k", 0, None)]).unwrap());
        assert!(shown.contains("MacKey(..)") && !shown.contains("hush"), "{shown}");
        assert!(!shown.contains(&format!("{:?}", b"hush").replace(['[', ']'], "")), "{shown}");
    }
}
