//! Owns what the running projector tells about itself: how far it has come and how far it is behind.

use std::collections::BTreeSet;

use payfold_schemas::record::Position;
use tokio::sync::watch;

/// How far behind the log a projector is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Records that are not folded yet.
    pub records: u64,
    /// The age of the oldest of them, ms; 0 if there is none.
    pub age_ms: i64,
}

/// A projector's status, shared with whoever shows it. Outlives the run.
#[derive(Debug, Default)]
pub struct Status {
    owned: watch::Sender<BTreeSet<u32>>,
    folded: watch::Sender<Vec<Position>>,
    lag: watch::Sender<Option<Lag>>,
}

impl Status {
    /// The partitions it folds now.
    pub fn owned(&self) -> BTreeSet<u32> {
        self.owned.borrow().clone()
    }

    /// Resolves when it folds any partition.
    pub(crate) async fn owns_any(&self) {
        // The sender is this status's own.
        let _ = self.owned.subscribe().wait_for(|owned| !owned.is_empty()).await;
    }

    /// The last committed position of each partition it folds, as it moves on; empty before the first.
    pub fn folded(&self) -> watch::Receiver<Vec<Position>> {
        self.folded.subscribe()
    }

    /// The lag as last measured (once a second); none while no partition is folded here.
    pub fn lag(&self) -> watch::Receiver<Option<Lag>> {
        self.lag.subscribe()
    }

    /// These partitions are its own from now on.
    pub(crate) fn given(&self, partitions: &[u32]) {
        self.owned.send_modify(|owned| owned.extend(partitions));
    }

    /// These partitions are not its own any more.
    pub(crate) fn gone(&self, partitions: &[u32]) {
        self.owned.send_modify(|owned| owned.retain(|one| !partitions.contains(one)));
        self.folded.send_modify(|folded| folded.retain(|at| !partitions.contains(&at.partition)));
    }

    pub(crate) fn advance(&self, through: impl IntoIterator<Item = Position>) {
        self.folded.send_modify(|folded| {
            for position in through {
                match folded.iter_mut().find(|known| known.partition == position.partition) {
                    Some(known) => *known = position,
                    None => folded.push(position),
                }
            }
        });
    }

    pub(crate) fn measured(&self, lag: Option<Lag>) {
        self.lag.send_replace(lag);
    }
}
