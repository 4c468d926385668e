//! Owns the publication epoch under which a restored log is published.
//!
//! Invariant: the restored log goes on under a higher epoch. What was published after the backup
//! was made may differ from what the restored log publishes, so the same (epoch, version) must not
//! name both. The published build stays, and its epoch grows as with a switch.

use std::sync::Arc;

use payfold_engines::EngineError;
use payfold_engines::log::{EventLog, Topic};
use payfold_engines::orders::OrderStore;
use payfold_schemas::publication::Publication;

use super::service::highest_epoch;
use crate::journal::{DecideError, DecisionRequest, Journal, JournalEntry, switch_marker};

/// Decides an epoch above every known one and above `seen`. The system must not run yet; its next
/// start writes the markers. Errors: the engines'.
pub async fn raise_epoch_after_restore(
    store: &Arc<dyn OrderStore>,
    request: &DecisionRequest,
    seen: u32,
) -> Result<Publication, DecideError> {
    let journal = Journal::new(Arc::clone(store));
    let known = journal.read().await?;
    let mut highest = known.published().epoch.max(seen);
    for (build, _) in known.existing() {
        let folded = store.build(build).await?;
        highest = highest.max(highest_epoch(&[&*folded]).await?);
    }
    let epoch = highest.saturating_add(1);
    let publication = Publication { build: known.published().build, epoch };
    journal.decide(request, |_| Ok(JournalEntry::SwitchDecided { publication })).await?;
    Ok(publication)
}

/// Writes the markers of a decided epoch that has none yet, before anything else is appended: what
/// follows the restored log is published under the new epoch. The supervisor notes in the journal
/// that they are written, and writes them again, which changes nothing. Errors: the engines'.
pub async fn write_missing_markers(
    log: &dyn EventLog,
    store: &Arc<dyn OrderStore>,
) -> Result<(), EngineError> {
    let known = Journal::new(Arc::clone(store)).read().await?;
    if let Some(switch) = known.unmarked_switch() {
        log.append_marker(Topic::Intake, switch_marker(switch)).await?;
    }
    Ok(())
}
