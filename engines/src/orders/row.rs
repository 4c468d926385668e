//! Owns the encoding of order rows, the same for every engine: a version byte, then CBOR.
//! Invariant: a row of an unknown version is an error, never skipped or guessed.

use minicbor::Decode;
use payfold_schemas::order::Order;

use crate::EngineError;

const ROW_VERSION: u8 = 1;

/// Encodes an order into `row`, replacing its content.
pub fn encode(order: &Order, row: &mut Vec<u8>) {
    row.clear();
    row.push(ROW_VERSION);
    minicbor::encode(order, row).expect("encoding into memory can't fail");
}

/// Decodes the row of `key` as a whole order, or as the part of it that `T` has. Errors: `Corrupt`.
pub fn decode<'r, T: Decode<'r, ()>>(key: &str, row: &'r [u8]) -> Result<T, EngineError> {
    match row.split_first() {
        Some((&ROW_VERSION, order)) => minicbor::decode(order).map_err(|error| {
            EngineError::Corrupt(format!("the row of {key} does not decode: {error}"))
        }),
        Some((version, _)) => Err(EngineError::Corrupt(format!(
            "the row of {key} has version {version}, and this program reads {ROW_VERSION}: run the \
             payfold version that wrote it"
        ))),
        None => Err(EngineError::Corrupt(format!("the row of {key} is empty"))),
    }
}
