//! Owns the state of the log's topics as read from a cluster: their settings, the first message of
//! each partition, and which partitions belong to the log. Invariant: a partition that was added to
//! a topic after it was made doesn't belong to the log.

use std::collections::{BTreeMap, HashMap};

use crate::log::Topic;
use crate::log::kafka::marker::Marker;

/// The first message of a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum FirstMessage {
    /// The partition never held a message.
    Nothing,
    /// Messages before this offset were removed.
    Removed { until: i64 },
    /// A marker.
    Marker(Marker),
    /// A message that is no marker, and the beginning of its key.
    Other { key: String },
}

/// The state of one of the log's topics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TopicState {
    /// The first message of each partition, by Kafka's number.
    pub(super) partitions: BTreeMap<i32, FirstMessage>,
    /// The offset after the last message of each partition.
    pub(super) ends: BTreeMap<i32, i64>,
    /// The lowest number of replicas of a partition.
    pub(super) replication: usize,
    /// The topic's settings; `None` if they were not read.
    pub(super) settings: Option<HashMap<String, String>>,
}

impl TopicState {
    /// How many partitions the topic was made with, by its markers. If retention removed all
    /// markers, it counts the leading partitions with removed messages; in a topic that never had a
    /// marker, all partitions.
    pub(super) fn made_with(&self) -> u32 {
        let of_marker = self.partitions.iter().find_map(|(number, first)| match first {
            FirstMessage::Marker(marker) => {
                let is_of_it = u32::try_from(*number).is_ok_and(|one| one < marker.partitions);
                is_of_it.then_some(marker.partitions)
            }
            FirstMessage::Nothing | FirstMessage::Removed { .. } | FirstMessage::Other { .. } => {
                None
            }
        });
        let removed = |first: &&FirstMessage| matches!(first, FirstMessage::Removed { .. });
        let counted = match self.partitions.values().take_while(removed).count() {
            0 => self.partitions.len(),
            removed => removed,
        };
        of_marker.or(u32::try_from(counted).ok()).unwrap_or(u32::MAX)
    }

    /// The partitions that the topic was made with; they belong to the log.
    pub(super) fn log_partitions(&self) -> impl Iterator<Item = (i32, &FirstMessage)> {
        let made_with = i32::try_from(self.made_with()).unwrap_or(i32::MAX);
        self.partitions.range(..made_with).map(|(number, first)| (*number, first))
    }

    /// The partitions that were added since; payfold neither writes nor reads them.
    pub(super) fn added(&self) -> impl Iterator<Item = (i32, &FirstMessage)> {
        let made_with = i32::try_from(self.made_with()).unwrap_or(i32::MAX);
        self.partitions.range(made_with..).map(|(number, first)| (*number, first))
    }

    /// How many messages a partition holds.
    pub(super) fn message_count(&self, partition: i32) -> i64 {
        let end = self.ends.get(&partition).copied().unwrap_or(0);
        match self.partitions.get(&partition) {
            Some(FirstMessage::Removed { until }) => end.saturating_sub(*until),
            _ => end,
        }
    }
}

/// The state of the log's topics in a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ClusterState {
    pub(super) brokers: String,
    /// By topic and log epoch.
    pub(super) topics: BTreeMap<(Topic, u32), TopicState>,
    /// The topic of the compacted copy of `orders`. Its first messages are not read, because it has
    /// no markers.
    pub(super) latest: Option<TopicState>,
    /// Existing log epochs of intake that are newer than the settings'.
    pub(super) later_epochs: Vec<u32>,
}

impl ClusterState {
    pub(super) fn get(&self, topic: Topic, epoch: u32) -> Option<&TopicState> {
        self.topics.get(&(topic, epoch))
    }

    /// Every marker of the log: topic, log epoch, Kafka's partition and the marker.
    pub(super) fn markers(&self) -> impl Iterator<Item = (Topic, u32, i32, &Marker)> {
        self.topics.iter().flat_map(|((topic, epoch), seen)| {
            seen.log_partitions().filter_map(|(partition, first)| match first {
                FirstMessage::Marker(marker) => Some((*topic, *epoch, partition, marker)),
                FirstMessage::Nothing
                | FirstMessage::Removed { .. }
                | FirstMessage::Other { .. } => None,
            })
        })
    }
}
