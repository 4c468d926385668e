//! CQL's list of the suite, on a real Cassandra. The log beside the store is SQLite's: what pairs them is
//! the seam.

use std::sync::Arc;
use std::time::Duration;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::EventLog;
use payfold_engines::orders::OrderStore;
use payfold_engines::orders::cql::{CqlOrders, CqlSettings, schema};
use payfold_engines::{EngineError, SeamFuture};

use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

use crate::bed::Bed;
use crate::sqlite::Files;
use crate::{orders, pairing, scans};

/// The database under test, `host:port`.
#[expect(clippy::disallowed_methods, reason = "tests are told by it where the database is")]
pub fn cql_node() -> String {
    std::env::var("PAYFOLD_TEST_CQL").expect(
        "PAYFOLD_TEST_CQL names no database: run `deploy/dev-stack/dev-stack up --brokers 0 --cassandra 1` and set it to the address it prints",
    )
}

/// A keyspace of its own on the database, and files for the log.
pub struct Keyspace {
    pub settings: CqlSettings,
    files: Files,
}

impl Keyspace {
    /// A keyspace that nobody has made yet.
    pub fn unmade() -> Self {
        let name = format!("t_{}", SystemClock.request_id().to_string().replace('-', ""));
        let mut settings = CqlSettings::parse_url(&format!("cql://{}/{name}", cql_node()))
            .expect("the address of the database");
        settings.dev = true;
        settings.request_timeout = Duration::from_secs(10);
        Self { settings, files: Files::new() }
    }

    /// With its tables.
    pub async fn made() -> Self {
        let made = Self::unmade();
        schema::apply(&made.settings).await.expect("the tables are made");
        made
    }

    /// What the database itself says, beside the store.
    pub async fn session(&self) -> Session {
        let builder = SessionBuilder::new().known_nodes(&self.settings.nodes);
        let session = builder.use_keyspace(&self.settings.keyspace, false).build().await;
        session.expect("the database is there")
    }

    pub async fn open(&self) -> CqlOrders {
        CqlOrders::open(self.settings.clone()).await.expect("the store opens")
    }
}

impl Drop for Keyspace {
    /// A database that serves many runs would drown in their tables.
    fn drop(&mut self) {
        let (node, name) = (self.settings.nodes[0].clone(), self.settings.keyspace.clone());
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                if let Ok(session) = SessionBuilder::new().known_node(node).build().await {
                    // What stays is in nobody's way.
                    let _ =
                        session.query_unpaged(format!("DROP KEYSPACE IF EXISTS {name}"), ()).await;
                }
            });
        });
        let _ = dropping.join();
    }
}

impl Bed for Keyspace {
    fn log(&self, queue_max: usize) -> SeamFuture<'_, Arc<dyn EventLog>, EngineError> {
        self.files.log(queue_max)
    }

    fn orders(&self) -> SeamFuture<'_, Arc<dyn OrderStore>, EngineError> {
        Box::pin(async move {
            let store = CqlOrders::open(self.settings.clone()).await?;
            Ok(Arc::new(store) as Arc<dyn OrderStore>)
        })
    }
}

#[tokio::test]
async fn orders_claims_once() {
    orders::claims_once(&Keyspace::made().await).await;
}

#[tokio::test]
async fn orders_claims_once_of_many() {
    orders::claims_once_of_many(&Keyspace::made().await).await;
}

#[tokio::test]
async fn orders_loads_in_the_order_asked() {
    orders::loads_in_the_order_asked(&Keyspace::made().await).await;
}

#[tokio::test]
async fn orders_keeps_what_it_committed() {
    orders::keeps_what_it_committed(&Keyspace::made().await).await;
}

#[tokio::test]
async fn orders_repeats_a_commit() {
    orders::repeats_a_commit(&Keyspace::made().await).await;
}

#[tokio::test]
async fn orders_never_goes_back() {
    orders::never_goes_back(&Keyspace::made().await).await;
}

#[tokio::test]
async fn orders_refuses_another_log() {
    orders::refuses_another_log(&Keyspace::made().await).await;
}

#[tokio::test]
async fn scans_walks_times() {
    scans::walks_times(&Keyspace::made().await).await;
}

#[tokio::test]
async fn scans_walks_any_stretch_of_time() {
    scans::walks_any_stretch_of_time(&Keyspace::made().await).await;
}

#[tokio::test]
async fn scans_walks_names() {
    scans::walks_names(&Keyspace::made().await).await;
}

#[tokio::test]
async fn scans_walks_nonces() {
    scans::walks_nonces(&Keyspace::made().await).await;
}

#[tokio::test]
async fn scans_goes_on_from_a_cursor() {
    scans::goes_on_from_a_cursor(&Keyspace::made().await).await;
}

#[tokio::test]
async fn pairing_pairs_what_belongs_together() {
    pairing::pairs_what_belongs_together(&Keyspace::made().await).await;
}

#[tokio::test]
async fn pairing_refuses_another_log() {
    pairing::refuses_another_log(&Keyspace::made().await).await;
}

#[tokio::test]
async fn pairing_refuses_a_log_that_lost_its_end() {
    pairing::refuses_a_log_that_lost_its_end(&Keyspace::made().await).await;
}

#[tokio::test]
async fn pairing_refuses_another_record() {
    pairing::refuses_another_record(&Keyspace::made().await).await;
}
