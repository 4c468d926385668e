//! Owns what becomes of an event of `findings` that no role of this system wrote. It is passed
//! over: the findings, decisions and days that roles wrote count without it, so nothing is lost.

use payfold_engines::log::Delivered;

/// The data of an event; `None`, with an ERROR line, if no role of this system wrote it.
pub(crate) fn value_of(event: &Delivered) -> Option<&[u8]> {
    event
        .authentic_value()
        .inspect_err(|problem| {
            tracing::error!(
                position = %event.position,
                key = event.key,
                "an event of findings is passed over: {problem}. Find out which program may write \
                 the topic, take that access away, and follow docs/how-to/corrupt.md, \"A record \
                 is not authentic\""
            );
        })
        .ok()
}
