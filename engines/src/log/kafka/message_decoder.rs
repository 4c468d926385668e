//! Owns decoding a Kafka message into key, CloudEvents attributes, value and MAC. Invariant: the
//! marker that opens a topic (`marker`) is never delivered.

use payfold_schemas::record_mac::RecordMac;
use rdkafka::message::{BorrowedMessage, Headers, Message as _};

use super::layout::Layout;
use super::marker::{MARKER_TYPE, TYPE_HEADER};
use super::producer::client::MAC_HEADER;
use crate::EngineError;
use crate::log::{Authenticity, Delivered, DeliveredEvent};

/// Decodes a message of a topic in a log epoch; `None` for a marker. Errors: `Corrupt` if payfold
/// can't have written it.
pub(super) fn decode_message(
    layout: &Layout,
    epoch: u32,
    message: &BorrowedMessage<'_>,
) -> Result<Option<Delivered>, EngineError> {
    let position = layout.position(epoch, message.partition(), message.offset());
    let corrupt = |what: &str| {
        let topic = message.topic();
        EngineError::Corrupt(format!(
            "the message at {position} of {topic} {what}: another program writes to this topic; \
             take its write access away"
        ))
    };
    let (mut attributes, mut mac) = ([None, None, None], None);
    if let Some(headers) = message.headers() {
        for header in headers.iter() {
            let place = match header.key {
                "ce_id" => 0,
                TYPE_HEADER => 1,
                "ce_time" => 2,
                MAC_HEADER => {
                    mac = header.value.and_then(RecordMac::from_bytes);
                    continue;
                }
                _ => continue,
            };
            let text = header.value.and_then(|value| std::str::from_utf8(value).ok());
            attributes[place] = Some(text.ok_or_else(|| corrupt("has a header that is no text"))?);
        }
    }
    let event = match attributes {
        [_, Some(MARKER_TYPE), _] => return Ok(None),
        [None, None, None] => None,
        [Some(id), Some(kind), Some(time)] => {
            Some(DeliveredEvent { id: id.into(), kind: kind.into(), time: time.into() })
        }
        _ => return Err(corrupt("has some CloudEvents attributes and lacks others")),
    };
    let key = message.key().and_then(|key| std::str::from_utf8(key).ok());
    let key = key.ok_or_else(|| corrupt("has no key"))?.to_owned();
    let value = message.payload().ok_or_else(|| corrupt("has no value"))?.to_vec();
    Ok(Some(Delivered { position, key, event, value, authenticity: Authenticity::Unchecked(mac) }))
}
