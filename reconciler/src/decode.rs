//! Owns the decoding of a record of intake for the reconciler's readers. Invariant: a record that
//! can't be decoded stops its reader, unless the record is damaged and a person has parked it.

use payfold_engines::SeamFuture;
use payfold_engines::log::Delivered;
use payfold_kit::{Halt, RunError, parked};
use payfold_schemas::record::{FactRecord, IntakeRecord};

use crate::context::ReconcilerContext;

/// What stopped at a record that can't be decoded, for the message of `RunError::Undecodable`.
const HALTED: &str = "the reconciler is halted at this record";

/// Decodes the fact of a record; `None` for a marker and for a damaged record that is parked.
/// Errors: `Undecodable`.
pub(crate) async fn decode_fact(
    context: &ReconcilerContext,
    message: &Delivered,
) -> Result<Option<FactRecord>, Halt> {
    let position = message.position;
    let error = match message.intake_record() {
        Ok(IntakeRecord::Fact(record)) => return Ok(Some(record)),
        Ok(
            IntakeRecord::Switch(_) | IntakeRecord::Parked(_) | IntakeRecord::ParkingProposed(_),
        ) => return Ok(None),
        Err(error) => error,
    };
    // A newer program's record is whole: it needs an upgrade, and parking it would lose it.
    if !error.is_newer() {
        let log = &*context.storage.log;
        let ask = || -> SeamFuture<'_, _, _> { Box::pin(parked::find_marker(log, message)) };
        let found = tokio::select! {
            () = context.storage.stopped() => return Err(Halt::Stopped),
            found = context.storage.ask("check whether a damaged record is parked", ask) => found?,
        };
        if found.is_some() {
            tracing::warn!(
                "record {position} of intake can't be read and is left out: it is parked"
            );
            return Ok(None);
        }
    }
    Err(Halt::Failed(RunError::Undecodable { position, error, halted: HALTED }))
}
