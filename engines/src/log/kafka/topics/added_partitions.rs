//! Owns the findings about partitions that were added to a topic after it was made (decision 0057).
//! Pure, except for `log_added_partitions`.

use super::cluster_state::{ClusterState, FirstMessage, TopicState};
use super::expected::present_topics;
use super::finding::Finding;
use crate::log::kafka::layout::Layout;

/// The finding about partitions that were added to a topic after it was made. They are harmless:
/// a key's partition follows from the number that the topic was made with, and payfold reads no
/// other partitions.
pub(super) fn added_partitions(name: &str, one: &TopicState) -> Option<Finding> {
    let added: Vec<String> = one.added().map(|(partition, _)| partition.to_string()).collect();
    let named = match &added[..] {
        [] => return None,
        [only] => format!("partition {only} is"),
        [others @ .., last] => format!("partitions {} and {last} are", others.join(", ")),
    };
    let (made_with, has) = (one.made_with(), one.partitions.len());
    let strays: Vec<String> = strays(one).collect();
    let (holds, fix) = match &strays[..] {
        [] => (
            format!("{named} empty, and payfold writes nothing there"),
            "nothing is lost and nothing has to be done, because partitions can't be removed; to \
             prevent it, allow only the user that runs `payfold topics apply` to alter topics",
        ),
        strays => (
            format!("payfold does not read them, and {}", strays.join(", ")),
            "delete nothing; docs/how-to/grow-intake.md, \"Partitions added in place\" says which \
             program may have written these records",
        ),
    };
    let what = format!("it was made with {made_with} partitions and has {has}: {holds}");
    Some(Finding::refuse(name, what, fix).warn())
}

/// Describes the records in added partitions; this version of payfold wrote none of them.
fn strays(one: &TopicState) -> impl Iterator<Item = String> {
    one.added().filter(|(partition, _)| one.message_count(*partition) > 0).map(
        |(partition, first)| {
            let holds = one.message_count(partition);
            match first {
                FirstMessage::Other { key } => {
                    format!(
                        "partition {partition} holds {holds} records, the first with key {key:?}"
                    )
                }
                FirstMessage::Nothing | FirstMessage::Removed { .. } | FirstMessage::Marker(_) => {
                    format!("partition {partition} holds {holds} records")
                }
            }
        },
    )
}

/// Logs which partitions were added, each time a log is opened.
pub(super) fn log_added_partitions(layout: &Layout, seen: &ClusterState) {
    for (_, _, name, one) in present_topics(layout, seen) {
        let Some(finding) = added_partitions(&name, one) else { continue };
        match strays(one).next() {
            None => tracing::warn!("{finding}"),
            Some(_) => tracing::error!("{finding}"),
        }
    }
}
