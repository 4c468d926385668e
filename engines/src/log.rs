//! The log seam: what every engine of the event log promises, and the types it speaks in.

pub mod epoch;
#[cfg(feature = "cluster")]
pub mod kafka;
pub mod parked;
mod queue;
pub mod sqlite;
mod waiters;

use std::time::Duration;

use payfold_schemas::event::EventAttributes;
use payfold_schemas::record::Position;

use crate::{EngineError, SeamFuture};

/// The topics. A role never reads what it writes, except facts in `Intake`, the one door.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Topic {
    /// Every fact, keyed by order. Kept for ever.
    Intake,
    /// `order.changed` events, keyed by order.
    Orders,
    /// `finding.changed` events.
    Findings,
    /// Validly signed notices that could not be admitted, keyed by account.
    Quarantine,
}

impl Topic {
    /// Every topic.
    pub const ALL: [Topic; 4] = [Self::Intake, Self::Orders, Self::Findings, Self::Quarantine];

    /// Its name: table in SQLite, topic (behind the prefix) in Kafka.
    pub fn name(self) -> &'static str {
        match self {
            Self::Intake => "intake",
            Self::Orders => "orders",
            Self::Findings => "findings",
            Self::Quarantine => "quarantine",
        }
    }
}

/// What is appended: a record's envelope (intake, quarantine) or an event's JSON data (orders, findings).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Messages of one key keep their order.
    pub key: String,
    /// CloudEvents attributes for event topics; none for records.
    pub event: Option<EventAttributes>,
    /// The envelope, or the event's data as JSON.
    pub value: Vec<u8>,
}

/// A message as it is read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// Where it stands.
    pub position: Position,
    /// The key it was appended with.
    pub key: String,
    /// CloudEvents attributes (id, type, RFC 3339 time) for event topics; none for records.
    pub event: Option<DeliveredEvent>,
    /// The value it was appended with.
    pub value: Vec<u8>,
}

/// CloudEvents attributes as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveredEvent {
    /// The event's id.
    pub id: String,
    /// The event's type.
    pub kind: String,
    /// RFC 3339.
    pub time: String,
}

/// Where a subscription starts, and whether it reads alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// After the group's last ack; from the first message if it never acked. The partitions are shared out
    /// among all subscriptions of the group, in all processes; as they change hands, messages that were
    /// delivered and not acked are delivered again.
    Group,
    /// Alone, every partition, after these positions (one per partition); a partition not named starts at its
    /// first message. Acks are `Invalid`.
    After(Vec<Position>),
}

/// What a share has to tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Messages, never none.
    Messages(Vec<Delivered>),
    /// These partitions are this reader's from now on. They stand still until `begin`.
    Given(Vec<u32>),
    /// These are another reader's next. Nothing of them is delivered any more; what was is to be finished, then
    /// `release` lets them go. Who takes longer than `RELEASE_MAX` loses them.
    Taken(Vec<u32>),
    /// These are another reader's already, who may have gone on: what is known of them is to be forgotten.
    Lost(Vec<u32>),
}

/// How long a reader has to finish what it has of partitions that are taken from it.
pub const RELEASE_MAX: Duration = Duration::from_secs(15);

/// How far a topic reaches: one entry per partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The partition.
    pub partition: u32,
    /// Offset of the first message it still holds; 0 while it is empty.
    pub first: u64,
    /// Offset of the last message; 0 while it is empty.
    pub last: u64,
    /// What the partition's values take, bytes; an estimate is enough. None where the engine can't tell.
    pub bytes: Option<u64>,
}

impl Extent {
    /// Where the last message stands; offset 0 while it is empty.
    pub fn end(&self) -> Position {
        Position { partition: self.partition, offset: self.last }
    }
}

/// The append-only event log.
///
/// Durability: a position is returned, and a message is delivered to readers, only after the message
/// would survive the death of the process and of the machine (SQLite: committed and synced; Kafka: acks=all).
/// Order: messages of one key are delivered in the order in which their appends were *called* on one log
/// object; an append that failed may or may not be delivered.
/// Repeat: appending twice gives two messages. Nothing is ever edited or removed.
/// Appends never block: what can't be queued is refused at once with `Unavailable`.
pub trait EventLog: Send + Sync {
    /// Appends one message; resolves when it is durable. Dropping the future does not recall the message.
    /// Errors: `Unavailable` at once when the queue is full, later when the storage fails (whether it was
    /// stored is then unknown); never hangs.
    fn append(&self, topic: Topic, message: Message) -> SeamFuture<'static, Position, EngineError>;

    /// Appends messages in order; resolves when all are durable, with their positions in order.
    /// Not limited by the queue bound. On an error any part of them may have been stored.
    fn append_all(
        &self,
        topic: Topic,
        messages: Vec<Message>,
    ) -> SeamFuture<'static, Vec<Position>, EngineError>;

    /// Appends a message to every partition of a topic that is appended to, whatever its key; resolves when all are
    /// durable. On an error any of them may have been stored. A log of one partition has nothing to add.
    fn append_marker(
        &self,
        topic: Topic,
        message: Message,
    ) -> SeamFuture<'_, Vec<Position>, EngineError> {
        Box::pin(self.append_all(topic, vec![message]))
    }

    /// Opens a reader of a topic for a group.
    fn subscribe(
        &self,
        topic: Topic,
        group: &str,
        start: Start,
    ) -> SeamFuture<'_, Box<dyn Subscription>, EngineError>;

    /// Opens a reader of the partitions that fall to it among all readers of a group, for a reader that keeps
    /// its place elsewhere: it is told which partitions come and go, and says itself where each begins.
    fn share(&self, topic: Topic, group: &str) -> SeamFuture<'_, Box<dyn Share>, EngineError>;

    /// Reads up to `limit` messages of one partition after a position, without a group; empty at the end.
    /// For listings and point look-ups.
    fn read_after(
        &self,
        topic: Topic,
        after: Position,
        limit: usize,
    ) -> SeamFuture<'_, Vec<Delivered>, EngineError>;

    /// How far the topic reaches, partition by partition.
    fn extent(&self, topic: Topic) -> SeamFuture<'_, Vec<Extent>, EngineError>;

    /// The random id this log got when it was made: stores remember which log they were folded from.
    fn id(&self) -> [u8; 16];

    /// Checks that what is appended now goes where a restart finds it, without writing anything. An engine that can't
    /// tell says yes. Errors: `Unavailable` with what is wrong.
    fn check_storage(&self) -> SeamFuture<'_, (), EngineError> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// How many appends wait for durability now, for metrics.
    fn queue_depth(&self) -> usize;

    /// Refuses new appends, makes everything queued durable, and returns when it is.
    fn close(&self) -> SeamFuture<'_, (), EngineError>;
}

/// A reader of one topic that owns some of its partitions for a time, and says where each begins. At one time
/// a partition is one reader's of the group, as far as anybody can know; who was cut off and does not know it
/// yet may still hold it, so what it writes has to lose against what its successor writes.
pub trait Share: Send {
    /// Waits for what comes next: messages (up to `limit`), or partitions that come or go. Each partition is
    /// delivered in order from where it began, without a gap, every message at least once.
    /// Cancel-safe. Errors: `Unavailable` (call again), `Corrupt` (stop).
    fn next(&mut self, limit: usize) -> SeamFuture<'_, Turn, EngineError>;

    /// Lets partitions that were given begin after these positions; one not named begins at its first message.
    /// What is no longer this reader's is left out. Errors: `Unavailable` (call again), `Invalid` past the end.
    fn begin(&mut self, after: Vec<Position>) -> SeamFuture<'_, (), EngineError>;

    /// Lets go what was taken: everything of it is finished.
    fn release(&mut self) -> SeamFuture<'_, (), EngineError>;

    /// Remembers for the group, for people and tools that watch it, that everything up to these positions is
    /// done. What is no longer this reader's is left out.
    fn ack(&mut self, through: Vec<Position>) -> SeamFuture<'_, (), EngineError>;
}

/// A reader of one topic. Each partition is delivered in order from its start, every message at least once.
pub trait Subscription: Send {
    /// Waits for messages and returns up to `limit`, never an empty list.
    /// Cancel-safe: dropping the future loses nothing. Errors: `Unavailable` (call again), `Corrupt` (stop).
    fn next_batch(&mut self, limit: usize) -> SeamFuture<'_, Vec<Delivered>, EngineError>;

    /// Remembers for the group that everything up to these positions is done; one behind the last ack
    /// takes nothing back. Errors: `Invalid` past the end.
    fn ack(&mut self, through: Vec<Position>) -> SeamFuture<'_, (), EngineError>;
}

/// Greatest value of a message, bytes: far above what any profile lets in.
pub(crate) const VALUE_BYTES_MAX: usize = 16 << 20;

/// Errors: `Invalid` for a value no engine takes.
pub(crate) fn check_size(messages: &[Message]) -> Result<(), EngineError> {
    match messages.iter().find(|message| message.value.len() > VALUE_BYTES_MAX) {
        None => Ok(()),
        Some(message) => Err(EngineError::Invalid(format!(
            "a value of {} bytes is longer than {VALUE_BYTES_MAX}",
            message.value.len()
        ))),
    }
}
