//! Owns the number under which a restored log is told. Invariant: what was told after the backup was made is told under
//! other versions than what the restored log goes on with, as that may be something else: the generation that is told stays,
//! and its number goes up as with a switch.

use std::sync::Arc;

use payfold_engines::generations::{Asked, DecideError, Entry, Journal, marker};
use payfold_engines::log::{EventLog, Topic};
use payfold_engines::orders::OrderStore;
use payfold_schemas::publication::Publication;

/// Decides the number after every known one and after `seen`, and writes its markers behind the last record. The system
/// has not started yet. Errors: the engines'; a crash in between leaves the markers to the crew that starts next.
pub async fn renumber(
    log: &dyn EventLog,
    store: &Arc<dyn OrderStore>,
    asked: &Asked,
    seen: u32,
) -> Result<Publication, DecideError> {
    let journal = Journal::new(Arc::clone(store));
    let known = journal.read().await?;
    let mut highest = known.told().number.max(seen);
    for (tables, _) in known.existing() {
        let progress = store.generation(tables).await?.progress().await?;
        let numbers = progress.iter().flat_map(|progress| &progress.folded);
        highest = numbers.map(|one| one.publication.number).fold(highest, u32::max);
    }
    let number = highest.saturating_add(1);
    let publication = Publication { tables: known.told().tables, number };
    let known = journal.decide(asked, |_| Ok(Entry::Switched { publication })).await?;
    let switch = known.unmarked().expect("it was decided just now");
    log.append_marker(Topic::Intake, marker(switch)).await?;
    journal.decide(asked, |_| Ok(Entry::Marked { number })).await?;
    Ok(publication)
}
