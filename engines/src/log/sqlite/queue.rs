//! Owns the hand-over from appenders to the writer thread: one short lock, and a wake of the writer only
//! when it sleeps.
//! Invariants: jobs leave in the order they were pushed; at most `messages_max` messages of bounded jobs
//! wait for durability; nothing is taken in after `close`, and everything taken in before it comes out.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use super::waiters::{Promise, Waiter, pair};
use crate::EngineError;
use crate::log::{Message, Topic};
use crate::sqlite::lock;

/// What the writer is asked to make durable.
#[derive(Debug)]
pub(super) enum Work {
    /// One message.
    One(Topic, Message),
    /// Messages that get consecutive positions.
    Many(Topic, Vec<Message>),
    /// A group is done with a topic up to this offset.
    Ack { group: String, topic: Topic, offset: u64 },
}

impl Work {
    /// The messages to append.
    pub(super) fn messages(&self) -> (Topic, &[Message]) {
        match self {
            Self::One(topic, message) => (*topic, std::slice::from_ref(message)),
            Self::Many(topic, messages) => (*topic, messages),
            Self::Ack { topic, .. } => (*topic, &[]),
        }
    }
}

/// Work, and who waits for it.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) work: Work,
    pub(super) promise: Promise,
}

/// What the writer got from the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// At least one job.
    Group,
    /// None came within the writer's patience.
    Nothing,
    /// None is left and none will come.
    End,
}

#[derive(Debug, Default)]
struct State {
    jobs: Vec<Job>,
    /// Messages queued or being committed.
    waiting: usize,
    writer_sleeps: bool,
    closed: bool,
}

/// The queue in front of the writer.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    messages_max: usize,
}

impl Queue {
    pub(super) fn new(messages_max: usize) -> Self {
        Self { state: Mutex::default(), filled: Condvar::new(), messages_max }
    }

    /// Queues work if fewer than `messages_max` messages wait. Errors: `Unavailable` at once.
    pub(super) fn push_bounded(&self, work: Work) -> Result<Waiter, EngineError> {
        self.push_below(work, self.messages_max)
    }

    /// Queues work whatever waits already. Errors: `Unavailable` once closed.
    pub(super) fn push(&self, work: Work) -> Result<Waiter, EngineError> {
        self.push_below(work, usize::MAX)
    }

    fn push_below(&self, work: Work, waiting_max: usize) -> Result<Waiter, EngineError> {
        let (promise, waiter) = pair();
        let count = work.messages().1.len();
        let mut state = lock(&self.state);
        if state.closed {
            return Err(EngineError::Unavailable("the log is closed".to_owned()));
        }
        if state.waiting >= waiting_max {
            return Err(EngineError::Unavailable(format!(
                "the log's queue is full: {} messages wait for the disk",
                state.waiting
            )));
        }
        state.jobs.push(Job { work, promise });
        state.waiting += count;
        let wake_writer = std::mem::take(&mut state.writer_sleeps);
        drop(state);
        if wake_writer {
            self.filled.notify_one();
        }
        Ok(waiter)
    }

    /// Moves everything queued into `group`, which must be empty; waits for it, up to `patience` if given.
    pub(super) fn take(&self, group: &mut Vec<Job>, patience: Option<Duration>) -> Taken {
        let mut state = lock(&self.state);
        loop {
            if !state.jobs.is_empty() {
                std::mem::swap(&mut state.jobs, group);
                return Taken::Group;
            }
            if state.closed {
                return Taken::End;
            }
            state.writer_sleeps = true;
            state = match patience {
                None => self.filled.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner),
                Some(patience) => {
                    let waited = self.filled.wait_timeout(state, patience);
                    let (mut state, timeout) =
                        waited.unwrap_or_else(std::sync::PoisonError::into_inner);
                    if timeout.timed_out() && state.jobs.is_empty() && !state.closed {
                        state.writer_sleeps = false;
                        return Taken::Nothing;
                    }
                    state
                }
            };
        }
    }

    /// So many messages that were taken no longer wait. Called before their appenders are told: whoever
    /// awaited an append finds the room it took.
    pub(super) fn release(&self, messages: usize) {
        lock(&self.state).waiting -= messages;
    }

    /// Takes nothing in any more.
    pub(super) fn close(&self) {
        lock(&self.state).closed = true;
        self.filled.notify_one();
    }

    /// Messages queued or being committed.
    pub(super) fn depth(&self) -> usize {
        lock(&self.state).waiting
    }
}
