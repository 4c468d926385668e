//! Tests of the wake-ups: every live waiter is woken, whatever is dropped and when.

use std::sync::atomic::AtomicUsize;
use std::sync::mpsc;
use std::task::Wake;

use payfold_testing::waits::until;

use super::*;

fn at(offset: u64) -> Position {
    Position { partition: 0, offset }
}

/// A waker that counts its wakes.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// A waiter, its promise, and how often it was woken.
struct Case {
    waiter: Option<Waiter>,
    promise: Option<Promise>,
    woken: Arc<Count>,
}

impl Case {
    /// A waiter that was polled once on this thread.
    fn parked() -> Self {
        let (promise, waiter) = promise_pair();
        let mut case = Self { waiter: Some(waiter), promise: Some(promise), woken: Arc::default() };
        assert!(case.poll().is_pending());
        case
    }

    fn poll(&mut self) -> Poll<AppendOutcome> {
        let waker = Waker::from(Arc::clone(&self.woken));
        let waiter = self.waiter.as_mut().unwrap();
        Pin::new(waiter).poll(&mut Context::from_waker(&waker))
    }

    fn complete(&mut self, wakeups: &mut Wakeups, offset: u64) {
        wakeups.complete(self.promise.take().unwrap(), Ok(at(offset)));
    }

    fn woken(&self) -> usize {
        self.woken.0.load(Ordering::SeqCst)
    }
}

/// Three waiters on one lane with their outcomes set, before the flush.
fn group() -> (Wakeups, [Case; 3]) {
    let mut wakeups = Wakeups::default();
    let mut cases = [Case::parked(), Case::parked(), Case::parked()];
    for (offset, case) in (1..).zip(&mut cases) {
        case.complete(&mut wakeups, offset);
    }
    (wakeups, cases)
}

#[test]
fn flush_wakes_the_head_only_and_the_head_wakes_its_mates() {
    let (mut wakeups, mut cases) = group();
    assert_eq!(cases.each_ref().map(Case::woken), [0, 0, 0]);
    wakeups.flush();
    assert_eq!(cases.each_ref().map(Case::woken), [1, 0, 0]);
    assert_eq!(cases[0].poll(), Poll::Ready(Ok(at(1))));
    assert_eq!(cases.each_ref().map(Case::woken), [1, 1, 1]);
    assert_eq!(cases[2].poll(), Poll::Ready(Ok(at(3))));
    assert!(!wakeups.sweep());
}

#[test]
fn a_head_dropped_unpolled_wakes_its_mates() {
    let (mut wakeups, mut cases) = group();
    wakeups.flush();
    cases[0].waiter = None;
    assert_eq!(cases.each_ref().map(Case::woken), [1, 1, 1]);
}

#[test]
fn a_head_that_takes_its_outcome_before_the_flush_strands_no_mate() {
    let (mut wakeups, mut cases) = group();
    assert_eq!(cases[0].poll(), Poll::Ready(Ok(at(1))));
    wakeups.flush();
    assert_eq!(cases.each_ref().map(Case::woken), [0, 1, 1]);
}

#[test]
fn the_next_waiter_polled_on_the_lane_wakes_the_mates() {
    let (mut wakeups, cases) = group();
    wakeups.flush();
    let _another = Case::parked();
    assert_eq!(cases.each_ref().map(Case::woken), [1, 1, 1]);
}

#[test]
fn sweep_wakes_the_mates_of_a_head_that_is_never_polled() {
    let (mut wakeups, cases) = group();
    wakeups.flush();
    until("no mailbox is filled", Duration::from_secs(1), || (!wakeups.sweep()).then_some(()));
    assert_eq!(cases.each_ref().map(Case::woken), [1, 1, 1]);
}

#[test]
fn dropping_the_wakeups_wakes_every_waiter() {
    let (wakeups, cases) = group();
    drop(wakeups);
    assert_eq!(cases.each_ref().map(Case::woken), [1, 1, 1]);
}

#[test]
fn each_lane_has_its_own_head() {
    let mut wakeups = Wakeups::default();
    let mut here = [Case::parked(), Case::parked()];
    let mut there = std::thread::spawn(|| [Case::parked(), Case::parked()]).join().unwrap();
    for case in here.iter_mut().chain(&mut there) {
        case.complete(&mut wakeups, 1);
    }
    wakeups.flush();
    assert_eq!(here.each_ref().map(Case::woken), [1, 0]);
    assert_eq!(there.each_ref().map(Case::woken), [1, 0]);
    // A head that is moved to this thread and polled here wakes the lane it waited on.
    assert_eq!(there[0].poll(), Poll::Ready(Ok(at(1))));
    assert_eq!(there[1].woken(), 1);
    assert_eq!(here[1].woken(), 0);
}

#[test]
fn a_dropped_promise_fails_its_waiter_and_a_dropped_waiter_is_ignored() {
    let mut case = Case::parked();
    case.promise = None;
    assert_eq!(case.woken(), 1);
    assert!(matches!(case.poll(), Poll::Ready(Err(EngineError::Unavailable(_)))));

    let (mut wakeups, mut cases) = (Wakeups::default(), [Case::parked(), Case::parked()]);
    cases[0].waiter = None;
    cases[0].complete(&mut wakeups, 1);
    cases[1].complete(&mut wakeups, 2);
    wakeups.flush();
    assert_eq!(cases.each_ref().map(Case::woken), [0, 1]);
}

#[test]
fn the_first_poll_returns_an_outcome_that_was_set_before() {
    let (promise, waiter) = promise_pair();
    let mut wakeups = Wakeups::default();
    wakeups.complete(promise, Ok(at(9)));
    wakeups.flush();
    let mut case = Case { waiter: Some(waiter), promise: None, woken: Arc::default() };
    assert_eq!(case.poll(), Poll::Ready(Ok(at(9))));
}

/// Completes all promises, as a writer does.
fn complete_all(promises: &mpsc::Receiver<Promise>) {
    let mut wakeups = Wakeups::default();
    loop {
        let first = if wakeups.sweep() {
            match promises.recv_timeout(HANDOVER_MAX) {
                Err(mpsc::RecvTimeoutError::Timeout) => continue,
                other => other.ok(),
            }
        } else {
            promises.recv().ok()
        };
        let Some(first) = first else { return };
        for promise in std::iter::once(first).chain(promises.try_iter().take(100)) {
            wakeups.complete(promise, Ok(at(1)));
        }
        wakeups.flush();
    }
}

/// A task that awaits most of its waiters, drops some before and some after a poll, keeps some
/// without polling them again, and sends some to another thread.
async fn appender(seed: u64, promises: mpsc::Sender<Promise>, moved: mpsc::Sender<Waiter>) {
    let mut random = seed;
    let mut kept = Vec::new();
    for _ in 0..400 {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (promise, mut waiter) = promise_pair();
        promises.send(promise).unwrap();
        match random >> 60 {
            0 => drop(waiter),
            1 => {
                tokio::select! {
                    biased;
                    _ = &mut waiter => {}
                    () = tokio::task::yield_now() => {}
                }
            }
            2 => {
                tokio::select! {
                    biased;
                    _ = &mut waiter => {}
                    () = tokio::task::yield_now() => kept.push(waiter),
                }
            }
            3 => {
                tokio::select! {
                    biased;
                    _ = &mut waiter => {}
                    () = tokio::task::yield_now() => moved.send(waiter).unwrap(),
                }
            }
            _ => assert_eq!(waiter.await, Ok(at(1))),
        }
    }
}

#[test]
fn every_live_waiter_is_woken() {
    let (promises, queue) = mpsc::channel();
    let writer = std::thread::spawn(move || complete_all(&queue));
    let (moved, strays) = mpsc::channel();
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let threads: Vec<_> = (0..4_u64)
        .map(|thread| {
            let (promises, moved) = (promises.clone(), moved.clone());
            std::thread::spawn(move || {
                runtime().block_on(async {
                    let tasks: Vec<_> = (0..32)
                        .map(|task| {
                            tokio::spawn(appender(
                                thread * 32 + task,
                                promises.clone(),
                                moved.clone(),
                            ))
                        })
                        .collect();
                    let all = futures_util::future::join_all(tasks);
                    tokio::time::timeout(Duration::from_secs(60), all)
                        .await
                        .expect("[time] a waiter was stranded")
                })
            })
        })
        .collect();
    drop((promises, moved));
    // Waiters that were first polled on another thread.
    runtime().block_on(async {
        for stray in strays {
            let outcome = tokio::time::timeout(Duration::from_secs(60), stray).await;
            assert_eq!(outcome.expect("[time] a moved waiter was stranded"), Ok(at(1)));
        }
    });
    for thread in threads {
        for task in thread.join().unwrap() {
            task.unwrap();
        }
    }
    writer.join().unwrap();
}
