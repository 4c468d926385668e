//! Tests of the producer against librdkafka's mock cluster, and against a real broker where the
//! mock behaves differently.

use std::time::{Duration, Instant};

use futures_util::future::join_all;
use payfold_testing::waits::{Stopwatch, eventually};
use rdkafka::client::ClientContext;
use rdkafka::message::Message as _;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::{
    BaseProducer, BaseRecord, DefaultProducerContext, DeliveryResult, Producer as _,
    ProducerContext,
};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::*;
use crate::log::VALUE_BYTES_MAX;
use crate::log::kafka::topics::{Footing, TopicsWanted, apply};
use crate::log::kafka::{layout::Layout, settings::KafkaSettings, testing};

/// One partition in each topic.
const ONE_EACH: PartitionCounts = PartitionCounts::new([1; Topic::ALL.len()]);

/// A mock cluster of one broker that fails on demand.
struct Mock {
    cluster: MockCluster<'static, DefaultProducerContext>,
    settings: KafkaSettings,
    counts: PartitionCounts,
}

impl Mock {
    /// The delivery timeout is long, because a busy machine may need seconds to reconnect.
    fn new(partitions: i32) -> Self {
        let cluster = MockCluster::new(1).unwrap();
        let layout = Layout::new("pay", 0);
        for topic in Topic::ALL {
            cluster.create_topic(&layout.current(topic), partitions, 1).unwrap();
        }
        let brokers = vec![cluster.bootstrap_servers()];
        let delivery_timeout = Duration::from_secs(20);
        let settings = KafkaSettings { delivery_timeout, ..KafkaSettings::new(brokers, "pay") };
        let counts = PartitionCounts::new([u32::try_from(partitions).unwrap(); Topic::ALL.len()]);
        Self { cluster, settings, counts }
    }

    fn start(&self) -> Producer {
        Producer::start(&self.settings, self.counts, Observers::default()).unwrap()
    }

    /// Starts a producer and appends once, so that it is connected and has its producer id.
    async fn warm(&self) -> Producer {
        let producer = self.start();
        producer.append(Topic::Intake, message("warm", "0")).await.unwrap();
        producer
    }

    /// Sets the errors that the next produce requests are answered with.
    fn answer(&self, errors: &[RDKafkaRespErr]) {
        self.cluster.request_errors(RDKafkaApiKey::Produce, errors);
    }
}

fn message(key: &str, value: &str) -> Message {
    Message { key: key.to_owned(), event: None, value: value.as_bytes().to_owned(), mac: None }
}

fn at(offset: u64) -> Position {
    Position { partition: 0, offset }
}

fn unavailable(outcome: Result<Position, EngineError>) -> String {
    match outcome {
        Err(EngineError::Unavailable(text)) => text,
        other => panic!("{other:?} is not unavailable"),
    }
}

#[tokio::test]
async fn a_transient_error_is_retried_and_the_message_stored_once() {
    use RDKafkaRespErr as Answer;
    let mock = Mock::new(1);
    let producer = mock.warm().await;
    for (n, answer) in [
        Answer::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
        Answer::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        Answer::RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        Answer::RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
        Answer::RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR,
    ]
    .into_iter()
    .enumerate()
    {
        mock.answer(&[answer, answer]);
        let appended = producer.append(Topic::Intake, message("k", "v")).await;
        assert_eq!(appended, Ok(at(u64::try_from(n).unwrap() + 1)), "{answer:?}");
    }
}

#[tokio::test]
async fn a_refused_message_does_not_fail_others() {
    let mock = Mock::new(1);
    let producer = mock.warm().await;
    mock.answer(&[RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_RECORD]);
    let refused = producer.append(Topic::Intake, message("k", "bad")).await;
    assert!(matches!(refused, Err(EngineError::Invalid(_))), "{refused:?}");
    assert_eq!(producer.append(Topic::Intake, message("k", "good")).await, Ok(at(1)));
    mock.answer(&[RDKafkaRespErr::RD_KAFKA_RESP_ERR_POLICY_VIOLATION]);
    let failed = producer.append(Topic::Intake, message("k", "bad")).await;
    assert!(unavailable(failed).starts_with("pay.intake: "));
    assert_eq!(producer.append(Topic::Intake, message("k", "good")).await, Ok(at(2)));

    let long = Message { value: vec![0; VALUE_BYTES_MAX + 1], ..message("k", "") };
    let long = producer.append(Topic::Intake, long).await;
    assert!(matches!(long, Err(EngineError::Invalid(_))), "{long:?}");
    assert_eq!(producer.depth(), 0);
}

#[tokio::test]
async fn a_missing_topic_is_named() {
    let mut mock = Mock::new(1);
    mock.settings.delivery_timeout = Duration::from_secs(2);
    let settings = KafkaSettings { prefix: "other".to_owned(), ..mock.settings.clone() };
    mock.cluster
        .topic_error("other.intake", RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART)
        .unwrap();
    let producer = Producer::start(&settings, ONE_EACH, Observers::default()).unwrap();
    let text = unavailable(producer.append(Topic::Intake, message("k", "v")).await);
    assert!(text.contains("other.intake"), "{text}");
}

#[tokio::test]
async fn a_client_with_a_fatal_error_is_replaced() {
    let mock = Mock::new(1);
    let producer = mock.warm().await;
    let mut refused = 0;
    for round in 0..3 {
        let sent = Instant::now();
        mock.answer(&[RDKafkaRespErr::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER]);
        let all = (0..20).map(|_| producer.append(Topic::Intake, message("k", "v")));
        let mut failed = 0;
        for outcome in join_all(all).await {
            // The mock broker may have stored requests that were sent after the refused one.
            if outcome.is_err() {
                unavailable(outcome);
                failed += 1;
            }
        }
        assert!(failed > 0, "the refused request had messages");
        assert_eq!(producer.depth(), 0);
        eventually("the client is replaced", async || {
            let again = producer.append(Topic::Intake, message("k", "again")).await;
            refused += u32::from(again.is_err());
            again.map_err(|error| unavailable(Err(error)))
        })
        .await;
        let pause = Duration::from_millis(100) * 2_u32.pow(round);
        let took = sent.elapsed();
        assert!(took > pause, "{took:?} in round {round}");
    }
    assert!(refused > 0, "appends do not wait for the next client");
}

#[tokio::test]
#[ignore = "nightly: limits"]
async fn a_broker_that_is_away_costs_the_delivery_timeout() {
    let mut mock = Mock::new(1);
    mock.settings.delivery_timeout = Duration::from_secs(2);
    let producer = mock.warm().await;
    mock.cluster.broker_down(1).unwrap();
    let (watch, started) = (Stopwatch::start(), Instant::now());
    let all = (0..50).map(|_| producer.append(Topic::Intake, message("k", "v")));
    for outcome in join_all(all).await {
        unavailable(outcome);
    }
    let took = started.elapsed();
    watch.assert_within(mock.settings.delivery_timeout + Duration::from_secs(5), "all fail");
    assert!(took > mock.settings.delivery_timeout / 2, "{took:?}");
    assert_eq!(producer.depth(), 0);

    mock.cluster.broker_up(1).unwrap();
    eventually("the broker is found again", async || {
        producer.append(Topic::Intake, message("k", "v")).await
    })
    .await;
}

#[tokio::test]
async fn a_broker_that_comes_back_in_time_gets_everything_in_order() {
    let mock = Mock::new(1);
    let producer = mock.warm().await;
    mock.cluster.broker_down(1).unwrap();
    let all: Vec<_> =
        (0..200).map(|n| producer.append(Topic::Intake, message("k", &n.to_string()))).collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    mock.cluster.broker_up(1).unwrap();
    let appended: Vec<_> = join_all(all).await;
    assert_eq!(appended, (1..=200).map(|offset| Ok(at(offset))).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_key_keeps_its_order_over_retries() {
    let mock = Mock::new(4);
    let producer = mock.warm().await;
    let mut all = Vec::new();
    for n in 0..300 {
        if n % 30 == 0 {
            let passing = RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS;
            mock.answer(&[passing]);
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
        all.push(producer.append(Topic::Intake, message(&format!("k{}", n % 7), "v")));
    }
    // The mock cluster doesn't check sequence numbers: it may refuse a request and accept the next
    // one of that partition. librdkafka then counts the refused messages as stored at an unknown
    // offset. A real broker refuses both requests.
    let appended = join_all(all).await.into_iter().map(|outcome| match outcome {
        Ok(position) => Some(position),
        Err(EngineError::Unavailable(text)) if text.contains("is stored, but") => None,
        Err(error) => panic!("{error}"),
    });
    let appended: Vec<Option<Position>> = appended.collect();
    for key in 0..7 {
        let of_key: Vec<_> = appended.iter().skip(key).step_by(7).flatten().collect();
        assert!(of_key.len() > 1 && of_key.is_sorted_by(|one, next| one < next), "{of_key:?}");
    }
    let mut positions: Vec<_> = appended.into_iter().flatten().collect();
    let known = positions.len();
    positions.sort();
    positions.dedup();
    assert_eq!(positions.len(), known, "two messages have one position");
}

#[tokio::test]
async fn a_full_queue_refuses_at_once_and_has_room_after_an_answer() {
    let mut mock = Mock::new(1);
    mock.settings.queue_max = 2;
    let producer = mock.warm().await;
    mock.cluster.broker_down(1).unwrap();
    let first = producer.append(Topic::Intake, message("k", "1"));
    let second = producer.append(Topic::Intake, message("k", "2"));
    // Before anything could time out.
    let third = unavailable(producer.append(Topic::Intake, message("k", "3")).await);
    assert!(third.contains("full"), "{third}");
    assert_eq!(producer.depth(), 2);
    let beyond = producer.append_all(Topic::Intake, vec![message("k", "4"), message("k", "5")]);
    assert_eq!(producer.depth(), 4, "append_all is not bounded");
    mock.cluster.broker_up(1).unwrap();
    assert_eq!((first.await, second.await), (Ok(at(1)), Ok(at(2))));
    assert_eq!(beyond.await, Ok(vec![at(3), at(4)]));
    assert_eq!(producer.append(Topic::Intake, message("k", "6")).await, Ok(at(5)));
}

#[tokio::test]
async fn append_all_returns_positions_in_order_over_partitions() {
    let mock = Mock::new(4);
    let producer = mock.start();
    let messages = |round: usize| -> Vec<_> {
        (0..100).map(|n| message(&format!("k{}", n % 10), &format!("{round} {n}"))).collect()
    };
    let first = producer.append_all(Topic::Orders, messages(0));
    let second = producer.append_all(Topic::Orders, messages(1));
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    let mut last = [None; 4];
    for position in first.iter().chain(&second) {
        let last = &mut last[usize::try_from(position.partition).unwrap()];
        assert!(*last < Some(position.offset), "{position} after {last:?}");
        *last = Some(position.offset);
    }
    assert!(last.iter().filter(|last| last.is_some()).count() > 1, "several partitions: {last:?}");
    assert_eq!(producer.append_all(Topic::Orders, Vec::new()).await, Ok(Vec::new()));

    mock.answer(&[RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_RECORD]);
    let failed = producer.append_all(Topic::Orders, messages(2)).await;
    assert!(matches!(failed, Err(EngineError::Invalid(_))), "{failed:?}");
    assert!(producer.append_all(Topic::Orders, messages(3)).await.is_ok());
    assert_eq!(producer.depth(), 0);
}

#[tokio::test]
async fn closing_delivers_accepted_messages_and_dropping_a_future_cancels_none() {
    let mock = Mock::new(1);
    let producer = mock.start();
    let waited: Vec<_> =
        (0..100).map(|_| producer.append(Topic::Intake, message("k", "v"))).collect();
    drop(producer.append(Topic::Intake, message("k", "dropped")));
    let last = producer.append(Topic::Intake, message("k", "last"));
    producer.close().await;
    assert_eq!(producer.depth(), 0);
    unavailable(producer.append(Topic::Intake, message("k", "late")).await);
    assert!(join_all(waited).await.iter().all(Result::is_ok));
    assert_eq!(last.await, Ok(at(101)));
    producer.close().await;
}

#[tokio::test]
#[ignore = "nightly: limits"]
async fn closing_does_not_wait_for_a_broker_for_ever() {
    let mut mock = Mock::new(1);
    mock.settings.delivery_timeout = Duration::from_secs(2);
    let producer = mock.warm().await;
    mock.cluster.broker_down(1).unwrap();
    let watch = Stopwatch::start();
    let lost = producer.append(Topic::Intake, message("k", "v"));
    producer.close().await;
    watch.assert_within(mock.settings.delivery_timeout + Duration::from_secs(5), "it closes");
    unavailable(lost.await);
}

#[tokio::test]
async fn every_round_is_observed() {
    let mock = Mock::new(2);
    let seen: Arc<Mutex<Vec<(usize, Duration)>>> = Arc::default();
    let sink = Arc::clone(&seen);
    let commits: CommitObserver =
        Arc::new(move |messages, took| lock(&sink).push((messages, took)));
    let observers = Observers { commits: Some(commits), statistics: None };
    let producer = Producer::start(&mock.settings, mock.counts, observers).unwrap();
    let started = Instant::now();
    let all = (0..50).map(|n| producer.append(Topic::Intake, message(&format!("k{n}"), "v")));
    assert!(join_all(all).await.iter().all(Result::is_ok));
    producer.close().await;
    let seen = lock(&seen).clone();
    assert_eq!(seen.iter().map(|(messages, _)| messages).sum::<usize>(), 50);
    assert!(seen.iter().all(|(_, took)| *took > Duration::ZERO && *took <= started.elapsed()));
}

#[tokio::test]
async fn settings_the_client_refuses_are_invalid() {
    let mut settings = KafkaSettings::new(vec!["127.0.0.1:1".to_owned()], "pay");
    settings.client = vec![("no.such.setting".to_owned(), "1".to_owned())];
    let refused = Producer::start(&settings, ONE_EACH, Observers::default());
    assert!(
        matches!(&refused, Err(EngineError::Invalid(text)) if text.contains("no.such.setting"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn appended_messages_follow_the_marker() {
    let Some(settings) = testing::fresh_settings("producer") else { return };
    let wanted = TopicsWanted {
        partitions: 1,
        replication: 1,
        footing: Footing::Dev,
        ..TopicsWanted::default()
    };
    apply(&settings, &wanted).await.unwrap();
    let producer = Producer::start(&settings, ONE_EACH, Observers::default()).unwrap();
    assert_eq!(producer.append(Topic::Intake, message("k", "1")).await, Ok(at(1)));
    let more = vec![message("k", "2"), message("l", "3")];
    assert_eq!(producer.append_all(Topic::Intake, more).await, Ok(vec![at(2), at(3)]));
}

/// Compares with librdkafka's own partitioner, which agrees with the Java client's, over the same
/// number of partitions.
#[tokio::test]
async fn a_key_belongs_to_the_partition_librdkafka_would_choose() {
    let mock = Mock::new(7);
    let context = Placed::default();
    let mut config = rdkafka::ClientConfig::new();
    config.set("bootstrap.servers", mock.cluster.bootstrap_servers());
    config.set("partitioner", "murmur2_random");
    let client: BaseProducer<Placed> = config.create_with_context(context).unwrap();
    let keys: Vec<String> = (0..2_000).map(|n| "k".repeat(1 + n % 9) + &n.to_string()).collect();
    for (number, key) in keys.iter().enumerate() {
        let record: BaseRecord<'_, str, str, usize> =
            BaseRecord::with_opaque_to("pay.orders", number);
        client.send(record.key(key.as_str()).payload("v")).map_err(|(error, _)| error).unwrap();
    }
    client.flush(Duration::from_secs(30)).unwrap();
    let placed = lock(&client.client().context().0).clone();
    assert_eq!(placed.len(), keys.len());
    for (number, partition) in placed {
        assert_eq!(mock.counts.partition_of_key(Topic::Orders, &keys[number]), partition);
    }
}

/// The partition of each message, by its number.
#[derive(Default)]
struct Placed(Mutex<Vec<(usize, i32)>>);

impl ClientContext for Placed {}

impl ProducerContext for Placed {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        let message = result.as_ref().map_err(|(error, _)| error.clone()).unwrap();
        lock(&self.0).push((number, message.partition()));
    }
}
