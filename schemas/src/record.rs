//! Owns the record: the unit of the `intake` and `quarantine` topics, and its binary envelope.
//!
//! Envelope, version 1 (integers little-endian):
//! ```text
//! u8  version = 1      u32 crc32 of all that follows      u8 kind
//! u16 length, bytes    id of the key that seals the raw bytes; length 0 = in the clear
//! u32 length, bytes    the parts of this kind, CBOR, additive (fields by number, never reused)
//! u32 length, bytes    the raw bytes as they came, or sealed with that key (crate::sealed)
//! ```
//! An unknown version or a wrong checksum is never skipped: the partition is halted until a person
//! parks the record.

mod envelope;
mod error;

use minicbor::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::envelope::{Envelope, decode_parts, encode, encode_with};
pub use self::error::{ENVELOPE_VERSION, RecordError};
use crate::fact::Fact;
use crate::ids::{KeyId, OrderKey, RequestId};
use crate::notice_source::NoticeSource;
use crate::parked::Parked;
use crate::publication::Switch;
use crate::sealed::Delivery;
use crate::time::Time;

/// The message key of a marker; no order has this key.
pub const MARKER_KEY: &str = "payfold";

/// The room that is reserved for sealed bytes: about their usual length.
const SEALED_BYTES: usize = 1_600;

/// A fact about an order, as it is stored in `intake`.
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
    /// Its source, if a partner sent it.
    #[n(4)]
    pub source: Option<NoticeSource>,
}

impl FactRecord {
    /// The delivery that its bytes are bound to, if they are sealed.
    pub fn delivery(&self) -> Delivery<'_> {
        Delivery {
            partner: self.order.partner.as_str(),
            merchant_code: self.order.merchant_code.as_str(),
            request_id: self.delivery_id(),
        }
    }

    /// The request that brought its bytes: for a released notice, the refused request.
    pub(crate) fn delivery_id(&self) -> RequestId {
        let released = self.source.as_ref().and_then(|source| source.released.as_ref());
        released.map_or(self.request_id, |released| released.request_id)
    }

    /// When its bytes were received: for a released notice, when it was refused. The validity of
    /// its key is checked for this time.
    pub fn delivered_at(&self) -> Time {
        let released = self.source.as_ref().and_then(|source| source.released.as_ref());
        released.map_or(self.received_at, |released| released.received_at)
    }
}

/// A notice with a valid signature that could not be admitted, as it is stored in `quarantine`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Encode, Decode, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QuarantineRecord {
    /// The account that it names, as far as it could be read: `partner/merchantCode`; also the
    /// message key.
    #[n(0)]
    pub account: String,
    /// The refusal's code.
    #[n(1)]
    pub code: String,
    /// The details of the refusal.
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Parts {
    /// A fact about an order; kind 1 of the envelope.
    Fact(FactRecord),
    /// A quarantined notice; kind 2.
    Quarantine(QuarantineRecord),
    /// A marker that switches the publication; kind 3.
    Switch(Switch),
    /// A marker that parks a damaged record; kind 4.
    Parked(Parked),
    /// A person's proposal to park one, without effect; kind 5.
    ParkingProposed(Parked),
}

/// A record in `intake`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "nearly all of them are facts")]
pub enum IntakeRecord {
    /// A fact about an order.
    Fact(FactRecord),
    /// A marker that switches the publication.
    Switch(Switch),
    /// A marker that parks another record.
    Parked(Parked),
    /// A person's proposal to park another record, without effect.
    ParkingProposed(Parked),
}

impl IntakeRecord {
    /// When the fact was received, or the marker was requested.
    pub fn received_at(&self) -> Time {
        match self {
            Self::Fact(fact) => fact.received_at,
            Self::Switch(switch) => switch.at,
            Self::Parked(parked) | Self::ParkingProposed(parked) => parked.at,
        }
    }
}

/// A record: its parts and the raw bytes they were read from, which Payfold's own facts don't have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The decoded parts.
    pub parts: Parts,
    /// The id of the key that seals `raw` (`crate::sealed`); `None` if it is in the clear.
    pub raw_key_id: Option<KeyId>,
    /// The bytes exactly as they were received, or sealed.
    pub raw: Vec<u8>,
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
            Parts::ParkingProposed(parked) => encode(5, parked, raw_key_id, &self.raw),
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
            5 => Parts::ParkingProposed(decode_parts(envelope.parts)?),
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

/// Encodes a fact's envelope. `seal` appends the raw bytes, sealed with the key of this id.
pub fn encode_fact_sealed(
    fact: &FactRecord,
    key_id: &KeyId,
    seal: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    encode_with(1, fact, (key_id.as_str(), SEALED_BYTES), seal)
}

/// Encodes a refused notice's envelope in the same way.
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

/// Encodes the envelope of a proposal to park a damaged record.
pub fn encode_parking_proposed(parked: &Parked) -> Vec<u8> {
    encode(5, parked, "", &[])
}

/// Decodes a record of `intake` without its raw bytes: the hot path of the projector.
/// Errors: `RecordError`; a quarantined notice is `Parts` here.
pub fn decode_intake(bytes: &[u8]) -> Result<IntakeRecord, RecordError> {
    let envelope = Envelope::open(bytes)?;
    match envelope.kind {
        1 => Ok(IntakeRecord::Fact(decode_parts(envelope.parts)?)),
        2 => Err(RecordError::Parts("a quarantined notice is not of this topic".to_owned())),
        3 => Ok(IntakeRecord::Switch(decode_parts(envelope.parts)?)),
        4 => Ok(IntakeRecord::Parked(decode_parts(envelope.parts)?)),
        5 => Ok(IntakeRecord::ParkingProposed(decode_parts(envelope.parts)?)),
        other => Err(RecordError::UnknownKind(other)),
    }
}

/// Whether these bytes, such as a claim's value, are the record of a create request. The checksum
/// distinguishes such a record from any other claimed value.
pub fn is_create_request(record: &[u8]) -> bool {
    decode_fact(record).is_ok_and(|record| matches!(record.fact, Fact::CreateRequested(_)))
}

/// Decodes the fact of an envelope without its raw bytes.
/// Errors: `RecordError`; a quarantine record and a marker are `UnknownKind` here.
pub fn decode_fact(bytes: &[u8]) -> Result<FactRecord, RecordError> {
    let envelope = Envelope::open(bytes)?;
    match envelope.kind {
        1 => decode_parts(envelope.parts),
        other => Err(RecordError::UnknownKind(other)),
    }
}
