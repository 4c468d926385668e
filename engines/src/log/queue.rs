//! Owns the hand-over from appenders to the thread that writes: one short lock, and a wake of the writer only
//! when it sleeps.
//! Invariants: jobs leave in the order they were pushed; at most `messages_max` messages of bounded jobs
//! wait for durability; nothing is taken in after `close`, and everything taken in before it comes out.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

use super::waiters::{Promise, Waiter, pair};
use crate::{EngineError, lock};

/// Work, and who waits for it.
#[derive(Debug)]
pub(crate) struct Job<W> {
    pub(crate) work: W,
    pub(crate) promise: Promise,
}

/// What the writer got from the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// At least one job.
    Group,
    /// None came within the writer's patience.
    Nothing,
    /// None is left and none will come.
    End,
}

#[derive(Debug)]
struct State<W> {
    jobs: Vec<Job<W>>,
    /// Messages queued or being committed.
    waiting: usize,
    writer_sleeps: bool,
    closed: bool,
}

/// The queue in front of the writer.
#[derive(Debug)]
pub(crate) struct Queue<W> {
    state: Mutex<State<W>>,
    filled: Condvar,
    messages_max: usize,
}

impl<W> Queue<W> {
    pub(crate) fn new(messages_max: usize) -> Self {
        let state = State { jobs: Vec::new(), waiting: 0, writer_sleeps: false, closed: false };
        Self { state: Mutex::new(state), filled: Condvar::new(), messages_max }
    }

    /// Queues one message if fewer than `messages_max` wait. Errors: `Unavailable` at once.
    pub(crate) fn push_bounded(&self, work: W) -> Result<Waiter, EngineError> {
        self.push_below(work, 1, self.messages_max)
    }

    /// Queues work of so many messages whatever waits already. Errors: `Unavailable` once closed.
    pub(crate) fn push(&self, work: W, messages: usize) -> Result<Waiter, EngineError> {
        self.push_below(work, messages, usize::MAX)
    }

    fn push_below(
        &self,
        work: W,
        messages: usize,
        waiting_max: usize,
    ) -> Result<Waiter, EngineError> {
        let (promise, waiter) = pair();
        let mut state = lock(&self.state);
        if state.closed {
            return Err(EngineError::Unavailable("the log is closed".to_owned()));
        }
        if state.waiting >= waiting_max {
            return Err(EngineError::Unavailable(format!(
                "the log's queue is full: {} messages wait to be made durable",
                state.waiting
            )));
        }
        state.jobs.push(Job { work, promise });
        state.waiting += messages;
        let wake_writer = std::mem::take(&mut state.writer_sleeps);
        drop(state);
        if wake_writer {
            self.filled.notify_one();
        }
        Ok(waiter)
    }

    /// Moves everything queued into `group`, which must be empty; waits for it, up to `patience` if given.
    pub(crate) fn take(&self, group: &mut Vec<Job<W>>, patience: Option<Duration>) -> Taken {
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
    pub(crate) fn release(&self, messages: usize) {
        lock(&self.state).waiting -= messages;
    }

    /// Takes nothing in any more.
    pub(crate) fn close(&self) {
        lock(&self.state).closed = true;
        self.filled.notify_one();
    }

    /// Messages queued or being committed.
    pub(crate) fn depth(&self) -> usize {
        lock(&self.state).waiting
    }
}
