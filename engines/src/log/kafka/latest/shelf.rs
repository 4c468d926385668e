//! Owns what a keeper has of one partition: how far it was read and copied, and what is gathered.
//! Invariants: a message that can't be read is never skipped: its partition stands there, and what stands before it is
//! written. What is gathered has one message of a key, its newest.

use std::collections::HashMap;

use payfold_schemas::event::{ORDER_CHANGED_TYPE, REBUILT};
use payfold_schemas::record::Position;
use serde::Deserialize;

use super::rule::{Event, Marks, Verdict};
use super::writer::{Batch, Place, Writer};
use crate::EngineError;
use crate::log::{Delivered, EventLog, Extent, Topic};

/// Messages read at once to see what came lately.
const PAGE: usize = 8_192;

/// What of an event's data counts here.
#[derive(Deserialize)]
struct Told {
    generation: u32,
    version: u64,
    cause: Cause,
}

#[derive(Deserialize)]
struct Cause {
    kind: String,
    position: Position,
}

/// One partition of a keeper.
pub(super) struct Shelf {
    writer: Writer,
    marks: Marks,
    partition: u32,
    /// The last message that was seen, and the last that is copied; 0 while there is none.
    seen: u64,
    copied: u64,
    /// Where it begins, for `orders` may not hold what stands before.
    held_from: u64,
    newest: HashMap<String, Delivered>,
    stands: bool,
}

impl Shelf {
    /// Errors: `Corrupt`, what was noted can't be read.
    pub(super) fn new(
        writer: Writer,
        extent: Extent,
        place: Option<Place>,
    ) -> Result<Self, EngineError> {
        let (partition, held_from) = (extent.partition, extent.first.max(1));
        let (next, marks) = match place {
            None => (held_from, Marks::new(held_from)),
            Some(Place { next, note }) => (next, Marks::decode(&note, next)?),
        };
        if next < held_from {
            tracing::error!(
                partition,
                from = next,
                until = held_from,
                "orders.latest lacks what orders has not kept: the keeper was away for longer than that"
            );
        }
        let seen = next.max(held_from).saturating_sub(1);
        let (newest, stands) = Default::default();
        Ok(Self { writer, marks, partition, seen, copied: seen, held_from, newest, stands })
    }

    /// The last message that was seen.
    pub(super) fn place(&self) -> Position {
        Position { partition: self.partition, offset: self.seen }
    }

    /// The last message that is copied.
    pub(super) fn copied(&self) -> Position {
        Position { partition: self.partition, offset: self.copied }
    }

    /// Whether it stands at a message that can't be read.
    pub(super) fn stands(&self) -> bool {
        self.stands
    }

    /// Takes the next message. Errors: what came lately can't be looked at.
    pub(super) async fn take(
        &mut self,
        log: &dyn EventLog,
        message: Delivered,
    ) -> Result<(), EngineError> {
        let offset = message.position.offset;
        if self.stands || offset <= self.seen {
            return Ok(());
        }
        let event = match event(&message) {
            Ok(event) => event,
            Err(error) => {
                let position = message.position;
                tracing::error!(%position, %error, "an event of orders can't be read: orders.latest stands there");
                self.stands = true;
                return Ok(());
            }
        };
        if let Some(event) = event {
            let mut verdict = self.marks.judge(&event);
            if verdict == Verdict::Look {
                self.look(log, message.position).await?;
                verdict = self.marks.judge(&event);
            }
            if verdict == Verdict::News {
                self.newest.insert(event.key, message);
            }
        }
        self.seen = offset;
        self.marks.passed(self.seen.saturating_add(1));
        Ok(())
    }

    /// Looks what came lately, before this message.
    async fn look(&mut self, log: &dyn EventLog, until: Position) -> Result<(), EngineError> {
        let extents = log.extent(Topic::Orders).await?;
        let first = extents.iter().find(|extent| extent.partition == until.partition);
        self.held_from = first.map_or(self.held_from, |extent| extent.first.max(1));
        let from = self.marks.from().max(self.held_from);
        let mut after = Position { offset: from.saturating_sub(1), ..until };
        let mut lately = Vec::new();
        while after.offset.saturating_add(1) < until.offset {
            let page = log.read_after(Topic::Orders, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = last.position;
            let before = page.iter().filter(|message| message.position.offset < until.offset);
            for message in before {
                lately.extend(event(message).map_err(|error| {
                    let position = message.position;
                    EngineError::Corrupt(format!("an event of orders at {position}: {error}"))
                })?);
            }
        }
        self.marks.remember(self.held_from, &lately);
        Ok(())
    }

    /// Writes what was gathered and the place it was read up to. Errors: the writer's; this shelf is of no use then.
    pub(super) async fn write(&mut self) -> Result<(), EngineError> {
        if self.copied == self.seen {
            return Ok(());
        }
        let mut messages: Vec<Delivered> =
            self.newest.drain().map(|(_, message)| message).collect();
        messages.sort_unstable_by_key(|message| message.position.offset);
        let place = Place { next: self.seen.saturating_add(1), note: self.marks.encode() };
        self.writer.put(Batch { messages, place }).await?;
        self.copied = self.seen;
        self.marks.rest();
        Ok(())
    }
}

/// What counts of a message; none for what is of another type. Errors: what is wrong with it.
fn event(message: &Delivered) -> Result<Option<Event>, serde_json::Error> {
    if message.event.as_ref().is_none_or(|event| event.kind != ORDER_CHANGED_TYPE) {
        return Ok(None);
    }
    let told: Told = serde_json::from_slice(&message.value)?;
    Ok(Some(Event {
        key: message.key.clone(),
        number: (told.generation, told.version),
        cause: told.cause.position,
        is_rebuilt: told.cause.kind == REBUILT,
    }))
}
