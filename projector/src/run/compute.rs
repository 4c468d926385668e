//! Owns the choice of the thread on which a batch is computed: the current one, or one of the
//! blocking pool.

use super::error::Halt;

/// The largest batch, in records, that is computed on the current thread: waking another thread
/// would cost more.
const INLINE_RECORDS_MAX: usize = 32;

/// Computes a batch off the async threads unless it is small. Errors: `Stopped` while the runtime
/// shuts down.
pub(super) async fn compute<T: Send + 'static>(
    records: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Halt> {
    if records <= INLINE_RECORDS_MAX {
        return Ok(work());
    }
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Not a panic, so the runtime shuts down.
            Err(_) => Err(Halt::Stopped),
        },
    }
}
