//! Owns who waits for what is in flight: every message handed to the client, by the number it went with.
//! Invariants: numbers only grow, so the first entry is the oldest; every promise put in comes out exactly
//! once, whether its message was told, ran out of time or was given up with its client.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use payfold_schemas::record::Position;

use crate::log::Topic;
use crate::log::waiters::{Outcome, Promise};
use crate::{EngineError, lock};

/// Whose message it is.
#[derive(Debug)]
pub(super) enum Owner {
    /// One appender's.
    One(Promise),
    /// The so-manieth of a group that is told together, by the number of the group's first.
    Part { group: usize, at: usize },
}

/// A message in flight.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) owner: Owner,
    pub(super) topic: Topic,
    /// When it was handed over.
    pub(super) since: Instant,
}

/// Messages that are told together.
#[derive(Debug)]
struct Group {
    promise: Promise,
    positions: Vec<Position>,
    /// How many are not durable yet.
    left: usize,
    /// Where the positions are left before the promise is kept.
    told: Arc<Mutex<Vec<Position>>>,
}

/// What came out: promises and what is to be told, and for how many messages.
#[derive(Debug, Default)]
pub(super) struct Settled {
    pub(super) promises: Vec<(Promise, Outcome)>,
    pub(super) messages: usize,
}

/// All messages in flight.
#[derive(Debug, Default)]
pub(super) struct Flight {
    /// The number of the first entry.
    first: usize,
    /// None for what has come out already.
    entries: VecDeque<Option<Entry>>,
    groups: HashMap<usize, Group>,
}

impl Flight {
    /// The number the next message goes with.
    pub(super) fn next_number(&self) -> usize {
        self.first + self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// A message was handed over with `next_number`.
    pub(super) fn put(&mut self, entry: Entry) {
        self.entries.push_back(Some(entry));
    }

    /// So many messages follow that are told together. Returns their group.
    pub(super) fn open(
        &mut self,
        promise: Promise,
        told: Arc<Mutex<Vec<Position>>>,
        messages: usize,
    ) -> usize {
        let nowhere = Position { partition: 0, offset: 0 };
        let positions = vec![nowhere; messages];
        let number = self.next_number();
        let before = self.groups.insert(number, Group { promise, positions, left: messages, told });
        assert!(before.is_none(), "a group has messages, so no two begin with the same number");
        number
    }

    /// The topic of a message and since when it is in flight; none if it has come out already.
    pub(super) fn get(&self, number: usize) -> Option<(Topic, Instant)> {
        let entry = self.entries.get(number.checked_sub(self.first)?)?.as_ref()?;
        Some((entry.topic, entry.since))
    }

    /// A message is durable at a position or failed.
    pub(super) fn settle(&mut self, number: usize, outcome: Outcome, settled: &mut Settled) {
        let at = number.checked_sub(self.first);
        let Some(entry) = at.and_then(|at| self.entries.get_mut(at)).and_then(Option::take) else {
            return;
        };
        self.trim();
        settled.messages += 1;
        match entry.owner {
            Owner::One(promise) => settled.promises.push((promise, outcome)),
            Owner::Part { group, at } => self.settle_part(group, at, outcome, settled),
        }
    }

    fn settle_part(&mut self, number: usize, at: usize, outcome: Outcome, settled: &mut Settled) {
        // One that failed took its group with it.
        let Some(group) = self.groups.get_mut(&number) else { return };
        match outcome {
            Ok(position) => {
                group.positions[at] = position;
                group.left -= 1;
                if group.left == 0 {
                    let group = self.groups.remove(&number).expect("it was found just above");
                    let first = group.positions[0];
                    *lock(&group.told) = group.positions;
                    settled.promises.push((group.promise, Ok(first)));
                }
            }
            Err(error) => self.fail_group(number, error, settled),
        }
    }

    /// A group failed as a whole; what was handed over of it stays in flight and tells nobody.
    pub(super) fn fail_group(&mut self, number: usize, error: EngineError, settled: &mut Settled) {
        if let Some(group) = self.groups.remove(&number) {
            settled.promises.push((group.promise, Err(error)));
        }
    }

    /// Fails what has been in flight since `until` or longer.
    pub(super) fn expire(
        &mut self,
        until: Instant,
        error: impl Fn(Topic) -> EngineError,
        settled: &mut Settled,
    ) {
        while let Some(Some(entry)) = self.entries.front()
            && entry.since <= until
        {
            self.settle(self.first, Err(error(entry.topic)), settled);
        }
    }

    /// Fails everything.
    pub(super) fn fail_all(&mut self, error: &EngineError, settled: &mut Settled) {
        while !self.entries.is_empty() {
            self.settle(self.first, Err(error.clone()), settled);
        }
        assert!(self.groups.is_empty(), "a group is open only while messages of it are in flight");
    }

    /// Keeps the first entry one that has not come out.
    fn trim(&mut self) {
        while let Some(None) = self.entries.front() {
            self.entries.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests;
