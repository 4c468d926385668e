//! Owns the order row's encoding, the same on every engine: a version byte, then CBOR.
//! Invariant: an unknown version is never skipped and never guessed at.

use minicbor::Decode;
use payfold_schemas::order::Order;

use crate::EngineError;

const ROW_VERSION: u8 = 1;

/// Writes a row over what `row` held.
pub fn encode(order: &Order, row: &mut Vec<u8>) {
    row.clear();
    row.push(ROW_VERSION);
    minicbor::encode(order, row).expect("encoding into memory can't fail");
}

/// Reads the row of `key`: the whole order, or the part of it that `T` is. Errors: `Corrupt`.
pub fn decode<'r, T: Decode<'r, ()>>(key: &str, row: &'r [u8]) -> Result<T, EngineError> {
    match row.split_first() {
        Some((&ROW_VERSION, order)) => minicbor::decode(order).map_err(|error| {
            EngineError::Corrupt(format!("the row of {key} does not decode: {error}"))
        }),
        Some((version, _)) => Err(EngineError::Corrupt(format!(
            "the row of {key} has version {version}, this program reads {ROW_VERSION}: use the program that wrote it"
        ))),
        None => Err(EngineError::Corrupt(format!("the row of {key} is empty"))),
    }
}
