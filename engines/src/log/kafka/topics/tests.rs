//! Tests of the topics on a real broker. Rules that need more than one broker are tested with
//! invented cluster states in `rules.rs`.

use std::fmt;

use payfold_testing::waits::eventually;
use rdkafka::admin::{AdminOptions, NewPartitions};

use super::inspection::InspectionDepth;
use super::marker_writer::MarkerWrite;
use super::*;
use crate::log::kafka::marker::Marker;
use crate::log::kafka::producer::client::{ClientFactory, OutgoingMessage, cloud_event};
use crate::log::kafka::testing;

fn dev(partitions: u32) -> TopicsWanted {
    TopicsWanted { partitions, replication: 1, footing: Footing::Dev, ..TopicsWanted::default() }
}

/// Settings with a prefix of their own; `None` when tests with real servers are left out.
fn prefixed() -> Option<KafkaSettings> {
    testing::fresh_settings("topics")
}

/// Makes the topics without markers. `alter` lists topics, settings and values to make them with.
async fn make(
    settings: &KafkaSettings,
    wanted: &TopicsWanted,
    alter: &[(&str, &'static str, &str)],
) {
    let mut steps = plan(settings, wanted).await.unwrap();
    for step in &mut steps {
        let TopicStep::Make { name, settings: values, .. } = step else { continue };
        for (topic, setting, value) in alter.iter().filter(|(topic, ..)| name.ends_with(topic)) {
            assert!(name.ends_with(topic));
            values.retain(|(known, _)| known != setting);
            values.push((*setting, (*value).to_owned()));
        }
    }
    apply::make_topics(settings, &steps).await.unwrap();
    apply::await_topics(settings, &settings.layout()).await.unwrap();
}

fn mark(name: &str, partition: i32, log_id: u8, partitions: u32) -> MarkerWrite {
    let topic = name.rsplit('.').find(|part| !part.starts_with('e')).unwrap().to_owned();
    let epoch = name.rsplit_once(".e").map_or(0, |(_, epoch)| epoch.parse().unwrap_or(0));
    let marker = Marker { log_id: [log_id; 16], topic, epoch, partitions };
    MarkerWrite { name: name.to_owned(), partition, marker }
}

async fn write(settings: &KafkaSettings, marks: Vec<MarkerWrite>) {
    marker_writer::write_markers(settings, marks).await.unwrap();
}

fn invalid<T: fmt::Debug>(result: Result<T, EngineError>) -> String {
    match result {
        Err(EngineError::Invalid(text)) => text,
        other => panic!("{other:?} is not invalid"),
    }
}

fn corrupt<T: fmt::Debug>(result: Result<T, EngineError>) -> String {
    match result {
        Err(EngineError::Corrupt(text)) => text,
        other => panic!("{other:?} is not corrupt"),
    }
}

#[tokio::test]
async fn missing_topics_are_made_once() {
    let Some(settings) = prefixed() else { return };
    let missing = invalid(open_topics(&settings).await);
    assert!(missing.contains("payfold topics apply"), "{missing}");
    let wanted = dev(3);
    let planned = plan(&settings, &wanted).await.unwrap();
    assert_eq!(planned.len(), 9, "{planned:?}");
    assert_eq!(apply(&settings, &wanted).await.unwrap(), planned);
    assert_eq!(apply(&settings, &wanted).await.unwrap(), []);
    assert_eq!(check(&settings, Footing::Dev).await.unwrap(), []);
    let log = open_topics(&settings).await.unwrap();
    assert_ne!(log.log_id, [0; 16]);
    for topic in Topic::ALL {
        assert_eq!(log.partitions(topic), [0, 1, 2]);
    }
    assert_eq!(open_topics(&settings).await, Ok(log));
}

#[tokio::test]
async fn an_interrupted_apply_is_continued() {
    let Some(settings) = prefixed() else { return };
    let (wanted, layout) = (dev(2), settings.layout());
    make(&settings, &wanted, &[]).await;
    let unmarked = invalid(open_topics(&settings).await);
    assert!(unmarked.contains("have no marker"), "{unmarked}");
    write(&settings, vec![mark(&layout.current(Topic::Orders), 1, 7, 2)]).await;
    invalid(open_topics(&settings).await);
    let steps = apply(&settings, &wanted).await.unwrap();
    let orders = layout.current(Topic::Orders);
    assert!(steps.contains(&TopicStep::Mark { name: orders, partitions: vec![0] }), "{steps:?}");
    assert_eq!(
        open_topics(&settings).await.unwrap().log_id,
        [7; 16],
        "the log keeps the id of its first marker"
    );
    assert_eq!(apply(&settings, &wanted).await.unwrap(), []);
}

#[tokio::test]
async fn applies_at_once_make_one_log() {
    let Some(settings) = prefixed() else { return };
    let wanted = dev(2);
    let both = tokio::join!(
        apply(&settings, &wanted),
        apply(&settings, &wanted),
        apply(&settings, &wanted)
    );
    both.0.and(both.1).and(both.2).unwrap();
    open_topics(&settings).await.unwrap();
    assert_eq!(check(&settings, Footing::Dev).await.unwrap(), []);
}

/// A new topic's partitions have no leader yet, or one that doesn't know the topic yet.
#[tokio::test]
async fn a_topic_can_be_read_while_it_is_made() {
    for _ in 0..4 {
        let Some(settings) = prefixed() else { return };
        let wanted = dev(8);
        let seen = ClusterState::read(&settings, InspectionDepth::Settings).await.unwrap();
        let steps = super::apply::plan(&settings, &wanted, &seen).unwrap();
        let made = std::cell::Cell::new(false);
        let making = async {
            super::apply::make_topics(&settings, &steps).await.unwrap();
            made.set(true);
        };
        let looking = async {
            loop {
                let last = made.get();
                ClusterState::read(&settings, InspectionDepth::Settings).await.unwrap();
                if last {
                    return;
                }
            }
        };
        tokio::join!(making, looking);
    }
}

#[tokio::test]
async fn a_marker_that_is_written_twice_is_fine() {
    let Some(settings) = prefixed() else { return };
    let wanted = dev(1);
    apply(&settings, &wanted).await.unwrap();
    let log = open_topics(&settings).await.unwrap();
    let again = mark(&settings.layout().current(Topic::Intake), 0, log.log_id[0], 1);
    let again = MarkerWrite { marker: Marker { log_id: log.log_id, ..again.marker }, ..again };
    write(&settings, vec![again]).await;
    assert_eq!(open_topics(&settings).await, Ok(log));
    assert_eq!(apply(&settings, &wanted).await.unwrap(), []);
}

#[tokio::test]
async fn each_setting_that_breaks_a_guarantee_is_reported() {
    let Some(settings) = prefixed() else { return };
    let wanted = dev(1);
    let broken = [
        (".intake", "retention.ms", "604800000", Severity::Refuse),
        (".intake", "retention.bytes", "1000000000", Severity::Refuse),
        (".orders", "cleanup.policy", "compact,delete", Severity::Refuse),
        (".findings", "unclean.leader.election.enable", "true", Severity::Refuse),
        (".quarantine", "retention.ms", "1000000", Severity::Warn),
        (".quarantine", "max.message.bytes", "1000000", Severity::Warn),
        (".findings", "compression.type", "lz4", Severity::Warn),
        (".orders.latest", "cleanup.policy", "compact,delete", Severity::Refuse),
        (".orders.latest", "unclean.leader.election.enable", "true", Severity::Refuse),
        (".orders.latest", "max.message.bytes", "1000000", Severity::Warn),
    ];
    let alter: Vec<_> =
        broken.iter().map(|(topic, name, value, _)| (*topic, *name, *value)).collect();
    make(&settings, &wanted, &alter).await;
    let steps = apply(&settings, &wanted).await.unwrap();
    let left = steps.iter().filter(|step| matches!(step, TopicStep::Leave(_))).count();
    assert_eq!(left, broken.len(), "existing topics are reported and not altered: {steps:?}");
    let found = check(&settings, Footing::Dev).await.unwrap();
    assert_eq!(found.len(), broken.len(), "{found:?}");
    for (topic, name, value, severity) in broken {
        let named =
            found.iter().find(|one| one.subject.ends_with(topic) && one.what.starts_with(name));
        let named = named.unwrap_or_else(|| panic!("{topic} {name}: {found:?}"));
        assert!(named.what.contains(&format!("is {value}")), "{named}");
        assert!(named.fix.starts_with("kafka-configs.sh") && named.fix.contains(name), "{named}");
        assert_eq!(named.severity, severity, "{named}");
    }
    let found = check(&settings, Footing::Production).await.unwrap();
    for rule in ["replication is 1", "min.insync.replicas is 1"] {
        let named = found.iter().filter(|one| one.what.starts_with(rule));
        assert_eq!(named.count(), 5, "{rule}: {found:?}");
    }
    open_topics(&settings).await.unwrap();
}

#[tokio::test]
async fn an_unreadable_codec_is_refused() {
    let Some(settings) = prefixed() else { return };
    make(&settings, &dev(1), &[(".findings", "compression.type", "zstd")]).await;
    let steps = plan(&settings, &dev(1)).await.unwrap();
    let left: Vec<_> = steps.iter().filter(|step| matches!(step, TopicStep::Leave(_))).collect();
    let [TopicStep::Leave(finding)] = left[..] else { panic!("{steps:?}") };
    assert_eq!(finding.severity, Severity::Refuse, "{finding}");
    let name = settings.layout().current(Topic::Findings);
    write(&settings, vec![mark(&name, 0, 7, 1)]).await;
    let text = invalid(open_topics(&settings).await);
    assert!(text.contains("compression.type"), "{text}");
}

#[tokio::test]
async fn production_needs_three_replicas() {
    let Some(settings) = prefixed() else { return };
    let wanted = TopicsWanted { footing: Footing::Production, ..dev(1) };
    let refused = invalid(plan(&settings, &wanted).await);
    assert!(refused.contains("kafka.replication = 1"), "{refused}");
    let wanted = TopicsWanted { replication: 3, ..dev(1) };
    let refused = apply(&settings, &wanted).await.unwrap_err().to_string();
    assert!(refused.contains("can't be made"), "more copies than brokers: {refused}");
}

/// Waits until `check` returns this many findings.
async fn await_findings(settings: &KafkaSettings, findings: usize) -> Vec<Finding> {
    eventually(&format!("{findings} findings"), async || {
        let found = check(settings, Footing::Dev).await.unwrap();
        if found.len() == findings { Ok(found) } else { Err(found) }
    })
    .await
}

async fn grow(settings: &KafkaSettings, name: &str, partitions: usize) {
    let admin = inspection::admin(settings).unwrap();
    let grown = NewPartitions::new(name, partitions);
    let answers = admin.create_partitions([&grown], &AdminOptions::new()).await.unwrap();
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

#[tokio::test]
async fn added_partitions_are_reported_and_not_used() {
    let Some(settings) = prefixed() else { return };
    let wanted = dev(2);
    apply(&settings, &wanted).await.unwrap();
    let log = open_topics(&settings).await.unwrap();
    let layout = settings.layout();
    let name = layout.current(Topic::Intake);
    grow(&settings, &name, 4).await;
    grow(&settings, &layout.latest(), 3).await;
    let found = await_findings(&settings, 2).await;
    assert!(found.iter().all(|one| one.severity == Severity::Warn), "{found:?}");
    assert!(found[0].what.contains("made with 2 partitions and has 4"), "{found:?}");
    assert!(found[0].what.contains("2 and 3 are empty"), "{found:?}");
    assert!(found[1].what.contains("has 3 partitions and orders has 2"), "{found:?}");
    assert_eq!(open_topics(&settings).await, Ok(log.clone()), "the log has the partitions it had");
    assert_eq!(apply(&settings, &wanted).await.unwrap(), [], "no marker is written into them");

    let client = ClientFactory::new(&settings, None).make_client().unwrap();
    let headers = Some(cloud_event("1", "somebody.else.s", None));
    let value = b"foreign".as_slice();
    let key = Some("somebody's");
    for number in 0..2 {
        let (topic, partition) = (name.as_str(), 3);
        let headers = headers.clone();
        client.send(OutgoingMessage { topic, partition, key, headers, value }, number).unwrap();
    }
    let mut outcomes = Vec::new();
    eventually("both are stored", async || {
        client.collect_outcomes(&mut outcomes);
        if outcomes.len() < 2 { Err(outcomes.len()) } else { Ok(()) }
    })
    .await;
    let found = check(&settings, Footing::Dev).await.unwrap();
    let named = "partition 3 holds 2 records, the first with key \"somebody's\"";
    assert!(found[0].what.contains(named), "{found:?}");
    assert!(found[0].fix.contains("Partitions added in place"), "{found:?}");
    assert_eq!(open_topics(&settings).await, Ok(log), "they don't belong to the log");
}

#[tokio::test]
async fn topics_of_two_logs_are_corrupt() {
    let Some(settings) = prefixed() else { return };
    let (wanted, layout) = (dev(1), settings.layout());
    make(&settings, &wanted, &[]).await;
    let marks = [(Topic::Intake, 1), (Topic::Orders, 2), (Topic::Findings, 1)];
    let marks = marks.map(|(topic, id)| mark(&layout.current(topic), 0, id, 1));
    write(&settings, marks.to_vec()).await;
    for text in [corrupt(apply(&settings, &wanted).await), corrupt(plan(&settings, &wanted).await)]
    {
        assert!(
            text.contains(&layout.current(Topic::Orders)) && text.contains("belongs to log"),
            "{text}"
        );
    }
    let found = check(&settings, Footing::Dev).await.unwrap();
    assert!(found.iter().any(|one| one.what.contains(&"02".repeat(16))), "{found:?}");
}

#[tokio::test]
async fn a_topic_of_another_program_is_not_changed() {
    let Some(settings) = prefixed() else { return };
    let (wanted, layout) = (dev(1), settings.layout());
    make(&settings, &wanted, &[]).await;
    let client = ClientFactory::new(&settings, None).make_client().unwrap();
    let name = layout.current(Topic::Findings);
    let value = mark(&name, 0, 7, 1).marker.encode();
    let outgoing = OutgoingMessage {
        topic: &name,
        partition: 0,
        key: None,
        headers: Some(cloud_event("1", "somebody.else.s", None)),
        value: &value,
    };
    client.send(outgoing, 1).unwrap();
    let outcomes = eventually("it is stored", async || {
        let mut outcomes = Vec::new();
        client.collect_outcomes(&mut outcomes);
        if outcomes.is_empty() { Err("no outcome") } else { Ok(outcomes) }
    })
    .await;
    let text = invalid(apply(&settings, &wanted).await);
    assert!(text.contains("does not start with a marker"), "{text}");
    let (_, first) = outcomes[0];
    assert_eq!(first, Ok((0, 0)), "and no marker was written anywhere");
}

#[tokio::test]
async fn a_new_log_epoch_continues_the_log() {
    let Some(settings) = prefixed() else { return };
    let next = KafkaSettings { epoch: 1, ..settings.clone() };
    let text = invalid(apply(&next, &dev(2)).await);
    assert!(text.contains("has no marker"), "no log epoch without the one before it: {text}");
    apply(&settings, &dev(2)).await.unwrap();
    let log = open_topics(&settings).await.unwrap();

    let wanted = dev(4);
    let steps = apply(&next, &wanted).await.unwrap();
    let name = next.layout().current(Topic::Intake);
    assert!(name.ends_with(".intake.e1"));
    let partitions = (0..4).collect();
    assert_eq!(steps[1..], [TopicStep::Mark { name, partitions }], "{steps:?}");
    let grown = open_topics(&next).await.unwrap();
    assert_eq!(grown.log_id, log.log_id);
    assert_eq!(grown.partitions(Topic::Intake), [0, 1, 65_536, 65_537, 65_538, 65_539]);
    assert_eq!(grown.partitions(Topic::Orders), [0, 1]);
    assert_eq!(check(&next, Footing::Dev).await.unwrap(), []);

    for text in [invalid(open_topics(&settings).await), invalid(plan(&settings, &wanted).await)] {
        assert!(text.contains("set kafka.epoch = 1"), "{text}");
    }
}

#[tokio::test]
#[ignore = "nightly: limits"]
async fn a_cluster_that_is_away_is_unavailable() {
    let settings = KafkaSettings::new(vec!["127.0.0.1:1".to_owned()], "away");
    let away = open_topics(&settings).await;
    assert!(
        matches!(&away, Err(EngineError::Unavailable(text)) if text.contains("127.0.0.1:1")),
        "{away:?}"
    );
}
