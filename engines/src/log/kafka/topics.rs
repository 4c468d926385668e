//! Owns that the topics are there and as they must be: makes them, and says what is wrong with them.
//! Invariants: what exists is never altered, only told of; every partition begins with a marker of one and the
//! same log, whoever made it and however often the making was cut short.

mod added;
mod apply;
mod look;
mod marking;
mod rules;
mod seen;
#[cfg(test)]
mod tests;
mod twin;
mod wanted;

use std::fmt;

#[cfg(test)]
pub(super) use self::look::admin;
pub use self::rules::{Finding, Severity};
use self::seen::{Seen, SeenTopic};
pub use self::wanted::{Footing, TopicsWanted};
use super::partitioner::PartitionCounts;
use super::settings::KafkaSettings;
use crate::EngineError;
use crate::log::Topic;
use crate::log::epoch::partition_of;

/// What `apply` does, or would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicStep {
    /// Makes a topic.
    Make {
        /// Kafka's name of it.
        name: String,
        /// How many partitions.
        partitions: u32,
        /// How many copies of each.
        replication: i32,
        /// Its settings.
        settings: Vec<(&'static str, String)>,
    },
    /// Writes the marker into the partitions that are empty.
    Mark {
        /// Kafka's name of the topic.
        name: String,
        /// Which.
        partitions: Vec<i32>,
    },
    /// Leaves something as it is that should be different: only a person may alter a topic.
    Leave(Finding),
}

impl fmt::Display for TopicStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Make { name, partitions, replication, settings } => {
                write!(f, "make {name}: {partitions} partitions, replication {replication}")?;
                settings.iter().try_for_each(|(key, value)| write!(f, ", {key}={value}"))
            }
            Self::Mark { name, partitions } => {
                write!(f, "mark {name}: partitions {partitions:?}")
            }
            Self::Leave(finding) => write!(f, "leave {finding}"),
        }
    }
}

/// What `apply` would do now. Errors: `Invalid` for what can't be made so, `Corrupt` for topics that contradict
/// each other, `Unavailable`.
pub async fn plan(
    settings: &KafkaSettings,
    wanted: &TopicsWanted,
) -> Result<Vec<TopicStep>, EngineError> {
    wanted.check()?;
    let seen = Seen::look(settings, look::Depth::Settings).await?;
    apply::plan(settings, wanted, &seen)
}

/// Makes what is missing; returns what it did. Doing it again, or twice at once, does no harm.
/// Errors: as `plan`; what was done until then is not undone.
pub async fn apply(
    settings: &KafkaSettings,
    wanted: &TopicsWanted,
) -> Result<Vec<TopicStep>, EngineError> {
    wanted.check()?;
    apply::apply(settings, wanted).await
}

/// Looks at topics, settings and markers, and names all that is not as it must be; empty is good.
/// Errors: `Unavailable`, `Invalid` for settings the client refuses.
pub async fn check(
    settings: &KafkaSettings,
    footing: Footing,
) -> Result<Vec<Finding>, EngineError> {
    let seen = Seen::look(settings, look::Depth::Settings).await?;
    let layout = settings.layout();
    let mut found = rules::findings(&layout, footing, &seen);
    if settings.orders_latest {
        found.extend(twin::findings(&layout, footing, &seen));
    }
    Ok(found)
}

/// Whether the compacted twin of `orders` can be written. Errors: `Invalid` with what is wrong, `Unavailable`.
pub(super) async fn latest_is_there(settings: &KafkaSettings) -> Result<(), EngineError> {
    let seen = Seen::look(settings, look::Depth::Settings).await?;
    let found = twin::findings(&settings.layout(), Footing::Dev, &seen);
    let is_in_the_way = |one: &&Finding| seen.latest.is_none() || one.severity == Severity::Refuse;
    match found.iter().find(is_in_the_way) {
        Some(finding) => Err(EngineError::Invalid(finding.to_string())),
        None => Ok(()),
    }
}

/// What a log is opened with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Opened {
    /// The random id the log got when its topics were made.
    pub(super) log_id: [u8; 16],
    /// The partitions of the log, by topic in the order of `Topic::ALL`, over all epochs.
    partitions: [Vec<u32>; Topic::ALL.len()],
    /// How many partitions each topic has that is appended to.
    pub(super) counts: PartitionCounts,
}

impl Opened {
    /// The partitions of a topic, oldest epoch first.
    pub(super) fn partitions(&self, topic: Topic) -> &[u32] {
        &self.partitions[place(topic)]
    }
}

/// The topic's place in `Topic::ALL`.
fn place(topic: Topic) -> usize {
    Topic::ALL.iter().position(|one| *one == topic).expect("all topics are in `ALL`")
}

/// Reads which partitions there are, and that all are of one log. Errors: `Invalid` with the first thing that
/// is missing, `Corrupt` for a contradiction, `Unavailable`.
pub(super) async fn opened(settings: &KafkaSettings) -> Result<Opened, EngineError> {
    let seen = Seen::look(settings, look::Depth::Markers).await?;
    let layout = settings.layout();
    rules::refused(&layout, &seen)?;
    let log_id = rules::log_id(&seen)?.ok_or_else(|| {
        EngineError::Invalid("no topic has a marker: run `payfold topics apply`".to_owned())
    })?;
    let partitions = Topic::ALL.map(|topic| {
        let of = |epoch| {
            let topic = seen.get(topic, epoch);
            topic.into_iter().flat_map(SeenTopic::of_log).map(|(partition, _)| partition)
        };
        let epochs = layout.epochs(topic);
        epochs
            .flat_map(|epoch| of(epoch).map(|kafka| (epoch, kafka)).collect::<Vec<_>>())
            .map(|(epoch, kafka)| partition_of(epoch, kafka))
            .collect()
    });
    let counts = Topic::ALL
        .map(|topic| seen.get(topic, *layout.epochs(topic).end()).map_or(1, SeenTopic::made_with));
    added::log_added(&layout, &seen);
    Ok(Opened { log_id, partitions, counts: PartitionCounts::new(counts) })
}
