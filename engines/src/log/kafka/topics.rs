//! Owns making and checking the log's topics in Kafka. Invariants: an existing topic is never
//! altered, only reported; every partition starts with a marker of the same log, also when several
//! processes make the topics at once or a process dies half way.

mod added_partitions;
mod apply;
mod cluster_state;
mod compacted_topic;
mod expected;
mod finding;
mod inspection;
mod marker_writer;
mod rules;
mod step;
#[cfg(test)]
mod tests;
mod wanted;

use self::cluster_state::{ClusterState, TopicState};
pub use self::finding::{Finding, Severity};
#[cfg(test)]
pub(super) use self::inspection::admin;
pub use self::step::TopicStep;
pub use self::wanted::{Footing, TopicsWanted};
use super::partitioner::PartitionCounts;
use super::settings::KafkaSettings;
use crate::EngineError;
use crate::log::Topic;
use crate::log::epoch::partition_of;

/// Returns what `apply` would do now. Errors: `Invalid` for topics that can't be made as wanted,
/// `Corrupt` for topics that contradict each other, `Unavailable`.
pub async fn plan(
    settings: &KafkaSettings,
    wanted: &TopicsWanted,
) -> Result<Vec<TopicStep>, EngineError> {
    wanted.check()?;
    let seen = ClusterState::read(settings, inspection::InspectionDepth::Settings).await?;
    apply::plan(settings, wanted, &seen)
}

/// Makes missing topics and markers; returns what it did. It is idempotent, and safe to run twice
/// at once. Errors: as `plan`; finished steps stay.
pub async fn apply(
    settings: &KafkaSettings,
    wanted: &TopicsWanted,
) -> Result<Vec<TopicStep>, EngineError> {
    wanted.check()?;
    apply::apply(settings, wanted).await
}

/// Checks topics, their settings and markers; returns everything that is wrong. Errors:
/// `Unavailable`, `Invalid` for settings that librdkafka refuses.
pub async fn check(
    settings: &KafkaSettings,
    footing: Footing,
) -> Result<Vec<Finding>, EngineError> {
    let seen = ClusterState::read(settings, inspection::InspectionDepth::Settings).await?;
    let layout = settings.layout();
    let mut found = rules::findings(&layout, footing, &seen);
    if settings.orders_latest {
        found.extend(compacted_topic::findings(&layout, footing, &seen));
    }
    Ok(found)
}

/// Checks that the topic of the compacted copy of `orders` can be written. Errors: `Invalid` with
/// what is wrong, `Unavailable`.
pub(super) async fn check_compacted_topic(settings: &KafkaSettings) -> Result<(), EngineError> {
    let seen = ClusterState::read(settings, inspection::InspectionDepth::Settings).await?;
    let found = compacted_topic::findings(&settings.layout(), Footing::Dev, &seen);
    let is_in_the_way = |one: &&Finding| seen.latest.is_none() || one.severity == Severity::Refuse;
    match found.iter().find(is_in_the_way) {
        Some(finding) => Err(EngineError::Invalid(finding.to_string())),
        None => Ok(()),
    }
}

/// The log's id and partitions, as read from its topics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OpenedTopics {
    /// The random id that the log got when its topics were made.
    pub(super) log_id: [u8; 16],
    /// The partitions of each topic over all log epochs, in the order of `Topic::ALL`.
    partitions: [Vec<u32>; Topic::ALL.len()],
    /// How many partitions each topic has in its newest log epoch.
    pub(super) counts: PartitionCounts,
}

impl OpenedTopics {
    /// The partitions of a topic, oldest log epoch first.
    pub(super) fn partitions(&self, topic: Topic) -> &[u32] {
        &self.partitions[topic.index()]
    }
}

/// Reads the log's partitions and checks that all belong to one log. Errors: `Invalid` with the
/// first thing that is missing, `Corrupt` for a contradiction, `Unavailable`.
pub(super) async fn open_topics(settings: &KafkaSettings) -> Result<OpenedTopics, EngineError> {
    let seen = ClusterState::read(settings, inspection::InspectionDepth::Markers).await?;
    let layout = settings.layout();
    rules::check_openable(&layout, &seen)?;
    let log_id = rules::log_id(&seen)?.ok_or_else(|| {
        EngineError::Invalid("no topic has a marker: run `payfold topics apply`".to_owned())
    })?;
    let partitions = Topic::ALL.map(|topic| {
        let of = |epoch| {
            let topic = seen.get(topic, epoch);
            topic.into_iter().flat_map(TopicState::log_partitions).map(|(partition, _)| partition)
        };
        let epochs = layout.epochs(topic);
        epochs
            .flat_map(|epoch| of(epoch).map(|kafka| (epoch, kafka)).collect::<Vec<_>>())
            .map(|(epoch, kafka)| partition_of(epoch, kafka))
            .collect()
    });
    let counts = Topic::ALL
        .map(|topic| seen.get(topic, *layout.epochs(topic).end()).map_or(1, TopicState::made_with));
    added_partitions::log_added_partitions(&layout, &seen);
    Ok(OpenedTopics { log_id, partitions, counts: PartitionCounts::new(counts) })
}
