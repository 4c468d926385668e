//! Owns how missing topics come to be: made first, marked then.
//! Invariant: whoever marks partition 0 of intake first names the log; everybody reads that back before they
//! mark anything else. So two at once agree, and a second run goes on where the first was cut short.

use std::time::{Duration, Instant};

use rdkafka::admin::{AdminOptions, NewTopic, TopicReplication};
use rdkafka::error::RDKafkaErrorCode;

use super::TopicStep;
use super::look::{ANSWER_MAX, Depth, LOOK_AGAIN, admin, unreachable};
use super::marking::{self, Mark};
use super::rules::{self, Finding};
use super::seen::{First, Seen, SeenTopic};
use super::twin;
use super::wanted::TopicsWanted;
use crate::EngineError;
use crate::blocking::blocking;
use crate::log::Topic;
use crate::log::kafka::layout::Layout;
use crate::log::kafka::marker::Marker;
use crate::log::kafka::settings::KafkaSettings;

/// How long a new topic may take until all brokers know it.
const KNOWN_MAX: Duration = Duration::from_secs(30);

/// What is missing. Errors: `Invalid` or `Corrupt` for what contradicts.
pub(super) fn plan(
    settings: &KafkaSettings,
    wanted: &TopicsWanted,
    seen: &Seen,
) -> Result<Vec<TopicStep>, EngineError> {
    let layout = &settings.layout();
    rules::contradicting(layout, seen)?;
    let before = layout.epoch().checked_sub(1);
    if let Some(before) = before
        && !seen.markers().any(|(topic, epoch, ..)| (topic, epoch) == (Topic::Intake, before))
    {
        return Err(EngineError::Invalid(format!(
            "{} has no marker, so epoch {} can't come after it: set kafka.epoch back, or look whether the prefix \
             and the cluster are the right ones",
            layout.name(Topic::Intake, before),
            layout.epoch()
        )));
    }
    let mut steps = Vec::new();
    for (topic, epoch, name) in rules::expected(layout) {
        let Some(one) = seen.get(topic, epoch) else {
            let (partitions, replication) = (wanted.partitions, wanted.replication);
            let settings = wanted.settings(topic);
            steps.push(TopicStep::Make { name: name.clone(), partitions, replication, settings });
            let partitions = (0..partitions).filter_map(|one| i32::try_from(one).ok()).collect();
            steps.push(TopicStep::Mark { name, partitions });
            continue;
        };
        let empty = one.of_log().filter(|(_, first)| **first == First::Nothing);
        let partitions: Vec<i32> = empty.map(|(partition, _)| partition).collect();
        if !partitions.is_empty() {
            steps.push(TopicStep::Mark { name, partitions });
        }
    }
    if settings.orders_latest {
        steps.extend(twin::missing(layout, wanted, seen));
    }
    let mut differing = rules::differing(layout, wanted.footing, seen);
    if settings.orders_latest {
        differing.extend(twin::differing(layout, wanted.footing, seen));
    }
    steps.extend(differing.into_iter().map(TopicStep::Leave));
    Ok(steps)
}

/// Does what `plan` says. Returns it.
pub(super) async fn apply(
    settings: &KafkaSettings,
    wanted: &TopicsWanted,
) -> Result<Vec<TopicStep>, EngineError> {
    let layout = settings.layout();
    let seen = Seen::look(settings, Depth::Settings).await?;
    let steps = plan(settings, wanted, &seen)?;
    refuse_unreadable(&steps)?;
    make(settings, &steps).await?;
    if steps.iter().any(|step| !matches!(step, TopicStep::Leave(_))) {
        let seen = known(settings, &layout).await?;
        mark(settings, &layout, seen).await?;
    }
    Ok(steps)
}

/// Refuses to mark a topic whose brokers would pack the marker so that nobody here can read it: that can't be taken
/// back, and its setting still can. Errors: `Invalid` with the finding.
fn refuse_unreadable(steps: &[TopicStep]) -> Result<(), EngineError> {
    let marked = |finding: &Finding| {
        let of = |step: &TopicStep| matches!(step, TopicStep::Mark { name, .. } if *name == finding.subject);
        steps.iter().any(of)
    };
    let refused = steps.iter().find_map(|step| match step {
        TopicStep::Leave(finding) if finding.is_codec() && marked(finding) => Some(finding),
        TopicStep::Leave(_) | TopicStep::Make { .. } | TopicStep::Mark { .. } => None,
    });
    refused.map_or(Ok(()), |finding| Err(EngineError::Invalid(finding.to_string())))
}

pub(super) async fn make(settings: &KafkaSettings, steps: &[TopicStep]) -> Result<(), EngineError> {
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
            // Somebody made it meanwhile; the look after this tells how.
            Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
            Err((name, RDKafkaErrorCode::InvalidReplicationFactor)) => {
                return Err(EngineError::Invalid(format!(
                    "{name} can't be made: kafka.replication asks for more copies than there are brokers"
                )));
            }
            Err((name, code)) => {
                return Err(EngineError::Invalid(format!("{name} can't be made: {code}")));
            }
        }
    }
    Ok(())
}

/// Waits until all topics are known and can be read.
pub(super) async fn known(settings: &KafkaSettings, layout: &Layout) -> Result<Seen, EngineError> {
    let deadline = Instant::now() + KNOWN_MAX;
    loop {
        let looked = Seen::look(settings, Depth::Markers).await;
        let late = Instant::now() >= deadline;
        match looked {
            Ok(seen) => {
                let all = rules::expected(layout);
                let lacks =
                    |one: Option<&SeenTopic>| one.is_none_or(|one| one.partitions.is_empty());
                let missing = all.iter().find(|(topic, epoch, _)| lacks(seen.get(*topic, *epoch)));
                let twin = (settings.orders_latest && lacks(seen.latest.as_ref()))
                    .then(|| layout.latest());
                match missing.map(|(_, _, name)| name.clone()).or(twin) {
                    None => return Ok(seen),
                    Some(name) if late => {
                        let text = format!("{name} was made and is not known to the brokers yet");
                        return Err(EngineError::Unavailable(text));
                    }
                    Some(_) => {}
                }
            }
            Err(EngineError::Unavailable(_)) if !late => {}
            Err(error) => return Err(error),
        }
        blocking(|| {
            std::thread::sleep(LOOK_AGAIN);
            Ok(())
        })
        .await?;
    }
}

/// Marks what is empty: the partition that names the log first.
async fn mark(
    settings: &KafkaSettings,
    layout: &Layout,
    mut seen: Seen,
) -> Result<(), EngineError> {
    rules::contradicting(layout, &seen)?;
    let first_epoch = *layout.epochs(Topic::Intake).start();
    let log_id = match rules::log_id(&seen)? {
        Some(id) => id,
        None => {
            let partitions = seen.get(Topic::Intake, first_epoch).map_or(0, SeenTopic::made_with);
            let marker = marker(new_log_id()?, Topic::Intake, first_epoch, partitions);
            let name = layout.name(Topic::Intake, first_epoch);
            marking::write(settings, vec![Mark { name, partition: 0, marker }]).await?;
            // Another one may have been first.
            seen = Seen::look(settings, Depth::Markers).await?;
            rules::contradicting(layout, &seen)?;
            rules::log_id(&seen)?.ok_or_else(|| {
                EngineError::Unavailable("the marker just written can't be read yet".to_owned())
            })?
        }
    };
    let mut marks = Vec::new();
    for (topic, epoch, name) in rules::expected(layout) {
        let Some(one) = seen.get(topic, epoch) else { continue };
        for (partition, first) in one.of_log() {
            if *first == First::Nothing {
                let marker = marker(log_id, topic, epoch, one.made_with());
                marks.push(Mark { name: name.clone(), partition, marker });
            }
        }
    }
    marking::write(settings, marks).await
}

fn marker(log_id: [u8; 16], topic: Topic, epoch: u32, partitions: u32) -> Marker {
    Marker { log_id, topic: topic.name().to_owned(), epoch, partitions }
}

/// As the embedded log does: SQLite seeds its generator from the system's.
fn new_log_id() -> Result<[u8; 16], EngineError> {
    rusqlite::Connection::open_in_memory()
        .and_then(|connection| connection.query_row("SELECT randomblob(16)", [], |row| row.get(0)))
        .map_err(crate::sqlite::seam_error)
}
