//! Owns the keeping of `orders.latest`: the compacted twin of `orders`, which has the last event of each order for ever,
//! so that who is new begins there.
//!
//! Any number of keepers share the partitions of `orders`; each reads on from its twin's place and writes of every order
//! the newest event. Invariants: `rule` says what is newest, `writer` that only one writes a partition and that what is
//! written and the place go together; so a crash, a repeat and a keeper that was frozen all leave the last message of a
//! key its newest event. Trouble ends a stint, the next one begins at the place the last transaction left; it never ends
//! the process, for orders are whole without it.

mod rule;
mod shelf;
#[cfg(test)]
mod tests;
mod writer;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use payfold_schemas::record::Position;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, sleep_until};

use self::shelf::Shelf;
use self::writer::{Group, Writer};
use super::settings::KafkaSettings;
use super::topics;
use crate::EngineError;
use crate::log::epoch::broker_number;
use crate::log::{EventLog, Share, Topic, Turn};

/// The keepers' group.
const GROUP: &str = "latest";
/// How long events are gathered: of each order only the newest is written, and a transaction costs the same for one
/// event and for thousands.
const GATHER: Duration = Duration::from_secs(1);
/// How many messages are gathered at most.
const GATHERED_MAX: usize = 5_000;
/// How often it is told how much is not copied yet.
const MEASURE_EVERY: Duration = Duration::from_secs(5);
/// The pause after trouble: from, and doubled up to.
const PAUSE_MIN: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// What a keeper has to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatestNews {
    /// So many messages of its partitions are not copied yet.
    Behind(u64),
    /// It had to begin anew, or a partition stands.
    Failed,
}

/// Is told what a keeper has to tell.
pub type LatestObserver = Arc<dyn Fn(LatestNews) + Send + Sync>;

/// Keeps the twin of one log.
pub struct Latest {
    settings: KafkaSettings,
    log: Arc<dyn EventLog>,
}

/// What a keeper has between two stints.
struct Patience {
    pause: Duration,
    told: bool,
}

impl Latest {
    /// A keeper that does not work yet. `log` is the log of these settings.
    pub fn new(settings: KafkaSettings, log: Arc<dyn EventLog>) -> Self {
        Self { settings, log }
    }

    /// Works until `stop` holds true (or its sender is gone), then writes what it has gathered. Trouble is logged here
    /// when it begins and when it ends.
    pub async fn run(self, tell: LatestObserver, stop: watch::Receiver<bool>) {
        let mut patience = Patience { pause: PAUSE_MIN, told: false };
        loop {
            let error = match self.stint(&tell, &stop, &mut patience).await {
                Ok(()) => return,
                Err(error) => error,
            };
            tell(LatestNews::Failed);
            if !std::mem::replace(&mut patience.told, true) {
                tracing::warn!(%error, "can't keep orders.latest, trying again until it works");
            }
            tokio::select! {
                () = tokio::time::sleep(patience.pause) => {}
                () = stopped(&stop) => return,
            }
            patience.pause = (patience.pause * 2).min(PAUSE_MAX);
        }
    }

    /// Keeps what falls to it until told to stop. Errors: whatever went wrong.
    async fn stint(
        &self,
        tell: &LatestObserver,
        stop: &watch::Receiver<bool>,
        patience: &mut Patience,
    ) -> Result<(), EngineError> {
        topics::latest_is_there(&self.settings).await?;
        let mut stint = Stint {
            log: &self.log,
            group: Arc::new(Group::new(
                &self.settings,
                &format!("{}.{GROUP}", self.settings.prefix),
            )?),
            tell,
            shelves: BTreeMap::new(),
            gathered: 0,
        };
        let mut share = self.log.share(Topic::Orders, GROUP).await?;
        let mut times = tokio::time::interval(MEASURE_EVERY);
        times.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut due: Option<Instant> = None;
        loop {
            tokio::select! {
                biased;
                () = stopped(stop) => return stint.write().await,
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    due = None;
                    stint.write().await?;
                    patience.over();
                }
                _ = times.tick() => stint.measure().await,
                turn = share.next(GATHERED_MAX) => {
                    stint.take(turn?, &mut *share).await?;
                    if stint.gathered > 0 {
                        let now = Instant::now();
                        let full = stint.gathered >= GATHERED_MAX;
                        due = if full { Some(now) } else { due.or(Some(now + GATHER)) };
                    }
                }
            }
        }
    }
}

impl Patience {
    /// It works again.
    fn over(&mut self) {
        self.pause = PAUSE_MIN;
        if std::mem::take(&mut self.told) {
            tracing::info!("orders.latest is kept again");
        }
    }
}

/// What one share comes to.
struct Stint<'a> {
    log: &'a Arc<dyn EventLog>,
    group: Arc<Group>,
    tell: &'a LatestObserver,
    shelves: BTreeMap<u32, Shelf>,
    /// Messages taken since the last transaction.
    gathered: usize,
}

impl Stint<'_> {
    async fn take(&mut self, turn: Turn, share: &mut dyn Share) -> Result<(), EngineError> {
        match turn {
            Turn::Messages(messages) => {
                self.gathered += messages.len();
                for message in messages {
                    let Some(shelf) = self.shelves.get_mut(&message.position.partition) else {
                        continue;
                    };
                    let stood = shelf.stands();
                    shelf.take(&**self.log, message).await?;
                    if shelf.stands() && !stood {
                        (self.tell)(LatestNews::Failed);
                    }
                }
            }
            Turn::Given(partitions) => {
                let opened = partitions.into_iter().map(|partition| self.open(partition));
                for shelf in try_join_all(opened).await? {
                    self.shelves.insert(shelf.place().partition, shelf);
                }
                share.begin(self.shelves.values().map(Shelf::place).collect()).await?;
            }
            Turn::Taken(partitions) => {
                self.write().await?;
                self.shelves.retain(|partition, _| !partitions.contains(partition));
                share.release().await?;
            }
            Turn::Lost(partitions) => {
                self.shelves.retain(|partition, _| !partitions.contains(partition));
            }
        }
        Ok(())
    }

    async fn open(&self, partition: u32) -> Result<Shelf, EngineError> {
        let (writer, place) = Writer::open(&self.group, broker_number(partition)).await?;
        let extents = self.log.extent(Topic::Orders).await?;
        let extent = extents.into_iter().find(|extent| extent.partition == partition);
        let extent = extent.ok_or_else(|| {
            EngineError::Unavailable(format!("partition {partition} of orders is not known yet"))
        })?;
        Shelf::new(writer, extent, place)
    }

    /// Writes what was gathered, all partitions at once.
    async fn write(&mut self) -> Result<(), EngineError> {
        self.gathered = 0;
        try_join_all(self.shelves.values_mut().map(Shelf::write)).await.map(drop)
    }

    /// Tells how much is not copied yet.
    async fn measure(&self) {
        // What can't be told now is told the next time.
        let Ok(extents) = self.log.extent(Topic::Orders).await else { return };
        let behind = extents.iter().filter_map(|extent| {
            let Position { offset, .. } = self.shelves.get(&extent.partition)?.copied();
            Some(extent.last.saturating_sub(offset))
        });
        (self.tell)(LatestNews::Behind(behind.sum()));
    }
}

/// Resolves when `stop` holds true. Nobody left to tell it is an end too.
async fn stopped(stop: &watch::Receiver<bool>) {
    let _ = stop.clone().wait_for(|stop| *stop).await;
}
