//! Owns the rules for topics: what each must be, what breaks otherwise, and the command that mends
//! it. Pure: from the cluster's state to findings.

use super::added_partitions::added_partitions;
use super::cluster_state::{ClusterState, FirstMessage, TopicState};
use super::expected::{expected_topics, present_topics};
use super::finding::{APPLY, Finding, Severity};
use super::wanted::{Footing, Retention, retention_of};
use crate::EngineError;
use crate::log::Topic;
use crate::log::kafka::layout::Layout;
use crate::log::kafka::settings::MESSAGE_BYTES_MAX;

/// The remedy for a topic that lost messages.
const RESTORE: &str = "keep everything as it is and restore the topic from a mirror or backup";

/// Everything that is wrong with the log's topics.
pub(super) fn findings(layout: &Layout, footing: Footing, seen: &ClusterState) -> Vec<Finding> {
    let mut found = missing_topics(layout, seen);
    for (topic, epoch, name, one) in present_topics(layout, seen) {
        found.extend(setting_rules(&seen.brokers, topic, &name, one));
        if footing == Footing::Production {
            found.extend(replication_findings(&seen.brokers, &name, one));
        }
        found.extend(first_message_findings(topic, epoch, &name, one));
    }
    found.extend(log_id_findings(layout, seen));
    found
}

/// Checks that topics and markers let a log be opened. Errors: `Invalid` or `Corrupt`, with the
/// first finding.
pub(super) fn check_openable(layout: &Layout, seen: &ClusterState) -> Result<(), EngineError> {
    let mut found = missing_topics(layout, seen);
    for (topic, epoch, name, one) in present_topics(layout, seen) {
        found.extend(first_message_findings(topic, epoch, &name, one));
    }
    found.extend(log_id_findings(layout, seen));
    match found.iter().find(|finding| finding.severity == Severity::Refuse) {
        Some(finding) => Err(finding.error()),
        None => Ok(()),
    }
}

/// The findings about settings and replication only, which `apply` does not change.
pub(super) fn setting_findings(
    layout: &Layout,
    footing: Footing,
    seen: &ClusterState,
) -> Vec<Finding> {
    let mut found = Vec::new();
    for (topic, _, name, one) in present_topics(layout, seen) {
        found.extend(setting_rules(&seen.brokers, topic, &name, one));
        if footing == Footing::Production {
            found.extend(replication_findings(&seen.brokers, &name, one));
        }
    }
    found
}

/// Checks that existing topics and markers don't contradict each other; otherwise `apply` writes
/// nothing. Errors: as `check_openable`.
pub(super) fn check_consistent(layout: &Layout, seen: &ClusterState) -> Result<(), EngineError> {
    let mut found = newer_epoch(layout, seen);
    for (topic, epoch, name, one) in present_topics(layout, seen) {
        let empty = |finding: &Finding| finding.fix == APPLY;
        found.extend(
            first_message_findings(topic, epoch, &name, one).into_iter().filter(|one| !empty(one)),
        );
    }
    found.extend(log_id_findings(layout, seen));
    match found.iter().find(|finding| finding.severity == Severity::Refuse) {
        Some(finding) => Err(finding.error()),
        None => Ok(()),
    }
}

/// The log id in the markers; `None` without a marker. Errors: `Corrupt` if the markers name two
/// logs.
pub(super) fn log_id(seen: &ClusterState) -> Result<Option<[u8; 16]>, EngineError> {
    let mut known = None;
    for (_, _, _, marker) in seen.markers() {
        match known {
            None => known = Some(marker.log_id),
            Some(id) if id == marker.log_id => {}
            Some(id) => {
                let (a, b) = (hex::encode(id), hex::encode(marker.log_id));
                let text = format!("the topics belong to two logs, {a} and {b}");
                return Err(EngineError::Corrupt(text));
            }
        }
    }
    Ok(known)
}

/// Findings about missing topics and a newer log epoch than the settings'.
fn missing_topics(layout: &Layout, seen: &ClusterState) -> Vec<Finding> {
    let missing = expected_topics(layout)
        .into_iter()
        .filter(|(topic, epoch, _)| seen.get(*topic, *epoch).is_none());
    let missing = missing.map(|(topic, epoch, name)| {
        if topic == Topic::Intake && epoch < layout.epoch() {
            let what =
                format!("there is no such topic, but log epoch {} follows it", layout.epoch());
            return Finding::corrupt(&name, what, RESTORE);
        }
        Finding::refuse(&name, "there is no such topic", APPLY)
    });
    newer_epoch(layout, seen).into_iter().chain(missing).collect()
}

/// The finding about a newer log epoch of intake than the settings'.
fn newer_epoch(layout: &Layout, seen: &ClusterState) -> Vec<Finding> {
    let Some(last) = seen.later_epochs.last() else { return Vec::new() };
    let what = format!(
        "intake continues in this topic of log epoch {last}, and the settings say log epoch {}: \
         records appended to the old one would not be folded",
        layout.epoch()
    );
    vec![Finding::refuse(
        &layout.name(Topic::Intake, *last),
        what,
        format!("set kafka.epoch = {last}"),
    )]
}

/// The command that changes a topic's setting.
pub(super) fn alter_command(brokers: &str, name: &str, setting: &str, value: &str) -> String {
    format!(
        "kafka-configs.sh --bootstrap-server {brokers} --alter --entity-type topics --entity-name \
         {name} --add-config {setting}={value}"
    )
}

fn setting_rules(brokers: &str, topic: Topic, name: &str, one: &TopicState) -> Vec<Finding> {
    let Some(settings) = &one.settings else { return Vec::new() };
    let value = |setting: &str| settings.get(setting).map_or("", String::as_str);
    let mut found = Vec::new();
    let mut require = |setting: &str, must: &str, breaks: &str, severity: Severity| {
        let is = value(setting);
        let broken = match setting {
            "cleanup.policy" => is.split(',').any(|one| one.trim() != must),
            "compression.type" => !["", must, "uncompressed"].contains(&is),
            "max.message.bytes" => is.parse::<u32>().is_ok_and(|bytes| bytes < MESSAGE_BYTES_MAX),
            _ => is != must,
        };
        if broken {
            let what = format!("{setting} is {is}, must be {must}: {breaks}");
            let finding = Finding::refuse(name, what, alter_command(brokers, name, setting, must));
            found.push(if severity == Severity::Warn { finding.warn() } else { finding });
        }
    };
    require("cleanup.policy", "delete", "compaction removes messages", Severity::Refuse);
    let unclean = "acknowledged messages can be lost with a broker";
    require("unclean.leader.election.enable", "false", unclean, Severity::Refuse);
    if retention_of(topic) == Retention::Forever {
        let severity = if topic == Topic::Intake { Severity::Refuse } else { Severity::Warn };
        let lost = "removed messages can't be folded or verified again";
        require("retention.ms", "-1", lost, severity);
        require("retention.bytes", "-1", lost, severity);
    }
    let bytes = MESSAGE_BYTES_MAX.to_string();
    require("max.message.bytes", &bytes, "longer messages are refused", Severity::Warn);
    let (breaks, severity) = match value("compression.type") {
        "gzip" | "zstd" => ("this program can't read that codec", Severity::Refuse),
        _ => ("the brokers compress every batch again", Severity::Warn),
    };
    require("compression.type", "producer", breaks, severity);
    found
}

/// Findings about replication, which must survive the loss of a disk.
pub(super) fn replication_findings(brokers: &str, name: &str, one: &TopicState) -> Vec<Finding> {
    let mut found = Vec::new();
    if one.replication < 3 {
        let what = format!(
            "replication is {}, must be 3 or more: two broken disks can lose messages",
            one.replication
        );
        let fix = format!(
            "kafka-reassign-partitions.sh --bootstrap-server {brokers} --execute with three \
             replicas for each partition of {name}, or `dev = true` for development"
        );
        found.push(Finding::refuse(name, what, fix));
    }
    let min_insync = one.settings.as_ref().and_then(|all| all.get("min.insync.replicas"));
    if let Some(min_insync) = min_insync
        && min_insync.parse::<u32>().is_ok_and(|min_insync| min_insync < 2)
    {
        let what = format!(
            "min.insync.replicas is {min_insync}, must be 2 or more: a message counts as durable \
             when one disk has it"
        );
        found.push(Finding::refuse(
            name,
            what,
            alter_command(brokers, name, "min.insync.replicas", "2"),
        ));
    }
    found
}

/// Findings about the first messages of a topic's partitions.
fn first_message_findings(topic: Topic, epoch: u32, name: &str, one: &TopicState) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut empty = Vec::new();
    let (made_with, has) = (one.made_with(), one.partitions.len());
    if usize::try_from(made_with).is_ok_and(|made_with| has < made_with) {
        let what = format!("it was made with {made_with} partitions and has {has}");
        found.push(Finding::corrupt(name, what, RESTORE));
    }
    for (partition, first) in one.log_partitions() {
        match first {
            FirstMessage::Nothing => empty.push(partition),
            // Retention removed the marker with the oldest messages.
            FirstMessage::Removed { .. } if retention_of(topic) == Retention::Limited => {}
            FirstMessage::Removed { until } => {
                let what =
                    format!("partition {partition} has lost its messages before offset {until}");
                found.push(Finding::corrupt(name, what, RESTORE));
            }
            FirstMessage::Other { .. } => {
                let what = format!(
                    "partition {partition} does not start with a marker: another program wrote to \
                     it first"
                );
                let fix = "use another prefix, and do not change that topic";
                found.push(Finding::refuse(name, what, fix));
            }
            FirstMessage::Marker(marker)
                if (&*marker.topic, marker.epoch) != (topic.name(), epoch) =>
            {
                let what = format!(
                    "partition {partition} has the marker of {} in log epoch {}",
                    marker.topic, marker.epoch
                );
                found.push(Finding::corrupt(name, what, RESTORE));
            }
            FirstMessage::Marker(marker) if marker.partitions != made_with => {
                let what = format!(
                    "the marker of partition {partition} says {} partitions, and an earlier one \
                     {made_with}",
                    marker.partitions
                );
                found.push(Finding::corrupt(name, what, RESTORE));
            }
            FirstMessage::Marker(_) => {}
        }
    }
    if !empty.is_empty() {
        let what = format!("partitions {empty:?} have no marker");
        found.push(Finding::refuse(name, what, APPLY));
    }
    found.extend(added_partitions(name, one));
    found
}

/// Findings about markers of different logs.
fn log_id_findings(layout: &Layout, seen: &ClusterState) -> Vec<Finding> {
    let mut known: Option<([u8; 16], String)> = None;
    let mut found: Vec<Finding> = Vec::new();
    for (topic, epoch, partition, marker) in seen.markers() {
        let name = layout.name(topic, epoch);
        match &known {
            None => known = Some((marker.log_id, name)),
            Some((id, _)) if *id == marker.log_id => {}
            Some(_) if found.iter().any(|finding| finding.subject == name) => {}
            Some((id, first)) => {
                let what = format!(
                    "partition {partition} belongs to log {}, and {first} belongs to log {}",
                    hex::encode(marker.log_id),
                    hex::encode(id)
                );
                let fix = "delete no topic; restore the topics of the log that the order store was \
                           folded from (docs/how-to/corrupt.md)";
                found.push(Finding::corrupt(&name, what, fix));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::super::finding::FaultKind;
    use super::*;
    use crate::log::kafka::marker::Marker;

    /// Makes a topic with these first messages, one per partition: `m4` is a marker of four
    /// partitions, `-` is empty, `r` is removed by retention, `x` is a message that is no marker.
    fn topic(text: &str) -> TopicState {
        let mut one = TopicState { replication: 3, ..TopicState::default() };
        for (partition, word) in (0..).zip(text.split(' ')) {
            let (first, end) = match word {
                "-" => (FirstMessage::Nothing, 0),
                "r" => (FirstMessage::Removed { until: 4 }, 9),
                "x" => (FirstMessage::Other { key: "k".to_owned() }, 2),
                word => {
                    let partitions = word.trim_start_matches('m').parse().unwrap();
                    let topic = "orders".to_owned();
                    (
                        FirstMessage::Marker(Marker {
                            log_id: [1; 16],
                            topic,
                            epoch: 0,
                            partitions,
                        }),
                        1,
                    )
                }
            };
            one.partitions.insert(partition, first);
            one.ends.insert(partition, end);
        }
        one
    }

    #[test]
    fn partitions_in_the_markers_belong_to_the_log_and_added_ones_do_not() {
        for (text, made_with, said) in [
            ("m2 m2", 2, None),
            ("m2 -", 2, Some("partitions [1] have no marker")),
            ("- -", 2, Some("partitions [0, 1] have no marker")),
            ("m2 m2 -", 2, Some("partition 2 is empty")),
            ("m2 - - -", 2, Some("partitions [1] have no marker")),
            ("m2 m2 - x", 2, Some("partition 3 holds 2 records, the first with key \"k\"")),
            ("m2 m2 m9", 2, Some("partition 2 holds 1 records")),
            ("r r", 2, None),
            ("r r - x", 2, Some("partition 3 holds 2 records")),
            ("r m2 r", 2, Some("partition 2 holds 5 records")),
            ("x -", 2, Some("does not start with a marker")),
            ("m3 m3", 3, Some("made with 3 partitions and has 2")),
            ("m2 m3", 2, Some("the marker of partition 1 says 3 partitions")),
        ] {
            let one = topic(text);
            assert_eq!(one.made_with(), made_with, "{text}");
            let found = first_message_findings(Topic::Orders, 0, "pay.orders", &one);
            match said {
                None => assert_eq!(found, [], "{text}"),
                Some(words) => assert!(found[0].what.contains(words), "{text}: {found:?}"),
            }
        }
    }

    fn one(replication: usize, min_insync: &str) -> TopicState {
        let settings = HashMap::from([("min.insync.replicas".to_owned(), min_insync.to_owned())]);
        TopicState { replication, settings: Some(settings), ..TopicState::default() }
    }

    #[test]
    fn three_replicas_and_two_in_sync_are_required() {
        for (replication, min_insync, broken) in [
            (3, "2", vec![]),
            (5, "3", vec![]),
            (2, "2", vec!["replication is 2"]),
            (3, "1", vec!["min.insync.replicas is 1"]),
            (1, "1", vec!["replication is 1", "min.insync.replicas is 1"]),
        ] {
            let found = replication_findings("b:1", "pay.intake", &one(replication, min_insync));
            let named: Vec<bool> =
                found.iter().zip(&broken).map(|(one, what)| one.what.starts_with(what)).collect();
            assert_eq!(named, vec![true; broken.len()], "{replication} {min_insync}: {found:?}");
            assert_eq!(found.len(), broken.len(), "{found:?}");
        }
    }

    #[test]
    fn removed_messages_are_a_finding_where_retention_is_unlimited() {
        let gone = FirstMessage::Removed { until: 9 };
        let partitions = BTreeMap::from([(0, gone)]);
        let one = TopicState { partitions, replication: 3, ..TopicState::default() };
        for (topic, missed) in [
            (Topic::Intake, true),
            (Topic::Quarantine, true),
            (Topic::Orders, false),
            (Topic::Findings, true),
        ] {
            let found = first_message_findings(topic, 0, "pay.x", &one);
            assert_eq!(found.len(), usize::from(missed), "{found:?}");
            assert!(found.iter().all(|finding| finding.fault == FaultKind::Corrupt));
        }
    }
}
