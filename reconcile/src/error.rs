//! Owns the error of a run, a decision or a closing, and how a caller gets it.

use payfold_kit::Halt;
use tokio::sync::oneshot;

use super::findings_store::FindingsStoreError;
use super::people::RefusedPerson;

/// Sends a caller the result, or a text that says why the request was refused and what to do.
pub(super) type Reply<T> = oneshot::Sender<Result<T, String>>;

/// Why a run, a decision or a closing did not finish.
#[derive(Debug)]
pub(crate) enum ReconcileError {
    /// The request can't be carried out; the text says why and what to do.
    Refused(String),
    /// The reconciler role has to end.
    Halt(Halt),
}

impl ReconcileError {
    pub(super) fn scratch_disk(error: std::io::Error) -> Self {
        Self::Refused(format!(
            "can't write or read temporary files in the data folder: {error}; free disk space \
             there and run it again"
        ))
    }
}

impl From<RefusedPerson> for ReconcileError {
    fn from(error: RefusedPerson) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<FindingsStoreError> for ReconcileError {
    fn from(error: FindingsStoreError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<Halt> for ReconcileError {
    fn from(halt: Halt) -> Self {
        Self::Halt(halt)
    }
}

/// Sends a caller the result; the caller may have gone away. Errors: a halt, which ends the role.
pub(super) fn send_result<T>(
    reply: Reply<T>,
    result: Result<T, ReconcileError>,
) -> Result<(), Halt> {
    let sent = match result {
        Ok(done) => reply.send(Ok(done)),
        Err(ReconcileError::Refused(problem)) => reply.send(Err(problem)),
        Err(ReconcileError::Halt(halt)) => return Err(halt),
    };
    drop(sent);
    Ok(())
}
