//! The test bed: a log and an order store on disk, a partner `p` with CSV files as records, orders
//! written by hand, and services that compare the orders with the records.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use payfold_engines::clock::{Clock, FixedClock};
use payfold_engines::log::sqlite::{SqliteLog, SqliteLogSettings};
use payfold_engines::log::{Delivered, EventLog, Message, Topic};
use payfold_engines::orders::sqlite::SqliteOrders;
use payfold_engines::orders::{Commit, Folded, OrderStore, ViewEntry};
use payfold_kit::{Halt, Retry, RunError, Storage};
use payfold_partners::directory::Directory;
use payfold_partners::document::{AccountEntry, NewKey, VaultDocument};
use payfold_partners::keys::Channel;
use payfold_partners::profile::{DEFAULT_PROFILE, Profile};
use payfold_partners::secret::Secret;
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::Fact;
use payfold_schemas::finding::{FINDING_CHANGED_TYPE, FindingChanged, FindingStatus};
use payfold_schemas::ids::{KeyId, MerchantCode, OrderKey, PartnerCode};
use payfold_schemas::order::{Known, Order, OrderState, RaisedFlag};
use payfold_schemas::position::Position;
use payfold_schemas::record::{FactRecord, encode_fact};
use payfold_schemas::run::RunEnded;
use payfold_schemas::time::Time;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::rows::{key, known_ipn, order, record};
use crate::metrics::ReconcileMetrics;
use crate::request::{RecordsSource, Replaceable, RunRequest};
use crate::service::{ReconcileService, ServiceError};
use crate::setup::ReconcileSetup;
use crate::shared::{ReconcileLimits, SharedContext};

/// An order of a story: its facts in the order they came, and its state after them.
#[derive(Clone, Debug)]
pub(super) struct TestOrder {
    pub(super) id: String,
    pub(super) state: OrderState,
    pub(super) facts: Vec<(Time, Fact)>,
}

pub(super) struct TestBed {
    pub(super) log: Arc<SqliteLog>,
    pub(super) store: Arc<SqliteOrders>,
    pub(super) clock: Arc<FixedClock>,
    pub(super) dir: tempfile::TempDir,
    directory: Arc<ArcSwap<Directory>>,
}

/// A running service, its stop signal and its metrics.
pub(super) struct RunningService {
    stop: watch::Sender<bool>,
    running: JoinHandle<Result<(), RunError>>,
    pub(super) service: ReconcileService,
    pub(super) registry: prometheus::Registry,
}

impl RunningService {
    /// The values of a gauge, by its labels' values.
    pub(super) fn gauge(&self, name: &str) -> BTreeMap<Vec<String>, f64> {
        let families = self.registry.gather();
        let family = families.iter().filter(|family| family.name() == name);
        let metrics = family.flat_map(|family| family.get_metric());
        let value = |metric: &prometheus::proto::Metric| {
            let labels = metric.get_label().iter().map(|label| label.value().to_owned());
            (labels.collect(), metric.get_gauge().get_value())
        };
        metrics.map(value).collect()
    }

    pub(super) async fn stop(self) -> Result<(), RunError> {
        self.stop.send_replace(true);
        self.running.await.unwrap()
    }
}

/// A profile's `[records]` for these tests.
pub(super) fn records(zone: &str, by: &str) -> String {
    let map = "[records.map]\norder = \"{r.order}\"\nref = \"{r.ref}\"\namount = \"{r.amount}\"\n\
               currency = \"{r.currency}\"\nat = \"{r.at}\"\nat_format = \"rfc3339\"\n\
               event = \"{r.event}\"\n";
    let event = |word: &str| {
        format!(
            "[[records.event]]\nwhen = [{{ value = \"{{r.kind}}\", is = \"{word}\" }}]\n\
             outcome = \"{word}\"\n"
        )
    };
    let events: String = ["SUCCESS", "FAILED", "REFUNDED"].map(event).concat();
    format!(
        "\n[records]\nformat = \"csv\"\nzone = \"{zone}\"\nmatch = \"{by}\"\nempty = true\n\
         {map}{events}\
         [[records.event]]\noutcome = \"refuse\"\n"
    )
}

pub(super) fn directory(records: &str, accounts: &[&str]) -> Directory {
    let code = PartnerCode::parse("p").unwrap();
    let mut vault = VaultDocument::default();
    for merchant in accounts {
        let mut account = AccountEntry::new(code.clone(), MerchantCode::parse(merchant).unwrap());
        let day = Time::parse("2026-01-01T00:00:00Z").unwrap();
        let key = NewKey {
            id: KeyId::parse("k1").unwrap(),
            channel: Channel::Ipn,
            secret: Secret::from_bytes(vec![b'x'; 32]),
            valid_from: day,
            overlap_ms: 0,
            created_at: day,
        };
        account.add_key(key).unwrap();
        vault.add_account(account).unwrap();
    }
    let profile = Profile::parse(&code, &format!("{DEFAULT_PROFILE}\n{records}"))
        .unwrap_or_else(|error| panic!("{error:?}"));
    Directory::build(vec![profile], &vault).unwrap()
}

impl TestBed {
    /// Partner p with account M and these `[records]` in its profile.
    pub(super) fn new(records: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = SqliteLog::open(dir.path().join("log.db"), SqliteLogSettings::default()).unwrap();
        let store = SqliteOrders::open(dir.path().join("orders.db")).unwrap();
        let clock = Arc::new(FixedClock::at(Time::from_unix_ms(0)));
        let directory = Arc::new(ArcSwap::from_pointee(directory(records, &["M"])));
        Self { log: Arc::new(log), store: Arc::new(store), clock, dir, directory }
    }

    /// Replaces the profile and the accounts.
    pub(super) fn set_partner(&self, records: &str, accounts: &[&str]) {
        self.directory.store(Arc::new(directory(records, accounts)));
    }

    pub(super) fn start(&self) -> RunningService {
        self.start_over(self.log.clone(), Duration::from_secs(3_600))
    }

    pub(super) fn start_over(&self, log: Arc<dyn EventLog>, poll: Duration) -> RunningService {
        self.start_with(log, poll, self.clock.clone())
    }

    /// Starts a service with a clock that is this much ahead.
    pub(super) fn start_late(&self, ms: i64) -> RunningService {
        let clock = Arc::new(FixedClock::at(self.clock.now().plus_ms(ms)));
        self.start_with(self.log.clone(), Duration::from_secs(3_600), clock)
    }

    fn start_with(
        &self,
        log: Arc<dyn EventLog>,
        poll: Duration,
        clock: Arc<FixedClock>,
    ) -> RunningService {
        let scratch = self.dir.path().join("scratch");
        let mut setup = ReconcileSetup::new(self.directory.clone(), scratch);
        setup.poll = poll;
        // The people of these tests have no recorded tokens.
        setup.people.second_after_ms = 0;
        let (service, queue) = ReconcileService::open(&setup);
        let registry = prometheus::Registry::new();
        let metrics = Arc::new(ReconcileMetrics::new(&registry).unwrap());
        let (stop, stopped) = watch::channel(false);
        let (store, retry) = (self.store.clone(), Retry { ms_min: 1, ms_max: 5 });
        let storage = Storage::new(log, store, clock, retry, stopped);
        let settings = ReconcileLimits { page_entries: 7, clock_margin: Duration::from_secs(60) };
        let shared = SharedContext { storage, metrics, settings, people: setup.people };
        let running = tokio::spawn(async move {
            match crate::run(&shared, &setup, queue, None).await {
                Ok(()) | Err(Halt::Stopped) => Ok(()),
                Err(Halt::Failed(error)) => Err(error),
            }
        });
        RunningService { stop, running, service, registry }
    }

    /// Appends the facts of orders and writes their rows.
    pub(super) async fn put(&self, orders: &[TestOrder]) {
        let appended = self.append(orders).await;
        self.fold(orders, &appended).await;
    }

    /// Appends the facts of orders; their rows stay as they are.
    pub(super) async fn append(&self, orders: &[TestOrder]) -> Vec<Position> {
        let message = |order: &TestOrder, (received_at, fact): &(Time, Fact)| {
            let record =
                FactRecord { received_at: *received_at, ..record(&order.id, fact.clone()) };
            Message {
                key: record.order.to_message_key(),
                event: None,
                value: encode_fact(&record, b""),
                mac: None,
            }
        };
        let messages: Vec<Message> = orders
            .iter()
            .flat_map(|order| order.facts.iter().map(move |fact| message(order, fact)))
            .collect();
        if messages.is_empty() {
            return Vec::new();
        }
        self.log.append_all(Topic::Intake, messages).await.unwrap()
    }

    /// Writes the rows of facts that were appended at these positions; they replace earlier rows of
    /// the orders.
    pub(super) async fn fold(&self, orders: &[TestOrder], appended: &[Position]) {
        let Some(last) = appended.iter().max() else { return };
        let before = Position { offset: last.offset - 1, ..*last };
        let end = self.log.read_after(Topic::Intake, before, 1).await.unwrap().remove(0);
        let folded = vec![Folded::new(*last, Digest::of_bytes(&end.value))];
        let mut positions = appended.iter().copied();
        let (mut rows, mut views) = (Vec::new(), Vec::new());
        for order in orders {
            let places: Vec<Position> = positions.by_ref().take(order.facts.len()).collect();
            let row = row(order, &places);
            views.extend(entries(&row).into_iter().map(|entry| (row.key.clone(), entry)));
            rows.push(Arc::new(row));
        }
        let (views, log_id) = (views.into(), self.log.id());
        self.store.commit(Commit { orders: rows, views, folded, log_id }).await.unwrap();
    }

    /// Sets the flags of an order.
    pub(super) async fn flag(&self, order: &str, flags: Vec<RaisedFlag>) {
        self.change(order, |row| row.summary.flags = flags).await;
    }

    /// Changes the row of an order; everything in the log counts as folded.
    pub(super) async fn change(&self, order: &str, change: impl FnOnce(&mut Order)) {
        let mut row = self.store.load(vec![key(order)]).await.unwrap().remove(0).unwrap();
        change(&mut row);
        row.version += 1;
        let end = self.messages(Topic::Intake).await.pop().unwrap();
        let folded = vec![Folded::new(end.position, Digest::of_bytes(&end.value))];
        let (orders, log_id) = (vec![Arc::new(row)], self.log.id());
        self.store.commit(Commit { orders, views: Arc::default(), folded, log_id }).await.unwrap();
    }

    /// Writes a records file of these lines.
    pub(super) fn file(&self, name: &str, lines: &[String]) -> PathBuf {
        let path = self.dir.path().join(name);
        let head = "order,ref,kind,amount,currency,at,event".to_owned();
        let all: Vec<String> = std::iter::once(head).chain(lines.iter().cloned()).collect();
        std::fs::write(&path, all.join("\n") + "\n").unwrap();
        path
    }

    pub(super) fn request(&self, day: &str, lines: &[String]) -> RunRequest {
        let name = format!("{day}.csv");
        let path = self.file(&name, lines);
        let partner = PartnerCode::parse("p").unwrap();
        let source = RecordsSource::File(path);
        RunRequest {
            partner,
            day: Some(day.parse().unwrap()),
            source,
            name,
            replace: Replaceable::No,
            asked: None,
        }
    }

    /// Does one run with a service of its own.
    pub(super) async fn run(&self, day: &str, lines: &[String]) -> Result<RunEnded, ServiceError> {
        let running = self.start();
        let ended = running.service.run(self.request(day, lines)).await;
        running.stop().await.unwrap();
        ended
    }

    pub(super) async fn messages(&self, topic: Topic) -> Vec<Delivered> {
        self.log.read_after(topic, Position::default(), 1_000_000).await.unwrap()
    }

    /// Every change of a finding in the log.
    pub(super) async fn changes(&self) -> Vec<FindingChanged> {
        let is_change = |message: &Delivered| {
            message.event.as_ref().is_some_and(|event| event.kind == FINDING_CHANGED_TYPE)
        };
        let messages = self.messages(Topic::Findings).await;
        let changes = messages.iter().filter(|message| is_change(message));
        changes.map(|message| serde_json::from_slice(&message.value).unwrap()).collect()
    }

    /// The findings as subscribers see them: the highest version of each, the first event of each
    /// version. Checks that no version has two contents.
    pub(super) async fn findings(&self) -> BTreeMap<String, FindingChanged> {
        let mut events: BTreeMap<(String, u32), FindingChanged> = BTreeMap::new();
        for change in self.changes().await {
            let event = (change.finding_id.clone(), change.version);
            let first = events.entry(event).or_insert_with(|| change.clone());
            assert_eq!(*first, change, "one event, two contents");
        }
        let mut findings: BTreeMap<String, FindingChanged> = BTreeMap::new();
        for ((id, version), change) in events {
            let before = findings.insert(id, change).map_or(0, |before| before.version);
            assert_eq!(before + 1, version, "a version is left out");
        }
        findings
    }

    /// The uncleared findings.
    pub(super) async fn uncleared(&self) -> Vec<FindingChanged> {
        let findings = self.findings().await.into_values();
        findings.filter(|known| known.status != FindingStatus::Cleared).collect()
    }
}

fn row(test_order: &TestOrder, places: &[Position]) -> Order {
    let mut row = order(&test_order.id, test_order.state, None);
    row.first_seen = test_order.facts[0].0;
    row.position = *places.last().unwrap();
    row.version = row.position.offset;
    for ((_, fact), place) in test_order.facts.iter().zip(places) {
        let facts = &mut row.facts;
        match fact {
            Fact::CreateRequested(create) => {
                row.summary.reference = Some(create.reference.clone());
                row.summary.attempt = Some(create.attempt);
                row.summary.currency = Some(create.currency);
                row.summary.paid_amount = create.amount.minor();
                facts.creates.push(known_at(create.clone(), *place));
            }
            Fact::SessionOpened(session) => facts.sessions.push(known_at(session.clone(), *place)),
            Fact::Ipn(ipn) => facts.ipns.push(known_at(known_ipn(ipn), *place)),
            Fact::QueryAnswered(said) => facts.query_answers.push(known_at(said.clone(), *place)),
            Fact::RefShared(shared) => facts.shared_refs.push(known_at(shared.clone(), *place)),
            other => panic!("{other:?}"),
        }
    }
    row
}

fn known_at<T>(content: T, position: Position) -> Known<T> {
    Known { content, position }
}

fn entries(row: &Order) -> Vec<ViewEntry> {
    let mut entries = vec![ViewEntry::Created(row.first_seen)];
    entries.extend(row.summary.reference.clone().map(ViewEntry::Reference));
    let facts = &row.facts;
    let sessions = facts.sessions.iter().map(|known| known.content.provider_ref.clone());
    let notices = facts.ipns.iter().filter(|known| known.content.policy.names_transaction());
    let notices = notices.map(|known| known.content.provider_ref.clone());
    let answers = facts.query_answers.iter().map(|known| known.content.provider_ref.clone());
    entries.extend(sessions.chain(notices).chain(answers).map(ViewEntry::ProviderRef));
    entries
}

/// The key of an order of account M.
pub(super) fn key_of(order: &str) -> OrderKey {
    key(order)
}
