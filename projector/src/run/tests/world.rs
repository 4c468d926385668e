//! A log and an order store on disk, and a projector between them.

use std::sync::Arc;
use std::time::Duration;

use payfold_engines::clock::SystemClock;
use payfold_engines::log::sqlite::{SqliteLog, SqliteLogSettings};
use payfold_engines::log::{Delivered, EventLog, Message, Topic};
use payfold_engines::orders::OrderStore;
use payfold_engines::orders::sqlite::SqliteOrders;
use payfold_kit::{Retry, RunError};
use payfold_schemas::event::OrderChanged;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;
use payfold_schemas::position::Position;
use payfold_schemas::record::{FactRecord, encode_fact};
use tokio::sync::watch;

use crate::ProjectorMetrics;
use crate::fold::testkit::{at, fact};
use crate::run::{Projector, ProjectorSettings};

/// A log and an order store in a folder of their own.
pub(crate) struct World {
    pub(crate) log: Arc<SqliteLog>,
    pub(crate) store: Arc<SqliteOrders>,
    pub(crate) registry: prometheus::Registry,
    pub(crate) metrics: Arc<ProjectorMetrics>,
    _dir: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = SqliteLog::open(dir.path().join("log.db"), SqliteLogSettings::default()).unwrap();
        let store = SqliteOrders::open(dir.path().join("orders.db")).unwrap();
        let registry = prometheus::Registry::new();
        let metrics = Arc::new(ProjectorMetrics::new(&registry, Arc::new(SystemClock)).unwrap());
        Self { log: Arc::new(log), store: Arc::new(store), registry, metrics, _dir: dir }
    }

    /// Appends `order fact` entries, one a line or between semicolons, to intake.
    pub(crate) async fn append(&self, text: &str) {
        let lines = text.split([';', '\n']).map(str::trim).filter(|line| !line.is_empty());
        self.log.append_all(Topic::Intake, lines.map(message).collect()).await.unwrap();
    }

    pub(crate) fn projector(&self) -> Projector {
        self.projector_with(self.log.clone(), self.store.clone(), settings())
    }

    pub(crate) fn projector_with(
        &self,
        log: Arc<dyn EventLog>,
        store: Arc<dyn OrderStore>,
        settings: ProjectorSettings,
    ) -> Projector {
        Projector::new(log, store, Arc::clone(&self.metrics), settings)
    }

    /// Runs a projector until everything in intake is folded, then stops it.
    pub(crate) async fn run(&self, projector: Projector) {
        let last = self.log.extent(Topic::Intake).await.unwrap()[0].last;
        run_through(projector, last).await.unwrap();
    }

    pub(crate) async fn events(&self) -> Vec<Delivered> {
        self.log.read_after(Topic::Orders, Position::default(), 1_000_000).await.unwrap()
    }

    pub(crate) async fn rows(&self, orders: &[&str]) -> Vec<Option<Order>> {
        self.store.load(orders.iter().map(|order| key(order)).collect()).await.unwrap()
    }

    /// The value of a counter or gauge without labels.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == name).unwrap();
        let metric = &family.get_metric()[0];
        metric.get_counter().get_value() + metric.get_gauge().get_value()
    }
}

pub(crate) fn settings() -> ProjectorSettings {
    ProjectorSettings { retry: Retry { ms_min: 1, ms_max: 10 }, ..ProjectorSettings::default() }
}

pub(crate) fn key(order: &str) -> OrderKey {
    OrderKey::parse(&format!("p/M/{order}")).unwrap()
}

fn message(line: &str) -> Message {
    let (order, text) = line.split_once(' ').unwrap();
    let record = FactRecord {
        order: key(order),
        fact: fact(text),
        request_id: "01939b1c-7a00-7000-8000-000000000001".parse().unwrap(),
        received_at: at("10:10"),
        source: None,
    };
    Message {
        key: record.order.to_string(),
        event: None,
        value: encode_fact(&record, b"raw"),
        mac: None,
    }
}

/// Runs a projector until it has committed `last` or ended by itself, then stops it.
pub(crate) async fn run_through(projector: Projector, last: u64) -> Result<(), RunError> {
    let mut folded = projector.status().folded();
    let (stop, stopped) = watch::channel(false);
    let running = tokio::spawn(projector.run(stopped));
    let all = folded.wait_for(|through| through.iter().any(|p| p.offset >= last));
    let waited = tokio::time::timeout(Duration::from_secs(60), all).await;
    // An error within means that the projector halted and dropped its status.
    let _ = waited.expect("[time] not all that is in intake is folded");
    stop.send_replace(true);
    running.await.unwrap()
}

/// One event in one line.
pub(crate) fn event_line(event: &Delivered) -> String {
    let attributes = event.event.as_ref().unwrap();
    let data: OrderChanged = serde_json::from_slice(&event.value).unwrap();
    let before = data.previous_state.map_or("none", |state| state.as_str());
    let fulfil = if data.fulfil { " fulfil" } else { "" };
    let letter = match (data.cause.kind.as_str(), data.cause.status) {
        (_, Some(status)) => &status.as_str()[..1],
        ("createFailed", None) => "CF",
        ("rebuilt", None) => "rebuilt",
        (kind, None) => {
            if kind == "sessionOpened" {
                "O"
            } else {
                "C"
            }
        }
    };
    let (position, clock) = (data.cause.position, &attributes.time[11..16]);
    format!("{} {before}→{}{fulfil} {letter}@{position} at {clock}", attributes.id, data.state)
}
