//! Owns read-only access to the engines for quarantine commands, and the text of a decision on a
//! notice.

use payfold_schemas::release::{NoticeDecided, NoticeVerdict};

use crate::args::Global;
use crate::command::block_on::block_on;
use crate::settings;
use crate::wiring::{self, Engines};

/// Opens the engines read-only and calls `act` with them.
pub(super) fn reading<T>(
    global: &Global,
    act: impl AsyncFnOnce(&Engines) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let loaded = settings::load(global)?;
    block_on(async {
        let engines = wiring::open_to_read(&loaded.settings).await?;
        act(&engines).await
    })
}

/// A decision as a short text.
pub(super) fn in_words(said: &NoticeDecided) -> String {
    let by = match &said.seconded_by {
        Some(second) => format!("{} and {second}", said.author),
        None => said.author.to_string(),
    };
    match (said.decided, said.verdict) {
        (true, NoticeVerdict::Release) => format!("released by {by}"),
        (true, NoticeVerdict::Dismiss) => format!("dismissed by {by}"),
        (false, verdict) => format!("{by} decided {}, waits for a second person", verdict.as_str()),
    }
}
