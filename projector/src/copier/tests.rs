//! The copier on a real broker: the last message of each key is its newest event, whatever is
//! appended to `orders` and whichever copiers run.

use std::sync::atomic::{AtomicU32, Ordering};

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::Message;
use payfold_engines::log::kafka::topics::{self, Footing, TopicsWanted};
use payfold_engines::log::kafka::{KafkaLog, Observers};
use payfold_schemas::event::{EventAttributes, ORDER_CHANGED_TYPE};
use payfold_testing::stack;
use payfold_testing::waits::eventually;
use prometheus::Registry;
use prometheus::proto::MetricFamily;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use rdkafka::{Offset, TopicPartitionList};
use serde_json::json;
use tokio::task::JoinHandle;

use super::*;

const WAIT_MAX: Duration = Duration::from_secs(60);

type Last = BTreeMap<String, (u64, u64)>;

fn dev(partitions: u32) -> TopicsWanted {
    TopicsWanted { partitions, replication: 1, footing: Footing::Dev, ..TopicsWanted::default() }
}

/// Settings with a prefix no other test has. Messages have more time than a busy machine takes.
/// `None` if the tests run without real servers.
fn fresh_settings() -> Option<KafkaSettings> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let broker = stack::is_available().then(stack::broker)?;
    let (count, now) = (COUNT.fetch_add(1, Ordering::Relaxed), SystemClock.now().unix_nanos());
    let settings = KafkaSettings::new(vec![broker], &format!("latest-{now:x}-{count}"));
    Some(KafkaSettings { delivery_timeout: Duration::from_secs(30), ..settings })
}

/// A client's settings for that broker.
fn client(settings: &KafkaSettings) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", settings.brokers.join(","));
    config
}

/// A log that no other test uses; `None` if the tests run without real servers.
async fn log_of(partitions: u32) -> Option<(KafkaSettings, Arc<dyn EventLog>)> {
    let settings = fresh_settings()?;
    topics::apply(&settings, &dev(partitions)).await.expect("the topics are made");
    let log = KafkaLog::open(&settings, Observers::default()).await.expect("the log opens");
    Some((settings, Arc::new(log)))
}

/// Parses `key epoch.version@partition-offset`, with `!` at the end for a rebuilt order.
fn event(text: &str) -> Message {
    let kind = if text.ends_with('!') { "rebuilt" } else { "ipn" };
    let (key, rest) = text.trim_end_matches('!').split_once(' ').expect("a key");
    let (number, cause) = rest.split_once('@').expect("a cause");
    let (epoch, version) = number.split_once('.').expect("a number");
    let [epoch, version] = [epoch, version].map(|one| one.parse::<u64>().expect("one"));
    let position: Position = cause.parse().expect("a position");
    let data = json!({
        "epoch": epoch, "version": version, "cause": { "kind": kind, "position": position },
    });
    let id = format!("{key}/{epoch}/{version}");
    let event = EventAttributes { id, kind: ORDER_CHANGED_TYPE, time: SystemClock.now() };
    Message {
        key: key.to_owned(),
        event: Some(event),
        value: data.to_string().into_bytes(),
        mac: None,
    }
}

async fn append(log: &Arc<dyn EventLog>, events: &str) {
    let messages = events.split(", ").map(event).collect();
    log.append_all(Topic::Orders, messages).await.expect("appended");
}

/// The last message of each key, as a new subscriber reads them.
fn last(settings: &KafkaSettings) -> Last {
    let mut config = client(settings);
    config
        .set("group.id", format!("{}.newcomer", settings.prefix))
        .set("enable.auto.commit", "false")
        .set("isolation.level", "read_committed")
        .set("enable.partition.eof", "true");
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
        match consumer.poll(WAIT_MAX).expect("[time] something comes") {
            Ok(message) => {
                let key = std::str::from_utf8(message.key().expect("a key")).expect("text");
                let data: serde_json::Value =
                    serde_json::from_slice(message.payload().expect("a value")).expect("JSON");
                let number = |name: &str| data[name].as_u64().expect("a number");
                found.insert(key.to_owned(), (number("epoch"), number("version")));
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
        let (epoch, version) = number.split_once('.').expect("a number");
        (key.to_owned(), (epoch.parse().expect("one"), version.parse().expect("one")))
    };
    text.split(", ").map(of).collect()
}

/// Waits until the last message of each key is as wanted.
async fn becomes(settings: &KafkaSettings, text: &str) {
    eventually(&format!("the last messages are {text}"), async || {
        let found = last(settings);
        if found == wanted(text) { Ok(()) } else { Err(found) }
    })
    .await;
}

/// A running copier.
struct Running {
    stop: watch::Sender<bool>,
    registry: Registry,
    task: JoinHandle<()>,
}

fn run(settings: &KafkaSettings, log: &Arc<dyn EventLog>) -> Running {
    let (stop, stopped) = watch::channel(false);
    let registry = Registry::new();
    let metrics = ProjectorMetrics::new(&registry, Arc::new(SystemClock)).expect("registered");
    // A value that the copier never sets, so that a test sees when the copier has set one.
    metrics.set_latest_lag(u64::MAX);
    let copier = Copier::new(settings.clone(), Arc::clone(log), Arc::new(metrics));
    Running { stop, registry, task: tokio::spawn(copier.run(stopped)) }
}

impl Running {
    fn metric(&self, name: &str) -> f64 {
        let families = self.registry.gather();
        let of_name = |family: &&MetricFamily| family.name().ends_with(name);
        let metric = &families.iter().find(of_name).expect("registered").get_metric()[0];
        metric.get_gauge().get_value() + metric.get_counter().get_value()
    }

    fn failures(&self) -> f64 {
        self.metric("latest_failures_total")
    }

    async fn wait_for_failure(&self, what: &str) {
        let failed = async || (self.failures() > 0.0).then_some(()).ok_or("no failure");
        eventually(what, failed).await;
    }

    /// Stops the copier; returns how often it failed.
    async fn stop(mut self) -> f64 {
        self.stop.send_replace(true);
        (&mut self.task).await.expect("it ends");
        self.failures()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_of_each_order_is_its_newest() {
    let Some((settings, log)) = log_of(2).await else { return };
    append(&log, "a 1.1@0-1, b 1.1@1-1, a 1.2@0-2, c 1.1@0-3").await;
    let running = run(&settings, &log);
    becomes(&settings, "a 1.2, b 1.1, c 1.1").await;
    // A frozen projector publishes events late, after another projector has published newer ones.
    append(&log, "a 1.1@0-1, c 1.2@0-4").await;
    becomes(&settings, "a 1.2, b 1.1, c 1.2").await;
    assert_eq!(running.stop().await, 0.0);
    // While no copier runs, a gap is filled, an event is late, and orders are rebuilt.
    append(&log, "d 1.1@0-6, e 1.1@0-5, a 1.1@0-1, b 1.2@1-2, c 2.2@0-9!, d 2.4@0-9!").await;
    let running = run(&settings, &log);
    becomes(&settings, "a 1.2, b 1.2, c 2.2, d 2.4, e 1.1").await;
    append(&log, "d 1.1@0-6, c 1.2@0-4, c 2.3@0-10, e 1.1@0-5").await;
    becomes(&settings, "a 1.2, b 1.2, c 2.3, d 2.4, e 1.1").await;
    eventually("it counts that it is not behind", async || {
        let lag = running.metric("latest_lag_records");
        if lag > 0.0 { Err(lag) } else { Ok(()) }
    })
    .await;
    assert_eq!(last(&settings), wanted("a 1.2, b 1.2, c 2.3, d 2.4, e 1.1"));
    assert_eq!(running.stop().await, 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_copy_waits_for_its_topic_and_is_refilled_after_a_loss() {
    let Some(settings) = fresh_settings() else { return };
    let without = KafkaSettings { orders_latest: false, ..settings.clone() };
    topics::apply(&without, &dev(1)).await.expect("the topics are made");
    assert_eq!(topics::check(&without, Footing::Dev).await, Ok(Vec::new()));
    let log = KafkaLog::open(&settings, Observers::default()).await.expect("the log opens");
    let log: Arc<dyn EventLog> = Arc::new(log);
    append(&log, "a 1.1@0-1, a 1.2@0-2").await;
    let running = run(&settings, &log);
    running.wait_for_failure("it says that there is none").await;
    topics::apply(&settings, &dev(1)).await.expect("it is made");
    becomes(&settings, "a 1.2").await;
    running.stop().await;

    // The topic is deleted and created; then the copier refills it from `orders`.
    let admin: AdminClient<DefaultClientContext> = client(&settings).create().expect("a client");
    let name = settings.layout().latest();
    let deleted = admin.delete_topics(&[&name], &AdminOptions::new()).await;
    assert_eq!(deleted.expect("the broker answers"), [Ok(name)]);
    // The broker answers before it has forgotten the topic.
    eventually("the topic goes", async || match topics::check(&settings, Footing::Dev).await {
        Ok(found) if !found.is_empty() => Ok(()),
        seen => Err(seen),
    })
    .await;
    topics::apply(&settings, &dev(1)).await.expect("it is made");
    append(&log, "b 1.1@0-3").await;
    let running = run(&settings, &log);
    becomes(&settings, "a 1.2, b 1.1").await;
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unreadable_event_is_not_skipped_and_halts_its_partition_only() {
    let Some((settings, log)) = log_of(2).await else { return };
    // Two keys of two partitions, by the partitioner of JVM clients.
    append(&log, "a 1.1@0-1, b 1.1@0-1, c 1.1@0-2, d 1.1@1-2").await;
    let running = run(&settings, &log);
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
    eventually(&format!("the last messages are {expected:?}"), async || {
        let found = last(&settings);
        if found == expected { Ok(()) } else { Err(found) }
    })
    .await;
    // The other partition may be copied before the copier meets the broken event.
    running.wait_for_failure("it counts the broken event").await;
    assert_eq!(running.stop().await, 1.0);
    assert_eq!(last(&settings), expected);
}
