//! SQLite's list of the suite.

use std::sync::Arc;

use payfold_engines::log::EventLog;
use payfold_engines::log::sqlite::{SqliteLog, SqliteLogSettings};
use payfold_engines::orders::OrderStore;
use payfold_engines::orders::sqlite::SqliteOrders;
use payfold_engines::{EngineError, SeamFuture};

use crate::bed::Bed;
use crate::{assigned_reader, authenticated, builds, log, orders, pairing, scans};

/// A directory with a log.db and an orders.db.
pub struct Files(pub tempfile::TempDir);

impl Files {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary directory"))
    }

    pub fn log_path(&self) -> std::path::PathBuf {
        self.0.path().join("log.db")
    }

    pub fn orders_path(&self) -> std::path::PathBuf {
        self.0.path().join("orders.db")
    }
}

impl Bed for Files {
    fn log(&self, queue_max: usize) -> SeamFuture<'_, Arc<dyn EventLog>, EngineError> {
        let settings = SqliteLogSettings { queue_max, wal_bytes: 1 << 20, ..Default::default() };
        let opened = SqliteLog::open(self.log_path(), settings);
        Box::pin(std::future::ready(opened.map(|log| Arc::new(log) as Arc<dyn EventLog>)))
    }

    fn orders(&self) -> SeamFuture<'_, Arc<dyn OrderStore>, EngineError> {
        let opened = SqliteOrders::open(self.orders_path());
        Box::pin(std::future::ready(opened.map(|store| Arc::new(store) as Arc<dyn OrderStore>)))
    }
}

#[tokio::test]
async fn log_keeps_acknowledged_messages() {
    log::keeps_acknowledged_messages(&Files::new()).await;
}

#[tokio::test]
async fn log_keeps_the_order_of_a_key() {
    log::keeps_the_order_of_a_key(&Files::new()).await;
}

#[tokio::test]
async fn log_lists_long_topics() {
    log::lists_long_topics(&Files::new()).await;
}

#[tokio::test]
async fn log_appends_lists() {
    log::appends_lists(&Files::new()).await;
}

#[tokio::test]
async fn log_checks_who_wrote() {
    authenticated::checks_who_wrote(&Files::new()).await;
}

#[tokio::test]
async fn log_keeps_topics_and_attributes() {
    log::keeps_topics_and_attributes(&Files::new()).await;
}

#[tokio::test]
async fn log_delivers_batches() {
    log::delivers_batches(&Files::new()).await;
}

#[tokio::test]
async fn log_remembers_acks() {
    log::remembers_acks(&Files::new()).await;
}

#[tokio::test]
async fn log_wakes_a_waiting_reader() {
    log::wakes_a_waiting_reader(&Files::new()).await;
}

#[tokio::test]
async fn log_survives_dropped_reads() {
    log::survives_dropped_reads(&Files::new()).await;
}

#[tokio::test]
async fn log_refuses_at_once_when_full() {
    log::refuses_at_once_when_full(&Files::new()).await;
}

#[tokio::test]
async fn log_keeps_dropped_appends() {
    log::keeps_dropped_appends(&Files::new()).await;
}

#[tokio::test]
async fn log_drains_when_closed() {
    log::drains_when_closed(&Files::new()).await;
}

#[tokio::test]
async fn log_lists() {
    log::lists(&Files::new()).await;
}

#[tokio::test]
async fn assigned_reader_starts_after_the_named_position() {
    assigned_reader::starts_after_the_named_position(&Files::new()).await;
}

#[tokio::test]
async fn assigned_reader_delivers_later_appends() {
    assigned_reader::delivers_later_appends(&Files::new()).await;
}

#[tokio::test]
async fn assigned_reader_refuses_to_start_past_the_end() {
    assigned_reader::refuses_to_start_past_the_end(&Files::new()).await;
}

#[tokio::test]
async fn orders_claims_once() {
    orders::claims_once(&Files::new()).await;
}

#[tokio::test]
async fn orders_claims_once_of_many() {
    orders::claims_once_of_many(&Files::new()).await;
}

#[tokio::test]
async fn orders_loads_in_the_order_asked() {
    orders::loads_in_the_order_asked(&Files::new()).await;
}

#[tokio::test]
async fn orders_keeps_what_it_committed() {
    orders::keeps_what_it_committed(&Files::new()).await;
}

#[tokio::test]
async fn orders_repeats_a_commit() {
    orders::repeats_a_commit(&Files::new()).await;
}

#[tokio::test]
async fn orders_never_goes_back() {
    orders::never_goes_back(&Files::new()).await;
}

#[tokio::test]
async fn orders_refuses_another_log() {
    orders::refuses_another_log(&Files::new()).await;
}

#[tokio::test]
async fn scans_walks_times() {
    scans::walks_times(&Files::new()).await;
}

#[tokio::test]
async fn scans_walks_any_stretch_of_time() {
    scans::walks_any_stretch_of_time(&Files::new()).await;
}

#[tokio::test]
async fn scans_walks_names() {
    scans::walks_names(&Files::new()).await;
}

#[tokio::test]
async fn scans_walks_nonces() {
    scans::walks_nonces(&Files::new()).await;
}

#[tokio::test]
async fn scans_continues_after_a_cursor() {
    scans::continues_after_a_cursor(&Files::new()).await;
}

#[tokio::test]
async fn scans_lists_money_of_a_window() {
    scans::lists_money_of_a_window(&Files::new()).await;
}

#[tokio::test]
async fn builds_are_apart() {
    builds::are_apart(&Files::new()).await;
}

#[tokio::test]
async fn builds_are_walked_in_one_order() {
    builds::are_walked_in_one_order(&Files::new()).await;
}

#[tokio::test]
async fn builds_are_thrown_away() {
    builds::are_thrown_away(&Files::new()).await;
}

#[tokio::test]
async fn log_marks_every_partition() {
    log::marks_every_partition(&Files::new()).await;
}

#[tokio::test]
async fn pairing_pairs_what_belongs_together() {
    pairing::pairs_what_belongs_together(&Files::new()).await;
}

#[tokio::test]
async fn pairing_refuses_another_log() {
    pairing::refuses_another_log(&Files::new()).await;
}

#[tokio::test]
async fn pairing_refuses_a_log_that_lost_its_end() {
    pairing::refuses_a_log_that_lost_its_end(&Files::new()).await;
}

#[tokio::test]
async fn pairing_refuses_another_record() {
    pairing::refuses_another_record(&Files::new()).await;
}
