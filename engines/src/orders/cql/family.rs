//! Owns what the builds of one store share: the connection, the claims, and which of them are
//! prepared here. Invariant: the tables of a build are made by one process, which a claim
//! names: nodes that are asked for the same table at the same moment may make two of it. Only where
//! that process seems to have died does another make them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::claims::CqlClaims;
use super::link::Link;
use super::prepared::Tables;
use super::schema;
use crate::EngineError;
use crate::orders::{ClaimKey, Claimed};

/// The error of a change to a store that was opened for listings.
const READ_ONLY: &str = "this order store is open for reading only";

/// How long to wait for another process that makes the tables, before this process makes them.
const MAKING_MAX: Duration = Duration::from_secs(60);

pub(super) struct Family {
    pub(super) link: Link,
    pub(super) claims: CqlClaims,
    open: Mutex<Open>,
    /// False for a store opened for listings.
    writes: bool,
}

#[derive(Default)]
struct Open {
    prepared: BTreeMap<u32, Arc<Tables>>,
    /// Since when this process waits for tables that another process makes.
    awaited: BTreeMap<u32, Instant>,
    /// The builds for which this process makes the tables.
    made_here: BTreeSet<u32>,
}

impl Family {
    pub(super) fn new(link: Link, claims: CqlClaims) -> Self {
        Self { link, claims, open: Mutex::default(), writes: true }
    }

    /// As `new`, for listings.
    pub(super) fn reading(link: Link, claims: CqlClaims) -> Self {
        Self { writes: false, ..Self::new(link, claims) }
    }

    /// Checks that the store may be changed. Errors: `Invalid` if it was opened for listings.
    pub(super) fn refuse_reader(&self) -> Result<(), EngineError> {
        match self.writes {
            true => Ok(()),
            false => Err(EngineError::Invalid(READ_ONLY.to_owned())),
        }
    }

    /// A build, its tables made if they are not there. Errors: `Unavailable` while another
    /// process makes them.
    pub(super) async fn build(&self, build: u32) -> Result<Arc<Tables>, EngineError> {
        let mut open = self.open.lock().await;
        if let Some(tables) = open.prepared.get(&build) {
            return Ok(Arc::clone(tables));
        }
        if !schema::has(&self.link, build).await? {
            if !self.writes {
                let text = format!("build {build} has no tables yet");
                return Err(EngineError::Invalid(text));
            }
            self.make(&mut open, build).await?;
        }
        let tables = Tables::prepare(&self.link, build).await?;
        open.prepared.insert(build, Arc::clone(&tables));
        Ok(tables)
    }

    async fn make(&self, open: &mut Open, build: u32) -> Result<(), EngineError> {
        let key = ClaimKey::table_making(build);
        let since = open.awaited.entry(build).or_insert_with(Instant::now);
        let late = since.elapsed() > MAKING_MAX;
        if self.claims.claim(&self.link, &key, b"").await? == Claimed::Mine || late {
            open.made_here.insert(build);
        }
        if !open.made_here.contains(&build) {
            let text = format!("the tables of build {build} are being made");
            return Err(self.link.address.unavailable(&text));
        }
        schema::make(&self.link, build).await?;
        open.awaited.remove(&build);
        Ok(())
    }

    /// Throws a build away.
    pub(super) async fn drop_build(&self, build: u32) -> Result<(), EngineError> {
        self.refuse_reader()?;
        let mut open = self.open.lock().await;
        schema::drop(&self.link, build).await?;
        open.prepared.remove(&build);
        Ok(())
    }
}
