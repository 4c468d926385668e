//! The topics on a real broker.

use super::*;
use crate::log::kafka::testing::{fresh, kafka_broker};

fn dev(partitions: u32) -> TopicsWanted {
    TopicsWanted { partitions, replication: 1, footing: Footing::Dev, ..TopicsWanted::default() }
}

fn prefixed() -> KafkaSettings {
    KafkaSettings::new(vec![kafka_broker()], &fresh("topics"))
}

#[tokio::test]
async fn what_is_missing_is_made_once() {
    let settings = prefixed();
    let Err(EngineError::Invalid(text)) = opened(&settings).await else { panic!("opened") };
    assert!(text.contains("payfold topics apply"), "{text}");
    let wanted = dev(3);
    let planned = plan(&settings, &wanted).await.unwrap();
    assert_eq!(planned.len(), 8, "{planned:?}");
    assert_eq!(apply(&settings, &wanted).await.unwrap(), planned);
    assert_eq!(apply(&settings, &wanted).await.unwrap(), []);
    let found = check(&settings, Footing::Dev).await.unwrap();
    assert_eq!(found, []);
    let log = opened(&settings).await.unwrap();
    assert_ne!(log.log_id, [0; 16]);
    for topic in Topic::ALL {
        assert_eq!(log.partitions(topic), [0, 1, 2]);
    }
}
