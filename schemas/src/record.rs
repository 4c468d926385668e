//! Owns the record: the unit of the `intake` and `quarantine` topics, and its binary envelope.
//!
//! Envelope, version 1 (integers little-endian):
//! ```text
//! u8  version = 1      u32 crc32 of all that follows      u8 kind
//! u16 length, bytes    id of the key the raw bytes are sealed with (crate::sealed); length 0 = in the clear
//! u32 length, bytes    the parts of this kind, CBOR, additive (fields by number, never reused)
//! u32 length, bytes    the raw bytes verbatim, exactly as they came
//! ```
//! An unknown version or a wrong checksum is never skipped: the reader stops.

mod envelope;

use minicbor::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::envelope::{Envelope, decode_parts, encode, encode_with};
use crate::digest::Digest;
use crate::fact::Fact;
use crate::ids::{KeyId, OrderKey, PartnerCode, RequestId};
use crate::parked::Parked;
use crate::publication::Switch;
use crate::release::Released;
use crate::sealed::Delivery;
use crate::time::Time;

/// The envelope version this program writes.
pub const ENVELOPE_VERSION: u8 = 1;

/// What sealed bytes take, roughly: room that is asked for at once.
const SEALED_BYTES: usize = 1_600;

/// A place in a topic: partition and offset. SQLite has one partition, 0.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    Encode,
    Decode,
    JsonSchema,
)]
pub struct Position {
    /// Partition of the topic.
    #[n(0)]
    pub partition: u32,
    /// Offset within the partition; the first record of SQLite has 1.
    #[n(1)]
    pub offset: u64,
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.partition, self.offset)
    }
}

/// A text that is not `partition-offset` or a plain offset of partition 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a position is written partition-offset, such as 0-1234")]
pub struct PositionError;

impl std::str::FromStr for Position {
    type Err = PositionError;

    fn from_str(text: &str) -> Result<Self, PositionError> {
        let (partition, offset) = text.split_once('-').unwrap_or(("0", text));
        let partition = partition.parse().map_err(|_| PositionError)?;
        Ok(Self { partition, offset: offset.parse().map_err(|_| PositionError)? })
    }
}

/// Which profile judged a notice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Encode, Decode)]
#[serde(rename_all = "camelCase")]
pub struct ProfileStamp {
    /// The partner's code.
    #[n(0)]
    pub partner: PartnerCode,
    /// The profile's version.
    #[n(1)]
    pub version: u32,
    /// The profile's digest.
    #[n(2)]
    pub digest: Digest,
}

/// The request a notice came in, as far as its signature or its partner can depend on it. The body is
/// the envelope's raw part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, Encode, Decode)]
#[serde(rename_all = "camelCase")]
pub struct NoticeRequest {
    /// Path and query as received.
    #[n(0)]
    pub target: String,
    /// The headers the profile signs or reads, as received.
    #[n(1)]
    pub headers: Vec<(String, String)>,
    /// The method, where it is not POST.
    #[n(2)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Its place in the array it came in, from 0.
    #[n(3)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub item: Option<u32>,
    /// The sign block of the profile that matched, where the partner has its own scheme.
    #[n(4)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign: Option<String>,
}

/// Where a fact that came over HTTP from a partner comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Encode, Decode)]
#[serde(rename_all = "camelCase")]
pub struct NoticeSource {
    /// The profile that judged it.
    #[n(0)]
    pub profile: ProfileStamp,
    /// The key its signature matched.
    #[n(1)]
    pub key_id: KeyId,
    /// The request around the body.
    #[n(2)]
    pub request: NoticeRequest,
    /// How it came out of quarantine, if it was refused at first.
    #[n(3)]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released: Option<Released>,
}

/// A fact about an order, as it stands in `intake`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Encode, Decode)]
#[serde(rename_all = "camelCase")]
pub struct FactRecord {
    /// The order it is about; also the message key.
    #[n(0)]
    pub order: OrderKey,
    /// The fact.
    #[n(1)]
    pub fact: Fact,
    /// The request that brought it.
    #[n(2)]
    pub request_id: RequestId,
    /// When it was received, by the receiver's clock.
    #[n(3)]
    pub received_at: Time,
    /// Where it came from, if from a partner.
    #[n(4)]
    pub source: Option<NoticeSource>,
}

impl FactRecord {
    /// What its bytes are bound to, if they are sealed.
    pub fn delivery(&self) -> Delivery<'_> {
        Delivery {
            partner: self.order.partner.as_str(),
            merchant_code: self.order.merchant_code.as_str(),
            request_id: self.delivery_id(),
        }
    }

    /// The request its bytes came in: for a released notice the one that was refused.
    pub fn delivery_id(&self) -> RequestId {
        let released = self.source.as_ref().and_then(|source| source.released.as_ref());
        released.map_or(self.request_id, |released| released.request_id)
    }

    /// When its bytes came: for a released notice when it was refused, for all else when the record was made. What its
    /// key is judged by.
    pub fn delivered_at(&self) -> Time {
        let released = self.source.as_ref().and_then(|source| source.released.as_ref());
        released.map_or(self.received_at, |released| released.received_at)
    }
}

/// A notice that was validly signed and could not be admitted, as it stands in `quarantine`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Encode, Decode)]
#[serde(rename_all = "camelCase")]
pub struct QuarantineRecord {
    /// The account it names, as far as that could be read: `partner/merchantCode`, also the message key.
    #[n(0)]
    pub account: String,
    /// The refusal's code.
    #[n(1)]
    pub code: String,
    /// What exactly was wrong.
    #[n(2)]
    pub detail: String,
    /// The request that brought it.
    #[n(3)]
    pub request_id: RequestId,
    /// When it was received.
    #[n(4)]
    pub received_at: Time,
    /// Who signed it.
    #[n(5)]
    pub source: NoticeSource,
}

/// The parts of an envelope, by kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parts {
    /// Kind 1.
    Fact(FactRecord),
    /// Kind 2.
    Quarantine(QuarantineRecord),
    /// Kind 3.
    Switch(Switch),
    /// Kind 4.
    Parked(Parked),
}

/// What stands in `intake`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "nearly all of them are facts")]
pub enum IntakeRecord {
    /// A fact about an order.
    Fact(FactRecord),
    /// A marker, about no order.
    Switch(Switch),
    /// A marker about another record.
    Parked(Parked),
}

impl IntakeRecord {
    /// When it was received, or asked for.
    pub fn received_at(&self) -> Time {
        match self {
            Self::Fact(fact) => fact.received_at,
            Self::Switch(switch) => switch.at,
            Self::Parked(parked) => parked.at,
        }
    }
}

/// A record: its parts and the raw bytes they were read from (empty for facts of our own).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What it says.
    pub parts: Parts,
    /// Id of the key `raw` is sealed with (`crate::sealed`); none where it is in the clear.
    pub raw_key_id: Option<KeyId>,
    /// The bytes exactly as they came, or those sealed.
    pub raw: Vec<u8>,
}

/// Why stored bytes are not a record. Every one of them stops the reader.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// Shorter than its own lengths say.
    #[error("record is cut short")]
    Truncated,
    /// The bytes changed since they were written.
    #[error("record fails its checksum")]
    Checksum,
    /// Written by a newer program.
    #[error(
        "record has envelope version {0}, this program reads up to {ENVELOPE_VERSION}: upgrade readers before writers"
    )]
    UnknownVersion(u8),
    /// Written by a newer program.
    #[error(
        "record has kind {0}, which this program does not know: upgrade readers before writers"
    )]
    UnknownKind(u8),
    /// Written by a newer program.
    #[error("record holds a word this program does not know ({0}): upgrade readers before writers")]
    UnknownWord(String),
    /// The checksum holds and the parts don't decode.
    #[error("record does not decode: {0}")]
    Parts(String),
}

impl RecordError {
    /// Whether a newer program wrote it, and this one has to be upgraded to read on.
    pub fn is_newer(&self) -> bool {
        match self {
            Self::UnknownVersion(_) | Self::UnknownKind(_) | Self::UnknownWord(_) => true,
            Self::Truncated | Self::Checksum | Self::Parts(_) => false,
        }
    }
}

impl Record {
    /// A record of a fact, with the raw bytes it was read from.
    pub fn of_fact(fact: FactRecord, raw: Vec<u8>) -> Self {
        Self { parts: Parts::Fact(fact), raw_key_id: None, raw }
    }

    /// The envelope's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let raw_key_id = self.raw_key_id.as_ref().map_or("", KeyId::as_str);
        match &self.parts {
            Parts::Fact(fact) => encode(1, fact, raw_key_id, &self.raw),
            Parts::Quarantine(record) => encode(2, record, raw_key_id, &self.raw),
            Parts::Switch(switch) => encode(3, switch, raw_key_id, &self.raw),
            Parts::Parked(parked) => encode(4, parked, raw_key_id, &self.raw),
        }
    }

    /// Reads an envelope. Errors: `RecordError`; none may be skipped.
    pub fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let envelope = Envelope::open(bytes)?;
        let parts = match envelope.kind {
            1 => Parts::Fact(decode_parts(envelope.parts)?),
            2 => Parts::Quarantine(decode_parts(envelope.parts)?),
            3 => Parts::Switch(decode_parts(envelope.parts)?),
            4 => Parts::Parked(decode_parts(envelope.parts)?),
            other => return Err(RecordError::UnknownKind(other)),
        };
        let raw_key_id = match envelope.raw_key_id {
            "" => None,
            id => Some(KeyId::parse(id).map_err(|error| RecordError::Parts(error.to_string()))?),
        };
        Ok(Self { parts, raw_key_id, raw: envelope.raw.to_vec() })
    }
}

/// Encodes a fact's envelope straight from borrowed parts: the hot path of ingest.
pub fn encode_fact(fact: &FactRecord, raw: &[u8]) -> Vec<u8> {
    encode(1, fact, "", raw)
}

/// Encodes a refused notice's envelope straight from borrowed parts.
pub fn encode_quarantine(record: &QuarantineRecord, raw: &[u8]) -> Vec<u8> {
    encode(2, record, "", raw)
}

/// Encodes a fact's envelope whose raw bytes `seal` appends, sealed with the key of this id.
pub fn encode_fact_sealed(
    fact: &FactRecord,
    key_id: &KeyId,
    seal: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    encode_with(1, fact, (key_id.as_str(), SEALED_BYTES), seal)
}

/// The same of a refused notice.
pub fn encode_quarantine_sealed(
    record: &QuarantineRecord,
    key_id: &KeyId,
    seal: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    encode_with(2, record, (key_id.as_str(), SEALED_BYTES), seal)
}

/// Encodes a marker's envelope.
pub fn encode_switch(switch: &Switch) -> Vec<u8> {
    encode(3, switch, "", &[])
}

/// Encodes the envelope of a marker about a damaged record.
pub fn encode_parked(parked: &Parked) -> Vec<u8> {
    encode(4, parked, "", &[])
}

/// Reads what stands in `intake` and leaves the raw bytes alone: the hot path of the projector.
/// Errors: `RecordError`; a quarantine record is `UnknownKind` here.
pub fn decode_intake(bytes: &[u8]) -> Result<IntakeRecord, RecordError> {
    let envelope = Envelope::open(bytes)?;
    match envelope.kind {
        1 => Ok(IntakeRecord::Fact(decode_parts(envelope.parts)?)),
        3 => Ok(IntakeRecord::Switch(decode_parts(envelope.parts)?)),
        4 => Ok(IntakeRecord::Parked(decode_parts(envelope.parts)?)),
        other => Err(RecordError::UnknownKind(other)),
    }
}

/// Reads the fact of an envelope and leaves the raw bytes alone.
/// Errors: `RecordError`; a quarantine record and a marker are `UnknownKind` here.
pub fn decode_fact(bytes: &[u8]) -> Result<FactRecord, RecordError> {
    let envelope = Envelope::open(bytes)?;
    match envelope.kind {
        1 => decode_parts(envelope.parts),
        other => Err(RecordError::UnknownKind(other)),
    }
}
