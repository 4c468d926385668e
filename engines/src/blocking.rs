//! Owns running blocking work outside the async threads.

use crate::EngineError;

/// Runs blocking work outside the async threads, or in place where there is no runtime. Dropping
/// the future does not stop the work.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, EngineError> + Send + 'static,
) -> Result<T, EngineError> {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else {
        return work();
    };
    match runtime.spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(EngineError::Unavailable("the process is shutting down".to_owned())),
        },
    }
}
