//! Flights: what is put in comes out once.

use std::time::Duration;

use super::*;
use crate::log::waiters::{Waiter, Wakeups, pair};

fn fly(flight: &mut Flight, since: Instant) -> Waiter {
    let (promise, waiter) = pair();
    flight.put(Entry { owner: Owner::One(promise), topic: Topic::Intake, since });
    waiter
}

fn at(offset: u64) -> Position {
    Position { partition: 0, offset }
}

fn late() -> EngineError {
    EngineError::Unavailable("late".to_owned())
}

fn tell(settled: Settled) {
    let mut wakeups = Wakeups::default();
    for (promise, outcome) in settled.promises {
        wakeups.complete(promise, outcome);
    }
    wakeups.flush();
}

#[tokio::test]
async fn only_what_is_old_expires() {
    let (mut flight, mut settled) = (Flight::default(), Settled::default());
    let start = Instant::now();
    let second = Duration::from_secs(1);
    let [old, told, young] = [start, start, start + second].map(|since| fly(&mut flight, since));
    flight.settle(1, Ok(at(7)), &mut settled);
    flight.expire(start, |_| late(), &mut settled);
    assert_eq!((settled.messages, flight.next_number()), (2, 3));
    assert_eq!(flight.get(2), Some((Topic::Intake, start + second)));
    // What the client tells after all is told to nobody.
    flight.settle(0, Ok(at(9)), &mut settled);
    assert_eq!(settled.messages, 2);
    flight.settle(2, Ok(at(8)), &mut settled);
    assert!(flight.is_empty());
    tell(settled);
    assert_eq!((old.await, told.await, young.await), (Err(late()), Ok(at(7)), Ok(at(8))));
}

#[tokio::test]
async fn a_group_is_told_once_and_whole() {
    let (mut flight, mut settled) = (Flight::default(), Settled::default());
    let since = Instant::now();
    let mut waiters = Vec::new();
    let mut all_told = Vec::new();
    for _ in 0..2 {
        let (promise, waiter) = pair();
        let told = Arc::new(Mutex::new(Vec::new()));
        let group = flight.open(promise, Arc::clone(&told), 2);
        for at in 0..2 {
            let owner = Owner::Part { group, at };
            flight.put(Entry { owner, topic: Topic::Orders, since });
        }
        waiters.push(waiter);
        all_told.push(told);
    }
    flight.settle(1, Ok(at(11)), &mut settled);
    flight.settle(2, Err(late()), &mut settled);
    assert_eq!(settled.promises.len(), 1, "the failed group, at once");
    flight.settle(0, Ok(at(10)), &mut settled);
    flight.settle(3, Ok(at(13)), &mut settled);
    assert_eq!((settled.promises.len(), settled.messages), (2, 4));
    assert!(flight.is_empty());
    tell(settled);
    let failed = waiters.pop().unwrap().await;
    assert_eq!((waiters.pop().unwrap().await, failed), (Ok(at(10)), Err(late())));
    assert_eq!(
        (lock(&all_told[0]).clone(), lock(&all_told[1]).clone()),
        (vec![at(10), at(11)], vec![])
    );
}
