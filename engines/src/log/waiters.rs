//! Owns how appenders wait for their commit, and how a whole group of them is woken with one cross-thread
//! wake per thread instead of one per waiter (each is a system call on a sleeping runtime).
//!
//! A waiter is in a *lane*: the thread it was last polled on. After a commit every waiter's outcome is set
//! first; then of each lane one waiter (the head) is woken and the wakers of its mates lie in the lane's
//! mailbox. Whoever is next on that lane, at the latest the head, wakes the mates, which costs no system
//! call there.
//!
//! Invariants:
//! - An outcome is set exactly once, before any wake for it; a promise dropped without one sets `Unavailable`.
//! - The mailbox is filled before the head is woken, and only if the head has not taken its outcome yet;
//!   taking it (by polling or by dropping the waiter) empties the mailbox after. So no mate is stranded.
//! - A head that is woken and then neither polled nor dropped (a `select!` that went another way and kept
//!   it) delays its mates by `HANDOVER_MAX` at most: `Wakeups::sweep` wakes what still lies in a mailbox.
//! - No waker is called and no outcome dropped while a lock is held.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use payfold_schemas::record::Position;

use crate::{EngineError, lock};

/// How long wakers may lie in a mailbox before the writer wakes them itself.
pub(crate) const HANDOVER_MAX: Duration = Duration::from_millis(2);

/// What came of a job: where its first message stands.
pub(crate) type Outcome = Result<Position, EngineError>;

thread_local! {
    static LANE: Arc<Lane> = Arc::default();
}

/// The lane of this thread; one of its own for a waiter polled while its thread is being torn down.
fn this_lane() -> Arc<Lane> {
    LANE.try_with(Arc::clone).unwrap_or_default()
}

/// The wakers handed to one thread.
#[derive(Debug, Default)]
struct Lane {
    /// Whether `mailbox` holds any; read without the lock on every poll.
    filled: AtomicBool,
    mailbox: Mutex<Vec<Waker>>,
}

impl Lane {
    fn post(&self, mut wakers: Vec<Waker>) {
        let mut mailbox = lock(&self.mailbox);
        if mailbox.is_empty() {
            *mailbox = wakers;
        } else {
            mailbox.append(&mut wakers);
        }
        self.filled.store(true, Ordering::Release);
    }

    fn is_filled(&self) -> bool {
        self.filled.load(Ordering::Acquire)
    }

    fn wake_mates(&self) {
        if !self.is_filled() {
            return;
        }
        let wakers = {
            let mut mailbox = lock(&self.mailbox);
            self.filled.store(false, Ordering::Release);
            std::mem::take(&mut *mailbox)
        };
        for waker in wakers {
            waker.wake();
        }
    }
}

#[derive(Debug)]
enum State {
    /// No outcome, and nobody polled yet.
    Fresh,
    /// No outcome; this waker on this lane waits.
    Parked(Waker, Arc<Lane>),
    /// An outcome nobody took yet, and the lane that waited for it.
    Done(Outcome, Option<Arc<Lane>>),
    /// Taken, or given up by dropping the waiter.
    Over,
}

type Slot = Mutex<State>;

/// A promise of an outcome and the waiter for it.
pub(crate) fn pair() -> (Promise, Waiter) {
    let slot = Arc::new(Mutex::new(State::Fresh));
    (Promise { slot: Some(Arc::clone(&slot)) }, Waiter { slot })
}

/// The appender's half: resolves with the outcome. Dropping it recalls nothing.
#[derive(Debug)]
pub(crate) struct Waiter {
    slot: Arc<Slot>,
}

impl Future for Waiter {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let mut state = lock(&self.slot);
        match std::mem::replace(&mut *state, State::Over) {
            State::Done(outcome, lane) => {
                drop(state);
                if let Some(lane) = lane {
                    lane.wake_mates();
                }
                return Poll::Ready(outcome);
            }
            State::Over => panic!("an append was polled after it resolved"),
            State::Parked(waker, lane) if waker.will_wake(context.waker()) => {
                *state = State::Parked(waker, lane);
            }
            State::Parked(..) | State::Fresh => {
                *state = State::Parked(context.waker().clone(), this_lane());
            }
        }
        drop(state);
        // The head may be kept unpolled by the very task that polls here.
        let _ = LANE.try_with(|lane| lane.wake_mates());
        Poll::Pending
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let last = std::mem::replace(&mut *lock(&self.slot), State::Over);
        if let State::Done(_, Some(lane)) = last {
            lane.wake_mates();
        }
    }
}

/// The writer's half: whatever happens, its waiter gets an outcome.
#[derive(Debug)]
pub(crate) struct Promise {
    slot: Option<Arc<Slot>>,
}

impl Drop for Promise {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            let lost = EngineError::Unavailable("the log's writer stopped".to_owned());
            let mut wakeups = Wakeups::default();
            wakeups.settle(slot, Err(lost));
            wakeups.flush();
        }
    }
}

/// One lane's share of a group: who is woken, and whom it wakes.
#[derive(Debug)]
struct Handover {
    lane: Arc<Lane>,
    head: Arc<Slot>,
    head_waker: Waker,
    mates: Vec<Waker>,
}

/// The writer's wake-ups of one group after the other.
#[derive(Debug, Default)]
pub(crate) struct Wakeups {
    handovers: Vec<Handover>,
    /// Lanes whose mailbox was filled, and since when it has not been seen empty.
    handed: Vec<(Arc<Lane>, Instant)>,
}

impl Wakeups {
    /// Sets a promise's outcome; its waiter is woken by the next `flush`.
    pub(crate) fn complete(&mut self, mut promise: Promise, outcome: Outcome) {
        let slot = promise.slot.take().expect("a promise keeps its slot until it is completed");
        self.settle(slot, outcome);
    }

    fn settle(&mut self, slot: Arc<Slot>, outcome: Outcome) {
        let mut state = lock(&slot);
        match std::mem::replace(&mut *state, State::Over) {
            State::Fresh => *state = State::Done(outcome, None),
            State::Parked(waker, lane) => {
                let known = self.handovers.iter_mut().find(|one| Arc::ptr_eq(&one.lane, &lane));
                if let Some(handover) = known {
                    handover.mates.push(waker);
                    *state = State::Done(outcome, Some(lane));
                } else {
                    *state = State::Done(outcome, Some(Arc::clone(&lane)));
                    drop(state);
                    let mates = Vec::new();
                    self.handovers.push(Handover { lane, head: slot, head_waker: waker, mates });
                }
            }
            State::Over => {
                drop(state);
                drop(outcome);
            }
            State::Done(..) => unreachable!("only its one promise completes a slot"),
        }
    }

    /// Wakes everybody whose outcome was set since the last flush: one waiter per lane from here.
    pub(crate) fn flush(&mut self) {
        if self.handovers.is_empty() {
            return;
        }
        let now = Instant::now();
        for Handover { lane, head, head_waker, mates } in self.handovers.drain(..) {
            if mates.is_empty() {
                head_waker.wake();
                continue;
            }
            match self.handed.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &lane)) {
                Some((_, since)) if !lane.is_filled() => *since = now,
                Some(_) => {}
                None => self.handed.push((Arc::clone(&lane), now)),
            }
            lane.post(mates);
            let head_will_pass_on = matches!(*lock(&head), State::Done(..));
            if head_will_pass_on {
                head_waker.wake();
            } else {
                lane.wake_mates();
            }
        }
    }

    /// Wakes what has lain in a mailbox for too long. Returns whether anything still lies in one.
    pub(crate) fn sweep(&mut self) -> bool {
        if self.handed.is_empty() {
            return false;
        }
        let now = Instant::now();
        self.handed.retain(|(lane, since)| {
            if now.duration_since(*since) >= HANDOVER_MAX {
                lane.wake_mates();
            }
            lane.is_filled()
        });
        !self.handed.is_empty()
    }
}

impl Drop for Wakeups {
    /// Nobody sweeps after this.
    fn drop(&mut self) {
        self.flush();
        for (lane, _) in self.handed.drain(..) {
            lane.wake_mates();
        }
    }
}

#[cfg(test)]
mod tests;
