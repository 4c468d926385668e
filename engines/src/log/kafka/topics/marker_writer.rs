//! Owns writing markers. Invariant: it returns only when all in-sync replicas have them.

use std::time::{Duration, Instant};

use crate::EngineError;
use crate::blocking::blocking;
use crate::log::kafka::marker::{MARKER_TYPE, Marker};
use crate::log::kafka::producer::client::{ClientFactory, OutgoingMessage, cloud_event};
use crate::log::kafka::settings::KafkaSettings;

/// How long writing may take. It is longer than the delivery timeout, because a new topic's leaders
/// may not be known yet.
const WRITE_MAX: Duration = Duration::from_secs(20);

/// The key of every marker. A compacted topic, which `check` reports, accepts no message without a
/// key.
const KEY: &str = "payfold";

/// The pause between two polls for outcomes.
const TICK: Duration = Duration::from_millis(2);

/// A marker to write, and its partition.
#[derive(Clone, Debug)]
pub(super) struct MarkerWrite {
    pub(super) name: String,
    pub(super) partition: i32,
    pub(super) marker: Marker,
}

/// Writes markers. Errors: `Unavailable` if one is not durable; others may be.
pub(super) async fn write_markers(
    settings: &KafkaSettings,
    marks: Vec<MarkerWrite>,
) -> Result<(), EngineError> {
    if marks.is_empty() {
        return Ok(());
    }
    let settings = KafkaSettings { delivery_timeout: WRITE_MAX, ..settings.clone() };
    blocking(move || write_blocking(&settings, &marks)).await
}

fn write_blocking(settings: &KafkaSettings, marks: &[MarkerWrite]) -> Result<(), EngineError> {
    let client = ClientFactory::new(settings, None).make_client()?;
    let failed = |mark: &MarkerWrite, what: &dyn std::fmt::Display| {
        let (name, partition) = (&mark.name, mark.partition);
        let reason = client.last_error().map(|reason| format!(" ({reason})")).unwrap_or_default();
        EngineError::Unavailable(format!(
            "the marker of partition {partition} of {name} was not written: {what}{reason}"
        ))
    };
    for (number, mark) in marks.iter().enumerate() {
        let Marker { log_id, topic, epoch, .. } = &mark.marker;
        let id = format!("{}/{topic}/{epoch}/{}", hex::encode(log_id), mark.partition);
        let value = mark.marker.encode();
        let outgoing = OutgoingMessage {
            topic: &mark.name,
            partition: mark.partition,
            key: Some(KEY),
            headers: Some(cloud_event(&id, MARKER_TYPE, None)),
            value: &value,
        };
        client.send(outgoing, number).map_err(|code| failed(mark, &code))?;
    }
    let deadline = Instant::now() + WRITE_MAX + Duration::from_secs(2);
    let (mut left, mut outcomes) = (marks.len(), Vec::new());
    while left > 0 {
        client.collect_outcomes(&mut outcomes);
        for (number, outcome) in outcomes.drain(..) {
            outcome.map_err(|code| failed(&marks[number], &code))?;
            left -= 1;
        }
        if left > 0 && Instant::now() > deadline {
            return Err(failed(&marks[0], &"no acknowledgement"));
        }
        std::thread::sleep(TICK);
    }
    Ok(())
}
