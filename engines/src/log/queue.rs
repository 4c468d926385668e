//! Owns the queue between appenders and the writer's thread. A push takes one short lock, and wakes
//! the writer only if it sleeps. Invariants: jobs leave in the order they were pushed; at most
//! `messages_max` messages of bounded jobs wait for durability; `close` refuses later jobs, and
//! every job accepted before it comes out.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use super::waiters::{Promise, Waiter, promise_pair};
use crate::{EngineError, lock};

/// Work for the writer, and the promise of its outcome.
#[derive(Debug)]
pub(crate) struct AppendJob<W> {
    pub(crate) work: W,
    pub(crate) promise: Promise,
}

/// What the writer took from the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TakenJobs {
    /// At least one job.
    Group,
    /// No job came before the timeout.
    TimedOut,
    /// The queue is closed and empty.
    Closed,
}

#[derive(Debug)]
struct QueueState<W> {
    jobs: Vec<AppendJob<W>>,
    /// Messages queued or being committed.
    waiting: usize,
    writer_sleeps: bool,
    closed: bool,
}

/// The queue in front of the writer.
#[derive(Debug)]
pub(crate) struct AppendQueue<W> {
    state: Mutex<QueueState<W>>,
    filled: Condvar,
    messages_max: usize,
}

impl<W> AppendQueue<W> {
    pub(crate) fn new(messages_max: usize) -> Self {
        let state =
            QueueState { jobs: Vec::new(), waiting: 0, writer_sleeps: false, closed: false };
        Self { state: Mutex::new(state), filled: Condvar::new(), messages_max }
    }

    /// Queues one message if fewer than `messages_max` wait. Errors: `Unavailable` at once, if the
    /// queue is full or closed.
    pub(crate) fn push_bounded(&self, work: W) -> Result<Waiter, EngineError> {
        self.push_below(work, 1, self.messages_max)
    }

    /// Queues work of `messages` messages without a limit. Errors: `Unavailable` once the queue is
    /// closed.
    pub(crate) fn push(&self, work: W, messages: usize) -> Result<Waiter, EngineError> {
        self.push_below(work, messages, usize::MAX)
    }

    fn push_below(
        &self,
        work: W,
        messages: usize,
        waiting_max: usize,
    ) -> Result<Waiter, EngineError> {
        let (promise, waiter) = promise_pair();
        let mut state = lock(&self.state);
        if state.closed {
            return Err(EngineError::Unavailable("the log is closed".to_owned()));
        }
        if state.waiting >= waiting_max {
            return Err(EngineError::Unavailable(format!(
                "the log's queue is full: {} messages wait to become durable; retry later",
                state.waiting
            )));
        }
        state.jobs.push(AppendJob { work, promise });
        state.waiting += messages;
        let wake_writer = std::mem::take(&mut state.writer_sleeps);
        drop(state);
        if wake_writer {
            self.filled.notify_one();
        }
        Ok(waiter)
    }

    /// Moves every queued job into `group`, which must be empty. Waits for a first job, at most
    /// `timeout` if given.
    pub(crate) fn take(
        &self,
        group: &mut Vec<AppendJob<W>>,
        timeout: Option<Duration>,
    ) -> TakenJobs {
        assert!(group.is_empty(), "a group is settled before the next is taken");
        let mut state = lock(&self.state);
        loop {
            if !state.jobs.is_empty() {
                std::mem::swap(&mut state.jobs, group);
                return TakenJobs::Group;
            }
            if state.closed {
                return TakenJobs::Closed;
            }
            state.writer_sleeps = true;
            state = match timeout {
                None => self.filled.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner),
                Some(timeout) => {
                    let waited = self.filled.wait_timeout(state, timeout);
                    let (mut state, result) =
                        waited.unwrap_or_else(std::sync::PoisonError::into_inner);
                    if result.timed_out() && state.jobs.is_empty() && !state.closed {
                        state.writer_sleeps = false;
                        return TakenJobs::TimedOut;
                    }
                    state
                }
            };
        }
    }

    /// Frees the room of messages that the writer took and settled. Called before their appenders
    /// are woken, so that an appender finds room for its next message.
    pub(crate) fn release(&self, messages: usize) {
        let mut state = lock(&self.state);
        assert!(state.waiting >= messages, "no more messages are released than wait");
        state.waiting -= messages;
    }

    /// Refuses every later job.
    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
        self.filled.notify_one();
    }

    /// Messages queued or being committed.
    pub(crate) fn depth(&self) -> usize {
        lock(&self.state).waiting
    }
}
