//! Owns which generations of the order store there are and which of them is told: a journal of decisions, kept as a chain
//! of claims (`generations/1`, `generations/2`, …), so that it is durable, exclusive and outside the generations on every
//! engine.
//!
//! Invariants: an entry is never changed and none is missing before it; of two processes that decide at once one is first,
//! and the other decides again knowing that; who reads the whole journal knows what everybody else does. An entry says
//! what is decided, not that it is done: whoever folds does it, again after a crash if need be.

mod entry;
mod state;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use payfold_schemas::ids::{Author, RequestId};
use payfold_schemas::publication::Switch;
use payfold_schemas::record::encode_switch;
use payfold_schemas::time::Time;
use tokio::sync::Mutex;

pub use self::entry::{Decided, Entry};
pub use self::state::{Generation, Generations};
use crate::EngineError;
use crate::log::Message;
use crate::orders::{ClaimKey, Claimed, OrderStore, is_create_request};

/// How often an entry is tried while others decide too.
const TRIES_MAX: u32 = 32;

/// The key of a marker: no order's.
pub const MARKER_KEY: &str = "payfold";

/// Who decides, why, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Whose token it was.
    pub author: Author,
    /// Why, in their words.
    pub reason: String,
    /// The request.
    pub request_id: RequestId,
    /// When it came.
    pub at: Time,
}

/// Why nothing was decided.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecideError {
    /// It can't be decided as things stand; says why and what to do.
    #[error("{0}")]
    Refused(String),
    /// The engine's error; on `Unavailable` it may have been decided.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// The journal of one order store.
pub struct Journal {
    store: Arc<dyn OrderStore>,
    /// As far as it was read.
    known: Mutex<Generations>,
}

impl Journal {
    /// The journal beside `store`, whichever generation that is open on.
    pub fn new(store: Arc<dyn OrderStore>) -> Self {
        Self { store, known: Mutex::default() }
    }

    /// Everything decided so far. Errors: the engine's; `Corrupt` for an entry that does not decode.
    pub async fn read(&self) -> Result<Generations, EngineError> {
        let mut known = self.known.lock().await;
        self.catch_up(&mut known).await?;
        Ok(known.clone())
    }

    /// Adds the entry that `decide` makes of everything decided before it, and returns what holds then.
    /// Errors: what `decide` refuses with, or the engine's.
    pub async fn decide(
        &self,
        asked: &Asked,
        decide: impl Fn(&Generations) -> Result<Entry, String>,
    ) -> Result<Generations, DecideError> {
        let mut known = self.known.lock().await;
        for _ in 0..TRIES_MAX {
            self.catch_up(&mut known).await?;
            let entry = decide(&known).map_err(DecideError::Refused)?;
            let decided = Decided::new(entry, asked);
            let record = decided.encode();
            match self.store.claim(ClaimKey::journal_entry(known.next()), record.clone()).await? {
                Claimed::Mine => {}
                // Another try of this very call came through.
                Claimed::Taken(taken) if taken == record => {}
                Claimed::Taken(_) => continue,
            }
            known.take(&decided);
            return Ok(known.clone());
        }
        let text = "others decide about generations all the time; ask again";
        Err(EngineError::Unavailable(text.to_owned()).into())
    }

    async fn catch_up(&self, known: &mut Generations) -> Result<(), EngineError> {
        while let Some(record) = self.store.claimed(ClaimKey::journal_entry(known.next())).await? {
            // An earlier version let a shop named `generations` claim this key. The claim stays for the shop's retries.
            if is_create_request(&record) {
                tracing::warn!(
                    claim = known.next(),
                    "a create request stands in the build journal; it is passed over"
                );
                known.pass_over();
                continue;
            }
            known.take(&Decided::decode(known.next(), &record)?);
        }
        Ok(())
    }
}

/// What is written into every partition for a switch.
pub fn marker(switch: &Switch) -> Message {
    Message { key: MARKER_KEY.to_owned(), event: None, value: encode_switch(switch) }
}
