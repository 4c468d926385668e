//! Owns what topics have to be like: each rule with what breaks without it and the command that mends it.
//! Pure: from what was seen to findings.

use std::fmt;

use super::added::added;
use super::seen::{First, Seen, SeenTopic};
use super::wanted::{Footing, Kept, kept};
use crate::EngineError;
use crate::log::Topic;
use crate::log::kafka::layout::Layout;
use crate::log::kafka::settings::MESSAGE_BYTES_MAX;

/// What makes the missing topics and markers.
pub(super) const APPLY: &str = "run `payfold topics apply`";

/// What a topic that was lost in part is mended with.
const RESTORE: &str = "keep everything as it is and restore the topic from a mirror or backup";

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// A promise of the log does not hold: it is not opened.
    Refuse,
    /// It works, at a price.
    Warn,
}

/// What a refusal means at the seam.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// It can be mended by a setting or a command.
    Invalid,
    /// What is stored contradicts itself.
    Corrupt,
}

/// Something that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Kafka's name of the topic.
    pub subject: String,
    /// What is wrong with it, and what that breaks.
    pub what: String,
    /// How it is mended: a command or a setting.
    pub fix: String,
    /// How bad it is.
    pub severity: Severity,
    fault: Fault,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; mend: {}", self.subject, self.what, self.fix)
    }
}

impl Finding {
    pub(super) fn refuse(subject: &str, what: impl Into<String>, fix: impl Into<String>) -> Self {
        let (subject, what, fix) = (subject.to_owned(), what.into(), fix.into());
        Self { subject, what, fix, severity: Severity::Refuse, fault: Fault::Invalid }
    }

    fn corrupt(subject: &str, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { fault: Fault::Corrupt, ..Self::refuse(subject, what, fix) }
    }

    /// Whether brokers pack what is written so that it can't be read here.
    pub(super) fn is_codec(&self) -> bool {
        self.severity == Severity::Refuse && self.what.starts_with("compression.type")
    }

    pub(super) fn warn(self) -> Self {
        Self { severity: Severity::Warn, ..self }
    }

    fn error(&self) -> EngineError {
        match self.fault {
            Fault::Invalid => EngineError::Invalid(self.to_string()),
            Fault::Corrupt => EngineError::Corrupt(self.to_string()),
        }
    }
}

/// Everything that is not as it must be.
pub(super) fn findings(layout: &Layout, footing: Footing, seen: &Seen) -> Vec<Finding> {
    let mut found = presence(layout, seen);
    for (topic, epoch, name, one) in present(layout, seen) {
        found.extend(setting_rules(&seen.brokers, topic, &name, one));
        if footing == Footing::Production {
            found.extend(copies(&seen.brokers, &name, one));
        }
        found.extend(beginnings(topic, epoch, &name, one));
    }
    found.extend(one_log(layout, seen));
    found
}

/// The first thing that keeps a log from being opened, of what topics and markers tell.
/// Errors: `Invalid` or `Corrupt`, with the finding.
pub(super) fn refused(layout: &Layout, seen: &Seen) -> Result<(), EngineError> {
    let mut found = presence(layout, seen);
    for (topic, epoch, name, one) in present(layout, seen) {
        found.extend(beginnings(topic, epoch, &name, one));
    }
    found.extend(one_log(layout, seen));
    match found.iter().find(|finding| finding.severity == Severity::Refuse) {
        Some(finding) => Err(finding.error()),
        None => Ok(()),
    }
}

/// The findings of settings and copies only: what `apply` leaves as it is.
pub(super) fn differing(layout: &Layout, footing: Footing, seen: &Seen) -> Vec<Finding> {
    let mut found = Vec::new();
    for (topic, _, name, one) in present(layout, seen) {
        found.extend(setting_rules(&seen.brokers, topic, &name, one));
        if footing == Footing::Production {
            found.extend(copies(&seen.brokers, &name, one));
        }
    }
    found
}

/// What contradicts in what exists: `apply` writes no marker beside it. Errors: as `refused`.
pub(super) fn contradicting(layout: &Layout, seen: &Seen) -> Result<(), EngineError> {
    let mut found = later(layout, seen);
    for (topic, epoch, name, one) in present(layout, seen) {
        let empty = |finding: &Finding| finding.fix == APPLY;
        found.extend(beginnings(topic, epoch, &name, one).into_iter().filter(|one| !empty(one)));
    }
    found.extend(one_log(layout, seen));
    match found.iter().find(|finding| finding.severity == Severity::Refuse) {
        Some(finding) => Err(finding.error()),
        None => Ok(()),
    }
}

/// The id of the log the markers name. Errors: `Corrupt` if they name two.
pub(super) fn log_id(seen: &Seen) -> Result<Option<[u8; 16]>, EngineError> {
    let mut known = None;
    for (_, _, _, marker) in seen.markers() {
        match known {
            None => known = Some(marker.log_id),
            Some(id) if id == marker.log_id => {}
            Some(id) => {
                let (a, b) = (hex::encode(id), hex::encode(marker.log_id));
                let text = format!("the topics are of two logs, {a} and {b}");
                return Err(EngineError::Corrupt(text));
            }
        }
    }
    Ok(known)
}

/// Every topic there should be: topic, epoch and Kafka's name.
pub(super) fn expected(layout: &Layout) -> Vec<(Topic, u32, String)> {
    let all = Topic::ALL.into_iter().flat_map(|topic| {
        layout.epochs(topic).map(move |epoch| (topic, epoch, layout.name(topic, epoch)))
    });
    all.collect()
}

pub(super) fn present<'a>(
    layout: &Layout,
    seen: &'a Seen,
) -> Vec<(Topic, u32, String, &'a SeenTopic)> {
    let all = expected(layout).into_iter();
    all.filter_map(|(topic, epoch, name)| Some((topic, epoch, name, seen.get(topic, epoch)?)))
        .collect()
}

fn presence(layout: &Layout, seen: &Seen) -> Vec<Finding> {
    let missing =
        expected(layout).into_iter().filter(|(topic, epoch, _)| seen.get(*topic, *epoch).is_none());
    let missing = missing.map(|(topic, epoch, name)| {
        if topic == Topic::Intake && epoch < layout.epoch() {
            let what =
                format!("there is no such topic, and epoch {} comes after it", layout.epoch());
            return Finding::corrupt(&name, what, RESTORE);
        }
        Finding::refuse(&name, "there is no such topic", APPLY)
    });
    later(layout, seen).into_iter().chain(missing).collect()
}

fn later(layout: &Layout, seen: &Seen) -> Vec<Finding> {
    let Some(last) = seen.later_epochs.last() else { return Vec::new() };
    let what = format!(
        "intake goes on in this topic of epoch {last}, and the settings say epoch {}: what is appended to the \
         old one would not be folded",
        layout.epoch()
    );
    vec![Finding::refuse(
        &layout.name(Topic::Intake, *last),
        what,
        format!("set kafka.epoch = {last}"),
    )]
}

/// The command that alters a topic's setting.
pub(super) fn alter(brokers: &str, name: &str, setting: &str, value: &str) -> String {
    format!(
        "kafka-configs.sh --bootstrap-server {brokers} --alter --entity-type topics --entity-name {name} \
         --add-config {setting}={value}"
    )
}

fn setting_rules(brokers: &str, topic: Topic, name: &str, one: &SeenTopic) -> Vec<Finding> {
    let Some(settings) = &one.settings else { return Vec::new() };
    let value = |setting: &str| settings.get(setting).map_or("", String::as_str);
    let mut found = Vec::new();
    let mut hold = |setting: &str, must: &str, breaks: &str, severity: Severity| {
        let is = value(setting);
        let broken = match setting {
            "cleanup.policy" => is.split(',').any(|one| one.trim() != must),
            "compression.type" => !["", must, "uncompressed"].contains(&is),
            "max.message.bytes" => is.parse::<u32>().is_ok_and(|bytes| bytes < MESSAGE_BYTES_MAX),
            _ => is != must,
        };
        if broken {
            let what = format!("{setting} is {is}, must be {must}: {breaks}");
            let finding = Finding::refuse(name, what, alter(brokers, name, setting, must));
            found.push(if severity == Severity::Warn { finding.warn() } else { finding });
        }
    };
    hold("cleanup.policy", "delete", "compaction removes messages", Severity::Refuse);
    let unclean = "messages that were acknowledged are lost with a broker";
    hold("unclean.leader.election.enable", "false", unclean, Severity::Refuse);
    if kept(topic) == Kept::Forever {
        let severity = if topic == Topic::Intake { Severity::Refuse } else { Severity::Warn };
        let lost = "what is removed can't be folded or judged again";
        hold("retention.ms", "-1", lost, severity);
        hold("retention.bytes", "-1", lost, severity);
    }
    let bytes = MESSAGE_BYTES_MAX.to_string();
    hold("max.message.bytes", &bytes, "longer messages are refused", Severity::Warn);
    let (breaks, severity) = match value("compression.type") {
        "gzip" | "zstd" => ("this program can't read that codec", Severity::Refuse),
        _ => ("the brokers pack every batch anew", Severity::Warn),
    };
    hold("compression.type", "producer", breaks, severity);
    found
}

pub(super) fn copies(brokers: &str, name: &str, one: &SeenTopic) -> Vec<Finding> {
    let mut found = Vec::new();
    if one.replication < 3 {
        let what = format!(
            "replication is {}, must be 3 or more: two broken disks lose messages",
            one.replication
        );
        let fix = format!(
            "kafka-reassign-partitions.sh --bootstrap-server {brokers} --execute with three replicas for each \
             partition of {name}, or `dev = true` for development"
        );
        found.push(Finding::refuse(name, what, fix));
    }
    let in_step = one.settings.as_ref().and_then(|all| all.get("min.insync.replicas"));
    if let Some(in_step) = in_step
        && in_step.parse::<u32>().is_ok_and(|in_step| in_step < 2)
    {
        let what = format!(
            "min.insync.replicas is {in_step}, must be 2 or more: a message counts as durable on one disk"
        );
        found.push(Finding::refuse(name, what, alter(brokers, name, "min.insync.replicas", "2")));
    }
    found
}

/// What the partitions begin with.
fn beginnings(topic: Topic, epoch: u32, name: &str, one: &SeenTopic) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut empty = Vec::new();
    let (made_with, has) = (one.made_with(), one.partitions.len());
    if usize::try_from(made_with).is_ok_and(|made_with| has < made_with) {
        let what = format!("it was made with {made_with} partitions and has {has}");
        found.push(Finding::corrupt(name, what, RESTORE));
    }
    for (partition, first) in one.of_log() {
        match first {
            First::Nothing => empty.push(partition),
            // The marker went with what was old.
            First::Removed { .. } if kept(topic) == Kept::AWhile => {}
            First::Removed { until } => {
                let what =
                    format!("partition {partition} has lost its messages before offset {until}");
                found.push(Finding::corrupt(name, what, RESTORE));
            }
            First::Other { .. } => {
                let what = format!(
                    "partition {partition} does not begin with a marker: something else wrote it first"
                );
                let fix = "use another prefix, and leave that topic as it is";
                found.push(Finding::refuse(name, what, fix));
            }
            First::Marker(marker) if (&*marker.topic, marker.epoch) != (topic.name(), epoch) => {
                let what = format!(
                    "partition {partition} has the marker of {} in epoch {}",
                    marker.topic, marker.epoch
                );
                found.push(Finding::corrupt(name, what, RESTORE));
            }
            First::Marker(marker) if marker.partitions != made_with => {
                let what = format!(
                    "the marker of partition {partition} says {} partitions, and one before it {made_with}",
                    marker.partitions
                );
                found.push(Finding::corrupt(name, what, RESTORE));
            }
            First::Marker(_) => {}
        }
    }
    if !empty.is_empty() {
        let what = format!("partitions {empty:?} have no marker");
        found.push(Finding::refuse(name, what, APPLY));
    }
    found.extend(added(name, one));
    found
}

/// That all markers are of one log.
fn one_log(layout: &Layout, seen: &Seen) -> Vec<Finding> {
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
                    "partition {partition} is of log {} and {first} of log {}",
                    hex::encode(marker.log_id),
                    hex::encode(id)
                );
                let fix = "delete none of them; the order store names the log it was folded from: restore the topics of that log; \
                           docs/operations.md, \"Corrupt\"";
                found.push(Finding::corrupt(&name, what, fix));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap};

    use super::*;
    use crate::log::kafka::marker::Marker;

    /// A topic whose partitions begin so: `m4` is a marker of four partitions, `-` nothing, `r` what was removed, `x` a
    /// message that is no marker.
    fn topic(text: &str) -> SeenTopic {
        let mut one = SeenTopic { replication: 3, ..SeenTopic::default() };
        for (partition, word) in (0..).zip(text.split(' ')) {
            let (first, end) = match word {
                "-" => (First::Nothing, 0),
                "r" => (First::Removed { until: 4 }, 9),
                "x" => (First::Other { key: "k".to_owned() }, 2),
                word => {
                    let partitions = word.trim_start_matches('m').parse().unwrap();
                    let topic = "orders".to_owned();
                    (First::Marker(Marker { log_id: [1; 16], topic, epoch: 0, partitions }), 1)
                }
            };
            one.partitions.insert(partition, first);
            one.ends.insert(partition, end);
        }
        one
    }

    #[test]
    fn what_the_markers_say_is_the_log_and_what_is_added_is_not() {
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
            ("x -", 2, Some("does not begin with a marker")),
            ("m3 m3", 3, Some("made with 3 partitions and has 2")),
            ("m2 m3", 2, Some("the marker of partition 1 says 3 partitions")),
        ] {
            let one = topic(text);
            assert_eq!(one.made_with(), made_with, "{text}");
            let found = beginnings(Topic::Orders, 0, "pay.orders", &one);
            match said {
                None => assert_eq!(found, [], "{text}"),
                Some(words) => assert!(found[0].what.contains(words), "{text}: {found:?}"),
            }
        }
    }

    fn one(replication: usize, in_step: &str) -> SeenTopic {
        let settings = HashMap::from([("min.insync.replicas".to_owned(), in_step.to_owned())]);
        SeenTopic { replication, settings: Some(settings), ..SeenTopic::default() }
    }

    #[test]
    fn three_copies_and_two_in_step_are_the_least() {
        for (replication, in_step, broken) in [
            (3, "2", vec![]),
            (5, "3", vec![]),
            (2, "2", vec!["replication is 2"]),
            (3, "1", vec!["min.insync.replicas is 1"]),
            (1, "1", vec!["replication is 1", "min.insync.replicas is 1"]),
        ] {
            let found = copies("b:1", "pay.intake", &one(replication, in_step));
            let named: Vec<bool> =
                found.iter().zip(&broken).map(|(one, what)| one.what.starts_with(what)).collect();
            assert_eq!(named, vec![true; broken.len()], "{replication} {in_step}: {found:?}");
            assert_eq!(found.len(), broken.len(), "{found:?}");
        }
    }

    #[test]
    fn what_was_removed_is_missed_where_it_is_kept_for_ever() {
        let gone = First::Removed { until: 9 };
        let partitions = BTreeMap::from([(0, gone)]);
        let one = SeenTopic { partitions, replication: 3, ..SeenTopic::default() };
        for (topic, missed) in [
            (Topic::Intake, true),
            (Topic::Quarantine, true),
            (Topic::Orders, false),
            (Topic::Findings, true),
        ] {
            let found = beginnings(topic, 0, "pay.x", &one);
            assert_eq!(found.len(), usize::from(missed), "{found:?}");
            assert!(found.iter().all(|finding| finding.fault == Fault::Corrupt));
        }
    }
}
