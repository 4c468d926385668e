//! Owns appending one message to every current partition of a topic. It uses a client of its own,
//! because the producer chooses partitions by key. Invariant: it returns only when every in-sync
//! replica of every partition has the message.

use std::time::{Duration, Instant};

use payfold_schemas::position::Position;

use super::layout::Layout;
use super::producer::client::{ClientFactory, OutgoingMessage};
use super::settings::KafkaSettings;
use crate::EngineError;
use crate::blocking::blocking;
use crate::log::epoch::{broker_number, epoch_of};
use crate::log::{Message, Topic};

/// How long the append may take. It is longer than the delivery timeout, because a new client must
/// find every partition's leader first.
const WRITE_MAX: Duration = Duration::from_secs(20);

/// The pause between two polls for outcomes.
const TICK: Duration = Duration::from_millis(2);

/// Appends a message to those of these partitions that belong to the newest log epoch. Errors:
/// `Unavailable` if one is not durable; others may be.
pub(super) async fn append_to_partitions(
    settings: &KafkaSettings,
    layout: &Layout,
    (topic, partitions): (Topic, &[u32]),
    message: Message,
) -> Result<Vec<Position>, EngineError> {
    let epoch = partitions.iter().map(|one| epoch_of(*one)).max().unwrap_or(0);
    let last = partitions.iter().filter(|one| epoch_of(**one) == epoch);
    let numbers: Vec<i32> = last.map(|one| broker_number(*one)).collect();
    let settings = KafkaSettings { delivery_timeout: WRITE_MAX, ..settings.clone() };
    let name = layout.current(topic);
    let appended = blocking(move || append_blocking(&settings, &name, &numbers, &message)).await?;
    Ok(appended
        .into_iter()
        .map(|(partition, offset)| layout.position(epoch, partition, offset))
        .collect())
}

fn append_blocking(
    settings: &KafkaSettings,
    name: &str,
    numbers: &[i32],
    message: &Message,
) -> Result<Vec<(i32, i64)>, EngineError> {
    let client = ClientFactory::new(settings, None).make_client()?;
    let failed = |what: &dyn std::fmt::Display| {
        let reason = client.last_error().map(|reason| format!(" ({reason})")).unwrap_or_default();
        EngineError::Unavailable(format!(
            "a message was not appended to every partition of {name}: {what}{reason}; retry later"
        ))
    };
    for (place, partition) in numbers.iter().enumerate() {
        let outgoing = OutgoingMessage::message((name, *partition), message);
        client.send(outgoing, place).map_err(|code| failed(&code))?;
    }
    let deadline = Instant::now() + WRITE_MAX + Duration::from_secs(2);
    let (mut appended, mut outcomes) = (Vec::with_capacity(numbers.len()), Vec::new());
    while appended.len() < numbers.len() {
        client.collect_outcomes(&mut outcomes);
        for (_, outcome) in outcomes.drain(..) {
            appended.push(outcome.map_err(|code| failed(&code))?);
        }
        if appended.len() < numbers.len() && Instant::now() > deadline {
            return Err(failed(&"no acknowledgement"));
        }
        std::thread::sleep(TICK);
    }
    Ok(appended)
}
