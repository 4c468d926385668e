//! Owns what was seen of a cluster: its topics of ours, what their partitions begin with, and which of those are the
//! log's. Invariant: a partition that somebody added to a topic after it was made is no part of the log.

use std::collections::{BTreeMap, HashMap};

use crate::log::Topic;
use crate::log::kafka::marker::Marker;

/// What a partition begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum First {
    /// It never held a message.
    Nothing,
    /// Messages before this offset were removed.
    Removed { until: i64 },
    /// A marker.
    Marker(Marker),
    /// Something that is no marker, and the beginning of its key.
    Other { key: String },
}

/// A topic of ours as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SeenTopic {
    /// By Kafka's number.
    pub(super) partitions: BTreeMap<i32, First>,
    /// The offset after the last message of each partition.
    pub(super) ends: BTreeMap<i32, i64>,
    /// The fewest copies a partition has.
    pub(super) replication: usize,
    /// None if they were not looked at.
    pub(super) settings: Option<HashMap<String, String>>,
}

impl SeenTopic {
    /// How many partitions the topic was made with: what its markers say. Where all of them are removed with what was
    /// old, those that ever held a message; where there never was one, all.
    pub(super) fn made_with(&self) -> u32 {
        let of_marker = self.partitions.iter().find_map(|(number, first)| match first {
            First::Marker(marker) => {
                let is_of_it = u32::try_from(*number).is_ok_and(|one| one < marker.partitions);
                is_of_it.then_some(marker.partitions)
            }
            First::Nothing | First::Removed { .. } | First::Other { .. } => None,
        });
        let removed = |first: &&First| matches!(first, First::Removed { .. });
        let counted = match self.partitions.values().take_while(removed).count() {
            0 => self.partitions.len(),
            removed => removed,
        };
        of_marker.or(u32::try_from(counted).ok()).unwrap_or(u32::MAX)
    }

    /// The partitions the topic was made with: those of the log.
    pub(super) fn of_log(&self) -> impl Iterator<Item = (i32, &First)> {
        let made_with = i32::try_from(self.made_with()).unwrap_or(i32::MAX);
        self.partitions.range(..made_with).map(|(number, first)| (*number, first))
    }

    /// The partitions that somebody added since: nothing of ours writes or reads them.
    pub(super) fn added(&self) -> impl Iterator<Item = (i32, &First)> {
        let made_with = i32::try_from(self.made_with()).unwrap_or(i32::MAX);
        self.partitions.range(made_with..).map(|(number, first)| (*number, first))
    }

    /// How many messages a partition holds.
    pub(super) fn holds(&self, partition: i32) -> i64 {
        let end = self.ends.get(&partition).copied().unwrap_or(0);
        match self.partitions.get(&partition) {
            Some(First::Removed { until }) => end.saturating_sub(*until),
            _ => end,
        }
    }
}

/// The topics of ours a cluster has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) brokers: String,
    /// By topic and epoch.
    pub(super) topics: BTreeMap<(Topic, u32), SeenTopic>,
    /// The compacted twin of `orders`. What its partitions begin with is not looked at: it has no markers.
    pub(super) latest: Option<SeenTopic>,
    /// Epochs of intake that are there and later than the settings know.
    pub(super) later_epochs: Vec<u32>,
}

impl Seen {
    pub(super) fn get(&self, topic: Topic, epoch: u32) -> Option<&SeenTopic> {
        self.topics.get(&(topic, epoch))
    }

    /// Every marker of the log there is, and where.
    pub(super) fn markers(&self) -> impl Iterator<Item = (Topic, u32, i32, &Marker)> {
        self.topics.iter().flat_map(|((topic, epoch), seen)| {
            seen.of_log().filter_map(|(partition, first)| match first {
                First::Marker(marker) => Some((*topic, *epoch, partition, marker)),
                First::Nothing | First::Removed { .. } | First::Other { .. } => None,
            })
        })
    }
}
