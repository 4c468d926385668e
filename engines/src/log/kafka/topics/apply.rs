//! Owns making missing topics: first the topics, then their markers. Invariant: the first marker in
//! partition 0 of intake names the log, and every process reads it back before it writes any other
//! marker. So two processes at once agree on the log's id, and a second run continues where the
//! first one stopped.

use std::time::{Duration, Instant};

use rdkafka::admin::{AdminOptions, NewTopic, TopicReplication};
use rdkafka::error::RDKafkaErrorCode;

use super::cluster_state::{ClusterState, FirstMessage, TopicState};
use super::compacted_topic;
use super::expected::expected_topics;
use super::finding::Finding;
use super::inspection::{ANSWER_MAX, InspectionDepth, RETRY_PAUSE, admin, unreachable};
use super::marker_writer::{self, MarkerWrite};
use super::rules;
use super::step::TopicStep;
use super::wanted::TopicsWanted;
use crate::EngineError;
use crate::blocking::blocking;
use crate::log::Topic;
use crate::log::kafka::layout::Layout;
use crate::log::kafka::marker::Marker;
use crate::log::kafka::settings::KafkaSettings;

/// How long all brokers may take to know a new topic.
const KNOWN_MAX: Duration = Duration::from_secs(30);

/// Plans the steps that make what is missing. Errors: `Invalid` or `Corrupt` for a contradiction.
pub(super) fn plan(
    settings: &KafkaSettings,
    wanted: &TopicsWanted,
    seen: &ClusterState,
) -> Result<Vec<TopicStep>, EngineError> {
    let layout = &settings.layout();
    rules::check_consistent(layout, seen)?;
    let before = layout.epoch().checked_sub(1);
    if let Some(before) = before
        && !seen.markers().any(|(topic, epoch, ..)| (topic, epoch) == (Topic::Intake, before))
    {
        return Err(EngineError::Invalid(format!(
            "{} has no marker, so log epoch {} can't follow it: set kafka.epoch back, or check \
             that the prefix and the cluster are the right ones",
            layout.name(Topic::Intake, before),
            layout.epoch()
        )));
    }
    let mut steps = Vec::new();
    for (topic, epoch, name) in expected_topics(layout) {
        let Some(one) = seen.get(topic, epoch) else {
            let (partitions, replication) = (wanted.partitions, wanted.replication);
            let settings = wanted.settings(topic);
            steps.push(TopicStep::Make { name: name.clone(), partitions, replication, settings });
            let partitions = (0..partitions).filter_map(|one| i32::try_from(one).ok()).collect();
            steps.push(TopicStep::Mark { name, partitions });
            continue;
        };
        let empty = one.log_partitions().filter(|(_, first)| **first == FirstMessage::Nothing);
        let partitions: Vec<i32> = empty.map(|(partition, _)| partition).collect();
        if !partitions.is_empty() {
            steps.push(TopicStep::Mark { name, partitions });
        }
    }
    if settings.orders_latest {
        steps.extend(compacted_topic::missing_step(layout, wanted, seen));
    }
    let mut differing = rules::setting_findings(layout, wanted.footing, seen);
    if settings.orders_latest {
        differing.extend(compacted_topic::setting_findings(layout, wanted.footing, seen));
    }
    steps.extend(differing.into_iter().map(TopicStep::Leave));
    Ok(steps)
}

/// Runs the steps of `plan`; returns them.
pub(super) async fn apply(
    settings: &KafkaSettings,
    wanted: &TopicsWanted,
) -> Result<Vec<TopicStep>, EngineError> {
    let layout = settings.layout();
    let seen = ClusterState::read(settings, InspectionDepth::Settings).await?;
    let steps = plan(settings, wanted, &seen)?;
    refuse_unreadable_codec(&steps)?;
    make_topics(settings, &steps).await?;
    if steps.iter().any(|step| !matches!(step, TopicStep::Leave(_))) {
        let seen = await_topics(settings, &layout).await?;
        mark_partitions(settings, &layout, seen).await?;
    }
    Ok(steps)
}

/// Refuses to write a marker that the brokers would compress with a codec this program can't read:
/// a written message stays, and the topic's setting can still be changed. Errors: `Invalid` with
/// the finding.
fn refuse_unreadable_codec(steps: &[TopicStep]) -> Result<(), EngineError> {
    let marked = |finding: &Finding| {
        let subject = &finding.subject;
        let is_marked =
            |step: &TopicStep| matches!(step, TopicStep::Mark { name, .. } if name == subject);
        steps.iter().any(is_marked)
    };
    let refused = steps.iter().find_map(|step| match step {
        TopicStep::Leave(finding) if finding.is_codec() && marked(finding) => Some(finding),
        TopicStep::Leave(_) | TopicStep::Make { .. } | TopicStep::Mark { .. } => None,
    });
    refused.map_or(Ok(()), |finding| Err(EngineError::Invalid(finding.to_string())))
}

/// Makes the missing topics. Errors: `Invalid` with Kafka's reason, `Unavailable`.
pub(super) async fn make_topics(
    settings: &KafkaSettings,
    steps: &[TopicStep],
) -> Result<(), EngineError> {
    let mut missing = Vec::new();
    for step in steps {
        if let TopicStep::Make { name, partitions, replication, settings } = step {
            let partitions = i32::try_from(*partitions).expect("it was checked to fit 16 bits");
            let replication = TopicReplication::Fixed(*replication);
            let mut topic = NewTopic::new(name, partitions, replication);
            for (key, value) in settings {
                topic = topic.set(key, value);
            }
            missing.push(topic);
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let admin = admin(settings)?;
    let options =
        AdminOptions::new().request_timeout(Some(ANSWER_MAX)).operation_timeout(Some(ANSWER_MAX));
    let answers = admin
        .create_topics(&missing, &options)
        .await
        .map_err(|error| unreachable(&error, admin.inner().context()))?;
    for answer in answers {
        match answer {
            // Another process made it meanwhile; the topics are read again after this.
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((name, RDKafkaErrorCode::InvalidReplicationFactor)) => {
                return Err(EngineError::Invalid(format!(
                    "{name} can't be made: kafka.replication is higher than the number of brokers; \
                     lower it or add brokers"
                )));
            }
            Err((name, code)) => {
                return Err(EngineError::Invalid(format!("{name} can't be made: {code}")));
            }
        }
    }
    Ok(())
}

/// Waits until the brokers know all topics. Errors: `Unavailable` after `KNOWN_MAX`.
pub(super) async fn await_topics(
    settings: &KafkaSettings,
    layout: &Layout,
) -> Result<ClusterState, EngineError> {
    let deadline = Instant::now() + KNOWN_MAX;
    loop {
        let state = ClusterState::read(settings, InspectionDepth::Markers).await;
        let late = Instant::now() >= deadline;
        match state {
            Ok(seen) => {
                let all = expected_topics(layout);
                let lacks =
                    |one: Option<&TopicState>| one.is_none_or(|one| one.partitions.is_empty());
                let missing = all.iter().find(|(topic, epoch, _)| lacks(seen.get(*topic, *epoch)));
                let latest = (settings.orders_latest && lacks(seen.latest.as_ref()))
                    .then(|| layout.latest());
                match missing.map(|(_, _, name)| name.clone()).or(latest) {
                    None => return Ok(seen),
                    Some(name) if late => {
                        let text = format!(
                            "{name} was made, but the brokers don't know it yet; retry later"
                        );
                        return Err(EngineError::Unavailable(text));
                    }
                    Some(_) => {}
                }
            }
            Err(EngineError::Unavailable(_)) if !late => {}
            Err(error) => return Err(error),
        }
        blocking(|| {
            std::thread::sleep(RETRY_PAUSE);
            Ok(())
        })
        .await?;
    }
}

/// Writes markers into empty partitions, first the one that names the log.
async fn mark_partitions(
    settings: &KafkaSettings,
    layout: &Layout,
    mut seen: ClusterState,
) -> Result<(), EngineError> {
    rules::check_consistent(layout, &seen)?;
    let first_epoch = *layout.epochs(Topic::Intake).start();
    let log_id = match rules::log_id(&seen)? {
        Some(id) => id,
        None => {
            let partitions = seen.get(Topic::Intake, first_epoch).map_or(0, TopicState::made_with);
            let marker = marker(new_log_id()?, Topic::Intake, first_epoch, partitions);
            let name = layout.name(Topic::Intake, first_epoch);
            marker_writer::write_markers(
                settings,
                vec![MarkerWrite { name, partition: 0, marker }],
            )
            .await?;
            // Another process may have written the first marker; the log has the id of that one.
            seen = ClusterState::read(settings, InspectionDepth::Markers).await?;
            rules::check_consistent(layout, &seen)?;
            rules::log_id(&seen)?.ok_or_else(|| {
                EngineError::Unavailable("the marker just written can't be read yet".to_owned())
            })?
        }
    };
    let mut marks = Vec::new();
    for (topic, epoch, name) in expected_topics(layout) {
        let Some(one) = seen.get(topic, epoch) else { continue };
        for (partition, first) in one.log_partitions() {
            if *first == FirstMessage::Nothing {
                let marker = marker(log_id, topic, epoch, one.made_with());
                marks.push(MarkerWrite { name: name.clone(), partition, marker });
            }
        }
    }
    marker_writer::write_markers(settings, marks).await
}

fn marker(log_id: [u8; 16], topic: Topic, epoch: u32, partitions: u32) -> Marker {
    Marker { log_id, topic: topic.name().to_owned(), epoch, partitions }
}

/// Makes a random log id with SQLite's generator, as the SQLite log does; SQLite seeds it from the
/// operating system.
fn new_log_id() -> Result<[u8; 16], EngineError> {
    rusqlite::Connection::open_in_memory()
        .and_then(|connection| connection.query_row("SELECT randomblob(16)", [], |row| row.get(0)))
        .map_err(crate::sqlite::seam_error)
}
