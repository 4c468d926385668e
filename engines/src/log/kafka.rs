//! Owns the log in Kafka: one producer for appends, one consumer per reader, and look-ups.
//! Invariants: see `layout` (the numbers of partitions), `partitioner` (the partition of a key),
//! `marker` (the first message of each partition), `settings` (what holds for every client),
//! `producer` (an append is answered only when it is durable) and `group` (which partitions a
//! reader may deliver).

pub mod acls;
mod all_partitions;
mod assigned_reader;
pub mod compacted;
mod context;
mod group;
mod layout;
mod lookup;
mod marker;
mod message_decoder;
mod partitioner;
mod producer;
mod reader;
mod reader_position;
mod rejoin;
mod settings;
mod subscription;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod topics;

use std::collections::VecDeque;
use std::sync::Arc;

use payfold_schemas::position::Position;
use rdkafka::ClientConfig;

pub use rdkafka::statistics::Statistics;

use self::assigned_reader::{KafkaAssignedReader, check_end};
pub use self::context::StatisticsObserver;
use self::group::GroupRole;
pub use self::layout::Layout;
use self::lookup::Lookup;
pub use self::marker::Marker;
pub use self::producer::Observers;
use self::producer::Producer;
use self::reader::ConsumerReader;
pub use self::settings::{GroupProtocol, KafkaLogin, KafkaSettings};
use self::subscription::KafkaSubscription;
use self::topics::OpenedTopics;
use crate::blocking::blocking;
use crate::log::{
    AssignedReader, Delivered, EventLog, Extent, Message, Start, Subscription, Topic, check_size,
};
use crate::{EngineError, SeamFuture, failed};

/// The event log in a Kafka cluster.
pub struct KafkaLog {
    settings: KafkaSettings,
    layout: Layout,
    opened: OpenedTopics,
    /// `None` for a log opened for reading only.
    producer: Option<Producer>,
    lookup: Arc<Lookup>,
}

impl KafkaLog {
    /// Opens a log with existing topics, and starts its producer. Errors: `Unavailable`, `Invalid`
    /// (a topic is missing, a setting is refused), `Corrupt` (the topics belong to different logs).
    pub async fn open(settings: &KafkaSettings, observers: Observers) -> Result<Self, EngineError> {
        let log = Self::open_read_only(settings).await?;
        let producer = Some(Producer::start(settings, log.opened.counts, observers)?);
        Ok(Self { producer, ..log })
    }

    /// Opens a log for listings; appends are `Invalid`.
    pub async fn open_read_only(settings: &KafkaSettings) -> Result<Self, EngineError> {
        settings.check()?;
        let opened = topics::open_topics(settings).await?;
        let lookup = Arc::new(Lookup::new(settings));
        let (settings, layout) = (settings.clone(), settings.layout());
        Ok(Self { settings, layout, opened, producer: None, lookup })
    }

    fn producer(&self) -> Result<&Producer, EngineError> {
        let read_only = || EngineError::Invalid("this log is open for reading only".to_owned());
        self.producer.as_ref().ok_or_else(read_only)
    }

    /// A group's id in the cluster; the prefix keeps it apart from other programs' groups.
    fn group_id(&self, group: &str) -> String {
        format!("{}.{group}", self.settings.prefix)
    }

    /// Opens a reader of every partition outside any group, after these positions.
    async fn open_standalone(
        &self,
        topic: Topic,
        group: &str,
        after: Vec<Position>,
    ) -> Result<Box<dyn Subscription>, EngineError> {
        let partitions = self.opened.partitions(topic);
        let extents = self.extent(topic).await?;
        for position in &after {
            let extent = extents.iter().find(|extent| extent.partition == position.partition);
            let extent = extent.ok_or_else(|| {
                let name = topic.name();
                EngineError::Invalid(format!(
                    "topic {name} has no partition {}",
                    position.partition
                ))
            })?;
            check_end(topic, *position, extent)?;
        }
        let of = |partition: &u32| {
            let named = after.iter().find(|position| position.partition == *partition);
            named.copied().unwrap_or(Position { partition: *partition, offset: 0 })
        };
        let places: Vec<_> = partitions.iter().map(of).collect();
        let config = self.settings.consumer(&self.group_id(group));
        let reader = self.start_reader(&config, topic, GroupRole::Standalone)?;
        let shared = Arc::clone(&reader.shared);
        blocking(move || shared.assign(&places)).await?;
        Ok(Box::new(KafkaSubscription { reader, unread: VecDeque::new() }))
    }

    fn start_reader(
        &self,
        config: &ClientConfig,
        topic: Topic,
        role: GroupRole,
    ) -> Result<ConsumerReader, EngineError> {
        ConsumerReader::start(config, &self.layout, topic, role, self.opened.counts.count(topic))
    }

    fn open_subscriber(&self, topic: Topic, group: &str) -> Result<KafkaSubscription, EngineError> {
        let config = self.settings.member(&self.group_id(group));
        let reader = self.start_reader(&config, topic, GroupRole::Subscriber)?;
        Ok(KafkaSubscription { reader, unread: VecDeque::new() })
    }

    fn open_assigned_reader(
        &self,
        topic: Topic,
        group: &str,
    ) -> Result<KafkaAssignedReader, EngineError> {
        let config = self.settings.member(&self.group_id(group));
        let reader = self.start_reader(&config, topic, GroupRole::AssignedReader)?;
        let (lookup, unread, assigned) = (Arc::clone(&self.lookup), VecDeque::new(), Vec::new());
        Ok(KafkaAssignedReader { reader, lookup, unread, round: 0, assigned })
    }
}

impl EventLog for KafkaLog {
    fn append(&self, topic: Topic, message: Message) -> SeamFuture<'static, Position, EngineError> {
        match self.producer() {
            Ok(producer) => producer.append(topic, message),
            Err(error) => failed(error),
        }
    }

    fn append_all(
        &self,
        topic: Topic,
        messages: Vec<Message>,
    ) -> SeamFuture<'static, Vec<Position>, EngineError> {
        match self.producer() {
            Ok(producer) => producer.append_all(topic, messages),
            Err(error) => failed(error),
        }
    }

    fn append_marker(
        &self,
        topic: Topic,
        message: Message,
    ) -> SeamFuture<'_, Vec<Position>, EngineError> {
        Box::pin(async move {
            self.producer()?;
            check_size(std::slice::from_ref(&message))?;
            let partitions = self.opened.partitions(topic);
            all_partitions::append_to_partitions(
                &self.settings,
                &self.layout,
                (topic, partitions),
                message,
            )
            .await
        })
    }

    fn subscribe(
        &self,
        topic: Topic,
        group: &str,
        start: Start,
    ) -> SeamFuture<'_, Box<dyn Subscription>, EngineError> {
        let group = group.to_owned();
        Box::pin(async move {
            match start {
                Start::Group => {
                    Ok(Box::new(self.open_subscriber(topic, &group)?) as Box<dyn Subscription>)
                }
                Start::After(after) => self.open_standalone(topic, &group, after).await,
            }
        })
    }

    fn join_group(
        &self,
        topic: Topic,
        group: &str,
    ) -> SeamFuture<'_, Box<dyn AssignedReader>, EngineError> {
        let reader = self
            .open_assigned_reader(topic, group)
            .map(|reader| Box::new(reader) as Box<dyn AssignedReader>);
        Box::pin(std::future::ready(reader))
    }

    fn read_after(
        &self,
        topic: Topic,
        after: Position,
        limit: usize,
    ) -> SeamFuture<'_, Vec<Delivered>, EngineError> {
        let lookup = Arc::clone(&self.lookup);
        Box::pin(blocking(move || lookup.read_after(topic, after, limit)))
    }

    fn extent(&self, topic: Topic) -> SeamFuture<'_, Vec<Extent>, EngineError> {
        let (lookup, partitions) =
            (Arc::clone(&self.lookup), self.opened.partitions(topic).to_vec());
        Box::pin(blocking(move || lookup.extents(topic, &partitions)))
    }

    fn id(&self) -> [u8; 16] {
        self.opened.log_id
    }

    fn queue_depth(&self) -> usize {
        self.producer.as_ref().map_or(0, Producer::depth)
    }

    fn close(&self) -> SeamFuture<'_, (), EngineError> {
        Box::pin(async move {
            if let Some(producer) = &self.producer {
                producer.close().await;
            }
            Ok(())
        })
    }
}
