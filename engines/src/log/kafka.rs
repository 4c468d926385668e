//! Owns the log in Kafka: one producer for appends, consumers for readers, look-ups beside them.
//! Invariants: see `layout` (which partition is which), `partitioner` (which one a key belongs to), `marker` (what each
//! begins with), `settings` (what every
//! client of ours is bound to), `producer` (durable before told) and `group` (who may deliver what).

mod context;
mod delivered;
mod everywhere;
mod group;
mod latest;
mod layout;
mod lookup;
mod marker;
mod missed;
mod partitioner;
mod place;
mod producer;
mod reader;
mod settings;
mod share;
mod subscription;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod topics;

use std::collections::VecDeque;
use std::sync::Arc;

use payfold_schemas::record::Position;
use rdkafka::ClientConfig;

pub use rdkafka::statistics::Statistics;

pub use self::context::StatisticsObserver;
use self::group::Part;
pub use self::latest::{Latest, LatestNews, LatestObserver};
pub use self::layout::Layout;
use self::lookup::Lookup;
pub use self::marker::Marker;
pub use self::producer::Observers;
use self::producer::Producer;
use self::reader::Reader;
pub use self::settings::{GroupProtocol, KafkaLogin, KafkaSettings};
use self::share::{KafkaShare, check_end};
use self::subscription::KafkaSubscription;
use self::topics::Opened;
use crate::blocking::blocking;
use crate::log::{
    Delivered, EventLog, Extent, Message, Share, Start, Subscription, Topic, check_size,
};
use crate::{EngineError, SeamFuture};

/// The event log in a Kafka cluster.
pub struct KafkaLog {
    settings: KafkaSettings,
    layout: Layout,
    opened: Opened,
    /// None when opened for reading only.
    producer: Option<Producer>,
    lookup: Arc<Lookup>,
}

impl KafkaLog {
    /// Opens a log whose topics are there, and starts its producer. Errors: `Unavailable`, `Invalid` (a topic is
    /// missing, a setting is refused), `Corrupt` (topics that don't belong together).
    pub async fn open(settings: &KafkaSettings, observers: Observers) -> Result<Self, EngineError> {
        let log = Self::open_read_only(settings).await?;
        let producer = Some(Producer::start(settings, log.opened.counts, observers)?);
        Ok(Self { producer, ..log })
    }

    /// Opens a log for listings; appends are `Invalid`.
    pub async fn open_read_only(settings: &KafkaSettings) -> Result<Self, EngineError> {
        settings.check()?;
        let opened = topics::opened(settings).await?;
        let lookup = Arc::new(Lookup::new(settings));
        let (settings, layout) = (settings.clone(), settings.layout());
        Ok(Self { settings, layout, opened, producer: None, lookup })
    }

    fn producer(&self) -> Result<&Producer, EngineError> {
        let read_only = || EngineError::Invalid("this log is open for reading only".to_owned());
        self.producer.as_ref().ok_or_else(read_only)
    }

    /// A group's name in the cluster, where other programs have groups too.
    fn group(&self, group: &str) -> String {
        format!("{}.{group}", self.settings.prefix)
    }

    /// A reader of every partition, after the positions that are named.
    async fn alone(
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
        let config = self.settings.consumer(&self.group(group));
        let part = Part::Alone;
        let reader = self.reader(&config, topic, part)?;
        let shared = Arc::clone(&reader.shared);
        blocking(move || shared.assign(&places)).await?;
        Ok(Box::new(KafkaSubscription { reader, left: VecDeque::new() }))
    }

    fn reader(
        &self,
        config: &ClientConfig,
        topic: Topic,
        part: Part,
    ) -> Result<Reader, EngineError> {
        Reader::start(config, &self.layout, topic, part, self.opened.counts.count(topic))
    }

    fn member(&self, topic: Topic, group: &str) -> Result<KafkaSubscription, EngineError> {
        let config = self.settings.member(&self.group(group));
        let part = Part::Member;
        let reader = self.reader(&config, topic, part)?;
        Ok(KafkaSubscription { reader, left: VecDeque::new() })
    }

    fn keeper(&self, topic: Topic, group: &str) -> Result<KafkaShare, EngineError> {
        let config = self.settings.member(&self.group(group));
        let reader = self.reader(&config, topic, Part::Keeper)?;
        let (lookup, left, given) = (Arc::clone(&self.lookup), VecDeque::new(), Vec::new());
        Ok(KafkaShare { reader, lookup, left, round: 0, given })
    }
}

impl EventLog for KafkaLog {
    fn append(&self, topic: Topic, message: Message) -> SeamFuture<'static, Position, EngineError> {
        match self.producer() {
            Ok(producer) => producer.append(topic, message),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn append_all(
        &self,
        topic: Topic,
        messages: Vec<Message>,
    ) -> SeamFuture<'static, Vec<Position>, EngineError> {
        match self.producer() {
            Ok(producer) => producer.append_all(topic, messages),
            Err(error) => Box::pin(std::future::ready(Err(error))),
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
            everywhere::append(&self.settings, &self.layout, (topic, partitions), message).await
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
                Start::Group => Ok(Box::new(self.member(topic, &group)?) as Box<dyn Subscription>),
                Start::After(after) => self.alone(topic, &group, after).await,
            }
        })
    }

    fn share(&self, topic: Topic, group: &str) -> SeamFuture<'_, Box<dyn Share>, EngineError> {
        let share = self.keeper(topic, group).map(|share| Box::new(share) as Box<dyn Share>);
        Box::pin(std::future::ready(share))
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
