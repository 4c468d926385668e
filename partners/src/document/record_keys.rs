//! Owns the record keys in the vault, with which roles prove which messages of the log they wrote,
//! and the baselines: up to where each log has messages from before. A key is never removed:
//! messages with its MAC stay in the log. One that leaked is ended.

use payfold_schemas::record_keys::{DatedKey, RecordBaseline, RecordKeyEnd, RecordKeys};

use super::VaultDocument;
use crate::record_key::RecordKeyEntry;

impl VaultDocument {
    /// The record keys and baselines, ready for use.
    pub fn record_keys(&self) -> RecordKeys {
        let dated =
            |entry: &RecordKeyEntry| DatedKey { key: entry.key(), valid_from: entry.valid_from };
        RecordKeys::new(self.record_keys.iter().map(dated).collect(), &self.record_baselines)
            .with_ends(&self.record_key_ends)
    }

    /// Ends a record key in a log. Earlier ends of it stay: what all of them cover counts.
    pub fn end_record_key(&mut self, end: RecordKeyEnd) {
        self.record_key_ends.push(end);
    }

    /// Adds a baseline; it replaces an earlier one of its log.
    pub fn add_record_baseline(&mut self, baseline: RecordBaseline) {
        self.record_baselines.retain(|known| known.log != baseline.log);
        self.record_baselines.push(baseline);
    }
}
