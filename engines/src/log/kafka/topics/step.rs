//! Owns the steps of `payfold topics apply`.

use std::fmt;

use super::finding::Finding;

/// One step that `apply` does, or would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TopicStep {
    /// Makes a topic.
    Make {
        /// Kafka's name of the topic.
        name: String,
        /// How many partitions it gets.
        partitions: u32,
        /// How many replicas each partition gets.
        replication: i32,
        /// Its settings.
        settings: Vec<(&'static str, String)>,
    },
    /// Writes the marker into the partitions that are empty.
    Mark {
        /// Kafka's name of the topic.
        name: String,
        /// Kafka's numbers of the partitions.
        partitions: Vec<i32>,
    },
    /// Leaves a wrong setting as it is, because only a person may alter an existing topic.
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
