//! A log whose topics are given more partitions while it runs, on a real broker: nothing moves.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::try_join_all;
use rdkafka::admin::{AdminOptions, NewPartitions};
use rdkafka::consumer::Consumer;

use super::topics::{Footing, TopicsWanted};
use super::*;
use crate::lock;
use crate::log::Turn;
use crate::log::kafka::producer::client::{Factory, Outgoing};

const WAIT_MAX: Duration = Duration::from_secs(60);

/// Settings of a log of its own with two partitions a topic, whose clients learn of new ones soon; none when real
/// servers are left out.
async fn log_of_two() -> Option<KafkaSettings> {
    let mut settings = testing::settings("grown")?;
    let client = [("topic.metadata.refresh.interval.ms", "200"), ("statistics.interval.ms", "100")];
    settings.client = client.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let wanted = TopicsWanted {
        partitions: 2,
        replication: 1,
        footing: Footing::Dev,
        ..TopicsWanted::default()
    };
    topics::apply(&settings, &wanted).await.expect("the topics are made");
    Some(settings)
}

/// Gives a topic more partitions, as `kafka-topics --alter` does.
async fn grow(settings: &KafkaSettings, name: &str, partitions: usize) {
    let admin = topics::admin(settings).expect("a client");
    let grown = NewPartitions::new(name, partitions);
    let answers = admin.create_partitions([&grown], &AdminOptions::new()).await;
    let answers = answers.expect("the broker answers");
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

fn message(topic: Topic, key: usize) -> (Topic, Message) {
    (topic, Message { key: format!("acme/SHOP/{key}"), event: None, value: b"v".to_vec() })
}

/// Appends one message for each of 40 keys to every topic; which partitions they came to.
async fn append_keys(log: &KafkaLog) -> Vec<u32> {
    let all = Topic::ALL.into_iter().flat_map(|topic| (0..40).map(move |key| message(topic, key)));
    let appended = try_join_all(all.map(|(topic, message)| log.append(topic, message))).await;
    appended.expect("they are appended").iter().map(|position| position.partition).collect()
}

/// The partitions a client knows of each topic, as its statistics say.
type Known = Arc<std::sync::Mutex<BTreeMap<String, BTreeSet<i32>>>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_stay_where_they_are_when_partitions_are_added() {
    let Some(settings) = log_of_two().await else { return };
    let known = Known::default();
    let of_observer = Arc::clone(&known);
    let statistics: StatisticsObserver = Arc::new(move |statistics| {
        for (name, topic) in &statistics.topics {
            lock(&of_observer).insert(name.clone(), topic.partitions.keys().copied().collect());
        }
    });
    let observers = Observers { statistics: Some(statistics), commits: None };
    let log = KafkaLog::open(&settings, observers).await.expect("the log opens");
    let before = append_keys(&log).await;
    assert_eq!(before.iter().collect::<BTreeSet<_>>(), BTreeSet::from([&0, &1]));
    let names = Topic::ALL.map(|topic| settings.layout().current(topic));
    for name in &names {
        grow(&settings, name, 7).await;
    }
    let learnt = async {
        // It looks at what it writes to.
        while !names.iter().all(|name| lock(&known).get(name).is_some_and(|all| all.contains(&6))) {
            append_keys(&log).await;
        }
    };
    tokio::time::timeout(WAIT_MAX, learnt)
        .await
        .expect("[time] the client learns of the partitions");
    assert_eq!(append_keys(&log).await, before, "no key moves");
    let all = vec![message(Topic::Intake, 1).1; 3];
    let together = log.append_all(Topic::Intake, all).await.expect("appended");
    assert!(together.iter().all(|position| position.partition == before[1]), "{together:?}");
    let marked = log.append_marker(Topic::Intake, message(Topic::Intake, 1).1).await;
    assert_eq!(marked.expect("appended").len(), 2);
    log.close().await.expect("it closes");
    drop(log);

    let again = KafkaLog::open(&settings, Observers::default()).await.expect("it opens again");
    assert_eq!(append_keys(&again).await, before);
    assert_eq!(again.extent(Topic::Intake).await.expect("told").len(), 2);
}

/// Writes something into one partition, as somebody else may, and waits until it is stored.
async fn write_foreign(settings: &KafkaSettings, name: &str, partition: i32) {
    let client = Factory::new(settings, None).make().expect("a client");
    client.send(Outgoing::message((name, partition), &FOREIGN), 0).expect("it is queued");
    let mut fates = Vec::new();
    while fates.is_empty() {
        client.collect(&mut fates);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(fates, [(0, Ok((partition, 0)))]);
}

static FOREIGN: std::sync::LazyLock<Message> = std::sync::LazyLock::new(|| Message {
    key: "somebody's".to_owned(),
    event: None,
    value: b"foreign".to_vec(),
});

/// What a reader was told until it has had so many messages: the messages of each partition.
async fn read_share(share: &mut KafkaShare, messages: usize) -> BTreeMap<u32, usize> {
    let mut read = BTreeMap::new();
    while read.values().sum::<usize>() < messages {
        match share.next(1_000).await.expect("it reads on") {
            Turn::Messages(all) => {
                all.iter().for_each(|one| *read.entry(one.position.partition).or_default() += 1);
            }
            other => panic!("no partition of the log comes or goes: {other:?}"),
        }
    }
    read
}

async fn read_member(member: &mut KafkaSubscription, messages: usize) -> BTreeMap<u32, usize> {
    let mut read = BTreeMap::new();
    while read.values().sum::<usize>() < messages {
        for one in member.next_batch(1_000).await.expect("it reads on") {
            *read.entry(one.position.partition).or_default() += 1;
        }
    }
    read
}

fn is_assigned(reader: &Reader, partitions: usize) -> bool {
    reader.shared.consumer.assignment().is_ok_and(|all| all.count() == partitions)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_go_on_when_partitions_are_added_and_leave_those_alone() {
    let Some(settings) = log_of_two().await else { return };
    let log = KafkaLog::open(&settings, Observers::default()).await.expect("the log opens");
    let mut share = log.keeper(Topic::Intake, "projector").expect("a reader");
    let mut member = log.member(Topic::Intake, "reconciler").expect("a reader");
    assert_eq!(share.next(1).await, Ok(Turn::Given(vec![0, 1])));
    share.begin(Vec::new()).await.expect("it begins");
    append_keys(&log).await;
    let first = read_share(&mut share, 40).await;
    assert_eq!(first.keys().collect::<Vec<_>>(), [&0, &1]);
    assert_eq!(read_member(&mut member, 40).await, first);

    let name = settings.layout().current(Topic::Intake);
    grow(&settings, &name, 5).await;
    let learnt = async {
        while !is_assigned(&share.reader, 5) || !is_assigned(&member.reader, 5) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(WAIT_MAX, learnt)
        .await
        .expect("[time] the groups learn of the partitions");
    write_foreign(&settings, &name, 4).await;
    append_keys(&log).await;
    assert_eq!(read_share(&mut share, 40).await, first);
    assert_eq!(read_member(&mut member, 40).await, first);
    let through: Vec<_> = log.extent(Topic::Intake).await.expect("told");
    assert_eq!(through.len(), 2);
    member.ack(through.iter().map(Extent::end).collect()).await.expect("acknowledged");

    // Another reader joins, then it is alone: of what changes hands only the partitions of the log are told.
    let mut other = log.keeper(Topic::Intake, "projector").expect("a reader");
    let mut told = BTreeSet::new();
    let shared_out = async {
        while is_assigned(&other.reader, 0) {
            tokio::select! {
                turn = share.next(1) => match turn.expect("it reads on") {
                    Turn::Taken(taken) if taken.iter().all(|one| *one < 2) => {
                        share.release().await.expect("released");
                    }
                    turn => panic!("nothing else goes: {turn:?}"),
                },
                turn = other.next(1) => take_given(turn, &mut told),
                () = tokio::time::sleep(Duration::from_millis(20)) => {}
            }
        }
    };
    tokio::time::timeout(WAIT_MAX, shared_out).await.expect("[time] partitions change hands");
    drop(share);
    let taken_over = async {
        while told.len() < 2 {
            take_given(other.next(1).await, &mut told);
        }
    };
    tokio::time::timeout(WAIT_MAX, taken_over)
        .await
        .expect("[time] the other reader gets the rest");
    assert!(is_assigned(&other.reader, 5));
}

fn take_given(turn: Result<Turn, EngineError>, told: &mut BTreeSet<u32>) {
    match turn.expect("it reads") {
        Turn::Given(given) if given.iter().all(|one| *one < 2) => told.extend(given),
        turn => panic!("only partitions of the log come: {turn:?}"),
    }
}
