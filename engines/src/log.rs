//! Owns the `EventLog` trait, which every engine of the event log implements, and its types.

pub mod authenticated;
pub mod epoch;
#[cfg(feature = "cluster")]
pub mod kafka;
mod queue;
pub mod sqlite;
mod waiters;
pub mod walk;

use std::time::Duration;

use payfold_schemas::event::EventAttributes;
use payfold_schemas::position::Position;
use payfold_schemas::record::{self, IntakeRecord, Record, RecordError};
use payfold_schemas::record_mac::{MacContent, NotAuthentic, RecordKey, RecordMac, Writer};
use payfold_schemas::writers::writer_of_event;
use serde::Serialize;

use crate::{EngineError, SeamFuture};

/// The topics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Topic {
    /// Every fact, keyed by order, and the markers of switches and of parked records. Nothing is
    /// ever deleted.
    Intake,
    /// `order.changed` events, keyed by order.
    Orders,
    /// Findings of reconciliation, decisions of people, and who read a notice's raw bytes.
    Findings,
    /// Notices with a valid signature that could not be admitted, or that a profile keeps whole.
    /// Keyed by account.
    Quarantine,
}

impl Topic {
    /// Every topic.
    pub const ALL: [Topic; 4] = [Self::Intake, Self::Orders, Self::Findings, Self::Quarantine];

    /// Its index in `ALL`.
    pub(crate) fn index(self) -> usize {
        match self {
            Self::Intake => 0,
            Self::Orders => 1,
            Self::Findings => 2,
            Self::Quarantine => 3,
        }
    }

    /// The name of its table in SQLite, and of its topic in Kafka behind the prefix.
    pub fn name(self) -> &'static str {
        match self {
            Self::Intake => "intake",
            Self::Orders => "orders",
            Self::Findings => "findings",
            Self::Quarantine => "quarantine",
        }
    }
}

/// A message to append: a record's envelope (intake, quarantine) or an event's JSON data (orders,
/// findings).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Messages with the same key are delivered in the order they were appended.
    pub key: String,
    /// CloudEvents attributes for event topics; none for records.
    pub event: Option<EventAttributes>,
    /// The envelope, or the event's data as JSON.
    pub value: Vec<u8>,
    /// Proof of which role wrote it. `AuthenticatedLog` makes it.
    pub mac: Option<RecordMac>,
}

impl Message {
    /// The message with the MAC by this key that it carries in this topic.
    pub fn with_mac(self, topic: Topic, key: &RecordKey) -> Self {
        assert!(self.mac.is_none(), "the MAC of a message is made once");
        let event = self.event.as_ref();
        let time = event.map(|event| event.time.to_rfc3339()).unwrap_or_default();
        let event = event.map(|event| [&*event.id, event.kind, &*time]);
        let content = MacContent { topic: topic.name(), key: &self.key, event, value: &self.value };
        Self { mac: Some(key.mac(&content)), ..self }
    }
}

/// A message as it is read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivered {
    /// Its position in the topic.
    pub position: Position,
    /// The key it was appended with.
    pub key: String,
    /// CloudEvents attributes (id, type, RFC 3339 time) for event topics; none for records.
    pub event: Option<DeliveredEvent>,
    /// The value it was appended with.
    pub value: Vec<u8>,
    /// What is known of who wrote it.
    pub authenticity: Authenticity,
}

/// What is known of who wrote a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Authenticity {
    /// It was not checked, or nothing requires that it has a MAC: this is what is stored with it.
    Unchecked(Option<RecordMac>),
    /// This role of the system wrote it.
    Authentic(Writer),
    /// No role of the system wrote it as it is. It decodes to an error.
    Refused(NotAuthentic),
}

impl Delivered {
    /// The value of an event, as far as it may be believed. Errors: no role of this system wrote it
    /// as it is.
    pub fn authentic_value(&self) -> Result<&[u8], NotAuthentic> {
        let writer = self.event.as_ref().map(|event| writer_of_event(&event.kind));
        self.check_writer(|role| writer == Some(role)).map(|()| &*self.value)
    }

    /// Checks that the role that wrote it writes such messages.
    fn check_writer(&self, writes: impl FnOnce(Writer) -> bool) -> Result<(), NotAuthentic> {
        match self.authenticity {
            Authenticity::Refused(problem) => Err(problem),
            Authenticity::Authentic(role) if !writes(role) => Err(NotAuthentic::OtherRole(role)),
            Authenticity::Unchecked(_) | Authenticity::Authentic(_) => Ok(()),
        }
    }

    /// Decodes a record of `intake` or `quarantine`. Errors: `RecordError`; none may be skipped.
    pub fn record(&self) -> Result<Record, RecordError> {
        self.if_authentic(Record::decode(&self.value), Record::writer)
    }

    /// Decodes a record of `intake` without its raw bytes. Errors: `RecordError`; none may be
    /// skipped.
    pub fn intake_record(&self) -> Result<IntakeRecord, RecordError> {
        self.if_authentic(record::decode_intake(&self.value), IntakeRecord::writer)
    }

    /// A damaged record is not authentic, either, and its damage says more. One that claims to be
    /// of a newer program is upgraded for only if a role of this system wrote it.
    fn if_authentic<T>(
        &self,
        decoded: Result<T, RecordError>,
        writer_of: fn(&T) -> Writer,
    ) -> Result<T, RecordError> {
        match decoded {
            Err(error) if !error.is_newer() => Err(error),
            decoded => {
                let writer = decoded.as_ref().ok().map(writer_of);
                let writes = |role| writer.is_none_or(|writer| writer == role);
                self.check_writer(writes).map_err(RecordError::from).and(decoded)
            }
        }
    }

    /// What its MAC covers.
    pub fn mac_content(&self, topic: Topic) -> MacContent<'_> {
        let event = self.event.as_ref();
        let event = event.map(|event| [&*event.id, &*event.kind, &*event.time]);
        MacContent { topic: topic.name(), key: &self.key, event, value: &self.value }
    }
}

/// CloudEvents attributes as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveredEvent {
    /// The event's id.
    pub id: String,
    /// The event's type.
    pub kind: String,
    /// The event's time, RFC 3339.
    pub time: String,
}

/// Where a subscription starts, and whether it is a member of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// After the group's last ack; at the first message if the group never acked. The partitions
    /// are assigned among all subscriptions of the group, in all processes. After a rebalance,
    /// messages that were delivered and not acked are delivered again.
    Group,
    /// Outside the group: every partition, after these positions (one per partition). A partition
    /// without a position starts at its first message. Acks are `Invalid`.
    After(Vec<Position>),
}

/// What an `AssignedReader` returns next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReaderOutput {
    /// At least one message.
    Messages(Vec<Delivered>),
    /// The set of assigned partitions changes.
    Rebalance(Rebalance),
}

/// A change of the partitions that are assigned to a reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rebalance {
    /// The group assigned these partitions to this reader. They deliver nothing until
    /// `start_after`.
    Assigned(Vec<u32>),
    /// The group takes these partitions away in good order. They deliver nothing any more. The
    /// reader finishes the messages it has, then calls `release_revoked`; after `RELEASE_MAX` it
    /// gets `Lost` instead.
    Revoked(Vec<u32>),
    /// Another reader may already read these partitions. This reader discards everything it has of
    /// them.
    Lost(Vec<u32>),
}

impl Rebalance {
    /// The partitions this change names.
    pub fn partitions(&self) -> &[u32] {
        match self {
            Self::Assigned(partitions) | Self::Revoked(partitions) | Self::Lost(partitions) => {
                partitions
            }
        }
    }
}

/// How long a reader may take to finish the messages of revoked partitions.
pub const RELEASE_MAX: Duration = Duration::from_secs(15);

/// The offsets that one partition of a topic holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Extent {
    /// The partition.
    pub partition: u32,
    /// Offset of the first message that is still stored; 0 while the partition is empty.
    pub first: u64,
    /// Offset of the last message; 0 while the partition is empty.
    pub last: u64,
    /// Size of the partition's values in bytes, an estimate. `None` where the engine doesn't know.
    pub bytes: Option<u64>,
}

impl Extent {
    /// The position of the last message; offset 0 while the partition is empty.
    pub fn end(&self) -> Position {
        Position { partition: self.partition, offset: self.last }
    }
}

/// The append-only event log.
///
/// - Durability: an append returns its position, and readers get the message, only after the
///   message would survive a crash of the process and of the machine (SQLite: committed and synced;
///   Kafka: acks=all).
/// - Order: messages with the same key are delivered in the order in which their appends were
///   *called* on one log object. A failed append may or may not be delivered.
/// - No deduplication: appending a message twice stores two messages.
/// - Append-only: nothing is ever edited or removed.
/// - Backpressure: appends never block. When the queue is full, `append` fails at once with
///   `Unavailable`.
pub trait EventLog: Send + Sync {
    /// Appends one message; resolves when it is durable. Dropping the future does not cancel the
    /// append. Errors: `Unavailable` at once when the queue is full; `Unavailable` later when the
    /// storage fails, and then it is unknown whether the message was stored. It always resolves.
    fn append(&self, topic: Topic, message: Message) -> SeamFuture<'static, Position, EngineError>;

    /// Appends messages in order; resolves when all are durable, with their positions in the same
    /// order. The queue's limit doesn't apply. On an error, any of the messages may be stored.
    fn append_all(
        &self,
        topic: Topic,
        messages: Vec<Message>,
    ) -> SeamFuture<'static, Vec<Position>, EngineError>;

    /// Appends a message to every partition that the topic appends to (those of its newest log
    /// epoch), whatever the key; resolves when all copies are durable. On an error, any copy may be
    /// stored. The default fits a log of one partition.
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

    /// Joins a group and opens a reader of the partitions that the group assigns to it. The caller
    /// keeps its positions outside the group: it learns which partitions are assigned and revoked,
    /// and names the position after which each one starts.
    fn join_group(
        &self,
        topic: Topic,
        group: &str,
    ) -> SeamFuture<'_, Box<dyn AssignedReader>, EngineError>;

    /// Reads up to `limit` messages of one partition after a position, outside any group; empty at
    /// the partition's end. For listings and point look-ups.
    fn read_after(
        &self,
        topic: Topic,
        after: Position,
        limit: usize,
    ) -> SeamFuture<'_, Vec<Delivered>, EngineError>;

    /// The offsets each partition of the topic holds.
    fn extent(&self, topic: Topic) -> SeamFuture<'_, Vec<Extent>, EngineError>;

    /// The random id this log got when it was created. Order stores record the id of the log they
    /// were folded from.
    fn id(&self) -> [u8; 16];

    /// Checks, without writing, that a restart would find what is appended now. An engine that
    /// can't check returns `Ok`. Errors: `Unavailable` with what is wrong.
    fn check_storage(&self) -> SeamFuture<'_, (), EngineError> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// How many messages wait to become durable now, for metrics.
    fn queue_depth(&self) -> usize;

    /// Refuses new appends; returns when everything queued is durable or has failed.
    fn close(&self) -> SeamFuture<'_, (), EngineError>;
}

/// A reader of those partitions of a topic that its group assigns to it; its caller names the
/// position after which each partition starts.
///
/// A group assigns each partition to one reader at a time. A reader that is cut off from the group
/// learns late that it lost a partition, and may go on reading it meanwhile. So its writes must
/// lose against the writes of the partition's next reader (fencing).
pub trait AssignedReader: Send {
    /// Waits for up to `limit` messages or a rebalance. Each partition delivers its messages in
    /// order from where it started, without a gap, each at least once. Cancel-safe. Errors:
    /// `Unavailable` (call again), `Corrupt` (stop).
    fn next(&mut self, limit: usize) -> SeamFuture<'_, ReaderOutput, EngineError>;

    /// Starts assigned partitions after these positions; a partition without a position starts at
    /// its first message. Positions of partitions that this reader no longer has are ignored.
    /// Errors: `Unavailable` (call again), `Invalid` past the end.
    fn start_after(&mut self, after: Vec<Position>) -> SeamFuture<'_, (), EngineError>;

    /// Gives the revoked partitions back to the group, after everything read of them is finished.
    fn release_revoked(&mut self) -> SeamFuture<'_, (), EngineError>;

    /// Commits to the group that everything up to these positions is done. Only people and tools
    /// that watch the group's lag use it. Positions of partitions that this reader no longer has
    /// are ignored.
    fn ack(&mut self, through: Vec<Position>) -> SeamFuture<'_, (), EngineError>;
}

/// A reader of one topic. Each partition is delivered in order from its start, every message at
/// least once.
pub trait Subscription: Send {
    /// Waits for messages and returns 1 to `limit` of them. Cancel-safe: dropping the future loses
    /// nothing. Errors: `Unavailable` (call again), `Corrupt` (stop).
    fn next_batch(&mut self, limit: usize) -> SeamFuture<'_, Vec<Delivered>, EngineError>;

    /// Commits to the group that everything up to these positions is done. A position before the
    /// last ack changes nothing. Errors: `Invalid` past the end.
    fn ack(&mut self, through: Vec<Position>) -> SeamFuture<'_, (), EngineError>;
}

/// The longest value of a message in bytes, far above the longest that any profile accepts.
pub(crate) const VALUE_BYTES_MAX: usize = 16 << 20;

/// Checks that every engine accepts these messages. Errors: `Invalid` for a value that is too long.
pub(crate) fn check_size(messages: &[Message]) -> Result<(), EngineError> {
    match messages.iter().find(|message| message.value.len() > VALUE_BYTES_MAX) {
        None => Ok(()),
        Some(message) => Err(EngineError::Invalid(format!(
            "a message's value has {} bytes, more than the longest of {VALUE_BYTES_MAX}",
            message.value.len()
        ))),
    }
}
