//! Owns what is said of partitions that somebody gave a topic after it was made (decision 0057).
//! Pure, but for `log_added`.

use super::rules::{Finding, present};
use super::seen::{First, Seen, SeenTopic};
use crate::log::kafka::layout::Layout;

/// The partitions that somebody gave a topic after it was made. They do no harm: keys are placed by the number of
/// partitions the topic was made with, and nothing reads the others.
pub(super) fn added(name: &str, one: &SeenTopic) -> Option<Finding> {
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
            format!("{named} empty, and no key belongs there"),
            "nothing is lost and nothing has to be done; partitions can't be taken back: take the right to alter topics \
             from everybody but whoever runs `payfold topics apply`",
        ),
        strays => (
            format!("nothing reads these, and {}", strays.join(", ")),
            "delete nothing; docs/operations.md, \"Partitions added in place\" says whose records these may be",
        ),
    };
    let what = format!("it was made with {made_with} partitions and has {has}: {holds}");
    Some(Finding::refuse(name, what, fix).warn())
}

/// What the added partitions hold: nothing of this version wrote it.
fn strays(one: &SeenTopic) -> impl Iterator<Item = String> {
    one.added().filter(|(partition, _)| one.holds(*partition) > 0).map(|(partition, first)| {
        let holds = one.holds(partition);
        match first {
            First::Other { key } => {
                format!("partition {partition} holds {holds} records, the first with key {key:?}")
            }
            First::Nothing | First::Removed { .. } | First::Marker(_) => {
                format!("partition {partition} holds {holds} records")
            }
        }
    })
}

/// Logs which partitions somebody added, each time a log is opened.
pub(super) fn log_added(layout: &Layout, seen: &Seen) {
    for (_, _, name, one) in present(layout, seen) {
        let Some(finding) = added(&name, one) else { continue };
        match strays(one).next() {
            None => tracing::warn!("{finding}"),
            Some(_) => tracing::error!("{finding}"),
        }
    }
}
