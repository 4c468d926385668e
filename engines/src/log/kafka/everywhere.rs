//! Owns the appending of one message to every partition of a topic that is appended to, on a client of its own: the
//! producer goes by keys.
//! Invariant: told only when every in-sync replica of every partition has it.

use std::time::{Duration, Instant};

use payfold_schemas::record::Position;

use super::layout::Layout;
use super::producer::client::{Factory, Outgoing};
use super::settings::KafkaSettings;
use crate::EngineError;
use crate::blocking::blocking;
use crate::log::epoch::{broker_number, epoch_of};
use crate::log::{Message, Topic};

/// How long it may take: longer than a message may, for a new client has to find every leader first.
const WRITE_MAX: Duration = Duration::from_secs(20);

/// Between two looks whether it is durable.
const BEAT: Duration = Duration::from_millis(2);

/// Appends to these partitions, those of the last epoch among them.
pub(super) async fn append(
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
    let client = Factory::new(settings, None).make()?;
    let failed = |what: &dyn std::fmt::Display| {
        let reason = client.last_word().map(|reason| format!(" ({reason})")).unwrap_or_default();
        EngineError::Unavailable(format!(
            "{name} did not take a message everywhere: {what}{reason}"
        ))
    };
    for (place, partition) in numbers.iter().enumerate() {
        let outgoing = Outgoing::message((name, *partition), message);
        client.send(outgoing, place).map_err(|code| failed(&code))?;
    }
    let deadline = Instant::now() + WRITE_MAX + Duration::from_secs(2);
    let (mut appended, mut fates) = (Vec::with_capacity(numbers.len()), Vec::new());
    while appended.len() < numbers.len() {
        client.collect(&mut fates);
        for (_, fate) in fates.drain(..) {
            appended.push(fate.map_err(|code| failed(&code))?);
        }
        if appended.len() < numbers.len() && Instant::now() > deadline {
            return Err(failed(&"no acknowledgement"));
        }
        std::thread::sleep(BEAT);
    }
    Ok(appended)
}
