//! Owns the pairs of engines a whole system is tried on: a folder with what a user sets and makes
//! for each, and the way into its log and order store. Invariant: what a test makes on shared
//! servers has names that only this test uses.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::kafka::{KafkaLog, KafkaSettings, Observers};
use payfold_engines::log::sqlite::{SqliteLog, SqliteLogSettings};
use payfold_engines::log::{Delivered, EventLog, Message, Topic};
use payfold_engines::orders::OrderStore;
use payfold_engines::orders::cql::{CqlOrders, CqlSettings};
use payfold_engines::orders::sqlite::SqliteOrders;
use payfold_schemas::fact::{Create, Fact};
use payfold_schemas::ids::{OrderKey, Reference};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::order::Order;
use payfold_schemas::position::Position;
use payfold_schemas::record::{FactRecord, Record};
use payfold_schemas::record_mac::Writer;
use scylla::client::session_builder::SessionBuilder;
use tokio::runtime::Runtime;

use super::system::Home;
use super::waits::until;
use super::{knobs, macs, stack};

/// Few, so that a start is quick; more than one, so that order holds within a key only.
const PARTITIONS: u32 = 2;
const PAGE: usize = 500;
const SETTLE_MAX: Duration = Duration::from_secs(30);

/// Both engines of a system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pair {
    /// Files of its own.
    Sqlite,
    /// The shared servers.
    KafkaAndCql,
}

impl Pair {
    /// A folder with commands that work on this pair; the program made its topics and tables.
    /// `None` where real servers are left out.
    pub fn home(self) -> Option<Rc<Home>> {
        self.home_of(PARTITIONS)
    }

    /// The same with so many partitions, where there are partitions.
    pub fn home_of(self, partitions: u32) -> Option<Rc<Home>> {
        match self {
            Self::Sqlite => Some(Home::new()),
            Self::KafkaAndCql => {
                let home = Names::new()?.home_of(partitions);
                for what in ["topics", "schema"] {
                    home.payfold(&[what, "apply"]).ok();
                }
                Some(home)
            }
        }
    }
}

/// New names of topics and of a keyspace on the shared servers.
pub struct Names {
    pub log: String,
    pub orders: String,
}

impl Names {
    /// New ones; none where real servers are left out.
    pub fn new() -> Option<Self> {
        if !stack::is_available() {
            return None;
        }
        let servers = stack::shared();
        let name = format!("it_{}", SystemClock.request_id().to_string().replace('-', ""));
        let log = format!("kafka://{}/{name}", servers.kafka.join(","));
        Some(Self { log, orders: format!("cql://{}/{name}", servers.cql.join(",")) })
    }

    /// A folder with commands that use them.
    pub fn home(&self) -> Rc<Home> {
        self.home_of(PARTITIONS)
    }

    fn home_of(&self, partitions: u32) -> Rc<Home> {
        let keyspace = Keyspace(self.orders.clone());
        let environment = vec![
            ("PAYFOLD_LOG", self.log.clone()),
            ("PAYFOLD_ORDERS", self.orders.clone()),
            ("PAYFOLD_DEV", "true".to_owned()),
            ("PAYFOLD_KAFKA__PARTITIONS", partitions.to_string()),
        ];
        Home::within(environment, Some(Box::new(keyspace)))
    }

    /// How the topics are reached.
    pub fn kafka(&self) -> KafkaSettings {
        KafkaSettings::parse_url(&self.log).expect("it is a URL")
    }

    /// How the keyspace is reached.
    pub fn cql(&self) -> CqlSettings {
        cql(&self.orders)
    }
}

fn cql(url: &str) -> CqlSettings {
    let settings = CqlSettings::parse_url(url).expect("it is a URL");
    CqlSettings { dev: true, request_timeout: Duration::from_secs(10), ..settings }
}

/// A keyspace that goes with its test where the database stays: it would drown in tables.
struct Keyspace(String);

impl Drop for Keyspace {
    fn drop(&mut self) {
        if knobs::test_cql().is_none() {
            return;
        }
        let CqlSettings { nodes, keyspace, .. } = cql(&self.0);
        runtime().block_on(async {
            if let Ok(session) = SessionBuilder::new().known_nodes(nodes).build().await {
                let drop = format!("DROP KEYSPACE IF EXISTS {keyspace}");
                // A keyspace that is left disturbs no test.
                let _ = session.query_unpaged(drop, ()).await;
            }
        });
    }
}

/// A small one for what a test itself asks of servers.
pub fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().expect("a runtime can be made")
}

/// Log and order store of a folder, to read beside its system or without it.
pub struct Inside {
    runtime: Runtime,
    log: Arc<dyn EventLog>,
    store: Arc<dyn OrderStore>,
}

impl Inside {
    /// Opens both, to read.
    pub fn of(home: &Home) -> Self {
        let runtime = runtime();
        let (log, store) = runtime.block_on(async {
            let log: Arc<dyn EventLog> = match kafka(home) {
                Some(kafka) => Arc::new(KafkaLog::open_read_only(&kafka).await.expect("it opens")),
                None => Arc::new(SqliteLog::open_read_only(log_db(home)).expect("it is there")),
            };
            let store: Arc<dyn OrderStore> = match home.variable("PAYFOLD_ORDERS") {
                Some(url) => Arc::new(CqlOrders::open(cql(url)).await.expect("it opens")),
                None => {
                    Arc::new(SqliteOrders::open_read_only(orders_db(home)).expect("it is there"))
                }
            };
            (log, store)
        });
        Self { runtime, log, store }
    }

    /// How far intake reaches, by partition.
    pub fn heads(&self) -> BTreeMap<u32, u64> {
        let extents =
            self.runtime.block_on(self.log.extent(Topic::Intake)).expect("it can be read");
        extents.iter().map(|extent| (extent.partition, extent.last)).collect()
    }

    /// Waits until everything that is in intake now is folded.
    pub fn settle(&self) {
        let heads = self.heads();
        until("all records are folded", SETTLE_MAX, || {
            let progress = self.runtime.block_on(self.store.progress()).expect("it can be read");
            let folded: BTreeMap<_, _> = (progress.into_iter())
                .flat_map(|progress| progress.folded)
                .map(|one| (one.position.partition, one.position.offset))
                .collect();
            let of = |partition| folded.get(partition).copied().unwrap_or(0);
            heads.iter().all(|(partition, head)| of(partition) >= *head).then_some(())
        });
    }

    /// The rows of these orders, those there are.
    pub fn orders<'a>(&self, keys: impl Iterator<Item = &'a OrderKey>) -> Vec<Order> {
        let (keys, mut orders): (Vec<_>, Vec<_>) = (keys.cloned().collect(), Vec::new());
        for part in keys.chunks(PAGE) {
            let rows = self.runtime.block_on(self.store.load(part.to_vec()));
            orders.extend(rows.expect("it can be read").into_iter().flatten());
        }
        orders
    }

    /// Every message of a topic, partition by partition.
    pub fn messages(&self, topic: Topic) -> Vec<Delivered> {
        self.runtime.block_on(async {
            let mut all = Vec::new();
            for extent in self.log.extent(topic).await.expect("it can be read") {
                let mut after = Position { partition: extent.partition, offset: 0 };
                while after.offset < extent.last {
                    let page =
                        self.log.read_after(topic, after, PAGE).await.expect("it can be read");
                    after = page.last().expect("the end is not reached").position;
                    all.extend(page);
                }
            }
            all
        })
    }
}

/// Log and order store of a folder's system that does not run, for a role that the test runs
/// itself.
#[derive(Clone)]
pub struct Engines {
    pub log: Arc<dyn EventLog>,
    pub store: Arc<dyn OrderStore>,
}

impl Engines {
    /// Opens both.
    pub async fn of(home: &Home) -> Self {
        let store: Arc<dyn OrderStore> = match home.variable("PAYFOLD_ORDERS") {
            Some(url) => Arc::new(CqlOrders::open(cql(url)).await.expect("it opens")),
            None => Arc::new(SqliteOrders::open(orders_db(home)).expect("no process has it open")),
        };
        Self { log: open_log(home).await, store }
    }
}

async fn open_log(home: &Home) -> Arc<dyn EventLog> {
    match kafka(home) {
        Some(kafka) => {
            let opened = KafkaLog::open(&kafka, Observers::default()).await;
            Arc::new(opened.expect("it opens"))
        }
        None => {
            let opened = SqliteLog::open(log_db(home), SqliteLogSettings::default());
            Arc::new(opened.expect("no process has it open"))
        }
    }
}

fn kafka(home: &Home) -> Option<KafkaSettings> {
    let url = home.variable("PAYFOLD_LOG")?;
    Some(KafkaSettings::parse_url(url).expect("it is a URL"))
}

fn log_db(home: &Home) -> PathBuf {
    home.data().join("log.db")
}

fn orders_db(home: &Home) -> PathBuf {
    home.data().join("orders.db")
}

/// Does something with the log of a system that does not run, as somebody without its keys, and
/// closes it.
pub fn with_raw_log<T>(home: &Home, act: impl AsyncFnOnce(&dyn EventLog) -> T) -> T {
    with_log_of(home, None, act)
}

/// Does something with the log of a system that does not run, as this role would, and closes it.
pub fn with_log<T>(home: &Home, writer: Writer, act: impl AsyncFnOnce(&dyn EventLog) -> T) -> T {
    with_log_of(home, Some(writer), act)
}

fn with_log_of<T>(
    home: &Home,
    writer: Option<Writer>,
    act: impl AsyncFnOnce(&dyn EventLog) -> T,
) -> T {
    runtime().block_on(async {
        let raw = open_log(home).await;
        let log = match writer {
            Some(writer) => macs::as_role(home, raw, writer),
            None => raw,
        };
        let done = act(&*log).await;
        log.close().await.expect("it can be closed");
        done
    })
}

/// A create request as the checkout role appends it, with the shop's request as its raw bytes.
pub fn create_request(order: &str, raw: &[u8]) -> Message {
    let (key, now) = (OrderKey::parse(order).expect("a key"), SystemClock.now());
    let create = Create {
        amount: Amount::from_minor(150_000).expect("an amount"),
        currency: Currency::parse("VND").expect("a currency"),
        reference: Reference::parse("cart-1").expect("a reference"),
        attempt: 1,
        deadline: now.plus_ms(900_000),
    };
    let fact = FactRecord {
        order: key.clone(),
        fact: Fact::CreateRequested(create),
        request_id: SystemClock.request_id(),
        received_at: now,
        source: None,
    };
    let value = Record::of_fact(fact, raw.to_vec()).encode();
    Message { key: key.to_message_key(), event: None, value, mac: None }
}
