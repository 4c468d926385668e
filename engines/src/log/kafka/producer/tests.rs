//! The producer against librdkafka's mock cluster, and against a real broker what only that can tell.

use super::*;
use crate::log::kafka::testing::{fresh, kafka_broker};
use crate::log::kafka::topics::{Footing, TopicsWanted, apply};

fn message(key: &str, value: &str) -> Message {
    Message { key: key.to_owned(), event: None, value: value.as_bytes().to_owned() }
}

#[tokio::test(flavor = "multi_thread")]
async fn appended_messages_stand_behind_the_marker() {
    let settings = KafkaSettings::new(vec![kafka_broker()], &fresh("producer"));
    let wanted = TopicsWanted {
        partitions: 1,
        replication: 1,
        footing: Footing::Dev,
        ..TopicsWanted::default()
    };
    apply(&settings, &wanted).await.unwrap();
    let producer = Producer::start(&settings, Observers::default()).unwrap();
    let first = producer.append(Topic::Intake, message("k", "1")).await.unwrap();
    assert_eq!(first, Position { partition: 0, offset: 1 });
    let more = vec![message("k", "2"), message("l", "3")];
    let more = producer.append_all(Topic::Intake, more).await.unwrap();
    assert_eq!(more, [2, 3].map(|offset| Position { partition: 0, offset }));
    assert_eq!(producer.depth(), 0);
    producer.close().await;
    let late = producer.append(Topic::Intake, message("k", "4")).await;
    assert!(matches!(late, Err(EngineError::Unavailable(_))), "{late:?}");
}
