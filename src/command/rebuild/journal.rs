//! Owns reading the journal of builds for commands.

use payfold_engines::EngineError;
use payfold_projector::journal::{Builds, Journal};

use crate::wiring::Engines;

/// Reads the journal: all decisions about builds.
pub(super) async fn journal(engines: &Engines) -> anyhow::Result<Builds> {
    let read: Result<_, EngineError> = Journal::new(engines.base()?.clone()).read().await;
    Ok(read?)
}
