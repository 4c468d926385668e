//! Owns the runtime of commands other than `run`.

/// Runs a future to its end on a new single-threaded runtime.
pub(super) fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future)
}
