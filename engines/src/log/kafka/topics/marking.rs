//! Owns the writing of markers: durable on all replicas before it is told.

use std::time::{Duration, Instant};

use crate::EngineError;
use crate::blocking::blocking;
use crate::log::kafka::marker::{MARKER_TYPE, Marker};
use crate::log::kafka::producer::client::{Factory, Outgoing, cloud_event};
use crate::log::kafka::settings::KafkaSettings;

/// How long writing them may take: longer than a message may, because a new topic's leaders may not be known.
const WRITE_MAX: Duration = Duration::from_secs(20);

/// The key of every marker. Topics that are compacted, which is found fault with, take no message without one.
const KEY: &str = "payfold";

/// Between two looks whether they are written.
const BEAT: Duration = Duration::from_millis(2);

/// A marker and where it goes.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) name: String,
    pub(super) partition: i32,
    pub(super) marker: Marker,
}

/// Writes markers. Errors: `Unavailable` if one is not durable; others may be.
pub(super) async fn write(settings: &KafkaSettings, marks: Vec<Mark>) -> Result<(), EngineError> {
    if marks.is_empty() {
        return Ok(());
    }
    let settings = KafkaSettings { delivery_timeout: WRITE_MAX, ..settings.clone() };
    blocking(move || write_blocking(&settings, &marks)).await
}

fn write_blocking(settings: &KafkaSettings, marks: &[Mark]) -> Result<(), EngineError> {
    let client = Factory::new(settings, None).make()?;
    let failed = |mark: &Mark, what: &dyn std::fmt::Display| {
        let (name, partition) = (&mark.name, mark.partition);
        let reason = client.last_word().map(|reason| format!(" ({reason})")).unwrap_or_default();
        EngineError::Unavailable(format!(
            "the marker of {name} [{partition}] was not written: {what}{reason}"
        ))
    };
    for (number, mark) in marks.iter().enumerate() {
        let Marker { log_id, topic, epoch, .. } = &mark.marker;
        let id = format!("{}/{topic}/{epoch}/{}", hex::encode(log_id), mark.partition);
        let value = mark.marker.encode();
        let outgoing = Outgoing {
            topic: &mark.name,
            partition: mark.partition,
            key: Some(KEY),
            headers: Some(cloud_event(&id, MARKER_TYPE, None)),
            value: &value,
        };
        client.send(outgoing, number).map_err(|code| failed(mark, &code))?;
    }
    let deadline = Instant::now() + WRITE_MAX + Duration::from_secs(2);
    let (mut left, mut fates) = (marks.len(), Vec::new());
    while left > 0 {
        client.collect(&mut fates);
        for (number, fate) in fates.drain(..) {
            fate.map_err(|code| failed(&marks[number], &code))?;
            left -= 1;
        }
        if left > 0 && Instant::now() > deadline {
            return Err(failed(&marks[0], &"no acknowledgement"));
        }
        std::thread::sleep(BEAT);
    }
    Ok(())
}
