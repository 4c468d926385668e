//! Owns the list of the log's topics in Kafka: which must exist, and which do.

use super::cluster_state::{ClusterState, TopicState};
use crate::log::Topic;
use crate::log::kafka::layout::Layout;

/// Every topic that must exist: topic, log epoch and Kafka's name.
pub(super) fn expected_topics(layout: &Layout) -> Vec<(Topic, u32, String)> {
    let all = Topic::ALL.into_iter().flat_map(|topic| {
        layout.epochs(topic).map(move |epoch| (topic, epoch, layout.name(topic, epoch)))
    });
    all.collect()
}

/// Every topic that must exist and does: topic, log epoch, Kafka's name and its state.
pub(super) fn present_topics<'a>(
    layout: &Layout,
    seen: &'a ClusterState,
) -> Vec<(Topic, u32, String, &'a TopicState)> {
    let all = expected_topics(layout).into_iter();
    all.filter_map(|(topic, epoch, name)| Some((topic, epoch, name, seen.get(topic, epoch)?)))
        .collect()
}
