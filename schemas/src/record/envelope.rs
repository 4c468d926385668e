//! Owns the envelope's bytes: opening and closing it. Invariants: every version ever written
//! stays readable; bytes that are truncated, changed or from a newer program are an error, never a
//! partial record.

use minicbor::{Decode, Encode};

use super::error::{ENVELOPE_VERSION, RecordError};

const HEADER_BYTES: usize = 6;

/// An envelope's parts, not decoded yet.
pub(super) struct Envelope<'a> {
    pub(super) kind: u8,
    pub(super) raw_key_id: &'a str,
    pub(super) parts: &'a [u8],
    pub(super) raw: &'a [u8],
}

impl<'a> Envelope<'a> {
    /// Opens an envelope of any version ever written. Errors: `RecordError`.
    pub(super) fn open(bytes: &'a [u8]) -> Result<Self, RecordError> {
        let (header, mut rest) =
            bytes.split_at_checked(HEADER_BYTES).ok_or(RecordError::Truncated)?;
        match header[0] {
            // Every version stays readable: a new version gets its own arm here, and the older arms
            // convert their bytes to it.
            1 => {}
            newer => return Err(RecordError::UnknownVersion(newer)),
        }
        let checksum = u32::from_le_bytes([header[1], header[2], header[3], header[4]]);
        if crc32fast::hash(&bytes[5..]) != checksum {
            return Err(RecordError::Checksum);
        }
        let raw_key_id = take(&mut rest, 2)?;
        let parts = take(&mut rest, 4)?;
        let raw = take(&mut rest, 4)?;
        let raw_key_id = std::str::from_utf8(raw_key_id).map_err(|_| RecordError::Truncated)?;
        if rest.is_empty() {
            Ok(Self { kind: header[5], raw_key_id, parts, raw })
        } else {
            Err(RecordError::Truncated)
        }
    }
}

/// Removes a length of `width` bytes and the part of that length from the front.
fn take<'a>(rest: &mut &'a [u8], width: usize) -> Result<&'a [u8], RecordError> {
    let (length, after) = rest.split_at_checked(width).ok_or(RecordError::Truncated)?;
    let length = length.iter().rev().fold(0_usize, |sum, byte| (sum << 8) | usize::from(*byte));
    let (part, after) = after.split_at_checked(length).ok_or(RecordError::Truncated)?;
    *rest = after;
    Ok(part)
}

/// Decodes the parts of a kind. Errors: `UnknownWord`, `Parts`.
pub(super) fn decode_parts<'a, T: Decode<'a, ()>>(parts: &'a [u8]) -> Result<T, RecordError> {
    minicbor::decode(parts).map_err(|error| match error.is_unknown_variant() {
        true => RecordError::UnknownWord(error.to_string()),
        false => RecordError::Parts(error.to_string()),
    })
}

/// Encodes an envelope with these parts and raw bytes.
pub(super) fn encode<T: Encode<()>>(kind: u8, parts: &T, raw_key_id: &str, raw: &[u8]) -> Vec<u8> {
    encode_with(kind, parts, (raw_key_id, raw.len()), |bytes| bytes.extend_from_slice(raw))
}

/// Encodes an envelope; `write_raw` appends the raw bytes, about `raw_bytes` of them.
pub(super) fn encode_with<T: Encode<()>>(
    kind: u8,
    parts: &T,
    (raw_key_id, raw_bytes): (&str, usize),
    write_raw: impl FnOnce(&mut Vec<u8>),
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(raw_bytes.saturating_add(400));
    bytes.extend_from_slice(&[ENVELOPE_VERSION, 0, 0, 0, 0, kind]);
    let key_id_length = u16::try_from(raw_key_id.len()).expect("a key id has at most 64 bytes");
    bytes.extend_from_slice(&key_id_length.to_le_bytes());
    bytes.extend_from_slice(raw_key_id.as_bytes());
    let length_at = bytes.len();
    bytes.extend_from_slice(&[0; 4]);
    let parts_at = bytes.len();
    minicbor::encode(parts, &mut bytes).expect("encoding into memory can't fail");
    let parts_length = u32::try_from(bytes[parts_at..].len()).expect("parts are some KiB");
    bytes[length_at..parts_at].copy_from_slice(&parts_length.to_le_bytes());
    let length_at = bytes.len();
    bytes.extend_from_slice(&[0; 4]);
    let raw_at = bytes.len();
    write_raw(&mut bytes);
    let raw_length = u32::try_from(bytes[raw_at..].len()).expect("a body is at most 1 MiB");
    bytes[length_at..raw_at].copy_from_slice(&raw_length.to_le_bytes());
    let checksum = crc32fast::hash(&bytes[5..]);
    bytes[1..5].copy_from_slice(&checksum.to_le_bytes());
    bytes
}
