//! Owns one partition of `orders` in a copier: how far it is read and copied, and which messages
//! are gathered. Invariants: a message that can't be read is never skipped: its partition is halted
//! there, and the messages before it are written. Of each key only the newest message is gathered:
//! `newest` decides by an event's cause whether it is news, and where it can't, by the events
//! before it, which are read again.

use std::collections::HashMap;

use payfold_engines::EngineError;
use payfold_engines::log::kafka::compacted::{CopyBatch, CopyPlace, CopyWriter};
use payfold_engines::log::{Delivered, EventLog, Extent, Topic};
use payfold_schemas::event::{ORDER_CHANGED_TYPE, REBUILT};
use payfold_schemas::position::Position;
use serde::Deserialize;

use super::newest::{Event, Marks, Novelty};

/// Messages read at once to find the recent events.
const PAGE: usize = 8_192;

/// The parts of an event's data that decide what is newest.
#[derive(Deserialize)]
struct EventData {
    epoch: u32,
    version: u64,
    cause: Cause,
}

#[derive(Deserialize)]
struct Cause {
    kind: String,
    position: Position,
}

/// One partition of a copier.
pub(super) struct CopiedPartition {
    writer: CopyWriter,
    marks: Marks,
    partition: u32,
    /// The offset of the last message that was read; 0 while there is none.
    seen: u64,
    /// The offset of the last message that is copied; 0 while there is none.
    copied: u64,
    /// The offset of the first message that `orders` still holds.
    held_from: u64,
    /// The gathered messages: the newest of each order that is not written yet.
    newest: HashMap<String, Delivered>,
    halted: bool,
}

impl CopiedPartition {
    /// Continues at the place of the last transaction. Errors: `Corrupt` for a note that can't be
    /// read.
    pub(super) fn new(
        writer: CopyWriter,
        extent: Extent,
        place: Option<CopyPlace>,
    ) -> Result<Self, EngineError> {
        let (partition, held_from) = (extent.partition, extent.first.max(1));
        let (next, marks) = match place {
            None => (held_from, Marks::new(held_from)),
            Some(CopyPlace { next, note }) => (next, Marks::decode(&note, next)?),
        };
        if next < held_from {
            tracing::error!(
                partition,
                from = next,
                until = held_from,
                "orders.latest lacks what orders has not kept: \
                 the copier was away for longer than that"
            );
        }
        let seen = next.max(held_from).saturating_sub(1);
        let (newest, halted) = Default::default();
        Ok(Self { writer, marks, partition, seen, copied: seen, held_from, newest, halted })
    }

    /// The position of the last message that was read.
    pub(super) fn place(&self) -> Position {
        Position { partition: self.partition, offset: self.seen }
    }

    /// The position of the last message that is copied.
    pub(super) fn copied(&self) -> Position {
        Position { partition: self.partition, offset: self.copied }
    }

    /// Whether it is halted at a message that can't be read.
    pub(super) fn is_halted(&self) -> bool {
        self.halted
    }

    /// Takes the next message. Errors: the recent events can't be read.
    pub(super) async fn take(
        &mut self,
        log: &dyn EventLog,
        message: Delivered,
    ) -> Result<(), EngineError> {
        let offset = message.position.offset;
        if self.halted || offset <= self.seen {
            return Ok(());
        }
        if let Err(problem) = message.authentic_value() {
            let position = message.position;
            tracing::error!(%position, "an event of orders is not copied: {problem}");
        }
        let event = match event(&message) {
            Ok(event) => event,
            Err(error) => {
                let position = message.position;
                tracing::error!(
                    %position,
                    %error,
                    "an event of orders can't be read: orders.latest stands there"
                );
                self.halted = true;
                return Ok(());
            }
        };
        if let Some(event) = event {
            let mut novelty = self.marks.judge(&event);
            if novelty == Novelty::NeedsRecent {
                self.read_recent(log, message.position).await?;
                novelty = self.marks.judge(&event);
            }
            if novelty == Novelty::News {
                self.newest.insert(event.key, message);
            }
        }
        self.seen = offset;
        self.marks.passed(self.seen.saturating_add(1));
        Ok(())
    }

    /// Reads the recent events before this message.
    async fn read_recent(
        &mut self,
        log: &dyn EventLog,
        until: Position,
    ) -> Result<(), EngineError> {
        let extents = log.extent(Topic::Orders).await?;
        let first = extents.iter().find(|extent| extent.partition == until.partition);
        self.held_from = first.map_or(self.held_from, |extent| extent.first.max(1));
        let from = self.marks.from().max(self.held_from);
        let mut after = Position { offset: from.saturating_sub(1), ..until };
        let mut recent = Vec::new();
        while after.offset.saturating_add(1) < until.offset {
            let page = log.read_after(Topic::Orders, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.position;
            let before = page.iter().filter(|message| message.position.offset < until.offset);
            for message in before {
                recent.extend(event(message).map_err(|error| {
                    let position = message.position;
                    EngineError::Corrupt(format!("an event of orders at {position}: {error}"))
                })?);
            }
        }
        self.marks.remember(self.held_from, &recent);
        Ok(())
    }

    /// Writes the gathered messages and the place up to which the partition was read. Errors: the
    /// writer's; this partition has to be opened anew then.
    pub(super) async fn write(&mut self) -> Result<(), EngineError> {
        if self.copied == self.seen {
            return Ok(());
        }
        let mut messages: Vec<Delivered> =
            self.newest.drain().map(|(_, message)| message).collect();
        messages.sort_unstable_by_key(|message| message.position.offset);
        let place = CopyPlace { next: self.seen.saturating_add(1), note: self.marks.encode() };
        self.writer.put(CopyBatch { messages, place }).await?;
        self.copied = self.seen;
        self.marks.rest();
        Ok(())
    }
}

/// Parses an `order.changed`; `None` for a message of another type. Errors: what is wrong with it.
fn event(message: &Delivered) -> Result<Option<Event>, serde_json::Error> {
    let Ok(value) = message.authentic_value() else { return Ok(None) };
    if message.event.as_ref().is_none_or(|event| event.kind != ORDER_CHANGED_TYPE) {
        return Ok(None);
    }
    let data: EventData = serde_json::from_slice(value)?;
    Ok(Some(Event {
        key: message.key.clone(),
        number: (data.epoch, data.version),
        cause: data.cause.position,
        is_rebuilt: data.cause.kind == REBUILT,
    }))
}
