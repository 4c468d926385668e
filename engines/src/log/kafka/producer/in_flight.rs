//! Owns the messages in flight and their promises: every message that was sent and has no outcome
//! yet, by the number it was sent with. Invariants: numbers only grow, so the first entry is the
//! oldest; every promise put in comes out exactly once, whether its message got its outcome, timed
//! out, or was dropped with its client.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use payfold_schemas::position::Position;

use crate::log::Topic;
use crate::log::waiters::{AppendOutcome, Promise};
use crate::{EngineError, lock};

/// Which promise a message belongs to.
#[derive(Debug)]
pub(super) enum MessageOwner {
    /// A promise of its own.
    One(Promise),
    /// The promise of a group: `group` is the number of the group's first message, `at` is the
    /// message's index in the group.
    Part { group: usize, at: usize },
}

/// A message in flight.
#[derive(Debug)]
pub(super) struct InFlightMessage {
    pub(super) owner: MessageOwner,
    pub(super) topic: Topic,
    /// When it was sent.
    pub(super) since: Instant,
}

/// The messages of one `append_all`, which have one promise.
#[derive(Debug)]
struct AppendGroup {
    promise: Promise,
    positions: Vec<Position>,
    /// How many are not durable yet.
    left: usize,
    /// Receives the positions before the promise is completed.
    result: Arc<Mutex<Vec<Position>>>,
}

/// Promises that can be completed with their outcomes, and for how many messages.
#[derive(Debug, Default)]
pub(super) struct SettledAppends {
    pub(super) promises: Vec<(Promise, AppendOutcome)>,
    pub(super) messages: usize,
}

/// All messages in flight.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// The number of the first entry.
    first: usize,
    /// `None` for a message that has its outcome.
    entries: VecDeque<Option<InFlightMessage>>,
    groups: HashMap<usize, AppendGroup>,
}

impl InFlight {
    /// The number the next message must be sent with.
    pub(super) fn next_number(&self) -> usize {
        self.first + self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds a message that was sent with `next_number`.
    pub(super) fn put(&mut self, entry: InFlightMessage) {
        self.entries.push_back(Some(entry));
    }

    /// Opens a group for the next `messages` messages; returns its number.
    pub(super) fn open_group(
        &mut self,
        promise: Promise,
        result: Arc<Mutex<Vec<Position>>>,
        messages: usize,
    ) -> usize {
        let nowhere = Position { partition: 0, offset: 0 };
        let positions = vec![nowhere; messages];
        let number = self.next_number();
        let before =
            self.groups.insert(number, AppendGroup { promise, positions, left: messages, result });
        assert!(before.is_none(), "a group has messages, so no two start with the same number");
        number
    }

    /// The topic of a message and when it was sent; `None` if it has its outcome already.
    pub(super) fn get(&self, number: usize) -> Option<(Topic, Instant)> {
        let entry = self.entries.get(number.checked_sub(self.first)?)?.as_ref()?;
        Some((entry.topic, entry.since))
    }

    /// Records a message's outcome.
    pub(super) fn settle(
        &mut self,
        number: usize,
        outcome: AppendOutcome,
        settled: &mut SettledAppends,
    ) {
        let at = number.checked_sub(self.first);
        let Some(entry) = at.and_then(|at| self.entries.get_mut(at)).and_then(Option::take) else {
            return;
        };
        self.trim();
        settled.messages += 1;
        match entry.owner {
            MessageOwner::One(promise) => settled.promises.push((promise, outcome)),
            MessageOwner::Part { group, at } => self.settle_part(group, at, outcome, settled),
        }
    }

    fn settle_part(
        &mut self,
        number: usize,
        at: usize,
        outcome: AppendOutcome,
        settled: &mut SettledAppends,
    ) {
        // After the first failure the group is gone.
        let Some(group) = self.groups.get_mut(&number) else { return };
        match outcome {
            Ok(position) => {
                assert!(group.left > 0, "a complete group is removed");
                group.positions[at] = position;
                group.left -= 1;
                if group.left == 0 {
                    let group = self.groups.remove(&number).expect("it was found just above");
                    let first = group.positions[0];
                    *lock(&group.result) = group.positions;
                    settled.promises.push((group.promise, Ok(first)));
                }
            }
            Err(error) => self.fail_group(number, error, settled),
        }
    }

    /// Fails a whole group. Its messages that were sent stay in flight without a promise.
    pub(super) fn fail_group(
        &mut self,
        number: usize,
        error: EngineError,
        settled: &mut SettledAppends,
    ) {
        if let Some(group) = self.groups.remove(&number) {
            settled.promises.push((group.promise, Err(error)));
        }
    }

    /// Fails the messages that were sent at `until` or earlier.
    pub(super) fn expire(
        &mut self,
        until: Instant,
        error: impl Fn(Topic) -> EngineError,
        settled: &mut SettledAppends,
    ) {
        while let Some(Some(entry)) = self.entries.front()
            && entry.since <= until
        {
            self.settle(self.first, Err(error(entry.topic)), settled);
        }
    }

    /// Fails every message.
    pub(super) fn fail_all(&mut self, error: &EngineError, settled: &mut SettledAppends) {
        while !self.entries.is_empty() {
            self.settle(self.first, Err(error.clone()), settled);
        }
        assert!(self.groups.is_empty(), "a group is open only while messages of it are in flight");
    }

    /// Removes leading entries that have their outcome.
    fn trim(&mut self) {
        while let Some(None) = self.entries.front() {
            self.entries.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests;
