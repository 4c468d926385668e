//! A log and an order store on disk, and reconcilers over them. The tests commit the rows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use payfold_doubles::Double;
use payfold_engines::clock::FixedClock;
use payfold_engines::log::sqlite::{SqliteLog, SqliteLogSettings};
use payfold_engines::log::{EventLog, Message, Start, Topic};
use payfold_engines::orders::sqlite::SqliteOrders;
use payfold_engines::orders::{Commit, Folded, OrderStore, ViewEntry};
use payfold_kit::{Retry, RunError};
use payfold_reconcile::service::ServiceQueue;
use payfold_reconcile::setup::ReconcileSetup;
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::{Known, Order, OrderState};
use payfold_schemas::position::Position;
use payfold_schemas::record::{FactRecord, decode_fact, encode_fact};
use payfold_testing::waits::eventually;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::failing::{FailingEngines, Fault};
use crate::metrics::Metrics;
use crate::partners::Partners;
use crate::run::Reconciler;
use crate::run::testkit::{at, fact, known_ipn, order, record};
use crate::settings::Settings;

pub(super) struct World {
    pub(super) log: Arc<SqliteLog>,
    pub(super) store: Arc<SqliteOrders>,
    pub(super) clock: Arc<FixedClock>,
    registry: prometheus::Registry,
    pub(super) metrics: Arc<Metrics>,
    _dir: tempfile::TempDir,
}

/// How long a test waits before it fails: no machine is so busy that it takes longer.
pub(super) const NEVER: Duration = Duration::from_secs(120);

/// A running reconciler, and the engines it runs over.
pub(super) struct Running {
    stop: watch::Sender<bool>,
    running: JoinHandle<Result<(), RunError>>,
    pub(super) engines: Arc<Double<FailingEngines>>,
}

impl Running {
    pub(super) async fn stop(self) -> Result<(), RunError> {
        self.stop.send_replace(true);
        self.running.await.unwrap()
    }

    /// Waits until it ends with an error.
    pub(super) async fn ended(self) -> RunError {
        let ended = timeout(NEVER, self.running).await.expect("[time] it does not end");
        ended.unwrap().unwrap_err()
    }

    /// Waits for a whole scan of deadlines that began after this call: everything that was there
    /// before is checked then.
    pub(super) async fn wait_for_scan(&self) {
        self.engines.wait_for_more_calls("extent", 3).await;
    }
}

pub(super) fn settings() -> Settings {
    Settings {
        deadline_poll: Duration::from_millis(5),
        ack_every: Duration::from_millis(5),
        retry: Retry { ms_min: 1, ms_max: 10 },
        ..Settings::default()
    }
}

impl World {
    /// Empty engines, at 10:00.
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = SqliteLog::open(dir.path().join("log.db"), SqliteLogSettings::default()).unwrap();
        let store = SqliteOrders::open(dir.path().join("orders.db")).unwrap();
        let registry = prometheus::Registry::new();
        let metrics = Arc::new(Metrics::new(&registry).unwrap());
        let clock = Arc::new(FixedClock::at(at("10:00")));
        Self { log: Arc::new(log), store: Arc::new(store), clock, registry, metrics, _dir: dir }
    }

    /// Appends facts, each written `order fact` and separated with semicolons, received now.
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
        self.start_with_fault_and_queries(fault, settings, None)
    }

    /// Starts a reconciler that queries partners.
    pub(super) fn start_with_queries(&self, settings: Settings, partners: Partners) -> Running {
        self.start_with_fault_and_queries(Fault::None, settings, Some(partners))
    }

    pub(super) fn start_with_fault_and_queries(
        &self,
        fault: Fault,
        settings: Settings,
        partners: Option<Partners>,
    ) -> Running {
        self.start_with_reconciliation((fault, settings), partners, None)
    }

    /// Starts a reconciler that may query partners and compare their records.
    pub(super) fn start_with_reconciliation(
        &self,
        (fault, settings): (Fault, Settings),
        partners: Option<Partners>,
        books: Option<(ReconcileSetup, ServiceQueue)>,
    ) -> Running {
        let engines = FailingEngines::new(self, fault);
        let (log, store) = (engines.clone(), engines.clone());
        let (clock, metrics) = (self.clock.clone(), Arc::clone(&self.metrics));
        let reconciler = Reconciler::new(log, store, clock, metrics, settings);
        let reconciler = match partners {
            Some(partners) => reconciler.with_queries(partners),
            None => reconciler,
        };
        let reconciler = match books {
            Some((books, queue)) => reconciler.with_reconciliation(books, queue),
            None => reconciler,
        };
        let (stop, stopped) = watch::channel(false);
        Running { stop, running: tokio::spawn(reconciler.run(stopped)), engines }
    }

    /// Commits the rows and view entries of everything that is not folded yet.
    pub(super) async fn fold(&self) {
        self.fold_only(usize::MAX).await;
    }

    /// The same for the next `limit` records. Returns how many there were.
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
            add_fact(row, &record.fact);
            views.extend(entries(&record.fact).into_iter().map(|entry| (key.clone(), entry)));
        }
        let orders = rows.into_values().map(Arc::new).collect();
        let (views, log_id) = (views.into(), self.log.id());
        self.store.commit(Commit { orders, views, folded, log_id }).await.unwrap();
        records.len()
    }

    /// Goes on folding until `other` is done. The reader of intake waits for the fold, also of
    /// facts that the reconciler itself has appended meanwhile.
    pub(super) async fn folding_until<T>(&self, other: impl Future<Output = T>) -> T {
        tokio::pin!(other);
        let begun = tokio::time::Instant::now();
        loop {
            assert!(begun.elapsed() < NEVER, "[time] folding does not lead to its end");
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
    pub(super) async fn wait_for_facts(&self, count: usize) -> Vec<String> {
        let start = Start::After(Vec::new());
        let mut reader = self.log.subscribe(Topic::Intake, "test", start).await.unwrap();
        while self.facts().await.len() < count {
            let more = timeout(NEVER, reader.next_batch(10_000)).await;
            let facts = self.facts().await;
            more.unwrap_or_else(|_| panic!("[time] {count} facts expected: {facts:?}")).unwrap();
        }
        self.facts().await
    }

    /// The facts of reconcilers in intake, as short texts.
    pub(super) async fn facts(&self) -> Vec<String> {
        let records = self.records().await;
        let text = |record: &FactRecord| {
            let order = &record.order.order_id;
            match &record.fact {
                Fact::DeadlinePassed { deadline } => {
                    Some(format!("DeadlinePassed {order} {}", &deadline.to_rfc3339()[11..16]))
                }
                Fact::RefShared(shared) => Some(format!(
                    "RefShared {order} {} {}",
                    shared.provider_ref, shared.other_order
                )),
                _ => None,
            }
        };
        records.iter().filter_map(text).collect()
    }

    /// The answers of partners in intake, as short texts.
    pub(super) async fn answers(&self) -> Vec<String> {
        let text = |record: &FactRecord| match &record.fact {
            Fact::QueryAnswered(answer) => {
                let order = &record.order.order_id;
                Some(format!("QueryAnswered {order} {} {}", answer.provider_ref, answer.status))
            }
            _ => None,
        };
        self.records().await.iter().filter_map(text).collect()
    }

    /// Waits until intake has this many answers, and returns them sorted.
    pub(super) async fn wait_for_answers(&self, count: usize) -> Vec<String> {
        let mut answers = eventually(&format!("{count} answers"), async || {
            let answers = self.answers().await;
            if answers.len() < count { Err(answers) } else { Ok(answers) }
        })
        .await;
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

    /// Waits until a metric has this value.
    pub(super) async fn wait_for_metric(&self, name: &str, value: f64) {
        eventually(&format!("{name} is {value}"), async || {
            let seen = self.metric(name);
            if (seen - value).abs() > 0.1 { Err(seen) } else { Ok(()) }
        })
        .await;
    }

    /// How many queries had this outcome.
    pub(super) fn queries(&self, outcome: &str) -> f64 {
        let families = self.registry.gather();
        let name = "payfold_reconciler_queries_total";
        // The family is missing until the first query is counted.
        let Some(family) = families.iter().find(|family| family.name() == name) else { return 0.0 };
        let of_outcome = |metric: &&prometheus::proto::Metric| {
            metric.get_label().iter().any(|label| label.value() == outcome)
        };
        let metrics = family.get_metric().iter().filter(of_outcome);
        metrics.map(|metric| metric.get_counter().get_value()).sum()
    }
}

pub(super) fn message(record: &FactRecord) -> Message {
    Message {
        key: record.order.to_string(),
        event: None,
        value: encode_fact(record, b""),
        mac: None,
    }
}

/// The view entries of a fact, as the projector writes them.
fn entries(fact: &Fact) -> Vec<ViewEntry> {
    match fact {
        Fact::CreateRequested(create) => vec![ViewEntry::Deadline(create.deadline)],
        Fact::SessionOpened(session) => vec![
            ViewEntry::Deadline(session.deadline),
            ViewEntry::ProviderRef(session.provider_ref.clone()),
        ],
        Fact::Ipn(ipn) if ipn.policy.names_transaction() => {
            vec![ViewEntry::ProviderRef(ipn.provider_ref.clone())]
        }
        Fact::QueryAnswered(answer) => vec![ViewEntry::ProviderRef(answer.provider_ref.clone())],
        _ => Vec::new(),
    }
}

/// Adds a fact to a row, as far as these tests need it.
fn add_fact(row: &mut Order, fact: &Fact) {
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
