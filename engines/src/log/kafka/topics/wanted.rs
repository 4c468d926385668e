//! Owns what the topics are made with, and why.

use std::time::Duration;

use crate::EngineError;
use crate::log::Topic;
use crate::log::epoch::PARTITIONS_MAX;
use crate::log::kafka::settings::MESSAGE_BYTES_MAX;

/// What may be asked of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Footing {
    /// Three copies of everything, two of them in step before a message counts as durable.
    Production,
    /// As many copies as there are brokers: for development, where a lost log is no loss.
    Dev,
}

/// How missing topics are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicsWanted {
    /// Partitions of each topic; fixed for life.
    pub partitions: u32,
    /// Copies of each partition.
    pub replication: i32,
    /// How long `orders` is kept. Who subscribes has to come back within that time, or read the orders anew; the
    /// other topics are kept for ever.
    pub retention: Duration,
    /// What may be asked of the cluster.
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
                format!("kafka.partitions = {} is not 1 to {PARTITIONS_MAX}", self.partitions);
            return bad(text);
        }
        if self.retention.is_zero() {
            return bad(
                "kafka.retention_hours = 0: events would be gone before they are read".to_owned()
            );
        }
        match self.footing {
            Footing::Production if self.replication < 3 => bad(format!(
                "kafka.replication = {} is below 3: with fewer copies one broken disk can lose a payment; `dev = true` \
                 allows it for development",
                self.replication
            )),
            Footing::Dev if self.replication < 1 => {
                bad(format!("kafka.replication = {} is below 1", self.replication))
            }
            _ => Ok(()),
        }
    }

    /// How many copies have to be in step: one may be away.
    pub(super) fn in_step(&self) -> i32 {
        (self.replication - 1).clamp(1, 2)
    }

    /// A topic's settings.
    pub(super) fn settings(&self, topic: Topic) -> Vec<(&'static str, String)> {
        let retention = match kept(topic) {
            Kept::Forever => "-1".to_owned(),
            Kept::AWhile => self.retention.as_millis().to_string(),
        };
        let mut settings = vec![
            ("cleanup.policy", "delete".to_owned()),
            ("retention.ms", retention),
            ("retention.bytes", "-1".to_owned()),
        ];
        settings.extend(self.of_every_topic());
        settings
    }

    /// The settings of the compacted twin of `orders`.
    pub(super) fn settings_of_latest(&self) -> Vec<(&'static str, String)> {
        let mut settings =
            vec![("cleanup.policy", "compact".to_owned()), ("segment.ms", SEGMENT_MS.to_string())];
        settings.extend(self.of_every_topic());
        settings
    }

    fn of_every_topic(&self) -> [(&'static str, String); 5] {
        [
            ("min.insync.replicas", self.in_step().to_string()),
            ("unclean.leader.election.enable", "false".to_owned()),
            ("compression.type", "producer".to_owned()),
            ("message.timestamp.type", "CreateTime".to_owned()),
            ("max.message.bytes", MESSAGE_BYTES_MAX.to_string()),
        ]
    }
}

/// How long a message of the twin may lie in a segment that is not compacted yet because it is written to, ms.
const SEGMENT_MS: u64 = 24 * 3_600 * 1_000;

/// How long a topic is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kept {
    Forever,
    AWhile,
}

/// Facts, evidence and what people decided of findings are kept for ever; what is made from facts can be made again.
pub(super) fn kept(topic: Topic) -> Kept {
    match topic {
        Topic::Intake | Topic::Quarantine | Topic::Findings => Kept::Forever,
        Topic::Orders => Kept::AWhile,
    }
}
