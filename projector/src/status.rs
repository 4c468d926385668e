//! Owns the status of a running projector: its partitions, how far they are folded, and its lag.

use std::collections::BTreeSet;

use payfold_schemas::position::Position;
use tokio::sync::watch;

/// How far behind the log a projector is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lag {
    /// Records of the assigned partitions that are not folded yet.
    pub records: u64,
    /// The age of the oldest of them, ms; 0 if there is none or it can't be read.
    pub(crate) age_ms: i64,
}

/// A projector's status, shared by its stages, which also act on it: the reader folds the assigned
/// partitions only, and what is committed may be acknowledged. Outlives the run.
#[derive(Debug, Default)]
pub struct ProjectorStatus {
    owned: watch::Sender<BTreeSet<u32>>,
    folded: watch::Sender<Vec<Position>>,
    lag: watch::Sender<Option<Lag>>,
}

impl ProjectorStatus {
    /// The partitions that are assigned to the projector, halted and waiting ones included. After
    /// the run they may stay the last ones.
    pub fn owned(&self) -> BTreeSet<u32> {
        self.owned.borrow().clone()
    }

    /// Resolves when any partition is assigned to the projector.
    pub(crate) async fn owns_any(&self) {
        // An error means a dropped sender, and `self` holds it.
        let _ = self.owned.subscribe().wait_for(|owned| !owned.is_empty()).await;
    }

    /// The last committed position of each assigned partition, kept up to date. A partition without
    /// a commit is missing.
    pub fn folded(&self) -> watch::Receiver<Vec<Position>> {
        self.folded.subscribe()
    }

    /// The lag as last measured, once a second while the log can be read. `None` before the first
    /// measurement, while no partition is assigned, and after the run.
    pub fn lag(&self) -> watch::Receiver<Option<Lag>> {
        self.lag.subscribe()
    }

    /// Adds partitions that were assigned to the projector.
    pub(crate) fn assign(&self, partitions: &[u32]) {
        self.owned.send_modify(|owned| owned.extend(partitions));
    }

    /// Removes partitions that were revoked or lost.
    pub(crate) fn unassign(&self, partitions: &[u32]) {
        self.owned.send_modify(|owned| owned.retain(|one| !partitions.contains(one)));
        self.folded.send_modify(|folded| folded.retain(|at| !partitions.contains(&at.partition)));
    }

    /// Sets the committed positions of these partitions: after a commit, or when a partition is
    /// assigned and another projector has committed.
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

    pub(crate) fn set_lag(&self, lag: Option<Lag>) {
        self.lag.send_replace(lag);
    }
}
