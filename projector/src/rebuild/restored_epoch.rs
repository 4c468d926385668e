//! Owns the publication epoch under which a restored log is published.
//!
//! Invariant: the restored log goes on under a higher epoch. What was published after the backup
//! was made may differ from what the restored log publishes, so the same (epoch, version) must not
//! name both. The published build stays, and its epoch grows as with a switch.

use std::sync::Arc;

use payfold_engines::log::{EventLog, Topic};
use payfold_engines::orders::OrderStore;
use payfold_schemas::publication::Publication;

use super::service::highest_epoch;
use crate::journal::{DecideError, DecisionRequest, Journal, JournalEntry, switch_marker};

/// Decides an epoch above every known one and above `seen`, and writes its markers after the last
/// record. The system must not run yet. Errors: the engines'; after a crash in between the
/// supervisor that starts next writes the markers.
pub async fn raise_epoch_after_restore(
    log: &dyn EventLog,
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
    let known =
        journal.decide(request, |_| Ok(JournalEntry::SwitchDecided { publication })).await?;
    let switch = known.unmarked_switch().expect("it was decided just now");
    log.append_marker(Topic::Intake, switch_marker(switch)).await?;
    journal.decide(request, |_| Ok(JournalEntry::MarkersWritten { epoch })).await?;
    Ok(publication)
}
