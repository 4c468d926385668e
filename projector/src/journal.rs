//! Owns the record of which projection builds exist and which of them is published: a journal of
//! decisions, kept as a chain of claims. Claims are durable, exclusive and outside the builds on
//! every engine. `ClaimKey::journal_entry` has their names, which count from 1.
//!
//! Invariants: an entry never changes, and no entry before it is missing. If two processes decide
//! at once, one is first, and the other decides again knowing that. A process that has read the
//! whole journal knows what every other one does. An entry records a decision, not that it is
//! done: the supervisor carries it out, again after a crash if need be.

mod entry;
mod request;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use payfold_engines::EngineError;
use payfold_engines::log::Message;
use payfold_engines::orders::{ClaimKey, Claimed, OrderStore};
use payfold_schemas::publication::Switch;
use payfold_schemas::record::{MARKER_KEY, encode_switch, is_create_request};
use tokio::sync::Mutex;

pub use self::entry::{JournalEntry, JournalRecord};
pub use self::request::DecisionRequest;
pub use self::state::{BuildRecord, Builds};

/// How often a decision is tried while other processes decide, too.
const TRIES_MAX: u32 = 32;

/// Why nothing was decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecideError {
    /// The state of the builds does not allow it; the text has the reason and what
    /// to do.
    #[error("{0}")]
    Refused(String),
    /// The engine's error; after `Unavailable` it may have been decided all the same.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// The journal of one order store.
pub struct Journal {
    store: Arc<dyn OrderStore>,
    known: Mutex<Known>,
}

/// The entries read so far.
#[derive(Default)]
struct Known {
    builds: Builds,
    records: Vec<JournalRecord>,
}

impl Known {
    fn add(&mut self, record: JournalRecord) {
        self.builds.apply(&record);
        self.records.push(record);
    }
}

impl Journal {
    /// The journal beside `store`, which may be open on any build.
    pub fn new(store: Arc<dyn OrderStore>) -> Self {
        Self { store, known: Mutex::default() }
    }

    /// Reads everything decided so far. Errors: the engine's; `Corrupt` for an entry that does not
    /// decode.
    pub async fn read(&self) -> Result<Builds, EngineError> {
        let mut known = self.known.lock().await;
        self.read_new_entries(&mut known).await?;
        Ok(known.builds.clone())
    }

    /// Every entry so far, the first one first. Errors: as `read`.
    pub async fn records(&self) -> Result<Vec<JournalRecord>, EngineError> {
        let mut known = self.known.lock().await;
        self.read_new_entries(&mut known).await?;
        Ok(known.records.clone())
    }

    /// Adds the entry that `decide` makes of everything decided before it, and returns the state
    /// with it. `decide` is called again if another process adds an entry first. Errors: what
    /// `decide` refuses with, or the engine's.
    pub(crate) async fn decide(
        &self,
        request: &DecisionRequest,
        decide: impl Fn(&Builds) -> Result<JournalEntry, DecideError>,
    ) -> Result<Builds, DecideError> {
        let mut known = self.known.lock().await;
        for _ in 0..TRIES_MAX {
            self.read_new_entries(&mut known).await?;
            let entry = decide(&known.builds)?;
            let record = JournalRecord::new(entry, request);
            let bytes = record.encode();
            let key = ClaimKey::journal_entry(known.builds.next_entry());
            match self.store.claim(key, bytes.clone()).await? {
                Claimed::Mine => {}
                // An earlier try of this very call succeeded although its answer was lost. The
                // request's id makes the bytes unique.
                Claimed::Taken(taken) if taken == bytes => {}
                Claimed::Taken(_) => continue,
            }
            known.add(record);
            return Ok(known.builds.clone());
        }
        let text = "other processes keep deciding about builds at the same time; try again";
        Err(EngineError::Unavailable(text.to_owned()).into())
    }

    async fn read_new_entries(&self, known: &mut Known) -> Result<(), EngineError> {
        loop {
            let number = known.builds.next_entry();
            let Some(bytes) = self.store.claimed(ClaimKey::journal_entry(number)).await? else {
                return Ok(());
            };
            // An earlier version let a shop with the journal's name claim this key. The claim stays
            // for the shop's retries.
            if is_create_request(&bytes) {
                tracing::warn!(
                    claim = number,
                    "a create request holds a claim of the build journal; it is skipped"
                );
                known.builds.skip_entry();
                continue;
            }
            known.add(JournalRecord::decode(number, &bytes)?);
        }
    }
}

/// The marker of a switch, which is appended to every partition of `intake`.
pub fn switch_marker(switch: &Switch) -> Message {
    Message { key: MARKER_KEY.to_owned(), event: None, value: encode_switch(switch), mac: None }
}
