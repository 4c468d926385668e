//! Tests of the compacted copy on a real broker: a fenced writer writes nothing.

use std::collections::BTreeMap;

use payfold_schemas::position::Position;
use payfold_testing::waits::eventually;
use rdkafka::message::Message as _;

use super::*;
use crate::log::kafka::testing;
use crate::log::kafka::topics::{Footing, TopicsWanted};
use crate::log::{Authenticity, Message};

const WAIT_MAX: Duration = Duration::from_secs(60);

/// The last value of each key.
type Last = BTreeMap<String, String>;

/// Makes a copy of one partition; `None` when tests with real servers are left out.
async fn copy_of_one_partition() -> Option<Arc<CompactedCopy>> {
    let settings = testing::fresh_settings("copy")?;
    let wanted = TopicsWanted {
        partitions: 1,
        replication: 1,
        footing: Footing::Dev,
        ..TopicsWanted::default()
    };
    topics::apply(&settings, &wanted).await.expect("the topics are made");
    Some(Arc::new(CompactedCopy::open(&settings).await.expect("the copy opens")))
}

/// Reads the last message of each key, as a new subscriber does.
fn last(copy: &CompactedCopy) -> Last {
    let mut config = copy.settings.consumer(&format!("{}.newcomer", copy.settings.prefix));
    config.set("isolation.level", "read_committed").set("enable.partition.eof", "true");
    let consumer: BaseConsumer = config.create().expect("a client");
    let mut list = TopicPartitionList::new();
    let name = copy.settings.layout().latest();
    list.add_partition_offset(&name, 0, Offset::Beginning).expect("an offset");
    consumer.assign(&list).expect("assigned");
    let text = |bytes: Option<&[u8]>| String::from_utf8(bytes.expect("bytes").to_vec());
    let mut found = Last::new();
    loop {
        match consumer.poll(WAIT_MAX).expect("[time] something comes") {
            Ok(message) => {
                let key = text(message.key()).expect("text");
                found.insert(key, text(message.payload()).expect("text"));
            }
            Err(KafkaError::PartitionEOF(_)) => return found,
            Err(error) => panic!("{error}"),
        }
    }
}

/// Parses messages written as `key value, key value`.
fn pairs(text: &str) -> impl Iterator<Item = (String, String)> {
    let pair = |one: &str| one.split_once(' ').map(|(key, value)| (key.into(), value.into()));
    text.split(", ").map(move |one| pair(one).expect("a key and a value"))
}

/// Waits until the last message of each key is as wanted.
async fn becomes(copy: &CompactedCopy, text: &str) {
    eventually(&format!("the last messages are {text}"), async || {
        let found = last(copy);
        if found == pairs(text).collect::<Last>() { Ok(()) } else { Err(found) }
    })
    .await;
}

fn batch(messages: &str, next: u64) -> CopyBatch {
    let message = |(key, value): (String, String)| Delivered {
        position: Position::default(),
        key,
        event: None,
        value: value.into_bytes(),
        authenticity: Authenticity::Unchecked(None),
    };
    let place = CopyPlace { next, note: format!("note {next}") };
    CopyBatch { messages: pairs(messages).map(message).collect(), place }
}

/// A writer that was suspended before or within a transaction is fenced by the next writer of its
/// partition.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fenced_writer_writes_nothing() {
    let Some(copy) = copy_of_one_partition().await else { return };
    let (frozen, place) = CopyWriter::open(&copy, 0).await.expect("opened");
    assert_eq!(place, None);
    frozen.put(batch("a 1", 2)).await.expect("written");
    let in_hand = batch("a 1, b 2", 9);

    let (taker, place) = CopyWriter::open(&copy, 0).await.expect("opened");
    assert_eq!(place, Some(CopyPlace { next: 2, note: "note 2".to_owned() }));
    taker.put(batch("a 3", 3)).await.expect("written");
    let error = frozen.put(in_hand).await.expect_err("it is fenced");
    assert!(matches!(&error, EngineError::Unavailable(text) if text.contains("fenced")), "{error}");
    becomes(&copy, "a 3").await;
    taker.put(batch("c 4", 4)).await.expect("it is not disturbed");

    // The open transaction of a fenced writer is aborted at once.
    let name = format!("{}.latest.0", copy.settings.prefix);
    let half = ClientFactory::in_transactions(&copy.settings, (&name, Duration::from_secs(60)));
    let half = half.make_client().expect("a client");
    half.transactions().init_transactions(WAIT_MAX).expect("it takes over");
    half.transactions().begin_transaction().expect("begun");
    let late = Message { key: "a".to_owned(), event: None, value: b"1".to_vec(), mac: None };
    let name = copy.settings.layout().latest();
    half.send(OutgoingMessage::message((&name, 0), &late), 0).expect("it is taken");
    half.transactions().flush(WAIT_MAX).expect("it is sent");
    let (third, place) = CopyWriter::open(&copy, 0).await.expect("opened");
    assert_eq!(place.map(|place| place.next), Some(4));
    third.put(batch("b 2", 5)).await.expect("written");
    assert!(half.transactions().commit_transaction(WAIT_MAX).is_err());
    becomes(&copy, "a 3, b 2, c 4").await;
}
