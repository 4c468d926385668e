//! Owns waiting for the stop signal of a role.

use tokio::sync::watch;

/// Resolves when `stop` holds true, or when its sender is dropped.
pub async fn wait_for_stop(stop: &watch::Receiver<bool>) {
    let _ = stop.clone().wait_for(|stop| *stop).await;
}
