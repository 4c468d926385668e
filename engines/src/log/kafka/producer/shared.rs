//! Owns the state shared by the pump's thread and the producer's handle.

use tokio::sync::watch;

use super::work::ProducerWork;
use crate::log::queue::AppendQueue;
use crate::log::sqlite::CommitObserver;

/// State shared by the pump and the handle.
pub(super) struct ProducerShared {
    pub(super) queue: AppendQueue<ProducerWork>,
    pub(super) commits: Option<CommitObserver>,
    /// True once the pump has ended and every accepted job has its outcome.
    pub(super) ended: watch::Sender<bool>,
}
