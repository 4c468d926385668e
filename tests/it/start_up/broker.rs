//! Owns what an administrator can do to topics without payfold, on the real broker.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, ConfigSource, NewPartitions, NewTopic,
    ResourceSpecifier, TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use serde_json::json;

use super::Start;
use crate::support::pair::runtime;
use crate::support::waits::until;

const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Who may do anything to a log's topics.
pub struct Broker {
    config: ClientConfig,
    prefix: String,
}

impl Broker {
    /// For the topics of a start.
    pub fn of(start: &Start) -> Self {
        let kafka = start.names.kafka();
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", kafka.brokers.join(","));
        Self { config, prefix: kafka.prefix }
    }

    /// Kafka's name of a topic of the log.
    pub fn name(&self, topic: &str) -> String {
        format!("{}.{topic}", self.prefix)
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.config.create().expect("a client can be made")
    }

    /// Makes a topic of two partitions by hand.
    pub fn make(&self, topic: &str, settings: &[(&str, &str)]) {
        let name = self.name(topic);
        let mut wanted = NewTopic::new(&name, 2, TopicReplication::Fixed(1));
        for (setting, value) in settings {
            wanted = wanted.set(setting, value);
        }
        let made = runtime().block_on(self.admin().create_topics([&wanted], &options()));
        assert_eq!(made.expect("the broker answers"), [Ok(name)]);
        until("the topic is known", ANSWER_MAX, || (self.partitions(topic) == 2).then_some(()));
    }

    /// Deletes one.
    pub fn delete(&self, topic: &str) {
        let name = self.name(topic);
        let done = runtime().block_on(self.admin().delete_topics(&[&name], &options()));
        assert_eq!(done.expect("the broker answers"), [Ok(name)]);
        until("the topic is gone", ANSWER_MAX, || (self.partitions(topic) == 0).then_some(()));
    }

    /// Gives one more partitions.
    pub fn grow(&self, topic: &str, partitions: usize) {
        let name = self.name(topic);
        let wanted = NewPartitions::new(&name, partitions);
        let done = runtime().block_on(self.admin().create_partitions([&wanted], &options()));
        assert_eq!(done.expect("the broker answers"), [Ok(name.clone())]);
        let grown = || (self.partitions(topic) == partitions).then_some(());
        until("the partitions are known", ANSWER_MAX, grown);
    }

    /// Gives a setting of a topic another value, and leaves its others.
    pub fn set(&self, topic: &str, setting: &str, value: &str) {
        let (admin, name) = (self.admin(), self.name(topic));
        let one = ResourceSpecifier::Topic(&name);
        runtime().block_on(async {
            let described = admin.describe_configs([&one], &options()).await;
            let mut described = described.expect("the broker answers");
            let entries = described.remove(0).expect("the topic is there").entries;
            let own = entries.iter().filter(|entry| entry.source == ConfigSource::DynamicTopic);
            let mut altered = AlterConfig::new(one);
            for entry in own.filter(|entry| entry.name != setting) {
                altered = altered.set(&entry.name, entry.value.as_deref().unwrap_or_default());
            }
            let altered = altered.set(setting, value);
            let done = admin.alter_configs([&altered], &options()).await;
            assert!(done.expect("the broker answers")[0].is_ok(), "{setting} of {name}");
            // A broker may still answer with the old one.
            while !is_set(&admin, &one, (setting, value)).await {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
    }

    /// Writes a message of this type into each partition.
    pub fn write(&self, topic: &str, kind: &str, value: &str) {
        let producer: BaseProducer = self.config.create().expect("a client can be made");
        let name = self.name(topic);
        for partition in 0..2 {
            let record = BaseRecord::to(&name).partition(partition).key("somebody").payload(value);
            let kind = Header { key: "ce_type", value: Some(kind) };
            let record = record.headers(OwnedHeaders::new().insert(kind));
            producer.send(record).map_err(|(error, _)| error).expect("it can be queued");
        }
        producer.flush(ANSWER_MAX).expect("it is written");
    }

    /// Writes the marker of a topic with this log id, topic and epoch.
    pub fn mark(&self, topic: &str, (log_id, of, epoch): (u8, &str, u32)) {
        let log_id = format!("{log_id:02x}").repeat(16);
        let marker = json!({ "logId": log_id, "topic": of, "epoch": epoch, "partitions": 2 });
        self.write(topic, "payfold.topic.opened.v1", &marker.to_string());
    }

    /// Removes the first message of each partition.
    pub fn remove_first(&self, topic: &str) {
        let mut places = TopicPartitionList::new();
        for partition in 0..2 {
            let added =
                places.add_partition_offset(&self.name(topic), partition, Offset::Offset(1));
            added.expect("an offset");
        }
        let done = runtime().block_on(self.admin().delete_records(&places, &options()));
        done.expect("the broker answers");
    }

    fn partitions(&self, topic: &str) -> usize {
        let consumer: BaseConsumer = self.config.create().expect("a client can be made");
        let seen = consumer.fetch_metadata(None, ANSWER_MAX).expect("the broker answers");
        let name = self.name(topic);
        seen.topics().iter().find(|one| one.name() == name).map_or(0, |one| one.partitions().len())
    }
}

async fn is_set(
    admin: &AdminClient<DefaultClientContext>,
    one: &ResourceSpecifier<'_>,
    (setting, value): (&str, &str),
) -> bool {
    let described = admin.describe_configs([one], &options()).await.expect("the broker answers");
    let topic = described[0].as_ref().expect("the topic is there");
    topic.get(setting).is_some_and(|entry| entry.value.as_deref() == Some(value))
}

fn options() -> AdminOptions {
    AdminOptions::new().request_timeout(Some(ANSWER_MAX)).operation_timeout(Some(ANSWER_MAX))
}
