//! A log with messages, and a reader of it, for tests.

use std::sync::Arc;

use payfold_engines::log::sqlite::{SqliteLog, SqliteLogSettings};
use payfold_engines::log::{EventLog, Message, Topic};
use payfold_engines::orders::sqlite::SqliteOrders;
use payfold_schemas::event::EventAttributes;
use payfold_schemas::time::Time;
use serde::Serialize;
use tempfile::TempDir;

use crate::reader::Reader;

/// A reader of engines in a folder.
pub(crate) struct Testbed {
    _folder: TempDir,
    log: Arc<SqliteLog>,
    pub(crate) reader: Reader,
}

impl Testbed {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("log.db");
        let log = Arc::new(SqliteLog::open(file, SqliteLogSettings::default()).unwrap());
        let store = SqliteOrders::open(folder.path().join("orders.db")).unwrap();
        let reader = Reader::new(Arc::clone(&log) as Arc<dyn EventLog>, Arc::new(store));
        Self { _folder: folder, log, reader }
    }

    pub(crate) async fn append(&self, topic: Topic, messages: Vec<Message>) {
        self.log.append_all(topic, messages).await.unwrap();
    }
}

/// An event of this type.
pub(crate) fn event(kind: &'static str, id: String, data: &impl Serialize) -> Message {
    let event = Some(EventAttributes { id, kind, time: Time::from_unix_ms(0) });
    Message { key: "p".to_owned(), event, value: serde_json::to_vec(data).unwrap(), mac: None }
}
