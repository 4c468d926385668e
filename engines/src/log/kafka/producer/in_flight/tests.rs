//! Tests of messages in flight: every promise comes out once.

use std::time::Duration;

use super::*;
use crate::log::waiters::{Waiter, Wakeups, promise_pair};

fn send(flight: &mut InFlight, since: Instant) -> Waiter {
    let (promise, waiter) = promise_pair();
    flight.put(InFlightMessage { owner: MessageOwner::One(promise), topic: Topic::Intake, since });
    waiter
}

fn at(offset: u64) -> Position {
    Position { partition: 0, offset }
}

fn late() -> EngineError {
    EngineError::Unavailable("late".to_owned())
}

fn complete(settled: SettledAppends) {
    let mut wakeups = Wakeups::default();
    for (promise, outcome) in settled.promises {
        wakeups.complete(promise, outcome);
    }
    wakeups.flush();
}

#[tokio::test]
async fn only_old_messages_expire() {
    let (mut flight, mut settled) = (InFlight::default(), SettledAppends::default());
    let start = Instant::now();
    let second = Duration::from_secs(1);
    let [old, result, young] = [start, start, start + second].map(|since| send(&mut flight, since));
    flight.settle(1, Ok(at(7)), &mut settled);
    flight.expire(start, |_| late(), &mut settled);
    assert_eq!((settled.messages, flight.next_number()), (2, 3));
    assert_eq!(flight.get(2), Some((Topic::Intake, start + second)));
    // A late outcome of an expired message is dropped.
    flight.settle(0, Ok(at(9)), &mut settled);
    assert_eq!(settled.messages, 2);
    flight.settle(2, Ok(at(8)), &mut settled);
    assert!(flight.is_empty());
    complete(settled);
    assert_eq!((old.await, result.await, young.await), (Err(late()), Ok(at(7)), Ok(at(8))));
}

#[tokio::test]
async fn a_group_is_answered_once_and_whole() {
    let (mut flight, mut settled) = (InFlight::default(), SettledAppends::default());
    let since = Instant::now();
    let mut waiters = Vec::new();
    let mut all_results = Vec::new();
    for _ in 0..2 {
        let (promise, waiter) = promise_pair();
        let result = Arc::new(Mutex::new(Vec::new()));
        let group = flight.open_group(promise, Arc::clone(&result), 2);
        for at in 0..2 {
            let owner = MessageOwner::Part { group, at };
            flight.put(InFlightMessage { owner, topic: Topic::Orders, since });
        }
        waiters.push(waiter);
        all_results.push(result);
    }
    flight.settle(1, Ok(at(11)), &mut settled);
    flight.settle(2, Err(late()), &mut settled);
    assert_eq!(settled.promises.len(), 1, "the failed group, at once");
    flight.settle(0, Ok(at(10)), &mut settled);
    flight.settle(3, Ok(at(13)), &mut settled);
    assert_eq!((settled.promises.len(), settled.messages), (2, 4));
    assert!(flight.is_empty());
    complete(settled);
    let failed = waiters.pop().unwrap().await;
    assert_eq!((waiters.pop().unwrap().await, failed), (Ok(at(10)), Err(late())));
    assert_eq!(
        (lock(&all_results[0]).clone(), lock(&all_results[1]).clone()),
        (vec![at(10), at(11)], vec![])
    );
}
