//! Owns how a run does blocking work: files are read and sorted on Tokio's blocking threads.

/// Runs blocking work on its own thread; passes a panic on.
pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
