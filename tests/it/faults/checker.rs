//! Owns the checker: what a data folder must hold once every program over it is dead, read through
//! the engines and folded by the oracle, not by the projector.
//!
//! Every acknowledged body is in `intake`, byte for byte; every row is what the oracle makes of the
//! log; every event id has one content; an order's versions come first as 1, 2, 3, … and end where
//! its row stands.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::path::Path;

use payfold_engines::log::sqlite::SqliteLog;
use payfold_engines::log::{Delivered, EventLog, Topic};
use payfold_engines::orders::sqlite::SqliteOrders;
use payfold_engines::orders::{OrderStore, Scan};
use payfold_projector::fold::FactContent;
use payfold_schemas::digest::Digest;
use payfold_schemas::event::{OrderChanged, order_event_id};
use payfold_schemas::fact::Fact;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::{Order, OrderState};
use payfold_schemas::position::Position;
use payfold_schemas::record::{Parts, Record};
use payfold_schemas::time::Time;

use crate::faults::load::Seen;
use crate::support::oracle::{Expected, Oracle};
use crate::support::pair::runtime;

const PAGE: usize = 5_000;
/// More of one kind than this only fill the screen.
const SHOWN_MAX: usize = 5;

/// Something that must not be.
#[derive(Clone, Debug, PartialEq)]
pub enum Complaint {
    /// A body that was answered 200 is not in `intake`.
    Lost { body: String },
    /// The creation of an order that was answered 201 is not in `intake`.
    CreateLost { order: String },
    /// Folding ended before the log did.
    NotFolded { folded: u64, head: u64 },
    /// The log knows the order, the store does not.
    RowMissing { order: String },
    /// The store knows the order, the log does not.
    RowUnknown { order: String },
    /// More records changed the row than changed the oracle's set.
    AppliedTwice { order: String, version: u64, expected: u64 },
    /// The row names records that are not in the log at those positions.
    Evidence { order: String, strangers: Vec<String> },
    /// The row is not what the oracle makes of the log.
    RowDiffers { order: String, stored: Box<Expected>, expected: Box<Expected> },
    /// One event id has two contents, or the event does not match its id.
    EventContent { id: String },
    /// Versions are missing: these are there.
    EventGap { order: String, versions: Vec<u64> },
    /// A version came before an earlier one.
    EventOrder { order: String, versions: Vec<u64> },
    /// The last event of an order is not where its row stands.
    EventsEnd { order: String, published: Option<(u64, OrderState)>, row: (u64, OrderState) },
}

impl Complaint {
    /// Its kind in one word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Lost { .. } => "lost",
            Self::CreateLost { .. } => "create lost",
            Self::NotFolded { .. } => "not folded",
            Self::RowMissing { .. } => "row missing",
            Self::RowUnknown { .. } => "row unknown",
            Self::AppliedTwice { .. } => "applied twice",
            Self::Evidence { .. } => "evidence",
            Self::RowDiffers { .. } => "row differs",
            Self::EventContent { .. } => "event content",
            Self::EventGap { .. } => "event gap",
            Self::EventOrder { .. } => "event order",
            Self::EventsEnd { .. } => "events end",
        }
    }
}

/// What was checked, and what was wrong.
pub struct Report {
    pub acked: u64,
    pub bodies: usize,
    pub records: u64,
    pub orders: usize,
    pub events: u64,
    /// Events that were published again after a kill, byte for byte.
    pub repeats: u64,
    pub complaints: Vec<Complaint>,
}

impl Report {
    /// How many complaints there are of each kind.
    pub fn kinds(&self) -> BTreeMap<&'static str, usize> {
        let mut kinds = BTreeMap::new();
        for complaint in &self.complaints {
            *kinds.entry(complaint.kind()).or_default() += 1;
        }
        kinds
    }

    /// Panics with some of each kind of complaint.
    pub fn assert_clean(&self) {
        let mut shown: BTreeMap<&str, Vec<&Complaint>> = BTreeMap::new();
        for complaint in &self.complaints {
            let of_kind = shown.entry(complaint.kind()).or_default();
            if of_kind.len() < SHOWN_MAX {
                of_kind.push(complaint);
            }
        }
        assert!(shown.is_empty(), "{self}\n{:?}\n{shown:#?}", self.kinds());
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self.kinds();
        let count = |kind| kinds.get(kind).copied().unwrap_or(0);
        write!(
            f,
            "acked {}, lost {}, applied twice {} ({} distinct bodies; \
             {} records, {} orders, {} events checked, {} of them repeats)",
            self.acked,
            count("lost") + count("create lost"),
            count("applied twice"),
            self.bodies,
            self.records,
            self.orders,
            self.events,
            self.repeats,
        )
    }
}

/// What the log holds of one order.
#[derive(Default)]
struct LoggedOrder {
    facts: Vec<Fact>,
    /// Where they stand, in the same order.
    positions: Vec<Position>,
    /// Version and state of its events, repeats left out, in log order.
    events: Vec<(u64, OrderState)>,
}

/// Checks what is left in a data folder against the answers.
pub fn check(data: &Path, seen: &Seen) -> Report {
    let log = SqliteLog::open_read_only(data.join("log.db")).expect("the log opens");
    let store = SqliteOrders::open_read_only(data.join("orders.db")).expect("the store opens");
    runtime().block_on(check_engines(&log, &store, seen))
}

/// Checks a log and a store that no process writes to any more.
pub async fn check_engines(log: &dyn EventLog, store: &dyn OrderStore, seen: &Seen) -> Report {
    let mut report = Report {
        acked: seen.acked.values().map(|times| u64::from(*times)).sum(),
        bodies: seen.acked.len(),
        records: 0,
        orders: 0,
        events: 0,
        repeats: 0,
        complaints: Vec::new(),
    };
    let mut logged = read_intake(log, seen, &mut report).await;
    read_events(log, &mut logged, &mut report).await;
    check_progress(log, store, &mut report).await;
    check_rows(store, &logged, &mut report).await;
    report
}

/// The messages of a topic, partition by partition and page by page; the engine itself complains of
/// gaps.
async fn each(log: &dyn EventLog, topic: Topic, mut take: impl FnMut(Delivered)) {
    for extent in log.extent(topic).await.expect("the log can be read") {
        let mut after = Position { partition: extent.partition, offset: 0 };
        loop {
            let page = log.read_after(topic, after, PAGE).await.expect("the log can be read");
            let Some(last) = page.last() else { break };
            after = last.position;
            page.into_iter().for_each(&mut take);
        }
    }
}

async fn read_intake(
    log: &dyn EventLog,
    seen: &Seen,
    report: &mut Report,
) -> BTreeMap<OrderKey, LoggedOrder> {
    let mut logged: BTreeMap<OrderKey, LoggedOrder> = BTreeMap::new();
    let mut raws = HashSet::new();
    each(log, Topic::Intake, |message| {
        report.records += 1;
        let record = Record::decode(&message.value).expect("a record of the log decodes");
        let Parts::Fact(fact) = record.parts else { panic!("intake holds facts only") };
        let logged = logged.entry(fact.order).or_default();
        logged.facts.push(fact.fact);
        logged.positions.push(message.position);
        raws.insert(record.raw);
    })
    .await;
    for body in seen.acked.keys().filter(|body| !raws.contains(*body)) {
        let body = String::from_utf8_lossy(body).into_owned();
        report.complaints.push(Complaint::Lost { body });
    }
    for order in &seen.opened {
        let key = OrderKey::parse(order).expect("a key");
        let created = |fact: &Fact| matches!(fact, Fact::CreateRequested(_));
        if !logged.get(&key).is_some_and(|logged| logged.facts.iter().any(created)) {
            report.complaints.push(Complaint::CreateLost { order: order.clone() });
        }
    }
    logged
}

async fn read_events(
    log: &dyn EventLog,
    logged: &mut BTreeMap<OrderKey, LoggedOrder>,
    report: &mut Report,
) {
    let mut contents: HashMap<String, Digest> = HashMap::new();
    each(log, Topic::Orders, |message| {
        report.events += 1;
        let event = message.event.expect("an event has attributes");
        let change: OrderChanged = serde_json::from_slice(&message.value).expect("an event's data");
        let key = OrderKey::parse(&message.key).expect("an event's key is an order's");
        let named = order_event_id(&key, change.epoch, change.version);
        let content = [event.kind.as_bytes(), event.time.as_bytes(), &message.value].join(&0);
        let content = Digest::of_bytes(&content);
        match contents.insert(event.id.clone(), content) {
            Some(before) if before == content => {
                report.repeats += 1;
                return;
            }
            None if named == event.id => {}
            _ => report.complaints.push(Complaint::EventContent { id: event.id }),
        }
        logged.entry(key).or_default().events.push((change.version, change.state));
    })
    .await;
    for (key, logged) in logged {
        let versions = logged.events.iter().map(|(version, _)| *version).collect();
        report.complaints.extend(check_versions(key.to_string(), versions));
    }
}

/// Versions as they first came have to be 1, 2, 3, …
fn check_versions(order: String, versions: Vec<u64>) -> Option<Complaint> {
    let set: BTreeSet<u64> = versions.iter().copied().collect();
    if !set.iter().copied().eq((1..).take(set.len())) {
        Some(Complaint::EventGap { order, versions })
    } else if !set.into_iter().eq(versions.iter().copied()) {
        Some(Complaint::EventOrder { order, versions })
    } else {
        None
    }
}

async fn check_progress(log: &dyn EventLog, store: &dyn OrderStore, report: &mut Report) {
    let progress = store.progress().await.expect("the store can be read");
    let places: Vec<_> =
        progress.iter().flat_map(|progress| &progress.folded).map(|one| one.position).collect();
    for extent in log.extent(Topic::Intake).await.expect("the log can be read") {
        let place = places.iter().find(|place| place.partition == extent.partition);
        let (folded, head) = (place.map_or(0, |place| place.offset), extent.last);
        if folded != head {
            report.complaints.push(Complaint::NotFolded { folded, head });
        }
    }
}

async fn check_rows(
    store: &dyn OrderStore,
    logged: &BTreeMap<OrderKey, LoggedOrder>,
    report: &mut Report,
) {
    let known: BTreeSet<&OrderKey> =
        logged.iter().filter(|(_, logged)| !logged.facts.is_empty()).map(|(key, _)| key).collect();
    for key in created(store).await.iter().filter(|key| !known.contains(key)) {
        report.complaints.push(Complaint::RowUnknown { order: key.to_string() });
    }
    let keys: Vec<OrderKey> = known.into_iter().cloned().collect();
    report.orders = keys.len();
    let rows = store.load(keys.clone()).await.expect("the store can be read");
    for (key, row) in keys.into_iter().zip(rows) {
        match row {
            Some(row) => check_row(&row, &logged[&key], &mut report.complaints),
            None => report.complaints.push(Complaint::RowMissing { order: key.to_string() }),
        }
    }
}

/// Every order the store lists.
async fn created(store: &dyn OrderStore) -> BTreeSet<OrderKey> {
    let (from, until) = (Time::from_unix_nanos(i64::MIN), Time::from_unix_nanos(i64::MAX));
    let (mut keys, mut after) = (BTreeSet::new(), None);
    loop {
        let scan = Scan::Created { from, until };
        let page = store.scan(scan, after, PAGE).await.expect("the store can be read");
        keys.extend(page.entries.into_iter().map(|(key, _)| key));
        match page.next {
            Some(cursor) => after = Some(cursor),
            None => return keys,
        }
    }
}

fn check_row(row: &Order, logged: &LoggedOrder, complaints: &mut Vec<Complaint>) {
    let order = row.key.to_string();
    let oracle = Oracle::of(&logged.facts);
    assert!(
        oracle.overflows().is_none(),
        "the load leaves no order over its caps: {order} {:?}",
        logged.facts
    );
    let expected = oracle.expect(|_, _| None);
    let stored = Expected::shown(&row.summary, row.version);
    if row.version > expected.version {
        let (version, expected) = (row.version, expected.version);
        complaints.push(Complaint::AppliedTwice { order: order.clone(), version, expected });
    } else if stored != expected {
        let (stored, expected) = (Box::new(stored), Box::new(expected));
        complaints.push(Complaint::RowDiffers { order: order.clone(), stored, expected });
    }
    let strangers = strangers(row, logged);
    if !strangers.is_empty() {
        complaints.push(Complaint::Evidence { order: order.clone(), strangers });
    }
    let stands = (row.version, row.summary.state);
    let last = logged.events.iter().max_by_key(|(version, _)| *version).copied();
    if last != Some(stands) {
        complaints.push(Complaint::EventsEnd { order, published: last, row: stands });
    }
}

/// The facts of a row that are not in the log at the positions it has them from, and what the log
/// has of the order.
fn strangers(row: &Order, logged: &LoggedOrder) -> Vec<String> {
    let facts = &row.facts;
    let mut known: Vec<(Position, Digest, String)> = Vec::new();
    let mut add = |position: Position, content: FactContent<'_>| {
        known.push((position, content.digest(), format!("{content:?}")));
    };
    facts.creates.iter().for_each(|one| add(one.position, FactContent::Create(&one.content)));
    facts.sessions.iter().for_each(|one| add(one.position, FactContent::Session(&one.content)));
    let failures = facts.create_failures.iter();
    failures.for_each(|one| add(one.position, FactContent::CreateFailed(&one.content)));
    facts.ipns.iter().for_each(|one| add(one.position, FactContent::of_kept_ipn(&one.content)));
    let deadlines = facts.deadlines_passed.iter();
    deadlines.for_each(|one| add(one.position, FactContent::DeadlinePassed(one.content)));
    let log: Vec<_> = logged.positions.iter().zip(&logged.facts).collect();
    let stands = |(position, digest, _): &&(Position, Digest, String)| {
        let at = log.iter().find(|(stands, _)| *stands == position);
        at.is_some_and(|(_, fact)| FactContent::of_fact(fact).digest() == *digest)
    };
    let mut strangers: Vec<String> = (known.iter().filter(|one| !stands(one)))
        .map(|(position, _, content)| format!("{position}: {content}"))
        .collect();
    if !strangers.is_empty() {
        strangers.extend(
            log.iter().map(|(position, fact)| {
                format!("log {position}: {:?}", FactContent::of_fact(fact))
            }),
        );
    }
    strangers
}

#[test]
fn versions_count_from_one_in_order_without_a_gap() {
    let kind = |versions: &[u64]| {
        check_versions("o".to_owned(), versions.to_vec()).map(|complaint| complaint.kind())
    };
    assert_eq!((kind(&[]), kind(&[1]), kind(&[1, 2, 3])), (None, None, None));
    for gap in [&[2][..], &[0, 1], &[1, 3], &[3, 1]] {
        assert_eq!(kind(gap), Some("event gap"), "{gap:?}");
    }
    for disorder in [&[2, 1][..], &[1, 3, 2], &[1, 2, 1]] {
        assert_eq!(kind(disorder), Some("event order"), "{disorder:?}");
    }
}
