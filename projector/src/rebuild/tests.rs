//! Two builds beside each other, over real SQLite engines.

mod requests;

use std::sync::Arc;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::{EventLog, Topic};
use payfold_engines::orders::{Commit, OrderStore, Walked};
use payfold_kit::RunError;
use payfold_schemas::event::OrderChanged;
use payfold_schemas::ids::Author;
use payfold_schemas::order::Order;
use payfold_schemas::position::Position;
use payfold_schemas::publication::Publication;
use payfold_schemas::record::decode_intake;
use payfold_testing::waits::eventually;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::build_join::BuildJoin;
use super::difference::{Comparison, Difference, DifferenceCause, FieldDifference};
use super::projector_parts::ProjectorParts;
use super::service::{BuildRequest, RebuildService, SwitchTarget};
use super::status::{BuildMonitor, BuildState};
use super::supervisor::Supervisor;
use crate::batch::Orders;
use crate::fold::summarize;
use crate::journal::{DecideError, DecisionRequest, Journal};
use crate::live::LiveStore;
use crate::refold::Refold;
use crate::run::ProjectorSettings;
use crate::run::tests::world::{World, event_line, key, settings};

/// Facts of a morning: one order paid and refunded, one paid, one failed.
const MORNING: &str =
    "a C 100; b C 70; a O r1; b O r2; a S r1 100 @10:05; c C 5; c CF partner_refused
    a R r1 100; b S r2 70 @10:06; a R r1 100";
const NOON: &str = "d C 9; d O r4; e C 8; e O r5; e S r5 8 @10:07";
const EVENING: &str = "d S r4 9 @10:08; e R r5 8";

/// The offset of the marker of a switch that is decided after the morning.
const MARKER: u64 = 11;

/// A running supervisor and the service beside it.
struct RunningRebuild {
    world: World,
    service: RebuildService,
    stop: watch::Sender<bool>,
    running: JoinHandle<Result<(), RunError>>,
}

impl RunningRebuild {
    fn start(world: World) -> Self {
        Self::start_after(world, |_| {})
    }

    /// The same, after `prepare` has changed the supervisor's monitor.
    fn start_after(world: World, prepare: impl FnOnce(&BuildMonitor)) -> Self {
        let (log, store) = (world.log.clone(), world.store.clone());
        let parts = ProjectorParts {
            log: log.clone(),
            store: store.clone(),
            metrics: Arc::clone(&world.metrics),
            settings: ProjectorSettings { batch_records_max: 3, ..settings() },
            clock: Arc::new(SystemClock),
        };
        let supervisor = Supervisor::new(parts);
        prepare(&supervisor.monitor());
        let service = RebuildService::new(log, store, supervisor.monitor());
        let (stop, stopped) = watch::channel(false);
        let running = tokio::spawn(supervisor.run(stopped));
        Self { world, service, stop, running }
    }

    async fn stop(self) -> World {
        self.stop.send_replace(true);
        assert_eq!(self.running.await.unwrap(), Ok(()));
        self.world
    }

    /// Waits until a build is in a state and has folded everything.
    async fn wait_for(&self, build: u32, state: BuildState) {
        eventually(&format!("build {build} is {state:?} and folded"), async || {
            let statuses = self.service.build_statuses().await.unwrap();
            let one = statuses.iter().find(|one| one.build == build);
            let reached = one.is_some_and(|one| one.state == state && one.behind() == 0);
            if reached { Ok(()) } else { Err(statuses) }
        })
        .await;
    }

    async fn walk(&self, build: u32) -> Vec<Walked> {
        let store = self.world.store.build(build).await.unwrap();
        store.walk(None, 1_000).await.unwrap()
    }

    async fn event_lines(&self) -> Vec<String> {
        self.world.events().await.iter().map(event_line).collect()
    }
}

fn request() -> DecisionRequest {
    let (author, reason) = (Author::parse("ann").unwrap(), "to see".to_owned());
    DecisionRequest { author, reason, request_id: SystemClock.request_id(), at: SystemClock.now() }
}

fn refusal<T: std::fmt::Debug>(result: Result<T, DecideError>) -> String {
    match result {
        Err(DecideError::Refused(text)) => text,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_build_is_folded_unpublished_then_published_then_rolled_back() {
    let world = World::new();
    world.append(MORNING).await;
    let rebuild = RunningRebuild::start(world);
    rebuild.wait_for(1, BuildState::Live).await;
    let morning = rebuild.event_lines().await;
    let build = rebuild.service.start_build(&request(), BuildRequest::default()).await.unwrap();
    assert_eq!(build, 2);
    assert!(
        refusal(rebuild.service.start_build(&request(), BuildRequest::default()).await)
            .contains("is not published yet")
    );
    rebuild.wait_for(2, BuildState::Ready).await;
    assert_eq!(rebuild.walk(2).await, rebuild.walk(1).await);
    assert_eq!(rebuild.event_lines().await, morning, "an unpublished build publishes nothing");

    let live = LiveStore::new(rebuild.world.log.clone(), rebuild.world.store.clone());
    assert_eq!(live.refresh().await, Ok(false));
    let switched = rebuild.service.switch(&request(), SwitchTarget::default()).await.unwrap();
    assert_eq!(switched.publication, Publication { build: 2, epoch: 2 });
    assert_eq!((switched.tally.orders, switched.tally.differing), (3, 0));
    rebuild.wait_for(2, BuildState::Live).await;
    rebuild.world.append(NOON).await;
    rebuild.wait_for(2, BuildState::Live).await;
    rebuild.wait_for(1, BuildState::Standby).await;
    assert_eq!(live.refresh().await, Ok(true));
    assert_eq!((live.epoch(), live.publication().build), (2, 2));
    let noon = rebuild.event_lines().await;
    assert_eq!(noon[..morning.len()], morning, "nothing is published again");
    let expected = ["d/2/1", "d/2/2", "e/2/1", "e/2/2", "e/2/3"];
    let new: Vec<&str> = noon[morning.len()..].iter().map(|one| &one[4..9]).collect();
    assert_eq!(new, expected, "later changes are published once, under the next epoch");

    let back = rebuild.service.roll_back(&request(), SwitchTarget::default()).await.unwrap();
    assert_eq!(back.publication, Publication { build: 1, epoch: 3 });
    rebuild.wait_for(1, BuildState::Live).await;
    rebuild.world.append(EVENING).await;
    rebuild.wait_for(1, BuildState::Live).await;
    rebuild.wait_for(2, BuildState::Standby).await;
    assert_eq!(live.refresh().await, Ok(true));
    assert_eq!((live.epoch(), live.publication().build), (3, 1));
    let evening = rebuild.event_lines().await;
    assert_eq!(evening[..noon.len()], noon);
    let new: Vec<&str> = evening[noon.len()..].iter().map(|one| &one[4..9]).collect();
    assert_eq!(new, ["d/3/3", "e/3/4"]);
    assert_eq!(rebuild.walk(2).await, rebuild.walk(1).await, "the unpublished build is folded on");

    assert!(
        refusal(rebuild.service.drop_build(&request(), 1).await).contains("is the published one")
    );
    rebuild.service.drop_build(&request(), 2).await.unwrap();
    let journal = Journal::new(rebuild.world.store.clone());
    eventually("its tables are deleted", async || {
        let left: Vec<u32> = journal.read().await.unwrap().builds_to_drop().collect();
        if left.is_empty() { Ok(()) } else { Err(left) }
    })
    .await;
    assert!(
        refusal(rebuild.service.roll_back(&request(), SwitchTarget::default()).await)
            .contains("no build 2")
    );
    rebuild.stop().await;
}

#[tokio::test]
async fn an_order_that_a_new_build_folds_differently_is_published_once() {
    let world = World::new();
    world.append(MORNING).await;
    let rebuild = RunningRebuild::start(world);
    rebuild.wait_for(1, BuildState::Live).await;
    let drill = BuildRequest { drill: true, ..BuildRequest::default() };
    rebuild.service.start_build(&request(), drill).await.unwrap();
    rebuild.wait_for(2, BuildState::Ready).await;
    let store = &rebuild.world.store;
    let (live, new) = (store.build(1).await.unwrap(), store.build(2).await.unwrap());
    let mut join = BuildJoin::new(&*live, &*new, None);
    let pair = join.next_unequal().await.unwrap().unwrap();
    assert!(join.next_unequal().await.unwrap().is_none(), "one order differs");
    let judged = Comparison::new(&*live, &*new).compare_pair(&pair).await.unwrap();
    let field =
        |name, live: &str, new: &str| FieldDifference { name, live: live.into(), new: new.into() };
    let fields = vec![field("state", "REFUNDED", "PAID"), field("fulfil", "false", "true")];
    let expected = Difference { order: "p/M/a".to_owned(), cause: DifferenceCause::Rules, fields };
    assert_eq!(judged, Some(expected));

    let before = rebuild.event_lines().await;
    let switched = rebuild.service.switch(&request(), SwitchTarget::default()).await.unwrap();
    assert_eq!(switched.tally.differing, 1);
    rebuild.wait_for(2, BuildState::Live).await;
    rebuild.world.append("b R r2 70").await;
    rebuild.wait_for(2, BuildState::Live).await;
    let after = rebuild.event_lines().await;
    let new: Vec<&str> = after[before.len()..].iter().map(String::as_str).collect();
    let [rebuilt, other] = new[..] else { panic!("{new:?}") };
    let expected = "p/M/a/2/4 REFUNDED→PAID fulfil rebuilt@0-11 at ";
    assert!(rebuilt.starts_with(expected), "{rebuilt}");
    assert!(other.starts_with("p/M/b/2/4 PAID→PAID fulfil R@0-12"), "{other}");
    // After a rollback both orders are published as build 1 has them.
    rebuild.service.roll_back(&request(), SwitchTarget::default()).await.unwrap();
    rebuild.wait_for(1, BuildState::Live).await;
    let back = rebuild.event_lines().await;
    let new: Vec<&str> =
        back[after.len()..].iter().map(|one| one.split(" at ").next().unwrap()).collect();
    assert_eq!(
        new,
        ["p/M/a/3/4 PAID→REFUNDED rebuilt@0-13", "p/M/b/3/4 PAID→REFUNDED rebuilt@0-13"]
    );
    rebuild.stop().await;
}

/// Compares what a new fold of the log yields with what was published, over a switch to a drill and
/// back.
#[tokio::test]
async fn a_refold_of_the_log_yields_every_published_event() {
    let world = World::new();
    world.append(MORNING).await;
    let rebuild = RunningRebuild::start(world);
    rebuild.wait_for(1, BuildState::Live).await;
    let drill = BuildRequest { drill: true, ..BuildRequest::default() };
    rebuild.service.start_build(&request(), drill).await.unwrap();
    rebuild.wait_for(2, BuildState::Ready).await;
    rebuild.service.switch(&request(), SwitchTarget::default()).await.unwrap();
    rebuild.wait_for(2, BuildState::Live).await;
    rebuild.world.append(NOON).await;
    rebuild.wait_for(2, BuildState::Live).await;
    rebuild.service.roll_back(&request(), SwitchTarget::default()).await.unwrap();
    rebuild.wait_for(1, BuildState::Live).await;
    rebuild.world.append(EVENING).await;
    rebuild.wait_for(1, BuildState::Live).await;

    let world = &rebuild.world;
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
    let row = rebuild.walk(1).await;
    let rows: Vec<Order> = row.iter().map(|row| row.order().unwrap()).collect();
    for row in rows {
        assert_eq!(*orders[&row.key], row);
    }
    rebuild.stop().await;
}

#[tokio::test]
async fn a_published_build_that_failed_unseen_is_restarted() {
    let world = World::new();
    world.append(MORNING).await;
    // As if its projector had failed between its switch and this process's next read of the
    // journal.
    let rebuild = RunningRebuild::start_after(world, |monitor| {
        monitor.record_failure(1, &RunError::Unpaired("x".to_owned()))
    });
    eventually("it is folded", async || {
        let behind = rebuild.service.build_statuses().await.unwrap()[0].behind();
        if behind > 0 { Err(behind) } else { Ok(()) }
    })
    .await;
    rebuild.stop().await;
}

#[tokio::test]
async fn each_difference_has_its_cause() {
    let world = World::new();
    world.append(MORNING).await;
    world.run(world.projector()).await;
    let store = &world.store;
    let (live, new) = (store.build(1).await.unwrap(), store.build(2).await.unwrap());
    let rows: Vec<Order> = world.rows(&["a", "b"]).await.into_iter().flatten().collect();
    let [a, mut b] = rows.try_into().unwrap();
    let folded = live.progress().await.unwrap().unwrap().folded;
    // The new build kept no notice of b, has an order z of its own, is ahead with a, and lacks c.
    b.facts.ipns.clear();
    b.summary = summarize(&b.facts);
    let added = Order { key: key("z"), ..b.clone() };
    let ahead = Order { position: Position { offset: 99, ..a.position }, ..a };
    let (orders, log_id) = ([ahead, b, added].map(Arc::new).to_vec(), world.log.id());
    new.commit(Commit { orders, folded, log_id, ..Commit::default() }).await.unwrap();
    let comparison = Comparison::new(&*live, &*new);
    let mut join = BuildJoin::new(&*live, &*new, None);
    let mut why = Vec::new();
    while let Some(pair) = join.next_unequal().await.unwrap() {
        let difference = comparison.compare_pair(&pair).await.unwrap().unwrap();
        why.push((difference.order, difference.cause, difference.fields.len()));
    }
    let expected = [
        ("p/M/a".to_owned(), DifferenceCause::Moving, 0),
        ("p/M/b".to_owned(), DifferenceCause::Facts, 5),
        ("p/M/c".to_owned(), DifferenceCause::Missing, 0),
        ("p/M/z".to_owned(), DifferenceCause::Added, 0),
    ];
    assert_eq!(why, expected);
    let tally = comparison.tally_orders().await.unwrap();
    assert_eq!((tally.orders, tally.differing, tally.missing, tally.moving), (4, 2, 1, 1));
}

#[tokio::test]
async fn a_projector_of_the_old_build_publishes_nothing_after_the_marker() {
    let world = World::new();
    world.append(MORNING).await;
    let rebuild = RunningRebuild::start(world);
    rebuild.wait_for(1, BuildState::Live).await;
    rebuild.service.start_build(&request(), BuildRequest::default()).await.unwrap();
    rebuild.wait_for(2, BuildState::Ready).await;
    rebuild.service.switch(&request(), SwitchTarget::default()).await.unwrap();
    rebuild.wait_for(2, BuildState::Live).await;
    rebuild.world.append(NOON).await;
    rebuild.wait_for(2, BuildState::Live).await;
    rebuild.wait_for(1, BuildState::Standby).await;
    let world = rebuild.stop().await;
    let before = world.events().await;
    // It restarts with its progress, and then without progress, as from a copy of the store made
    // before the first record.
    world.run(world.projector()).await;
    assert_eq!(world.events().await, before);
    let store: Arc<dyn OrderStore> = world.store.clone();
    store.drop_build(1).await.unwrap();
    world.append(EVENING).await;
    world.run(world.projector()).await;
    let repeated = world.events().await.split_off(before.len());
    assert!(!repeated.is_empty(), "events before the marker are published a second time");
    for event in &repeated {
        assert!(before.iter().any(|known| known.value == event.value), "the bytes are the same");
        let data: OrderChanged = serde_json::from_slice(&event.value).unwrap();
        assert!(data.cause.position.offset <= MARKER, "after the marker: {}", event_line(event));
    }
}
