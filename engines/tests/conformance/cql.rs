//! CQL's list of the suite, on a real database (Cassandra or ScyllaDB). The log beside the store is
//! SQLite's, because pairing uses the traits only.

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
use crate::stack::{is_available, shared};
use crate::{builds, knobs, orders, pairing, scans};

/// A keyspace of its own on the database, and files for the log.
pub struct Keyspace {
    pub settings: CqlSettings,
    files: Files,
}

impl Keyspace {
    /// Settings of a keyspace that doesn't exist yet; `None` when tests with real servers are left
    /// out.
    pub fn unmade() -> Option<Self> {
        if !is_available() {
            return None;
        }
        let name = format!("t_{}", SystemClock.request_id().to_string().replace('-', ""));
        let mut settings = CqlSettings::parse_url(&format!("cql://{}/{name}", shared().cql[0]))
            .expect("the address of the database");
        settings.dev = true;
        settings.request_timeout = Duration::from_secs(10);
        Some(Self { settings, files: Files::new() })
    }

    /// Makes the keyspace with its tables.
    pub async fn made() -> Option<Self> {
        let made = Self::unmade()?;
        made.make_tables().await;
        Some(made)
    }

    /// Cassandra forgets prepared statements while other tests change schemas.
    pub async fn make_tables(&self) {
        let mut tries = 0..10;
        while let Err(error) = schema::apply(&self.settings).await {
            let may_pass = matches!(error, EngineError::Unavailable(_)) && tries.next().is_some();
            assert!(may_pass, "the tables can't be made: {error}");
        }
    }

    /// A session with the database, beside the store.
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
    /// Drops the keyspace of a database that serves many runs; too many tables would slow it down.
    /// A database that this run started ends with it.
    fn drop(&mut self) {
        if knobs::test_cql().is_none() {
            return;
        }
        let (node, name) = (self.settings.nodes[0].clone(), self.settings.keyspace.clone());
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(async {
                if let Ok(session) = SessionBuilder::new().known_node(node).build().await {
                    // A keyspace that is not dropped does no harm.
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
    let Some(bed) = Keyspace::made().await else { return };
    orders::claims_once(&bed).await;
}

#[tokio::test]
async fn orders_claims_once_of_many() {
    let Some(bed) = Keyspace::made().await else { return };
    orders::claims_once_of_many(&bed).await;
}

#[tokio::test]
async fn orders_loads_in_the_order_asked() {
    let Some(bed) = Keyspace::made().await else { return };
    orders::loads_in_the_order_asked(&bed).await;
}

#[tokio::test]
async fn orders_keeps_what_it_committed() {
    let Some(bed) = Keyspace::made().await else { return };
    orders::keeps_what_it_committed(&bed).await;
}

#[tokio::test]
async fn orders_repeats_a_commit() {
    let Some(bed) = Keyspace::made().await else { return };
    orders::repeats_a_commit(&bed).await;
}

#[tokio::test]
async fn orders_never_goes_back() {
    let Some(bed) = Keyspace::made().await else { return };
    orders::never_goes_back(&bed).await;
}

#[tokio::test]
async fn orders_refuses_another_log() {
    let Some(bed) = Keyspace::made().await else { return };
    orders::refuses_another_log(&bed).await;
}

#[tokio::test]
async fn scans_walks_times() {
    let Some(bed) = Keyspace::made().await else { return };
    scans::walks_times(&bed).await;
}

#[tokio::test]
async fn scans_walks_any_stretch_of_time() {
    let Some(bed) = Keyspace::made().await else { return };
    scans::walks_any_stretch_of_time(&bed).await;
}

#[tokio::test]
async fn scans_walks_names() {
    let Some(bed) = Keyspace::made().await else { return };
    scans::walks_names(&bed).await;
}

#[tokio::test]
async fn scans_walks_nonces() {
    let Some(bed) = Keyspace::made().await else { return };
    scans::walks_nonces(&bed).await;
}

#[tokio::test]
async fn scans_continues_after_a_cursor() {
    let Some(bed) = Keyspace::made().await else { return };
    scans::continues_after_a_cursor(&bed).await;
}

#[tokio::test]
async fn scans_lists_money_of_a_window() {
    let Some(bed) = Keyspace::made().await else { return };
    scans::lists_money_of_a_window(&bed).await;
}

#[tokio::test]
async fn builds_are_apart() {
    let Some(bed) = Keyspace::made().await else { return };
    builds::are_apart(&bed).await;
}

#[tokio::test]
async fn builds_are_walked_in_one_order() {
    let Some(bed) = Keyspace::made().await else { return };
    builds::are_walked_in_one_order(&bed).await;
}

#[tokio::test]
async fn builds_are_thrown_away() {
    let Some(bed) = Keyspace::made().await else { return };
    builds::are_thrown_away(&bed).await;
}

#[tokio::test]
async fn pairing_pairs_what_belongs_together() {
    let Some(bed) = Keyspace::made().await else { return };
    pairing::pairs_what_belongs_together(&bed).await;
}

#[tokio::test]
async fn pairing_refuses_another_log() {
    let Some(bed) = Keyspace::made().await else { return };
    pairing::refuses_another_log(&bed).await;
}

#[tokio::test]
async fn pairing_refuses_a_log_that_lost_its_end() {
    let Some(bed) = Keyspace::made().await else { return };
    pairing::refuses_a_log_that_lost_its_end(&bed).await;
}

#[tokio::test]
async fn pairing_refuses_another_record() {
    let Some(bed) = Keyspace::made().await else { return };
    pairing::refuses_another_record(&bed).await;
}
