//! Owns the settings that topics are made with.

use std::time::Duration;

use crate::EngineError;
use crate::log::Topic;
use crate::log::epoch::PARTITIONS_MAX;
use crate::log::kafka::settings::MESSAGE_BYTES_MAX;

/// The kind of cluster, which decides how much replication is required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Footing {
    /// At least three replicas, two of them in sync before a message counts as durable.
    Production,
    /// Any number of replicas, for development, where the log may be lost.
    Dev,
}

/// What missing topics are made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicsWanted {
    /// Partitions of each topic. The number of an existing topic can't be changed.
    pub partitions: u32,
    /// Replicas of each partition.
    pub replication: i32,
    /// The retention of `orders`. A subscriber that is away for longer has to read the orders from
    /// the start. The other topics are kept for ever.
    pub retention: Duration,
    /// The kind of cluster.
    pub footing: Footing,
}

impl Default for TopicsWanted {
    fn default() -> Self {
        let retention = Duration::from_secs(7 * 24 * 3_600);
        Self { partitions: 8, replication: 3, retention, footing: Footing::Production }
    }
}

impl TopicsWanted {
    pub(super) fn check(&self) -> Result<(), EngineError> {
        let bad = |text: String| Err(EngineError::Invalid(text));
        if self.partitions == 0 || self.partitions > PARTITIONS_MAX {
            let text =
                format!("kafka.partitions = {}: set it to 1 to {PARTITIONS_MAX}", self.partitions);
            return bad(text);
        }
        if self.retention.is_zero() {
            return bad(
                "kafka.retention_hours = 0: events would be removed before they are read; set it \
                 to 1 or more"
                    .to_owned(),
            );
        }
        match self.footing {
            Footing::Production if self.replication < 3 => bad(format!(
                "kafka.replication = {} is below 3: with fewer replicas one broken disk can lose a \
                 payment; set it to 3, or `dev = true` for development",
                self.replication
            )),
            Footing::Dev if self.replication < 1 => {
                bad(format!("kafka.replication = {} is below 1", self.replication))
            }
            _ => Ok(()),
        }
    }

    /// How many replicas must be in sync, so that one broker may be away.
    pub(super) fn min_insync(&self) -> i32 {
        (self.replication - 1).clamp(1, 2)
    }

    /// A topic's settings.
    pub(super) fn settings(&self, topic: Topic) -> Vec<(&'static str, String)> {
        let retention = match retention_of(topic) {
            Retention::Forever => "-1".to_owned(),
            Retention::Limited => self.retention.as_millis().to_string(),
        };
        let mut settings = vec![
            ("cleanup.policy", "delete".to_owned()),
            ("retention.ms", retention),
            ("retention.bytes", "-1".to_owned()),
        ];
        settings.extend(self.of_every_topic());
        settings
    }

    /// The settings of the compacted copy of `orders`.
    pub(super) fn settings_of_latest(&self) -> Vec<(&'static str, String)> {
        let mut settings =
            vec![("cleanup.policy", "compact".to_owned()), ("segment.ms", SEGMENT_MS.to_string())];
        settings.extend(self.of_every_topic());
        settings
    }

    fn of_every_topic(&self) -> [(&'static str, String); 5] {
        [
            ("min.insync.replicas", self.min_insync().to_string()),
            ("unclean.leader.election.enable", "false".to_owned()),
            ("compression.type", "producer".to_owned()),
            ("message.timestamp.type", "CreateTime".to_owned()),
            ("max.message.bytes", MESSAGE_BYTES_MAX.to_string()),
        ]
    }
}

/// How long a segment of the compacted copy may be written to, ms. Kafka doesn't compact the
/// segment that is written to.
const SEGMENT_MS: u64 = 24 * 3_600 * 1_000;

/// How long a topic's messages are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retention {
    Forever,
    Limited,
}

/// Facts, evidence and decisions on findings are kept for ever. Orders can be folded from the facts
/// again, so their events have a limited retention.
pub(super) fn retention_of(topic: Topic) -> Retention {
    match topic {
        Topic::Intake | Topic::Quarantine | Topic::Findings => Retention::Forever,
        Topic::Orders => Retention::Limited,
    }
}
