//! Owns the MAC of a message of the log: proof of which role wrote it. The log's checksums find
//! what broke by itself; the MAC finds what somebody else wrote. Pure.
//!
//! HMAC-SHA256, cut to 16 bytes, over: `payfold.record.1`, then topic, key, the event's id, type
//! and time (empty for a record), each as `u32 length` (little-endian) and bytes, then the value.
//! It does not bind the position: a copy of an authentic message is authentic, and the fold counts
//! a fact that is repeated once.

use std::fmt;
use std::str::FromStr;

use hmac::{Hmac, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

const TAG: &[u8] = b"payfold.record.1";
const KEY_ID_BYTES: usize = 4;
const MAC_BYTES: usize = 16;

/// The role that writes a message. Each has keys of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Writer {
    /// Notices, admitted or kept in quarantine.
    Ingest,
    /// What shops asked for, and what the partner answered.
    Checkout,
    /// Markers that switch the publication.
    Projector,
    /// Expiries, answers to queries, findings, what people decide and release.
    Reconciler,
    /// What a person does to the log itself: parking, reading raw bytes.
    Operator,
}

impl Writer {
    /// Every writer.
    pub const ALL: [Self; 5] =
        [Self::Ingest, Self::Checkout, Self::Projector, Self::Reconciler, Self::Operator];

    /// Its name, as in the vault.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ingest => "ingest",
            Self::Checkout => "checkout",
            Self::Projector => "projector",
            Self::Reconciler => "reconciler",
            Self::Operator => "operator",
        }
    }

    /// The writer with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|writer| writer.name() == name)
    }
}

impl fmt::Display for Writer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The id of a record key, 8 hex digits: the beginning of its secret's SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct RecordKeyId([u8; KEY_ID_BYTES]);

/// A text that is not the id of a record key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the id of a record key has 8 hex digits")]
pub struct RecordKeyIdError;

impl FromStr for RecordKeyId {
    type Err = RecordKeyIdError;

    fn from_str(text: &str) -> Result<Self, RecordKeyIdError> {
        let mut id = [0; KEY_ID_BYTES];
        hex::decode_to_slice(text, &mut id).map_err(|_| RecordKeyIdError)?;
        Ok(Self(id))
    }
}

impl TryFrom<String> for RecordKeyId {
    type Error = RecordKeyIdError;

    fn try_from(text: String) -> Result<Self, RecordKeyIdError> {
        text.parse()
    }
}

impl From<RecordKeyId> for String {
    fn from(id: RecordKeyId) -> Self {
        id.to_string()
    }
}

impl fmt::Display for RecordKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.0))
    }
}

impl fmt::Debug for RecordKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The MAC of a message, with the id of its key, as it is stored beside the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordMac {
    /// The key that made it.
    pub key_id: RecordKeyId,
    mac: [u8; MAC_BYTES],
}

impl RecordMac {
    /// Its length as stored.
    pub const BYTES: usize = KEY_ID_BYTES + MAC_BYTES;

    /// As it is stored: the key's id, then the MAC.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..KEY_ID_BYTES].copy_from_slice(&self.key_id.0);
        bytes[KEY_ID_BYTES..].copy_from_slice(&self.mac);
        bytes
    }

    /// Reads a stored one; `None` for another length.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (id, mac) = bytes.split_at_checked(KEY_ID_BYTES)?;
        Some(Self { key_id: RecordKeyId(id.try_into().ok()?), mac: mac.try_into().ok()? })
    }
}

/// What a MAC covers of a message.
#[derive(Clone, Copy, Debug)]
pub struct MacContent<'a> {
    /// The topic's name.
    pub topic: &'a str,
    /// The message's key.
    pub key: &'a str,
    /// The event's id, type and time; `None` for a record.
    pub event: Option<[&'a str; 3]>,
    /// The value.
    pub value: &'a [u8],
}

/// A key that proves which role wrote a message.
#[derive(Clone)]
pub struct RecordKey {
    id: RecordKeyId,
    writer: Writer,
    keyed: Hmac<Sha256>,
}

impl fmt::Debug for RecordKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordKey({} {})", self.writer, self.id)
    }
}

impl RecordKey {
    /// The key of a writer with this secret.
    pub fn new(writer: Writer, secret: &[u8]) -> Self {
        let digest = Sha256::new().chain_update(TAG).chain_update(secret).finalize();
        let mut id = [0; KEY_ID_BYTES];
        id.copy_from_slice(&digest[..KEY_ID_BYTES]);
        let keyed = Hmac::<Sha256>::new_from_slice(secret).expect("HMAC takes a key of any length");
        Self { id: RecordKeyId(id), writer, keyed }
    }

    /// Its id.
    pub fn id(&self) -> RecordKeyId {
        self.id
    }

    /// The role that writes with it.
    pub fn writer(&self) -> Writer {
        self.writer
    }

    /// The MAC of a message.
    pub fn mac(&self, content: &MacContent<'_>) -> RecordMac {
        let mut mac = [0; MAC_BYTES];
        mac.copy_from_slice(&self.keyed_with(content).finalize().into_bytes()[..MAC_BYTES]);
        RecordMac { key_id: self.id, mac }
    }

    /// Whether this key made the MAC of this message; compares in constant time.
    pub fn verifies(&self, content: &MacContent<'_>, stored: &RecordMac) -> bool {
        stored.key_id == self.id
            && self.keyed_with(content).verify_truncated_left(&stored.mac).is_ok()
    }

    fn keyed_with(&self, content: &MacContent<'_>) -> Hmac<Sha256> {
        let mut keyed = self.keyed.clone();
        keyed.update(TAG);
        let [id, kind, time] = content.event.unwrap_or_default();
        for part in [content.topic, content.key, id, kind, time] {
            let length = u32::try_from(part.len()).expect("a message's key is short");
            keyed.update(&length.to_le_bytes());
            keyed.update(part.as_bytes());
        }
        keyed.update(content.value);
        keyed
    }
}

/// Why a message is not taken for one that a role of this system wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAuthentic {
    /// It has no MAC, and it is behind the baseline of its log.
    #[error("it has no MAC: another program wrote it, or a process without record keys")]
    NoMac,
    /// No key of this process made its MAC.
    #[error(
        "its MAC is by record key {0}, which the vault does not have: restore the newest vault, or \
         another program wrote it"
    )]
    UnknownKey(RecordKeyId),
    /// Its MAC is by a key that a person has ended, and it is behind the end.
    #[error("its MAC is by record key {0}, which a person ended before it was written")]
    EndedKey(RecordKeyId),
    /// Its MAC is by a known key, and not of these bytes.
    #[error("its MAC does not match: it was changed after role {0} wrote it, or moved")]
    Changed(Writer),
    /// Its MAC is by the key of a role that writes no messages of its kind.
    #[error(
        "its MAC is by the record key of {0}, a role that never writes such a message: somebody \
         else has that key"
    )]
    OtherRole(Writer),
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTENT: MacContent<'_> =
        MacContent { topic: "intake", key: "p/M/1", event: None, value: b"value" };

    #[test]
    fn the_mac_is_hmac_sha256_of_the_documented_text() {
        let key = RecordKey::new(Writer::Ingest, b"test key, worth nothing");
        let mut text = TAG.to_vec();
        for part in ["findings", "p/M/1", "id", "type", "time"] {
            text.extend_from_slice(&u32::try_from(part.len()).unwrap().to_le_bytes());
            text.extend_from_slice(part.as_bytes());
        }
        text.extend_from_slice(b"value");
        let event = Some(["id", "type", "time"]);
        let mac = key.mac(&MacContent { topic: "findings", event, ..CONTENT });
        let mut whole = Hmac::<Sha256>::new_from_slice(b"test key, worth nothing").unwrap();
        whole.update(&text);
        assert_eq!(mac.mac, whole.finalize().into_bytes()[..16]);
        assert_eq!(RecordMac::from_bytes(&mac.to_bytes()), Some(mac));
        for length in [0, 3, 4, 19, 21] {
            assert_eq!(RecordMac::from_bytes(&vec![0; length]), None);
        }
    }

    #[test]
    fn every_part_of_a_message_and_the_key_count() {
        let key = RecordKey::new(Writer::Ingest, b"one");
        let mac = key.mac(&CONTENT);
        assert!(key.verifies(&CONTENT, &mac));
        for other in [
            MacContent { topic: "findings", ..CONTENT },
            MacContent { key: "p/M/2", ..CONTENT },
            MacContent { event: Some(["", "", "t"]), ..CONTENT },
            MacContent { value: b"valuf", ..CONTENT },
            // The border between two parts moves.
            MacContent { topic: "intakep", key: "/M/1", ..CONTENT },
        ] {
            assert!(!key.verifies(&other, &mac), "{other:?}");
        }
        let mut flipped = mac;
        flipped.mac[15] ^= 1;
        assert!(!key.verifies(&CONTENT, &flipped));
        assert!(!RecordKey::new(Writer::Ingest, b"two").verifies(&CONTENT, &mac));
    }

    #[test]
    fn a_key_is_not_printed() {
        let shown = format!("{:?}", RecordKey::new(Writer::Checkout, b"hush"));
        assert!(shown.starts_with("RecordKey(checkout ") && shown.len() == 28, "{shown}");
    }
}
