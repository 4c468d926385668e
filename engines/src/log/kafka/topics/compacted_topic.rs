//! Owns the rules for `orders.latest`, the topic of the compacted copy of `orders`. It has no
//! marker, because it holds the last event of each order only, and payfold itself never reads it.
//! Pure: from the cluster's state to findings and steps.

use super::cluster_state::{ClusterState, TopicState};
use super::finding::{APPLY, Finding};
use super::rules::{alter_command, replication_findings};
use super::step::TopicStep;
use super::wanted::{Footing, TopicsWanted};
use crate::log::Topic;
use crate::log::kafka::layout::Layout;
use crate::log::kafka::settings::MESSAGE_BYTES_MAX;

/// Everything that is wrong with the topic. A missing topic is only a warning: the log is complete
/// without it.
pub(super) fn findings(layout: &Layout, footing: Footing, seen: &ClusterState) -> Vec<Finding> {
    if seen.latest.is_some() {
        let mut found = setting_findings(layout, footing, seen);
        found.extend(added_partitions(layout, seen));
        return found;
    }
    let what = "there is no such topic: a new subscriber has to read orders from its beginning, \
                where retention has removed older orders";
    vec![Finding::refuse(&layout.latest(), what, APPLY).warn()]
}

/// Everything that is wrong with an existing topic, except for added partitions.
pub(super) fn setting_findings(
    layout: &Layout,
    footing: Footing,
    seen: &ClusterState,
) -> Vec<Finding> {
    let Some(topic) = &seen.latest else { return Vec::new() };
    let name = layout.latest();
    let mut found = settings(&seen.brokers, &name, topic);
    if footing == Footing::Production {
        found.extend(replication_findings(&seen.brokers, &name, topic));
    }
    if let Some((has, orders)) = partition_counts(seen)
        && has < orders
    {
        let what = format!(
            "it has {has} partitions and orders has {orders}: it needs as many, because each event \
             is copied into the partition with the same number"
        );
        found.push(Finding::refuse(&name, what, remake_commands(&seen.brokers, &name)));
    }
    found
}

/// The finding about partitions that were added after the topic was made. They are harmless: each
/// event is copied into the partition that it has in `orders`.
fn added_partitions(layout: &Layout, seen: &ClusterState) -> Option<Finding> {
    let (has, orders) = partition_counts(seen).filter(|(has, orders)| has > orders)?;
    let what = format!(
        "it has {has} partitions and orders has {orders}: payfold does not write to the added ones"
    );
    let fix = "nothing is lost and nothing has to be done, because partitions can't be removed";
    Some(Finding::refuse(&layout.latest(), what, fix).warn())
}

/// How many partitions the topic has, and how many `orders` was made with.
fn partition_counts(seen: &ClusterState) -> Option<(u32, u32)> {
    let has = u32::try_from(seen.latest.as_ref()?.partitions.len()).unwrap_or(u32::MAX);
    Some((has, seen.get(Topic::Orders, 0)?.made_with()))
}

/// The step that makes the topic, if it is missing.
pub(super) fn missing_step(
    layout: &Layout,
    wanted: &TopicsWanted,
    seen: &ClusterState,
) -> Option<TopicStep> {
    if seen.latest.is_some() {
        return None;
    }
    let partitions = seen.get(Topic::Orders, 0).map(TopicState::made_with);
    Some(TopicStep::Make {
        name: layout.latest(),
        partitions: partitions.unwrap_or(wanted.partitions),
        replication: wanted.replication,
        settings: wanted.settings_of_latest(),
    })
}

/// The commands that make the topic again; the copier then copies the events that `orders` still
/// holds.
fn remake_commands(brokers: &str, name: &str) -> String {
    format!(
        "kafka-topics.sh --bootstrap-server {brokers} --delete --topic {name}, restart the \
         projectors, then {APPLY}"
    )
}

fn settings(brokers: &str, name: &str, topic: &TopicState) -> Vec<Finding> {
    let Some(settings) = &topic.settings else { return Vec::new() };
    let value = |setting: &str| settings.get(setting).map_or("", String::as_str);
    let mut found = Vec::new();
    let broken = |setting: &str, must: &str, breaks: &str| {
        let what = format!("{setting} is {}, must be {must}: {breaks}", value(setting));
        Finding::refuse(name, what, alter_command(brokers, name, setting, must))
    };
    if value("cleanup.policy") != "compact" {
        let breaks = "otherwise orders that no longer change are removed, or no message ever is";
        found.push(broken("cleanup.policy", "compact", breaks));
    }
    if value("unclean.leader.election.enable") != "false" {
        let breaks = "acknowledged messages can be lost with a broker";
        found.push(broken("unclean.leader.election.enable", "false", breaks));
    }
    let bytes = value("max.message.bytes").parse::<u32>();
    if bytes.is_ok_and(|bytes| bytes < MESSAGE_BYTES_MAX) {
        let must = MESSAGE_BYTES_MAX.to_string();
        found.push(broken("max.message.bytes", &must, "longer messages are refused").warn());
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::log::kafka::topics::Severity;
    use crate::log::kafka::topics::cluster_state::FirstMessage;

    fn seen(latest: Option<(i32, &str)>) -> ClusterState {
        let latest = latest.map(|(partitions, policy)| TopicState {
            partitions: (0..partitions).map(|one| (one, FirstMessage::Nothing)).collect(),
            replication: 3,
            settings: Some(HashMap::from(
                [
                    ("cleanup.policy", policy),
                    ("unclean.leader.election.enable", "false"),
                    ("min.insync.replicas", "2"),
                ]
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
            )),
            ..TopicState::default()
        });
        ClusterState { latest, ..ClusterState::default() }
    }

    #[test]
    fn the_topic_is_compacted_only_and_may_be_missing() {
        let layout = Layout::new("pay", 0);
        for (latest, said) in [
            (None, Some((Severity::Warn, "there is no such topic"))),
            (Some((2, "compact")), None),
            (Some((2, "delete")), Some((Severity::Refuse, "cleanup.policy is delete"))),
            (Some((2, "compact,delete")), Some((Severity::Refuse, "cleanup.policy is compact,d"))),
        ] {
            let found = findings(&layout, Footing::Production, &seen(latest));
            let first = found.first().map(|one| (one.severity, one.what.as_str()));
            match (first, said) {
                (None, None) => {}
                (Some((severity, what)), Some((wanted, words))) => {
                    assert!(severity == wanted && what.starts_with(words), "{found:?}");
                }
                _ => panic!("{latest:?}: {found:?}"),
            }
        }
    }
}
