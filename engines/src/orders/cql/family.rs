//! Owns what the generations of one store share: the connection, the claims, and which of them are prepared here.
//! Invariant: the tables of a generation are made by one process, which a claim names: nodes that are asked for the same
//! table at the same moment may make two of it. Only where that process seems to have died does another make them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::claims::Claims;
use super::link::Link;
use super::{READ_ONLY, Tables, schema};
use crate::EngineError;
use crate::orders::{ClaimKey, Claimed};

/// How long the making of tables is another process's.
const MAKING_MAX: Duration = Duration::from_secs(60);

pub(super) struct Family {
    pub(super) link: Link,
    pub(super) claims: Claims,
    open: Mutex<Open>,
    /// False for listings.
    writes: bool,
}

#[derive(Default)]
struct Open {
    prepared: BTreeMap<u32, Arc<Tables>>,
    /// Since when tables are waited for that another process makes.
    awaited: BTreeMap<u32, Instant>,
    /// Those whose making is this process's.
    ours: BTreeSet<u32>,
}

impl Family {
    pub(super) fn new(link: Link, claims: Claims) -> Self {
        Self { link, claims, open: Mutex::default(), writes: true }
    }

    /// The same for listings.
    pub(super) fn reading(link: Link, claims: Claims) -> Self {
        Self { writes: false, ..Self::new(link, claims) }
    }

    /// Errors: `Invalid` where the store is open for listings.
    pub(super) fn refuse_reader(&self) -> Result<(), EngineError> {
        match self.writes {
            true => Ok(()),
            false => Err(EngineError::Invalid(READ_ONLY.to_owned())),
        }
    }

    /// A generation, its tables made if they are not there. Errors: `Unavailable` while another process makes them.
    pub(super) async fn generation(&self, generation: u32) -> Result<Arc<Tables>, EngineError> {
        let mut open = self.open.lock().await;
        if let Some(tables) = open.prepared.get(&generation) {
            return Ok(Arc::clone(tables));
        }
        if !schema::has(&self.link, generation).await? {
            if !self.writes {
                let text = format!("generation {generation} has no tables yet");
                return Err(EngineError::Invalid(text));
            }
            self.make(&mut open, generation).await?;
        }
        let tables = Tables::prepare(&self.link, generation).await?;
        open.prepared.insert(generation, Arc::clone(&tables));
        Ok(tables)
    }

    async fn make(&self, open: &mut Open, generation: u32) -> Result<(), EngineError> {
        let key = ClaimKey::table_making(generation);
        let since = open.awaited.entry(generation).or_insert_with(Instant::now);
        let late = since.elapsed() > MAKING_MAX;
        if self.claims.claim(&self.link, &key, b"").await? == Claimed::Mine || late {
            open.ours.insert(generation);
        }
        if !open.ours.contains(&generation) {
            let text = format!("the tables of generation {generation} are being made");
            return Err(self.link.place.unavailable(&text));
        }
        schema::make(&self.link, generation).await?;
        open.awaited.remove(&generation);
        Ok(())
    }

    /// Throws a generation away.
    pub(super) async fn drop_generation(&self, generation: u32) -> Result<(), EngineError> {
        self.refuse_reader()?;
        let mut open = self.open.lock().await;
        schema::drop(&self.link, generation).await?;
        open.prepared.remove(&generation);
        Ok(())
    }
}
