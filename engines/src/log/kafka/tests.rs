//! Tests on a real broker that keys and readers are unaffected when partitions are added to the
//! topics of a running log.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::try_join_all;
use payfold_testing::waits::eventually;
use rdkafka::admin::{AdminOptions, NewPartitions};
use rdkafka::consumer::Consumer;

use super::topics::{Footing, TopicsWanted};
use super::*;
use crate::lock;
use crate::log::kafka::producer::client::{ClientFactory, OutgoingMessage};
use crate::log::{ReaderOutput, Rebalance};

const WAIT_MAX: Duration = Duration::from_secs(60);

/// Makes a log with two partitions per topic. Its clients learn of new partitions soon. `None` when
/// tests with real servers are left out.
async fn log_of_two() -> Option<KafkaSettings> {
    let mut settings = testing::fresh_settings("grown")?;
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

/// Adds partitions to a topic, as `kafka-topics --alter` does.
async fn grow(settings: &KafkaSettings, name: &str, partitions: usize) {
    let admin = topics::admin(settings).expect("a client");
    let grown = NewPartitions::new(name, partitions);
    let answers = admin.create_partitions([&grown], &AdminOptions::new()).await;
    let answers = answers.expect("the broker answers");
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
}

fn message(topic: Topic, key: usize) -> (Topic, Message) {
    (
        topic,
        Message { key: format!("acme/SHOP/{key}"), event: None, value: b"v".to_vec(), mac: None },
    )
}

/// Appends one message for each of 40 keys to every topic; returns their partitions.
async fn append_keys(log: &KafkaLog) -> Vec<u32> {
    let all = Topic::ALL.into_iter().flat_map(|topic| (0..40).map(move |key| message(topic, key)));
    let appended = try_join_all(all.map(|(topic, message)| log.append(topic, message))).await;
    appended.expect("they are appended").iter().map(|position| position.partition).collect()
}

/// The partitions of each topic that a client knows, from its statistics.
type Known = Arc<std::sync::Mutex<BTreeMap<String, BTreeSet<i32>>>>;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_keep_their_partitions_when_partitions_are_added() {
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
    eventually("the client learns of the partitions", async || {
        // A client refreshes the metadata of topics it writes to.
        append_keys(&log).await;
        let known = lock(&known).clone();
        let knows_all = |name: &String| known.get(name).is_some_and(|all| all.contains(&6));
        if names.iter().all(knows_all) { Ok(()) } else { Err(known) }
    })
    .await;
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
    assert_eq!(again.extent(Topic::Intake).await.expect("extents").len(), 2);
}

/// Writes a message into one partition, as another program may, and waits until it is stored.
async fn write_foreign(settings: &KafkaSettings, name: &str, partition: i32) {
    let client = ClientFactory::new(settings, None).make_client().expect("a client");
    client.send(OutgoingMessage::message((name, partition), &FOREIGN), 0).expect("it is queued");
    let outcomes = eventually("it is stored", async || {
        let mut outcomes = Vec::new();
        client.collect_outcomes(&mut outcomes);
        if outcomes.is_empty() { Err("no outcome") } else { Ok(outcomes) }
    })
    .await;
    assert_eq!(outcomes, [(0, Ok((partition, 0)))]);
}

static FOREIGN: std::sync::LazyLock<Message> = std::sync::LazyLock::new(|| Message {
    key: "somebody's".to_owned(),
    event: None,
    value: b"foreign".to_vec(),
    mac: None,
});

/// Reads this many messages from an assigned reader; returns their number by partition.
async fn read_assigned(reader: &mut KafkaAssignedReader, messages: usize) -> BTreeMap<u32, usize> {
    let mut read = BTreeMap::new();
    while read.values().sum::<usize>() < messages {
        let next = tokio::time::timeout(WAIT_MAX, reader.next(1_000)).await;
        match next.expect("[time] messages come").expect("it reads on") {
            ReaderOutput::Messages(all) => {
                all.iter().for_each(|one| *read.entry(one.position.partition).or_default() += 1);
            }
            other => panic!("no partition of the log comes or goes: {other:?}"),
        }
    }
    read
}

async fn read_subscriber(
    subscriber: &mut KafkaSubscription,
    messages: usize,
) -> BTreeMap<u32, usize> {
    let mut read = BTreeMap::new();
    while read.values().sum::<usize>() < messages {
        let next = tokio::time::timeout(WAIT_MAX, subscriber.next_batch(1_000)).await;
        for one in next.expect("[time] messages come").expect("it reads on") {
            *read.entry(one.position.partition).or_default() += 1;
        }
    }
    read
}

fn is_assigned(reader: &ConsumerReader, partitions: usize) -> bool {
    reader.shared.consumer.assignment().is_ok_and(|all| all.count() == partitions)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_ignore_partitions_that_are_added() {
    let Some(settings) = log_of_two().await else { return };
    let log = KafkaLog::open(&settings, Observers::default()).await.expect("the log opens");
    let mut reader = log.open_assigned_reader(Topic::Intake, "projector").expect("a reader");
    let mut subscriber = log.open_subscriber(Topic::Intake, "reconciler").expect("a reader");
    assert_eq!(reader.next(1).await, Ok(assigned(&[0, 1])));
    reader.start_after(Vec::new()).await.expect("it begins");
    append_keys(&log).await;
    let first = read_assigned(&mut reader, 40).await;
    assert_eq!(first.keys().collect::<Vec<_>>(), [&0, &1]);
    assert_eq!(read_subscriber(&mut subscriber, 40).await, first);

    let name = settings.layout().current(Topic::Intake);
    grow(&settings, &name, 5).await;
    eventually("the groups learn of the partitions", async || {
        let learnt = [is_assigned(&reader.reader, 5), is_assigned(&subscriber.reader, 5)];
        if learnt == [true, true] { Ok(()) } else { Err(learnt) }
    })
    .await;
    write_foreign(&settings, &name, 4).await;
    append_keys(&log).await;
    assert_eq!(read_assigned(&mut reader, 40).await, first);
    assert_eq!(read_subscriber(&mut subscriber, 40).await, first);
    let through: Vec<_> = log.extent(Topic::Intake).await.expect("extents");
    assert_eq!(through.len(), 2);
    subscriber.ack(through.iter().map(Extent::end).collect()).await.expect("acknowledged");

    // A second reader joins, and then the first one leaves: both learn of rebalances of the log's
    // partitions only.
    let mut other = log.open_assigned_reader(Topic::Intake, "projector").expect("a reader");
    let mut assigned_partitions = BTreeSet::new();
    let shared_out = async {
        while is_assigned(&other.reader, 0) {
            tokio::select! {
                output = reader.next(1) => match output.expect("it reads on") {
                    ReaderOutput::Rebalance(Rebalance::Revoked(revoked))
                        if revoked.iter().all(|one| *one < 2) =>
                    {
                        reader.release_revoked().await.expect("released");
                    }
                    output => panic!("nothing else goes: {output:?}"),
                },
                output = other.next(1) => take_assigned(output, &mut assigned_partitions),
                () = tokio::time::sleep(Duration::from_millis(20)) => {}
            }
        }
    };
    tokio::time::timeout(WAIT_MAX, shared_out).await.expect("[time] partitions change hands");
    drop(reader);
    let taken_over = async {
        while assigned_partitions.len() < 2 {
            take_assigned(other.next(1).await, &mut assigned_partitions);
        }
    };
    tokio::time::timeout(WAIT_MAX, taken_over)
        .await
        .expect("[time] the other reader gets the rest");
    assert!(is_assigned(&other.reader, 5));
}

fn assigned(partitions: &[u32]) -> ReaderOutput {
    ReaderOutput::Rebalance(Rebalance::Assigned(partitions.to_vec()))
}

fn take_assigned(
    output: Result<ReaderOutput, EngineError>,
    assigned_partitions: &mut BTreeSet<u32>,
) {
    match output.expect("it reads") {
        ReaderOutput::Rebalance(Rebalance::Assigned(partitions))
            if partitions.iter().all(|one| *one < 2) =>
        {
            assigned_partitions.extend(partitions);
        }
        output => panic!("only partitions of the log come: {output:?}"),
    }
}
