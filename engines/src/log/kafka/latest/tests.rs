//! The twin on a real broker: what is last of each key, whatever comes to `orders` and whoever keeps it.

use std::sync::atomic::{AtomicU64, Ordering};

use payfold_schemas::event::{EventAttributes, ORDER_CHANGED_TYPE};
use rdkafka::admin::AdminOptions;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use rdkafka::producer::Producer as _;
use rdkafka::{Offset, TopicPartitionList};
use serde_json::json;
use tokio::task::JoinHandle;

use super::writer::{Batch, Place};
use super::*;
use crate::clock::{Clock, SystemClock};
use crate::log::kafka::producer::client::{Factory, Outgoing};
use crate::log::kafka::topics::{Footing, TopicsWanted};
use crate::log::kafka::{KafkaLog, Observers, testing};
use crate::log::{Delivered, DeliveredEvent, Message};

const WAIT_MAX: Duration = Duration::from_secs(60);

type Last = BTreeMap<String, (u64, u64)>;

fn dev(partitions: u32) -> TopicsWanted {
    TopicsWanted { partitions, replication: 1, footing: Footing::Dev, ..TopicsWanted::default() }
}

/// A log of its own; none when real servers are left out.
async fn log_of(partitions: u32) -> Option<(KafkaSettings, Arc<dyn EventLog>)> {
    let settings = testing::settings("latest")?;
    topics::apply(&settings, &dev(partitions)).await.expect("the topics are made");
    let log = KafkaLog::open(&settings, Observers::default()).await.expect("the log opens");
    Some((settings, Arc::new(log)))
}

/// `key generation.version@partition-offset`, with `!` behind it for one that is rebuilt.
fn event(text: &str) -> Message {
    let kind = if text.ends_with('!') { "rebuilt" } else { "ipn" };
    let (key, rest) = text.trim_end_matches('!').split_once(' ').expect("a key");
    let (number, cause) = rest.split_once('@').expect("a cause");
    let (generation, version) = number.split_once('.').expect("a number");
    let [generation, version] = [generation, version].map(|one| one.parse::<u64>().expect("one"));
    let position: Position = cause.parse().expect("a position");
    let data = json!({
        "generation": generation, "version": version, "cause": { "kind": kind, "position": position },
    });
    let id = format!("{key}/{generation}/{version}");
    let event = EventAttributes { id, kind: ORDER_CHANGED_TYPE, time: SystemClock.now() };
    Message { key: key.to_owned(), event: Some(event), value: data.to_string().into_bytes() }
}

async fn append(log: &Arc<dyn EventLog>, events: &str) {
    let messages = events.split(", ").map(event).collect();
    log.append_all(Topic::Orders, messages).await.expect("appended");
}

/// As a newcomer reads it, who takes what stands behind for newer: the last message of each key.
fn last(settings: &KafkaSettings) -> Last {
    let mut config = settings.consumer(&format!("{}.newcomer", settings.prefix));
    config.set("isolation.level", "read_committed").set("enable.partition.eof", "true");
    let consumer: BaseConsumer = config.create().expect("a client");
    let name = settings.layout().latest();
    let seen = consumer.fetch_metadata(Some(&name), WAIT_MAX).expect("the broker answers");
    let partitions = seen.topics()[0].partitions().len();
    let mut list = TopicPartitionList::new();
    for partition in 0..partitions {
        let partition = i32::try_from(partition).expect("few");
        list.add_partition_offset(&name, partition, Offset::Beginning).expect("an offset");
    }
    consumer.assign(&list).expect("assigned");
    let (mut found, mut ended) = (Last::new(), 0);
    while ended < partitions {
        match consumer.poll(WAIT_MAX).expect("something comes") {
            Ok(message) => {
                let key = std::str::from_utf8(message.key().expect("a key")).expect("text");
                let data: serde_json::Value =
                    serde_json::from_slice(message.payload().expect("a value")).expect("JSON");
                let number = |name: &str| data[name].as_u64().expect("a number");
                found.insert(key.to_owned(), (number("generation"), number("version")));
            }
            Err(KafkaError::PartitionEOF(_)) => ended += 1,
            Err(error) => panic!("{error}"),
        }
    }
    found
}

fn wanted(text: &str) -> Last {
    let of = |one: &str| {
        let (key, number) = one.split_once(' ').expect("a key");
        let (generation, version) = number.split_once('.').expect("a number");
        (key.to_owned(), (generation.parse().expect("one"), version.parse().expect("one")))
    };
    text.split(", ").map(of).collect()
}

/// Waits until the last of each key is as wanted.
async fn becomes(settings: &KafkaSettings, text: &str) {
    let until = Instant::now() + WAIT_MAX;
    loop {
        let found = last(settings);
        if found == wanted(text) {
            return;
        }
        assert!(Instant::now() < until, "[time] {found:?} is not {text}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// A keeper that runs.
struct Keeping {
    stop: watch::Sender<bool>,
    failures: Arc<AtomicU64>,
    behind: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

fn keep(settings: &KafkaSettings, log: &Arc<dyn EventLog>) -> Keeping {
    let (stop, stopped) = watch::channel(false);
    let (failures, behind) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(u64::MAX)));
    let (failed, is_behind) = (Arc::clone(&failures), Arc::clone(&behind));
    let tell: LatestObserver = Arc::new(move |news| match news {
        LatestNews::Failed => drop(failed.fetch_add(1, Ordering::SeqCst)),
        LatestNews::Behind(messages) => is_behind.store(messages, Ordering::SeqCst),
    });
    let task = tokio::spawn(Latest::new(settings.clone(), Arc::clone(log)).run(tell, stopped));
    Keeping { stop, failures, behind, task }
}

impl Keeping {
    async fn stop(self) -> u64 {
        self.stop.send_replace(true);
        self.task.await.expect("it ends");
        self.failures.load(Ordering::SeqCst)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_of_each_order_is_its_newest() {
    let Some((settings, log)) = log_of(2).await else { return };
    append(&log, "a 1.1@0-1, b 1.1@1-1, a 1.2@0-2, c 1.1@0-3").await;
    let keeping = keep(&settings, &log);
    becomes(&settings, "a 1.2, b 1.1, c 1.1").await;
    // A projector that was frozen publishes late what another one has gone beyond.
    append(&log, "a 1.1@0-1, c 1.2@0-4").await;
    becomes(&settings, "a 1.2, b 1.1, c 1.2").await;
    assert_eq!(keeping.stop().await, 0);
    // Nobody keeps it meanwhile: a gap is filled, something is late, orders are rebuilt.
    append(&log, "d 1.1@0-6, e 1.1@0-5, a 1.1@0-1, b 1.2@1-2, c 2.2@0-9!, d 2.4@0-9!").await;
    let keeping = keep(&settings, &log);
    becomes(&settings, "a 1.2, b 1.2, c 2.2, d 2.4, e 1.1").await;
    append(&log, "d 1.1@0-6, c 1.2@0-4, c 2.3@0-10, e 1.1@0-5").await;
    becomes(&settings, "a 1.2, b 1.2, c 2.3, d 2.4, e 1.1").await;
    let until = Instant::now() + WAIT_MAX;
    while keeping.behind.load(Ordering::SeqCst) > 0 {
        assert!(Instant::now() < until, "[time] it says it is behind");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(last(&settings), wanted("a 1.2, b 1.2, c 2.3, d 2.4, e 1.1"));
    assert_eq!(keeping.stop().await, 0);
}

fn delivered(text: &str) -> Delivered {
    let Message { key, event, value } = event(text);
    let event = event.map(|event| DeliveredEvent {
        id: event.id,
        kind: event.kind.to_owned(),
        time: event.time.to_rfc3339(),
    });
    Delivered { position: Position::default(), key, event, value }
}

fn batch(events: &str, next: u64) -> Batch {
    let place = Place { next, note: format!("1 {next}") };
    Batch { messages: events.split(", ").map(delivered).collect(), place }
}

/// Frozen with a batch in hand, or in the middle of a transaction, it is shut out by who took over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_was_taken_over_writes_nothing_any_more() {
    let Some((settings, _log)) = log_of(1).await else { return };
    let group = Arc::new(Group::new(&settings, "test").expect("a group"));
    let (frozen, place) = Writer::open(&group, 0).await.expect("opened");
    assert_eq!(place, None);
    frozen.put(batch("a 1.1@0-1", 2)).await.expect("written");
    let in_hand = batch("a 1.1@0-1, b 1.1@0-2", 9);

    let (taker, place) = Writer::open(&group, 0).await.expect("opened");
    assert_eq!(place, Some(Place { next: 2, note: "1 2".to_owned() }));
    taker.put(batch("a 1.2@0-3", 3)).await.expect("written");
    let error = frozen.put(in_hand).await.expect_err("it was shut out");
    assert!(matches!(&error, EngineError::Unavailable(text) if text.contains("fenced")), "{error}");
    becomes(&settings, "a 1.2").await;
    taker.put(batch("c 1.1@0-4", 4)).await.expect("it is not disturbed");

    // What one has sent and not committed goes with it; who takes over does not wait for it.
    let half = Factory::in_transactions(
        &settings,
        (&format!("{}.latest.0", settings.prefix), Duration::from_secs(60)),
    );
    let half = half.make().expect("a client");
    half.transactions().init_transactions(WAIT_MAX).expect("it takes over");
    half.transactions().begin_transaction().expect("begun");
    let late = event("a 1.1@0-1");
    let outgoing = Outgoing::message(("", 0), &late);
    let name = settings.layout().latest();
    half.send(Outgoing { topic: &name, ..outgoing }, 0).expect("it is taken");
    half.transactions().flush(WAIT_MAX).expect("it is sent");
    let (third, place) = Writer::open(&group, 0).await.expect("opened");
    assert_eq!(place.map(|place| place.next), Some(4));
    third.put(batch("b 1.1@0-2", 5)).await.expect("written");
    assert!(half.transactions().commit_transaction(WAIT_MAX).is_err());
    becomes(&settings, "a 1.2, b 1.1, c 1.1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_is_waited_for_and_filled_again() {
    let Some(settings) = testing::settings("latest") else { return };
    let without = KafkaSettings { orders_latest: false, ..settings.clone() };
    topics::apply(&without, &dev(1)).await.expect("the topics are made");
    assert_eq!(topics::check(&without, Footing::Dev).await, Ok(Vec::new()));
    let log = KafkaLog::open(&settings, Observers::default()).await.expect("the log opens");
    let log: Arc<dyn EventLog> = Arc::new(log);
    append(&log, "a 1.1@0-1, a 1.2@0-2").await;
    let keeping = keep(&settings, &log);
    let until = Instant::now() + WAIT_MAX;
    while keeping.failures.load(Ordering::SeqCst) == 0 {
        assert!(Instant::now() < until, "[time] it does not say that there is none");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    topics::apply(&settings, &dev(1)).await.expect("it is made");
    becomes(&settings, "a 1.2").await;
    keeping.stop().await;

    // Made anew, it gets again what `orders` holds.
    let admin = topics::admin(&settings).expect("a client");
    let name = settings.layout().latest();
    let deleted = admin.delete_topics(&[&name], &AdminOptions::new()).await;
    assert_eq!(deleted.expect("the broker answers"), [Ok(name)]);
    // It answers before it has forgotten the topic.
    let until = Instant::now() + WAIT_MAX;
    while topics::latest_is_there(&settings).await.is_ok() {
        assert!(Instant::now() < until, "[time] the topic does not go");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    topics::apply(&settings, &dev(1)).await.expect("it is made");
    append(&log, "b 1.1@0-3").await;
    let keeping = keep(&settings, &log);
    becomes(&settings, "a 1.2, b 1.1").await;
    keeping.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_can_not_be_read_is_not_skipped_and_holds_up_its_partition_only() {
    let Some((settings, log)) = log_of(2).await else { return };
    // Of two partitions, by what JVM clients make of the keys.
    append(&log, "a 1.1@0-1, b 1.1@0-1, c 1.1@0-2, d 1.1@1-2").await;
    let keeping = keep(&settings, &log);
    becomes(&settings, "a 1.1, b 1.1, c 1.1, d 1.1").await;
    let broken = Message { value: b"{}".to_vec(), ..event("a 1.2@0-5") };
    let at = log.append(Topic::Orders, broken).await.expect("appended");
    append(&log, "a 1.3@0-6, b 1.3@0-6, c 1.3@0-7, d 1.3@0-8").await;
    let mut expected = Last::new();
    for key in ["a", "b", "c", "d"] {
        let stands = log.read_after(Topic::Orders, Position { offset: 0, ..at }, 100).await;
        let is_there = stands.expect("read").iter().any(|message| message.key == key);
        expected.insert(key.to_owned(), (1, if is_there { 1 } else { 3 }));
    }
    assert!(expected.values().any(|number| *number == (1, 3)), "{expected:?}");
    let until = Instant::now() + WAIT_MAX;
    while last(&settings) != expected {
        assert!(Instant::now() < until, "[time] {:?} is not {expected:?}", last(&settings));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(keeping.stop().await, 1);
    assert_eq!(last(&settings), expected);
}
