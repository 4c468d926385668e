//! Owns the record keys of a system under test: with them a test writes to its log as a role would,
//! or makes what it planted look as if a role had written it.

use std::sync::Arc;

use arc_swap::ArcSwap;
use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::authenticated::AuthenticatedLog;
use payfold_engines::log::{EventLog, Topic};
use payfold_partners::vault::VaultPlace;
use payfold_schemas::record::Record;
use payfold_schemas::record_keys::RecordKeys;
use payfold_schemas::record_mac::{MacContent, Writer};
use payfold_schemas::writers::writer_of_event;
use rusqlite::{Connection, params};

use super::system::Home;

/// The record keys in the vault; none before the first start.
pub fn keys_of(home: &Home) -> RecordKeys {
    let place = VaultPlace::file(&home.data().join("vault.age"));
    place.read().map(|document| document.record_keys()).unwrap_or_default()
}

/// A log that its system does not run on, as a role writes it.
pub fn as_role(home: &Home, log: Arc<dyn EventLog>, writer: Writer) -> Arc<dyn EventLog> {
    let keys = Arc::new(ArcSwap::from_pointee(keys_of(home)));
    Arc::new(AuthenticatedLog::new(log, keys, writer, Arc::new(SystemClock)))
}

/// Position, key, the event's id, type and time, and value.
type Row = (i64, String, [Option<String>; 3], Vec<u8>);

/// Gives every message of a topic of a SQLite log a MAC that fits it, as somebody who has the keys
/// could. A damaged one gets that of ingest.
pub fn sign_anew(home: &Home, topic: Topic) {
    let (keys, name) = (keys_of(home), topic.name());
    let log = Connection::open(home.data().join("log.db")).expect("a log");
    let sql = format!("SELECT position, key, id, type, time, value FROM {name}");
    let mut read = log.prepare(&sql).expect("a topic");
    let rows = read
        .query_map([], |row| {
            let event = [row.get(2)?, row.get(3)?, row.get(4)?];
            Ok((row.get(0)?, row.get(1)?, event, row.get(5)?))
        })
        .expect("rows")
        .map(|row| row.expect("a row"));
    for (position, order, event, value) in rows.collect::<Vec<Row>>() {
        let event = event.each_ref().map(|text| text.as_deref().unwrap_or_default());
        let event = Some(event).filter(|[_, kind, _]| !kind.is_empty());
        let writer = match event {
            Some([_, kind, _]) => writer_of_event(kind),
            None => Record::decode(&value).map_or(Writer::Ingest, |record| record.writer()),
        };
        let key = keys.writes_with(writer, SystemClock.now()).expect("the system has run");
        let content = MacContent { topic: name, key: &order, event, value: &value };
        let sql = format!("UPDATE {name} SET mac = ? WHERE position = ?");
        let changed = log.execute(&sql, params![key.mac(&content).to_bytes(), position]);
        assert_eq!(changed.expect("ours"), 1);
    }
}
