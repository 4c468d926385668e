//! Owns what a reader of intake takes of a record.
//! Invariant: a record that can't be decoded stops its reader, unless it is damaged and a person has parked it.

use payfold_engines::SeamFuture;
use payfold_engines::log::{Delivered, parked};
use payfold_schemas::record::{FactRecord, IntakeRecord, decode_intake};

use crate::run::{Halt, RunError, Shared};

/// The fact of a record; none of a marker, and of a damaged record that is parked. Errors: `Undecodable`.
pub(crate) async fn fact(shared: &Shared, message: &Delivered) -> Result<Option<FactRecord>, Halt> {
    let position = message.position;
    let error = match decode_intake(&message.value) {
        Ok(IntakeRecord::Fact(record)) => return Ok(Some(record)),
        Ok(IntakeRecord::Switch(_) | IntakeRecord::Parked(_)) => return Ok(None),
        Err(error) => error,
    };
    if !error.is_newer() {
        let ask = || -> SeamFuture<'_, _, _> { Box::pin(parked::find(&*shared.log, message)) };
        let found = tokio::select! {
            () = shared.stopped() => return Err(Halt::Stopped),
            found = shared.ask("look whether a damaged record is parked", ask) => found?,
        };
        if found.is_some() {
            tracing::warn!(
                "record {position} of intake can't be read and is left out: it is parked"
            );
            return Ok(None);
        }
    }
    Err(Halt::Failed(RunError::Undecodable { position, error }))
}
