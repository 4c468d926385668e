//! A log and an order store on disk, rows committed by hand, and reconcilers beside them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use payfold_engines::clock::FixedClock;
use payfold_engines::log::sqlite::{SqliteLog, SqliteLogSettings};
use payfold_engines::log::{EventLog, Message, Start, Topic};
use payfold_engines::orders::sqlite::SqliteOrders;
use payfold_engines::orders::{Commit, Folded, OrderStore, ViewEntry};
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::{Known, Order, OrderState};
use payfold_schemas::record::{FactRecord, Position, decode_fact, encode_fact};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::failing::{Failing, Fault};
use crate::books::desk::Books;
use crate::metrics::Metrics;
use crate::partners::Partners;
use crate::run::testkit::{at, fact, known_ipn, order, record};
use crate::run::{Reconciler, RunError, Settings};

pub(super) struct World {
    pub(super) log: Arc<SqliteLog>,
    pub(super) store: Arc<SqliteOrders>,
    pub(super) clock: Arc<FixedClock>,
    registry: prometheus::Registry,
    pub(super) metrics: Arc<Metrics>,
    _dir: tempfile::TempDir,
}

/// A reconciler that runs, and the engines it runs over.
pub(super) struct Running {
    stop: watch::Sender<bool>,
    running: JoinHandle<Result<(), RunError>>,
    pub(super) engines: Arc<Failing>,
}

impl Running {
    pub(super) async fn stop(self) -> Result<(), RunError> {
        self.stop.send_replace(true);
        self.running.await.unwrap()
    }

    /// As it ends by itself.
    pub(super) async fn ended(self) -> RunError {
        self.running.await.unwrap().unwrap_err()
    }

    /// Waits until the deadlines were walked along from now on: what was there before has been looked at.
    pub(super) async fn walked(&self) {
        self.engines.called("extent", 3).await;
    }
}

pub(super) fn settings() -> Settings {
    Settings {
        deadline_poll: Duration::from_millis(5),
        ack_every: Duration::from_millis(5),
        retry_ms_min: 1,
        retry_ms_max: 10,
        ..Settings::default()
    }
}

impl World {
    /// It is 10:00.
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = SqliteLog::open(dir.path().join("log.db"), SqliteLogSettings::default()).unwrap();
        let store = SqliteOrders::open(dir.path().join("orders.db")).unwrap();
        let registry = prometheus::Registry::new();
        let metrics = Arc::new(Metrics::new(&registry).unwrap());
        let clock = Arc::new(FixedClock::at(at("10:00")));
        Self { log: Arc::new(log), store: Arc::new(store), clock, registry, metrics, _dir: dir }
    }

    /// Appends `order fact` entries, between semicolons, received now.
    pub(super) async fn append(&self, text: &str) {
        use payfold_engines::clock::Clock;
        let message = |line: &str| {
            let (order, text) = line.trim().split_once(' ').unwrap();
            let record = FactRecord { received_at: self.clock.now(), ..record(order, fact(text)) };
            message(&record)
        };
        let messages = text.split(';').map(message).collect();
        self.log.append_all(Topic::Intake, messages).await.unwrap();
    }

    pub(super) fn start(&self) -> Running {
        self.start_with(Fault::None, settings())
    }

    pub(super) fn start_with(&self, fault: Fault, settings: Settings) -> Running {
        self.start_failing(fault, settings, None)
    }

    /// One that asks partners.
    pub(super) fn start_asking(&self, settings: Settings, partners: Partners) -> Running {
        self.start_failing(Fault::None, settings, Some(partners))
    }

    pub(super) fn start_failing(
        &self,
        fault: Fault,
        settings: Settings,
        partners: Option<Partners>,
    ) -> Running {
        self.start_comparing((fault, settings), partners, None)
    }

    /// One that may ask partners and compare their books.
    pub(super) fn start_comparing(
        &self,
        (fault, settings): (Fault, Settings),
        partners: Option<Partners>,
        books: Option<Books>,
    ) -> Running {
        let engines = Failing::new(self, fault);
        let (log, store) = (engines.clone(), engines.clone());
        let (clock, metrics) = (self.clock.clone(), Arc::clone(&self.metrics));
        let reconciler = Reconciler::new(log, store, clock, metrics, settings);
        let reconciler = match partners {
            Some(partners) => reconciler.asking(partners),
            None => reconciler,
        };
        let reconciler = match books {
            Some(books) => reconciler.comparing(books),
            None => reconciler,
        };
        let (stop, stopped) = watch::channel(false);
        Running { stop, running: tokio::spawn(reconciler.run(stopped)), engines }
    }

    /// Commits by hand the rows and entries of what is not folded yet.
    pub(super) async fn fold(&self) {
        self.fold_only(usize::MAX).await;
    }

    /// The same of the next so many records. Tells how many there were.
    pub(super) async fn fold_only(&self, limit: usize) -> usize {
        let progress = self.store.progress().await.unwrap();
        let after = progress.map_or(Position::default(), |p| p.folded[0].position);
        let records = self.log.read_after(Topic::Intake, after, limit.min(50_000)).await.unwrap();
        let Some(last) = records.last() else { return 0 };
        let folded = vec![Folded::new(last.position, Digest::of_bytes(&last.value))];
        let mut rows: BTreeMap<OrderKey, Order> = BTreeMap::new();
        let mut views = Vec::new();
        for delivered in &records {
            let record = decode_fact(&delivered.value).unwrap();
            let key = &record.order;
            if !rows.contains_key(key) {
                let row = self.store.load(vec![key.clone()]).await.unwrap().remove(0);
                if row.is_none() {
                    views.push((key.clone(), ViewEntry::Created(record.received_at)));
                }
                let new = || Order {
                    first_seen: record.received_at,
                    ..order(key.order_id.as_str(), OrderState::Unmatched, None)
                };
                rows.insert(key.clone(), row.unwrap_or_else(new));
            }
            let row = rows.get_mut(key).unwrap();
            row.position = delivered.position;
            add(row, &record.fact);
            views.extend(entries(&record.fact).into_iter().map(|entry| (key.clone(), entry)));
        }
        let orders = rows.into_values().map(Arc::new).collect();
        let (views, log_id) = (views.into(), self.log.id());
        self.store.commit(Commit { orders, views, folded, log_id }).await.unwrap();
        records.len()
    }

    /// Goes on folding until something else is done: whoever reads intake waits for the fold, also of an X
    /// that was appended beside it.
    pub(super) async fn folding_until<T>(&self, other: impl Future<Output = T>) -> T {
        tokio::pin!(other);
        loop {
            self.fold().await;
            if let Ok(done) = timeout(Duration::from_millis(5), &mut other).await {
                return done;
            }
        }
    }

    pub(super) async fn row(&self, order: &str) -> Order {
        let key = crate::run::testkit::key(order);
        self.store.load(vec![key]).await.unwrap().remove(0).unwrap()
    }

    /// Waits until intake has `count` records of a reconciler, and returns all it has.
    pub(super) async fn found(&self, count: usize) -> Vec<String> {
        let start = Start::After(Vec::new());
        let mut reader = self.log.subscribe(Topic::Intake, "test", start).await.unwrap();
        while self.facts().await.len() < count {
            reader.next_batch(10_000).await.unwrap();
        }
        self.facts().await
    }

    /// The facts of reconcilers in intake, in short words.
    pub(super) async fn facts(&self) -> Vec<String> {
        let records = self.records().await;
        let text = |record: &FactRecord| {
            let order = &record.order.order_id;
            match &record.fact {
                Fact::DeadlinePassed { deadline } => {
                    Some(format!("X {order} {}", &deadline.to_rfc3339()[11..16]))
                }
                Fact::RefShared(shared) => {
                    Some(format!("K {order} {} {}", shared.provider_ref, shared.other_order))
                }
                _ => None,
            }
        };
        records.iter().filter_map(text).collect()
    }

    /// The answers in intake, in short words.
    pub(super) async fn answers(&self) -> Vec<String> {
        let text = |record: &FactRecord| match &record.fact {
            Fact::QueryAnswered(answer) => {
                let order = &record.order.order_id;
                Some(format!("P {order} {} {}", answer.provider_ref, answer.status))
            }
            _ => None,
        };
        self.records().await.iter().filter_map(text).collect()
    }

    /// Waits until intake has so many answers, and returns them sorted.
    pub(super) async fn answered(&self, count: usize) -> Vec<String> {
        let begun = tokio::time::Instant::now();
        while self.answers().await.len() < count {
            assert!(begun.elapsed() < Duration::from_secs(20), "[time] {:?}", self.answers().await);
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let mut answers = self.answers().await;
        answers.sort();
        answers
    }

    pub(super) async fn records(&self) -> Vec<FactRecord> {
        let all = self.log.read_after(Topic::Intake, Position::default(), 1_000_000).await.unwrap();
        all.iter().filter_map(|delivered| decode_fact(&delivered.value).ok()).collect()
    }

    /// The value of a counter or gauge.
    pub(super) fn metric(&self, name: &str) -> f64 {
        let families = self.registry.gather();
        let name = format!("payfold_reconciler_{name}");
        let family = families.iter().find(|family| family.name() == name).unwrap();
        let metric = &family.get_metric()[0];
        metric.get_counter().get_value() + metric.get_gauge().get_value()
    }

    /// Waits until a gauge shows this.
    pub(super) async fn metric_is(&self, name: &str, value: f64) {
        let begun = tokio::time::Instant::now();
        while (self.metric(name) - value).abs() > 0.1 {
            assert!(
                begun.elapsed() < Duration::from_secs(20),
                "[time] {name} {}",
                self.metric(name)
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// How many questions came to this.
    pub(super) fn queries(&self, outcome: &str) -> f64 {
        let families = self.registry.gather();
        let name = "payfold_reconciler_queries_total";
        // There is none before the first.
        let Some(family) = families.iter().find(|family| family.name() == name) else { return 0.0 };
        let of_outcome = |metric: &&prometheus::proto::Metric| {
            metric.get_label().iter().any(|label| label.value() == outcome)
        };
        let metrics = family.get_metric().iter().filter(of_outcome);
        metrics.map(|metric| metric.get_counter().get_value()).sum()
    }
}

pub(super) fn message(record: &FactRecord) -> Message {
    Message { key: record.order.to_string(), event: None, value: encode_fact(record, b"") }
}

/// The view entries of a fact, as the projector gives them.
fn entries(fact: &Fact) -> Vec<ViewEntry> {
    match fact {
        Fact::CreateRequested(create) => vec![ViewEntry::Deadline(create.deadline)],
        Fact::SessionOpened(session) => vec![
            ViewEntry::Deadline(session.deadline),
            ViewEntry::ProviderRef(session.provider_ref.clone()),
        ],
        Fact::Ipn(ipn) if !ipn.policy.placeholder_ref => {
            vec![ViewEntry::ProviderRef(ipn.provider_ref.clone())]
        }
        Fact::QueryAnswered(answer) => vec![ViewEntry::ProviderRef(answer.provider_ref.clone())],
        _ => Vec::new(),
    }
}

/// Adds a fact to a row, as far as these tests go.
fn add(row: &mut Order, fact: &Fact) {
    let facts = &mut row.facts;
    match fact {
        Fact::CreateRequested(create) => insert(&mut facts.creates, create.clone()),
        Fact::SessionOpened(session) => insert(&mut facts.sessions, session.clone()),
        Fact::Ipn(ipn) => {
            let same = |known: &&mut Known<_>| {
                let known: &payfold_schemas::order::KnownIpn = &known.content;
                known.provider_ref == ipn.provider_ref && known.status == ipn.status
            };
            match facts.ipns.iter_mut().find(same) {
                Some(known) => known.content.policy = known.content.policy.merge(ipn.policy),
                None => insert(&mut facts.ipns, known_ipn(ipn)),
            }
        }
        Fact::DeadlinePassed { deadline } => insert(&mut facts.deadlines_passed, *deadline),
        Fact::QueryAnswered(answer) => insert(&mut facts.query_answers, answer.clone()),
        Fact::RefShared(shared) => insert(&mut facts.shared_refs, shared.clone()),
        other => panic!("{other:?}"),
    }
    let last_session = facts.sessions.iter().map(|known| known.content.deadline).max();
    let first = facts.creates.iter().map(|known| known.content.deadline).max();
    row.summary.deadline = last_session.or(first);
    row.summary.state = if facts.creates.is_empty() {
        OrderState::Unmatched
    } else if !facts.ipns.is_empty() || !facts.query_answers.is_empty() {
        OrderState::Paid
    } else if facts.deadlines_passed.iter().any(|known| Some(known.content) >= last_session) {
        OrderState::Expired
    } else if facts.sessions.is_empty() {
        OrderState::Requested
    } else {
        OrderState::Pending
    };
}

fn insert<T: PartialEq>(list: &mut Vec<Known<T>>, content: T) {
    if !list.iter().any(|known| known.content == content) {
        list.push(crate::run::testkit::known(content));
    }
}
