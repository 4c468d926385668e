//! Owns how appenders wait for their commit, and how the writer wakes them.
//!
//! The writer wakes a whole group with one cross-thread wake per thread instead of one per waiter,
//! because each cross-thread wake of a sleeping runtime is a system call (decision 0003). A waiter
//! belongs to a *lane*, the thread it was last polled on. After a commit the writer first sets
//! every waiter's outcome. Then it wakes one waiter of each lane (the head) and puts the wakers of
//! the other waiters (the mates) into the lane's mailbox. The next waiter that is polled on that
//! lane, at the latest the head, wakes the mates; on their own thread that needs no system call.
//!
//! Invariants:
//! - An outcome is set exactly once, before any wake for it; a promise dropped without one sets
//!   `Unavailable`.
//! - The mailbox is filled before the head is woken, and only if the head has not taken its outcome
//!   yet. Taking the outcome, by polling or dropping the waiter, empties the mailbox afterwards. So
//!   every mate is woken.
//! - A head that is woken and then neither polled nor dropped (a `select!` took another branch and
//!   kept it) delays its mates by `HANDOVER_MAX` at most: `Wakeups::sweep` wakes what is still in a
//!   mailbox.
//! - No waker is called and no outcome dropped while a lock is held.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use payfold_schemas::position::Position;

use crate::{EngineError, lock};

/// How long wakers may stay in a mailbox before the writer wakes them itself.
pub(crate) const HANDOVER_MAX: Duration = Duration::from_millis(2);

/// The outcome of a job: the position of its first message, or why it failed.
pub(crate) type AppendOutcome = Result<Position, EngineError>;

thread_local! {
    static LANE: Arc<Lane> = Arc::default();
}

/// The lane of this thread. While the thread is torn down each waiter gets a lane of its own.
fn this_lane() -> Arc<Lane> {
    LANE.try_with(Arc::clone).unwrap_or_default()
}

/// The wakers handed to one thread.
#[derive(Debug, Default)]
struct Lane {
    /// Whether `mailbox` holds any wakers; read without the lock on every poll.
    filled: AtomicBool,
    mailbox: Mutex<Vec<Waker>>,
}

impl Lane {
    fn post(&self, mut wakers: Vec<Waker>) {
        assert!(!wakers.is_empty(), "an empty mailbox is never marked as filled");
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
enum SlotState {
    /// No outcome, and not polled yet.
    Fresh,
    /// No outcome; this waker on this lane waits.
    Parked(Waker, Arc<Lane>),
    /// An outcome that was not taken yet, and the lane that waits for it.
    Done(AppendOutcome, Option<Arc<Lane>>),
    /// The outcome was taken, or the waiter was dropped.
    Over,
}

type Slot = Mutex<SlotState>;

/// A promise of an outcome and the waiter for it.
pub(crate) fn promise_pair() -> (Promise, Waiter) {
    let slot = Arc::new(Mutex::new(SlotState::Fresh));
    (Promise { slot: Some(Arc::clone(&slot)) }, Waiter { slot })
}

/// The appender's half: resolves with the outcome. Dropping it does not cancel the append.
#[derive(Debug)]
pub(crate) struct Waiter {
    slot: Arc<Slot>,
}

impl Future for Waiter {
    type Output = AppendOutcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<AppendOutcome> {
        let mut state = lock(&self.slot);
        match std::mem::replace(&mut *state, SlotState::Over) {
            SlotState::Done(outcome, lane) => {
                drop(state);
                if let Some(lane) = lane {
                    lane.wake_mates();
                }
                return Poll::Ready(outcome);
            }
            SlotState::Over => panic!("an append was polled after it resolved"),
            SlotState::Parked(waker, lane) if waker.will_wake(context.waker()) => {
                *state = SlotState::Parked(waker, lane);
            }
            SlotState::Parked(..) | SlotState::Fresh => {
                *state = SlotState::Parked(context.waker().clone(), this_lane());
            }
        }
        drop(state);
        // The task polled here may hold the lane's head without polling it.
        let _ = LANE.try_with(|lane| lane.wake_mates());
        Poll::Pending
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let last = std::mem::replace(&mut *lock(&self.slot), SlotState::Over);
        if let SlotState::Done(_, Some(lane)) = last {
            lane.wake_mates();
        }
    }
}

/// The writer's half. Dropping it without an outcome fails its waiter, so every waiter resolves.
#[derive(Debug)]
pub(crate) struct Promise {
    slot: Option<Arc<Slot>>,
}

impl Drop for Promise {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            let stopped = EngineError::Unavailable(
                "the log's writer stopped before the append was durable".to_owned(),
            );
            let mut wakeups = Wakeups::default();
            wakeups.set_outcome(slot, Err(stopped));
            wakeups.flush();
        }
    }
}

/// The waiters of one lane in a group: the head, which the writer wakes, and its mates.
#[derive(Debug)]
struct Handover {
    lane: Arc<Lane>,
    head: Arc<Slot>,
    head_waker: Waker,
    mates: Vec<Waker>,
}

/// Wakes the waiters of committed groups.
#[derive(Debug, Default)]
pub(crate) struct Wakeups {
    handovers: Vec<Handover>,
    /// Lanes with a filled mailbox, and since when the mailbox was not seen empty.
    handed: Vec<(Arc<Lane>, Instant)>,
}

impl Wakeups {
    /// Sets a promise's outcome; its waiter is woken by the next `flush`.
    pub(crate) fn complete(&mut self, mut promise: Promise, outcome: AppendOutcome) {
        let slot = promise.slot.take().expect("a promise keeps its slot until it is completed");
        self.set_outcome(slot, outcome);
    }

    fn set_outcome(&mut self, slot: Arc<Slot>, outcome: AppendOutcome) {
        let mut state = lock(&slot);
        match std::mem::replace(&mut *state, SlotState::Over) {
            SlotState::Fresh => *state = SlotState::Done(outcome, None),
            SlotState::Parked(waker, lane) => {
                let known = self.handovers.iter_mut().find(|one| Arc::ptr_eq(&one.lane, &lane));
                if let Some(handover) = known {
                    handover.mates.push(waker);
                    *state = SlotState::Done(outcome, Some(lane));
                } else {
                    *state = SlotState::Done(outcome, Some(Arc::clone(&lane)));
                    drop(state);
                    let mates = Vec::new();
                    self.handovers.push(Handover { lane, head: slot, head_waker: waker, mates });
                }
            }
            SlotState::Over => {
                drop(state);
                drop(outcome);
            }
            SlotState::Done(..) => unreachable!("a slot has one promise, which completes it once"),
        }
    }

    /// Wakes every waiter that got its outcome since the last flush; this thread itself wakes one
    /// waiter per lane.
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
            let head_will_pass_on = matches!(*lock(&head), SlotState::Done(..));
            if head_will_pass_on {
                head_waker.wake();
            } else {
                lane.wake_mates();
            }
        }
    }

    /// Wakes the mates in mailboxes that were not emptied within `HANDOVER_MAX`. Returns whether
    /// any mailbox still holds wakers.
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
    /// Wakes every remaining waiter, because no sweep follows.
    fn drop(&mut self) {
        self.flush();
        for (lane, _) in self.handed.drain(..) {
            lane.wake_mates();
        }
    }
}

#[cfg(test)]
mod tests;
