//! Owns how far each generation is: where it stands, how fast it goes, how long that takes.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use payfold_engines::EngineError;
use payfold_engines::generations::{Generation, Generations};
use payfold_engines::log::epoch::current;
use payfold_engines::log::{EventLog, Extent, Topic};
use payfold_engines::orders::live::passed;
use payfold_engines::orders::{OrderStore, Progress};
use payfold_schemas::time::Time;
use serde::Serialize;

use super::crew::Parts;
use crate::run::RunError;

/// A generation that is behind by no more is caught up: what is left of it is of the last moments.
pub const CAUGHT_UP_RECORDS: u64 = 1_000;

/// Samples of how far a generation was, two a second: a rate over ten seconds.
const SAMPLES: usize = 20;

/// Where a generation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// It is folded from the beginning and not there yet.
    Building,
    /// The same, and it stands still because somebody asked for that.
    Paused,
    /// It is folded to the end and goes on; nothing of it was ever told.
    Ready,
    /// It is told and read.
    Live,
    /// Its switch is decided and not through everywhere.
    Switching,
    /// It was told before and goes on in silence, for a rollback.
    Standby,
    /// Its projector has ended with an error.
    Failed,
}

impl State {
    /// Its word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Building => "building",
            Self::Paused => "paused",
            Self::Ready => "ready",
            Self::Live => "live",
            Self::Switching => "switching",
            Self::Standby => "standby",
            Self::Failed => "failed",
        }
    }
}

/// How far a partition is folded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartitionStanding {
    /// Which.
    pub partition: u32,
    /// The offset that was folded last; 0 if none was.
    pub folded: u64,
    /// The offset it ends at.
    pub last: u64,
}

/// How far a generation is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Standing {
    /// Which.
    pub generation: u32,
    /// Where it stands.
    pub state: State,
    /// The number its events carry, while it is told.
    pub number: Option<u32>,
    /// When it was made; none for the first.
    pub made_at: Option<Time>,
    /// One rule of its fold is broken on purpose.
    pub drill: bool,
    /// Facts a second at most, if so asked.
    pub throttle: Option<u32>,
    /// Records folded.
    pub folded: u64,
    /// Records there are.
    pub of: u64,
    /// Facts a second lately; none where nobody measured.
    pub facts_per_s: Option<f64>,
    /// Seconds until it is caught up, at that rate.
    pub seconds_left: Option<f64>,
    /// Why its projector has ended.
    pub error: Option<String>,
    /// Partition by partition.
    pub partitions: Vec<PartitionStanding>,
}

impl Standing {
    /// Records it is behind.
    pub fn behind(&self) -> u64 {
        self.of.saturating_sub(self.folded)
    }

    /// Whether what is left is of the last moments.
    pub fn is_caught_up(&self) -> bool {
        self.behind() <= CAUGHT_UP_RECORDS
    }
}

/// Every generation there is, as log and store have it. Errors: the engines'.
pub async fn standings(
    log: &dyn EventLog,
    store: &dyn OrderStore,
    known: &Generations,
) -> Result<Vec<Standing>, EngineError> {
    let extents = log.extent(Topic::Intake).await?;
    let mut standings = Vec::new();
    for (tables, generation) in known.existing() {
        let progress = store.generation(tables).await?.progress().await?;
        let progress = progress.unwrap_or(Progress { log_id: log.id(), folded: Vec::new() });
        standings.push(standing((tables, generation), known, &progress, &extents));
    }
    Ok(standings)
}

fn standing(
    (tables, generation): (u32, &Generation),
    known: &Generations,
    progress: &Progress,
    extents: &[Extent],
) -> Standing {
    let folded = |partition: u32| {
        let of = progress.folded.iter().find(|one| one.position.partition == partition);
        of.map_or(0, |one| one.position.offset)
    };
    let partitions: Vec<PartitionStanding> = (extents.iter())
        .map(|extent| PartitionStanding {
            partition: extent.partition,
            folded: folded(extent.partition),
            last: extent.last,
        })
        .collect();
    let told = known.told();
    let through = known.unmarked().is_none() && passed(progress, &current(extents), told.number);
    let mut standing = Standing {
        generation: tables,
        state: State::Building,
        number: (told.tables == tables).then_some(told.number),
        made_at: generation.made_at,
        drill: generation.drill,
        throttle: generation.facts_per_s,
        folded: partitions.iter().fold(0, |sum, one| sum.saturating_add(one.folded)),
        of: partitions.iter().fold(0, |sum, one| sum.saturating_add(one.last)),
        facts_per_s: None,
        seconds_left: None,
        error: None,
        partitions,
    };
    standing.state = match (told.tables == tables, generation.was_told) {
        (true, _) if through || told.number == 1 => State::Live,
        (true, _) => State::Switching,
        // Until the switch away from it is through, readers have it.
        (false, true) if !through && is_left(known, tables) => State::Live,
        (false, true) => State::Standby,
        (false, false) if generation.paused => State::Paused,
        (false, false) if standing.is_caught_up() => State::Ready,
        (false, false) => State::Building,
    };
    standing
}

/// Whether the last switch leads away from these tables, and these have not met its markers everywhere either.
fn is_left(known: &Generations, tables: u32) -> bool {
    known.told_before().is_some_and(|before| before.tables == tables)
}

/// What the crew of this process knows besides: rates, and whose projector has ended.
#[derive(Debug, Default)]
pub struct Board {
    failed: Mutex<BTreeMap<u32, String>>,
    samples: Mutex<BTreeMap<u32, VecDeque<(Time, u64)>>>,
}

impl Board {
    /// Adds rates and errors.
    pub fn complete(&self, standings: &mut [Standing]) {
        let (failed, samples) = (lock(&self.failed), lock(&self.samples));
        for standing in standings {
            if let Some(error) = failed.get(&standing.generation) {
                standing.state = State::Failed;
                standing.error = Some(error.clone());
                continue;
            }
            standing.facts_per_s = samples.get(&standing.generation).and_then(rate);
            standing.seconds_left = match standing.state {
                State::Building => {
                    standing.facts_per_s.and_then(|rate| left(standing.behind(), rate))
                }
                State::Paused | State::Ready | State::Live => None,
                State::Switching | State::Standby | State::Failed => None,
            };
        }
    }

    /// Lets a projector that ended with an error be tried again.
    pub fn try_again(&self, tables: u32) {
        lock(&self.failed).remove(&tables);
    }

    pub(super) fn failed(&self, tables: u32, error: &RunError) {
        lock(&self.failed).insert(tables, error.to_string());
    }

    pub(super) fn has_failed(&self, tables: u32) -> bool {
        lock(&self.failed).contains_key(&tables)
    }

    pub(super) fn forget(&self, tables: u32) {
        lock(&self.failed).remove(&tables);
        lock(&self.samples).remove(&tables);
    }

    /// Measures how far the generations are that nobody has been told of.
    pub(super) async fn sample(
        &self,
        parts: &Parts,
        known: &Generations,
    ) -> Result<(), EngineError> {
        for (tables, generation) in known.existing() {
            if generation.was_told {
                continue;
            }
            let progress = parts.store.generation(tables).await?.progress().await?;
            let positions = progress.iter().flat_map(|progress| &progress.folded);
            let folded = positions.fold(0_u64, |sum, one| sum.saturating_add(one.position.offset));
            let mut samples = lock(&self.samples);
            let samples = samples.entry(tables).or_default();
            samples.push_back((parts.clock.now(), folded));
            if samples.len() > SAMPLES {
                samples.pop_front();
            }
        }
        Ok(())
    }
}

/// Facts a second from the first sample to the last.
fn rate(samples: &VecDeque<(Time, u64)>) -> Option<f64> {
    let ((from, before), (until, after)) = (samples.front()?, samples.back()?);
    let millis = u32::try_from(until.unix_ms().checked_sub(from.unix_ms())?).ok()?;
    let facts = u32::try_from(after.saturating_sub(*before)).ok()?;
    (millis > 0).then(|| f64::from(facts) * 1_000.0 / f64::from(millis))
}

/// Seconds that so many facts take.
fn left(facts: u64, facts_per_s: f64) -> Option<f64> {
    let facts = u32::try_from(facts).ok()?;
    (facts_per_s > 0.0).then(|| f64::from(facts) / facts_per_s)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
