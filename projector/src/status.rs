//! Owns what the running projector tells about itself: how far it has come and how far it is behind.

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
#[derive(Debug)]
pub struct Status {
    folded: watch::Sender<Vec<Position>>,
    lag: watch::Sender<Option<Lag>>,
}

impl Default for Status {
    fn default() -> Self {
        Self { folded: watch::Sender::new(Vec::new()), lag: watch::Sender::new(None) }
    }
}

impl Status {
    /// The last committed position of each partition, as it moves on; empty before the first.
    pub fn folded(&self) -> watch::Receiver<Vec<Position>> {
        self.folded.subscribe()
    }

    /// The lag as last measured (once a second); none before the first time and after the run.
    pub fn lag(&self) -> watch::Receiver<Option<Lag>> {
        self.lag.subscribe()
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
