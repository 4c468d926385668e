//! Owns decoding a Kafka message into key, CloudEvents attributes, value and MAC. Invariants: the
//! marker that opens a topic (`marker`) is never delivered; every other message is, also one that
//! payfold can't have written, so that it fails for itself and not its whole topic.

use payfold_schemas::record_mac::RecordMac;
use rdkafka::message::{BorrowedMessage, Headers, Message as _};

use super::layout::Layout;
use super::marker::{MARKER_TYPE, TYPE_HEADER};
use super::producer::client::MAC_HEADER;
use crate::log::{Authenticity, Delivered, DeliveredEvent};

/// Decodes a message of a topic in a log epoch; `None` for a marker. What is no text or is missing
/// is empty: such a message has no fitting MAC, is no record and no event.
pub(super) fn decode_message(
    layout: &Layout,
    epoch: u32,
    message: &BorrowedMessage<'_>,
) -> Option<Delivered> {
    let position = layout.position(epoch, message.partition(), message.offset());
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
            attributes[place] = header.value.and_then(|value| std::str::from_utf8(value).ok());
        }
    }
    let event = match attributes {
        [_, Some(MARKER_TYPE), _] => return None,
        [Some(id), Some(kind), Some(time)] => {
            Some(DeliveredEvent { id: id.into(), kind: kind.into(), time: time.into() })
        }
        _ => None,
    };
    let key = message.key().and_then(|key| std::str::from_utf8(key).ok()).unwrap_or_default();
    let value = message.payload().unwrap_or_default().to_vec();
    let authenticity = Authenticity::Unchecked(mac);
    Some(Delivered { position, key: key.to_owned(), event, value, authenticity })
}
