//! Two generations beside each other, over real SQLite engines.

use std::sync::Arc;
use std::time::Duration;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::generations::{Asked, DecideError, Journal};
use payfold_engines::log::{EventLog, Topic};
use payfold_engines::orders::live::Live;
use payfold_engines::orders::{Commit, OrderStore, Walked};
use payfold_schemas::event::OrderChanged;
use payfold_schemas::ids::Author;
use payfold_schemas::order::Order;
use payfold_schemas::publication::Publication;
use payfold_schemas::record::{Position, decode_intake};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::crew::{Crew, Parts};
use super::desk::{Desk, Target, Wish};
use super::difference::{Comparison, Difference, Field, Why};
use super::join::Join;
use super::standing::State;
use crate::RunError;
use crate::batch::Orders;
use crate::fold::summarize;
use crate::refold::Refold;
use crate::run::tests::world::{World, key, settings, told as told_of};
use crate::run::{Settings, Speed};

/// A morning: one order paid and given back, one paid, one failed.
const MORNING: &str =
    "a C 100; b C 70; a O r1; b O r2; a S r1 100 @10:05; c C 5; c CF partner_refused
    a R r1 100; b S r2 70 @10:06; a R r1 100";
const NOON: &str = "d C 9; d O r4; e C 8; e O r5; e S r5 8 @10:07";
const EVENING: &str = "d S r4 9 @10:08; e R r5 8";

/// Where the marker of a switch stands that is decided after the morning.
const MARKER: u64 = 11;

/// A crew at work, and who asks it.
struct Working {
    world: World,
    desk: Desk,
    stop: watch::Sender<bool>,
    running: JoinHandle<Result<(), RunError>>,
}

impl Working {
    fn start(world: World) -> Self {
        let (log, store) = (world.log.clone(), world.store.clone());
        let parts = Parts {
            log: log.clone(),
            store: store.clone(),
            metrics: Arc::clone(&world.metrics),
            settings: Settings { batch_records_max: 3, ..settings() },
            clock: Arc::new(SystemClock),
        };
        let crew = Crew::new(parts);
        let desk = Desk::new(log, store, crew.board());
        let (stop, stopped) = watch::channel(false);
        let running = tokio::spawn(crew.run(stopped));
        Self { world, desk, stop, running }
    }

    async fn stop(self) -> World {
        self.stop.send_replace(true);
        assert_eq!(self.running.await.unwrap(), Ok(()));
        self.world
    }

    /// Waits until a generation stands so and has folded everything.
    async fn until(&self, generation: u32, state: State) {
        let reached = async {
            loop {
                let standings = self.desk.standings().await.unwrap();
                let one = standings.iter().find(|one| one.generation == generation);
                if one.is_some_and(|one| one.state == state && one.behind() == 0) {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(30), reached).await;
        if waited.is_err() {
            panic!("[time] {state:?}: {:#?}", self.desk.standings().await);
        }
    }

    async fn walk(&self, generation: u32) -> Vec<Walked> {
        let store = self.world.store.generation(generation).await.unwrap();
        store.walk(None, 1_000).await.unwrap()
    }

    async fn told(&self) -> Vec<String> {
        self.world.events().await.iter().map(told_of).collect()
    }
}

fn asked() -> Asked {
    let (author, reason) = (Author::parse("ann").unwrap(), "to see".to_owned());
    Asked { author, reason, request_id: SystemClock.request_id(), at: SystemClock.now() }
}

fn refusal<T: std::fmt::Debug>(result: Result<T, DecideError>) -> String {
    match result {
        Err(DecideError::Refused(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_generation_is_folded_in_silence_then_told_then_taken_back() {
    let world = World::new();
    world.append(MORNING).await;
    let working = Working::start(world);
    working.until(1, State::Live).await;
    let morning = working.told().await;
    let generation = working.desk.start(&asked(), Wish::default()).await.unwrap();
    assert_eq!(generation, 2);
    assert!(refusal(working.desk.start(&asked(), Wish::default()).await).contains("in the making"));
    working.until(2, State::Ready).await;
    assert_eq!(working.walk(2).await, working.walk(1).await);
    assert_eq!(working.told().await, morning, "nothing is told of it");

    let live = Live::new(working.world.log.clone(), working.world.store.clone());
    assert_eq!(live.look().await, Ok(false));
    let switched = working.desk.switch(&asked(), Target::default()).await.unwrap();
    assert_eq!(switched.publication, Publication { tables: 2, number: 2 });
    assert_eq!((switched.tally.orders, switched.tally.differing), (3, 0));
    working.until(2, State::Live).await;
    working.world.append(NOON).await;
    working.until(2, State::Live).await;
    working.until(1, State::Standby).await;
    assert_eq!(live.look().await, Ok(true));
    assert_eq!((live.number(), live.publication().tables), (2, 2));
    let noon = working.told().await;
    assert_eq!(noon[..morning.len()], morning, "nothing is told again");
    let expected = ["d/2/1", "d/2/2", "e/2/1", "e/2/2", "e/2/3"];
    let new: Vec<&str> = noon[morning.len()..].iter().map(|one| &one[4..9]).collect();
    assert_eq!(new, expected, "what comes after is told once, under the next number");

    let back = working.desk.roll_back(&asked(), Target::default()).await.unwrap();
    assert_eq!(back.publication, Publication { tables: 1, number: 3 });
    working.until(1, State::Live).await;
    working.world.append(EVENING).await;
    working.until(1, State::Live).await;
    working.until(2, State::Standby).await;
    assert_eq!(live.look().await, Ok(true));
    assert_eq!((live.number(), live.publication().tables), (3, 1));
    let evening = working.told().await;
    assert_eq!(evening[..noon.len()], noon);
    let new: Vec<&str> = evening[noon.len()..].iter().map(|one| &one[4..9]).collect();
    assert_eq!(new, ["d/3/3", "e/3/4"]);
    assert_eq!(working.walk(2).await, working.walk(1).await, "who is not told goes on");

    assert!(
        refusal(working.desk.throw_away(&asked(), 1).await).contains("is the one that is told")
    );
    working.desk.throw_away(&asked(), 2).await.unwrap();
    let journal = Journal::new(working.world.store.clone());
    while journal.read().await.unwrap().leaving().next().is_some() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(
        refusal(working.desk.roll_back(&asked(), Target::default()).await)
            .contains("no generation 2")
    );
    working.stop().await;
}

#[tokio::test]
async fn who_sees_an_order_in_another_way_tells_of_it_once() {
    let world = World::new();
    world.append(MORNING).await;
    let working = Working::start(world);
    working.until(1, State::Live).await;
    let wish = Wish { drill: true, ..Wish::default() };
    working.desk.start(&asked(), wish).await.unwrap();
    working.until(2, State::Ready).await;
    let store = &working.world.store;
    let (live, new) = (store.generation(1).await.unwrap(), store.generation(2).await.unwrap());
    let mut join = Join::new(&*live, &*new, None);
    let pair = join.next_unequal().await.unwrap().unwrap();
    assert!(join.next_unequal().await.unwrap().is_none(), "one order differs");
    let judged = Comparison::new(&*live, &*new).judge(&pair).await.unwrap();
    let field = |name, live: &str, new: &str| Field { name, live: live.into(), new: new.into() };
    let fields = vec![field("state", "REFUNDED", "PAID"), field("fulfil", "false", "true")];
    let expected = Difference { order: "p/M/a".to_owned(), cause: Why::Rules, fields };
    assert_eq!(judged, Some(expected));

    let before = working.told().await;
    let switched = working.desk.switch(&asked(), Target::default()).await.unwrap();
    assert_eq!(switched.tally.differing, 1);
    working.until(2, State::Live).await;
    working.world.append("b R r2 70").await;
    working.until(2, State::Live).await;
    let after = working.told().await;
    let new: Vec<&str> = after[before.len()..].iter().map(String::as_str).collect();
    let [rebuilt, other] = new[..] else { panic!("{new:?}") };
    let expected = "p/M/a/2/4 REFUNDED→PAID fulfil rebuilt@0-11 at ";
    assert!(rebuilt.starts_with(expected), "{rebuilt}");
    assert!(other.starts_with("p/M/b/2/4 PAID→PAID fulfil R@0-12"), "{other}");
    // Taken back, both are told of as they are.
    working.desk.roll_back(&asked(), Target::default()).await.unwrap();
    working.until(1, State::Live).await;
    let back = working.told().await;
    let new: Vec<&str> =
        back[after.len()..].iter().map(|one| one.split(" at ").next().unwrap()).collect();
    assert_eq!(
        new,
        ["p/M/a/3/4 PAID→REFUNDED rebuilt@0-13", "p/M/b/3/4 PAID→REFUNDED rebuilt@0-13"]
    );
    working.stop().await;
}

/// What folding the log again says was to be published, and what was: over a switch to a drill and back.
#[tokio::test]
async fn the_log_folded_again_yields_every_published_event() {
    let world = World::new();
    world.append(MORNING).await;
    let working = Working::start(world);
    working.until(1, State::Live).await;
    let wish = Wish { drill: true, ..Wish::default() };
    working.desk.start(&asked(), wish).await.unwrap();
    working.until(2, State::Ready).await;
    working.desk.switch(&asked(), Target::default()).await.unwrap();
    working.until(2, State::Live).await;
    working.world.append(NOON).await;
    working.until(2, State::Live).await;
    working.desk.roll_back(&asked(), Target::default()).await.unwrap();
    working.until(1, State::Live).await;
    working.world.append(EVENING).await;
    working.until(1, State::Live).await;

    let world = &working.world;
    let records = world.log.read_after(Topic::Intake, Position::default(), 1_000).await.unwrap();
    let records = records.into_iter();
    let records = records.map(|one| (one.position, decode_intake(&one.value).unwrap()));
    let mut orders = Orders::new();
    let expected = Refold::new([2]).fold(&mut orders, records.collect());
    let mut expected: Vec<_> = expected.into_iter().map(|event| event.message).collect();
    let published = world.events().await.into_iter().map(|one| {
        let event = one.event.unwrap();
        (event.id, event.kind, event.time, one.value)
    });
    let mut published: Vec<_> = published.collect();
    published.sort();
    expected.sort_by(|a, b| a.event.as_ref().unwrap().id.cmp(&b.event.as_ref().unwrap().id));
    let expected: Vec<_> = expected
        .into_iter()
        .map(|message| {
            let event = message.event.unwrap();
            (event.id, event.kind.to_owned(), event.time.to_string(), message.value)
        })
        .collect();
    let rebuilt =
        published.iter().filter(|one| String::from_utf8_lossy(&one.3).contains("rebuilt"));
    assert_eq!(rebuilt.count(), 2, "one order there and back");
    assert_eq!(expected, published);
    let row = working.walk(1).await;
    let rows: Vec<Order> = row.iter().map(|row| row.order().unwrap()).collect();
    for row in rows {
        assert_eq!(*orders[&row.key], row);
    }
    working.stop().await;
}

#[tokio::test]
async fn a_build_stands_still_and_goes_on_as_it_is_asked() {
    let world = World::new();
    world.append(MORNING).await;
    let working = Working::start(world);
    working.until(1, State::Live).await;
    assert!(
        refusal(working.desk.pace(&asked(), Speed::default()).await)
            .contains("no generation is in the making")
    );
    let slow = Wish { facts_per_s: Some(1), ..Wish::default() };
    working.desk.start(&asked(), slow).await.unwrap();
    let paused = Speed { paused: true, facts_per_s: None };
    assert_eq!(working.desk.pace(&asked(), paused).await, Ok(2));
    let standings = working.desk.standings().await.unwrap();
    assert_eq!((standings[1].state, standings[1].throttle), (State::Paused, Some(1)));
    assert!(standings[1].behind() > 0, "a fact a second takes longer");
    let refused = refusal(working.desk.switch(&asked(), Target::default()).await);
    assert!(refused.contains("stands still"), "{refused}");
    let fast = Speed { paused: false, facts_per_s: Some(1_000_000) };
    assert_eq!(working.desk.pace(&asked(), fast).await, Ok(2));
    working.until(2, State::Ready).await;
    assert_eq!(working.walk(2).await, working.walk(1).await);
    working.stop().await;
}

#[tokio::test]
async fn what_differs_is_told_with_its_why() {
    let world = World::new();
    world.append(MORNING).await;
    world.run(world.projector()).await;
    let store = &world.store;
    let (live, new) = (store.generation(1).await.unwrap(), store.generation(2).await.unwrap());
    let rows: Vec<Order> = world.rows(&["a", "b"]).await.into_iter().flatten().collect();
    let [a, mut b] = rows.try_into().unwrap();
    let folded = live.progress().await.unwrap().unwrap().folded;
    // The other one kept no notice of b, has an order nobody else knows, is ahead with a, and lacks c.
    b.facts.ipns.clear();
    b.summary = summarize(&b.facts);
    let added = Order { key: key("z"), ..b.clone() };
    let ahead = Order { position: Position { offset: 99, ..a.position }, ..a };
    let (orders, log_id) = ([ahead, b, added].map(Arc::new).to_vec(), world.log.id());
    new.commit(Commit { orders, folded, log_id, ..Commit::default() }).await.unwrap();
    let comparison = Comparison::new(&*live, &*new);
    let mut join = Join::new(&*live, &*new, None);
    let mut why = Vec::new();
    while let Some(pair) = join.next_unequal().await.unwrap() {
        let difference = comparison.judge(&pair).await.unwrap().unwrap();
        why.push((difference.order, difference.cause, difference.fields.len()));
    }
    let expected = [
        ("p/M/a".to_owned(), Why::Moving, 0),
        ("p/M/b".to_owned(), Why::Facts, 5),
        ("p/M/c".to_owned(), Why::Missing, 0),
        ("p/M/z".to_owned(), Why::Added, 0),
    ];
    assert_eq!(why, expected);
    let tally = comparison.tally().await.unwrap();
    assert_eq!((tally.orders, tally.differing, tally.missing, tally.moving), (4, 2, 1, 1));
}

#[tokio::test]
async fn a_projector_of_the_old_generation_tells_nothing_behind_the_marker() {
    let world = World::new();
    world.append(MORNING).await;
    let working = Working::start(world);
    working.until(1, State::Live).await;
    working.desk.start(&asked(), Wish::default()).await.unwrap();
    working.until(2, State::Ready).await;
    working.desk.switch(&asked(), Target::default()).await.unwrap();
    working.until(2, State::Live).await;
    working.world.append(NOON).await;
    working.until(2, State::Live).await;
    working.until(1, State::Standby).await;
    let world = working.stop().await;
    let before = world.events().await;
    // It comes back with what it had, and with nothing at all, as from a copy of the store from before everything.
    world.run(world.projector()).await;
    assert_eq!(world.events().await, before);
    let store: Arc<dyn OrderStore> = world.store.clone();
    store.drop_generation(1).await.unwrap();
    world.append(EVENING).await;
    world.run(world.projector()).await;
    let again = world.events().await.split_off(before.len());
    assert!(!again.is_empty(), "what it tells before the marker it tells again");
    for event in &again {
        assert!(before.iter().any(|known| known.value == event.value), "the same bytes again");
        let told: OrderChanged = serde_json::from_slice(&event.value).unwrap();
        assert!(told.cause.position.offset <= MARKER, "behind the marker: {}", told_of(event));
    }
}
