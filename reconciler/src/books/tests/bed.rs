//! Log and order store on disk, a partner p whose records are CSV files, orders written by hand, and reconcilers that
//! compare the two.

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
use payfold_schemas::record::{FactRecord, Position, encode_fact};
use payfold_schemas::run::RunEnded;
use payfold_schemas::time::Time;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::books::day::{Request, Source};
use crate::books::desk::{Books, Desk, DeskError};
use crate::metrics::Metrics;
use crate::run::testkit::{key, known_ipn, order, record};
use crate::run::{Reconciler, RunError, Settings};

/// An order as a story tells it: what is known of it, in the order it came, and where that leaves it.
#[derive(Clone, Debug)]
pub(super) struct Told {
    pub(super) id: String,
    pub(super) state: OrderState,
    pub(super) facts: Vec<(Time, Fact)>,
}

pub(super) struct Bed {
    pub(super) log: Arc<SqliteLog>,
    pub(super) store: Arc<SqliteOrders>,
    pub(super) clock: Arc<FixedClock>,
    pub(super) dir: tempfile::TempDir,
    directory: Arc<ArcSwap<Directory>>,
}

/// A reconciler that runs.
pub(super) struct Running {
    stop: watch::Sender<bool>,
    running: JoinHandle<Result<(), RunError>>,
    pub(super) desk: Desk,
    pub(super) registry: prometheus::Registry,
}

impl Running {
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

/// The head of `[records]`, before what its lines mean.
pub(super) fn records(zone: &str, by: &str) -> String {
    let map = "[records.map]\norder = \"{r.order}\"\nref = \"{r.ref}\"\namount = \"{r.amount}\"\n\
               currency = \"{r.currency}\"\nat = \"{r.at}\"\nat_format = \"rfc3339\"\nevent = \"{r.event}\"\n";
    let event = |word: &str| {
        format!(
            "[[records.event]]\nwhen = [{{ value = \"{{r.kind}}\", is = \"{word}\" }}]\noutcome = \"{word}\"\n"
        )
    };
    let events: String = ["SUCCESS", "FAILED", "REFUNDED"].map(event).concat();
    format!(
        "\n[records]\nformat = \"csv\"\nzone = \"{zone}\"\nmatch = \"{by}\"\nempty = true\n{map}{events}\
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

impl Bed {
    /// Partner p with account M, whose `[records]` are these.
    pub(super) fn new(records: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let log = SqliteLog::open(dir.path().join("log.db"), SqliteLogSettings::default()).unwrap();
        let store = SqliteOrders::open(dir.path().join("orders.db")).unwrap();
        let clock = Arc::new(FixedClock::at(Time::from_unix_ms(0)));
        let directory = Arc::new(ArcSwap::from_pointee(directory(records, &["M"])));
        Self { log: Arc::new(log), store: Arc::new(store), clock, dir, directory }
    }

    /// From now on the profile, or the accounts, are these.
    pub(super) fn now_is(&self, records: &str, accounts: &[&str]) {
        self.directory.store(Arc::new(directory(records, accounts)));
    }

    pub(super) fn start(&self) -> Running {
        self.start_over(self.log.clone(), Duration::from_secs(3_600))
    }

    pub(super) fn start_over(&self, log: Arc<dyn EventLog>, poll: Duration) -> Running {
        self.start_with(log, poll, self.clock.clone())
    }

    /// One whose clock goes differently.
    pub(super) fn start_late(&self, ms: i64) -> Running {
        let clock = Arc::new(FixedClock::at(self.clock.now().plus_ms(ms)));
        self.start_with(self.log.clone(), Duration::from_secs(3_600), clock)
    }

    fn start_with(
        &self,
        log: Arc<dyn EventLog>,
        poll: Duration,
        clock: Arc<FixedClock>,
    ) -> Running {
        let scratch = self.dir.path().join("scratch");
        let (mut books, desk) = Books::new(self.directory.clone(), scratch);
        books.poll = poll;
        let registry = prometheus::Registry::new();
        let metrics = Arc::new(Metrics::new(&registry).unwrap());
        // The other ways of the role are beside the point here.
        let settings = Settings {
            page_entries: 7,
            retry_ms_min: 1,
            retry_ms_max: 5,
            deadline_poll: Duration::from_secs(3_600),
            ..Settings::default()
        };
        let store = self.store.clone();
        let reconciler = Reconciler::new(log, store, clock, metrics, settings).comparing(books);
        let (stop, stopped) = watch::channel(false);
        Running { stop, running: tokio::spawn(reconciler.run(stopped)), desk, registry }
    }

    /// Appends what is told of orders, and writes their rows.
    pub(super) async fn put(&self, told: &[Told]) {
        let appended = self.append(told).await;
        self.fold(told, &appended).await;
    }

    /// Appends what is told of orders; the rows stay as they are.
    pub(super) async fn append(&self, told: &[Told]) -> Vec<Position> {
        let message = |told: &Told, (received_at, fact): &(Time, Fact)| {
            let record = FactRecord { received_at: *received_at, ..record(&told.id, fact.clone()) };
            Message {
                key: record.order.to_message_key(),
                event: None,
                value: encode_fact(&record, b""),
            }
        };
        let messages: Vec<Message> = told
            .iter()
            .flat_map(|order| order.facts.iter().map(move |fact| message(order, fact)))
            .collect();
        if messages.is_empty() {
            return Vec::new();
        }
        self.log.append_all(Topic::Intake, messages).await.unwrap()
    }

    /// Writes the rows of what was appended at these positions; what an order had before is gone.
    pub(super) async fn fold(&self, told: &[Told], appended: &[Position]) {
        let Some(last) = appended.iter().max() else { return };
        let before = Position { offset: last.offset - 1, ..*last };
        let end = self.log.read_after(Topic::Intake, before, 1).await.unwrap().remove(0);
        let folded = vec![Folded::new(*last, Digest::of_bytes(&end.value))];
        let mut positions = appended.iter().copied();
        let (mut orders, mut views) = (Vec::new(), Vec::new());
        for order in told {
            let places: Vec<Position> = positions.by_ref().take(order.facts.len()).collect();
            let row = row(order, &places);
            views.extend(entries(&row).into_iter().map(|entry| (row.key.clone(), entry)));
            orders.push(Arc::new(row));
        }
        let (views, log_id) = (views.into(), self.log.id());
        self.store.commit(Commit { orders, views, folded, log_id }).await.unwrap();
    }

    /// Raises these flags of an order.
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

    /// A day's records, as a file of this text.
    pub(super) fn file(&self, name: &str, lines: &[String]) -> PathBuf {
        let path = self.dir.path().join(name);
        let head = "order,ref,kind,amount,currency,at,event".to_owned();
        let all: Vec<String> = std::iter::once(head).chain(lines.iter().cloned()).collect();
        std::fs::write(&path, all.join("\n") + "\n").unwrap();
        path
    }

    pub(super) fn request(&self, day: &str, lines: &[String]) -> Request {
        let name = format!("{day}.csv");
        let path = self.file(&name, lines);
        let partner = PartnerCode::parse("p").unwrap();
        let source = Source::File(path);
        Request { partner, day: Some(day.parse().unwrap()), source, name, replace: false }
    }

    /// Compares a day's records with one reconciler that lives for that alone.
    pub(super) async fn run(&self, day: &str, lines: &[String]) -> Result<RunEnded, DeskError> {
        let running = self.start();
        let ended = running.desk.run(self.request(day, lines)).await;
        running.stop().await.unwrap();
        ended
    }

    pub(super) async fn messages(&self, topic: Topic) -> Vec<Delivered> {
        self.log.read_after(topic, Position::default(), 1_000_000).await.unwrap()
    }

    /// Every change of a finding, as it stands in the log.
    pub(super) async fn changes(&self) -> Vec<FindingChanged> {
        let is_change = |message: &Delivered| {
            message.event.as_ref().is_some_and(|event| event.kind == FINDING_CHANGED_TYPE)
        };
        let messages = self.messages(Topic::Findings).await;
        let changes = messages.iter().filter(|message| is_change(message));
        changes.map(|message| serde_json::from_slice(&message.value).unwrap()).collect()
    }

    /// The findings as their readers have them: of one id the highest version, of one version the first; and that no
    /// version has two contents.
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

    /// Those that stand.
    pub(super) async fn standing(&self) -> Vec<FindingChanged> {
        let findings = self.findings().await.into_values();
        findings.filter(|known| known.status != FindingStatus::Cleared).collect()
    }
}

fn row(told: &Told, places: &[Position]) -> Order {
    let mut row = order(&told.id, told.state, None);
    row.first_seen = told.facts[0].0;
    row.position = *places.last().unwrap();
    row.version = row.position.offset;
    for ((_, fact), place) in told.facts.iter().zip(places) {
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
    let notices = facts.ipns.iter().map(|known| known.content.provider_ref.clone());
    let answers = facts.query_answers.iter().map(|known| known.content.provider_ref.clone());
    entries.extend(sessions.chain(notices).chain(answers).map(ViewEntry::ProviderRef));
    entries
}

/// The key of an order of account M.
pub(super) fn key_of(order: &str) -> OrderKey {
    key(order)
}
