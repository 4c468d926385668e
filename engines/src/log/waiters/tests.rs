//! Tests of the hand-over: every waiter that lives is woken, whatever is dropped when.

use std::sync::atomic::AtomicUsize;
use std::sync::mpsc;
use std::task::Wake;

use super::*;

fn at(offset: u64) -> Position {
    Position { partition: 0, offset }
}

/// A waker that counts.
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
    /// Polled once on this thread.
    fn parked() -> Self {
        let (promise, waiter) = pair();
        let mut case = Self { waiter: Some(waiter), promise: Some(promise), woken: Arc::default() };
        assert!(case.poll().is_pending());
        case
    }

    fn poll(&mut self) -> Poll<Outcome> {
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

/// Three on one lane, outcomes set, not flushed.
fn group() -> (Wakeups, [Case; 3]) {
    let mut wakeups = Wakeups::default();
    let mut cases = [Case::parked(), Case::parked(), Case::parked()];
    for (offset, case) in (1..).zip(&mut cases) {
        case.complete(&mut wakeups, offset);
    }
    (wakeups, cases)
}

#[test]
fn the_head_alone_is_woken_from_afar_and_wakes_its_mates() {
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
fn a_head_that_has_its_outcome_before_the_flush_strands_nobody() {
    let (mut wakeups, mut cases) = group();
    assert_eq!(cases[0].poll(), Poll::Ready(Ok(at(1))));
    wakeups.flush();
    assert_eq!(cases.each_ref().map(Case::woken), [0, 1, 1]);
}

#[test]
fn whoever_is_polled_next_on_the_lane_wakes_the_mates() {
    let (mut wakeups, cases) = group();
    wakeups.flush();
    let _another = Case::parked();
    assert_eq!(cases.each_ref().map(Case::woken), [1, 1, 1]);
}

#[test]
fn a_head_that_is_kept_unpolled_delays_its_mates_a_moment_only() {
    let (mut wakeups, cases) = group();
    wakeups.flush();
    while wakeups.sweep() {
        std::thread::yield_now();
    }
    assert_eq!(cases.each_ref().map(Case::woken), [1, 1, 1]);
}

#[test]
fn a_writer_that_ends_leaves_nobody_behind() {
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
    // Moved here and polled here, it still wakes the lane it waited on.
    assert_eq!(there[0].poll(), Poll::Ready(Ok(at(1))));
    assert_eq!(there[1].woken(), 1);
    assert_eq!(here[1].woken(), 0);
}

#[test]
fn a_promise_that_is_dropped_is_an_error_and_a_waiter_that_is_dropped_is_none() {
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
fn an_outcome_set_before_the_first_poll_is_there() {
    let (promise, waiter) = pair();
    let mut wakeups = Wakeups::default();
    wakeups.complete(promise, Ok(at(9)));
    wakeups.flush();
    let mut case = Case { waiter: Some(waiter), promise: None, woken: Arc::default() };
    assert_eq!(case.poll(), Poll::Ready(Ok(at(9))));
}

/// What a writer does, over promises alone.
fn settle_all(promises: &mpsc::Receiver<Promise>) {
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

/// One task: waits for most of what it asks for, drops some unpolled, some polled, and keeps some polled
/// and never again.
async fn appender(seed: u64, promises: mpsc::Sender<Promise>, moved: mpsc::Sender<Waiter>) {
    let mut random = seed;
    let mut kept = Vec::new();
    for _ in 0..400 {
        random =
            random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (promise, mut waiter) = pair();
        promises.send(promise).unwrap();
        match random >> 60 {
            0 => drop(waiter),
            1 => {
                tokio::select! { biased; _ = &mut waiter => {}, () = tokio::task::yield_now() => {} }
            }
            2 => {
                tokio::select! { biased; _ = &mut waiter => {}, () = tokio::task::yield_now() => kept.push(waiter) }
            }
            3 => {
                tokio::select! { biased; _ = &mut waiter => {}, () = tokio::task::yield_now() => moved.send(waiter).unwrap() }
            }
            _ => assert_eq!(waiter.await, Ok(at(1))),
        }
    }
}

#[test]
fn every_waiter_that_lives_is_woken() {
    let (promises, queue) = mpsc::channel();
    let writer = std::thread::spawn(move || settle_all(&queue));
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
                        .expect("a waiter was stranded")
                })
            })
        })
        .collect();
    drop((promises, moved));
    // Waiters that were polled on another thread first.
    runtime().block_on(async {
        for stray in strays {
            let outcome = tokio::time::timeout(Duration::from_secs(60), stray).await;
            assert_eq!(outcome.expect("a moved waiter was stranded"), Ok(at(1)));
        }
    });
    for thread in threads {
        for task in thread.join().unwrap() {
            task.unwrap();
        }
    }
    writer.join().unwrap();
}
