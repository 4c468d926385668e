//! Owns the check at start-up that an order store and a log belong together. Invariant: a store is
//! folded further only from the log it was folded from, after a record that this log holds; any
//! mismatch is an error before a record is folded. Every mismatch is mended by restoring the log: a
//! store can be rebuilt from a complete log, but nothing can rebuild a log.

pub mod log_file;

use payfold_schemas::digest::Digest;
use payfold_schemas::position::Position;

use crate::EngineError;
use crate::log::epoch::{epoch_of, publication_in};
use crate::log::{EventLog, Extent, Topic};
use crate::orders::{Folded, OrderStore, Progress};

/// What to do about every mismatch. After a mismatch nothing proves that the log is complete, so
/// the store must be kept.
const REMEDY: &str = "restore the log that the order store was folded from";

/// Checks that `store` was folded from `log`, up to records that the log holds. A new store fits
/// any log without earlier epochs. Errors: `Corrupt` or `Invalid` with what is wrong and what to
/// do; `Unavailable` if either can't be read.
pub async fn check(log: &dyn EventLog, store: &dyn OrderStore) -> Result<(), EngineError> {
    let extents = log.extent(Topic::Intake).await?;
    let progress = store.progress().await?;
    check_sealed(&extents, progress.as_ref())?;
    let Some(progress) = progress else { return Ok(()) };
    if progress.log_id != log.id() {
        return Err(corrupt("the order store was folded from another log than this one"));
    }
    for folded in progress.folded {
        let position = folded.position;
        let Some(extent) = extents.iter().find(|extent| extent.partition == position.partition)
        else {
            return Err(corrupt(&format!(
                "the order store names partition {}, which the log does not have",
                position.partition
            )));
        };
        if position.offset > extent.last {
            let last = extent.end();
            return Err(EngineError::Corrupt(format!(
                "the order store was folded up to {position}, but the log ends at {last}: \
                 the log lost records or is an older copy; {REMEDY}"
            )));
        }
        check_record(log, folded).await?;
    }
    Ok(())
}

/// Checks that a build goes on where earlier log epochs of intake ended. Errors: `Invalid`, with
/// what to do; the engines'.
pub async fn check_build(log: &dyn EventLog, build: &dyn OrderStore) -> Result<(), EngineError> {
    check_sealed(&log.extent(Topic::Intake).await?, build.progress().await?.as_ref())
}

/// Checks that every earlier log epoch of intake is folded to its end and past the same switch,
/// because projectors read the newest one only and go on from there. Errors: `Invalid`, with what
/// to do.
pub fn check_sealed(extents: &[Extent], progress: Option<&Progress>) -> Result<(), EngineError> {
    let epoch = extents.iter().map(|extent| epoch_of(extent.partition)).max().unwrap_or(0);
    let folded = |partition: u32| {
        let all = progress.map_or(&[][..], |progress| &progress.folded);
        all.iter()
            .find(|one| one.position.partition == partition)
            .map_or(0, |one| one.position.offset)
    };
    let last = extents.iter().filter(|extent| epoch_of(extent.partition) + 1 == epoch);
    let sealed = || extents.iter().filter(|extent| epoch_of(extent.partition) < epoch);
    let why = if let Some(extent) = sealed().find(|one| folded(one.partition) < one.last) {
        format!(
            "what came before is not folded to its end: partition {} ends at {} and is folded to \
             {}",
            extent.partition,
            extent.last,
            folded(extent.partition)
        )
    } else if are_published_alike(last, progress) {
        return Ok(());
    } else {
        "a switch between builds was under way in what came before".to_owned()
    };
    Err(EngineError::Invalid(format!(
        "intake has grown to epoch {epoch}, but {why}; docs/how-to/grow-intake.md, \"Growing \
         intake\" says how to go back to kafka.epoch = {} and finish",
        epoch - 1
    )))
}

/// Whether these partitions are published from the same build. A switch with markers in some of
/// them only is not complete.
fn are_published_alike<'a>(
    extents: impl Iterator<Item = &'a Extent>,
    progress: Option<&Progress>,
) -> bool {
    let published = progress.map(Progress::publications).unwrap_or_default();
    let mut all = extents.map(|extent| publication_in(extent.partition, &published));
    let first = all.next();
    all.all(|other| Some(other) == first)
}

async fn check_record(log: &dyn EventLog, folded: Folded) -> Result<(), EngineError> {
    let position = folded.position;
    let before = Position { offset: position.offset.saturating_sub(1), ..position };
    let found = log.read_after(Topic::Intake, before, 1).await?;
    match found.first().filter(|delivered| delivered.position == position) {
        None => Err(corrupt(&format!(
            "the log does not hold the record at {position}, which was folded"
        ))),
        Some(delivered) if Digest::of_bytes(&delivered.value) != folded.digest => {
            Err(corrupt(&format!("the log's record at {position} is not the one that was folded")))
        }
        Some(_) => Ok(()),
    }
}

fn corrupt(what: &str) -> EngineError {
    EngineError::Corrupt(format!("{what}: {REMEDY}"))
}

#[cfg(test)]
mod tests {
    use payfold_schemas::publication::Publication;

    use super::*;
    use crate::log::epoch::partition_of;

    fn extent((epoch, number, last): (u32, i32, u64)) -> Extent {
        Extent { partition: partition_of(epoch, number), first: 1, last, bytes: None }
    }

    fn folded((epoch, number, offset): (u32, i32, u64), publication: Publication) -> Folded {
        let position = Position { partition: partition_of(epoch, number), offset };
        Folded { publication, ..Folded::new(position, Digest::of_bytes(b"record")) }
    }

    #[test]
    fn earlier_log_epochs_are_folded_to_their_end_and_past_the_same_switch() {
        let extents = [(0, 0, 5), (0, 1, 7), (1, 0, 3), (1, 1, 0)].map(extent);
        let (first, second) = (Publication::FIRST, Publication { build: 2, epoch: 2 });
        for (of_first, of_second, problem) in [
            (((0, 0, 5), second), ((0, 1, 7), second), ""),
            (((0, 0, 5), second), ((0, 1, 6), second), "ends at 7 and is folded to 6"),
            (((0, 0, 5), second), ((0, 1, 7), first), "a switch between builds was under way"),
        ] {
            let folded = vec![folded(of_first.0, of_first.1), folded(of_second.0, of_second.1)];
            let progress = Progress { log_id: [0; 16], folded };
            match check_sealed(&extents, Some(&progress)) {
                Ok(()) => assert_eq!(problem, ""),
                Err(error) => assert!(error.to_string().contains(problem), "{error}"),
            }
        }
        assert!(check_sealed(&extents, None).is_err(), "nothing is folded");
        assert!(check_sealed(&extents[..2], None).is_ok(), "intake has not grown");
    }
}
