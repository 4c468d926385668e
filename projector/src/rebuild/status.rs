//! Owns how far each projection build is: its state, its rate, the time it needs.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;

use payfold_engines::EngineError;
use payfold_engines::log::epoch::current;
use payfold_engines::log::{EventLog, Extent, Topic};
use payfold_engines::orders::{OrderStore, Progress};
use payfold_kit::RunError;
use payfold_schemas::time::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::projector_parts::ProjectorParts;
use crate::journal::{BuildRecord, Builds};
use crate::live::has_passed_switch;
use crate::lock::lock;

/// The most records a caught-up build may be behind. Under live traffic a build is always behind
/// by the records of the last moments.
pub(crate) const CAUGHT_UP_RECORDS: u64 = 1_000;

/// Progress samples kept for a build. The supervisor takes two a second, so the rate is measured
/// over ten seconds.
const SAMPLES: usize = 20;

/// The state of a projection build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum BuildState {
    /// It is folded from the beginning of the log and has not caught up.
    Building,
    /// It was building, and a person paused it.
    Paused,
    /// It has caught up and follows the log; it was never published.
    Ready,
    /// It is published and read.
    Live,
    /// A switch to it is decided and not complete in every partition.
    Switching,
    /// It was published before and is folded on, unpublished, for a rollback.
    Standby,
    /// Its projector has ended with an error.
    Failed,
}

impl BuildState {
    /// Its name in answers and tables.
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

/// How far a partition of `intake` is folded into a build.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PartitionProgress {
    /// The number of the partition.
    pub partition: u32,
    /// The offset of the last folded record; 0 if none is folded.
    pub folded: u64,
    /// The offset of the partition's last record.
    pub last: u64,
}

/// How far a projection build is.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildStatus {
    /// The number of the build.
    pub build: u32,
    /// Its state.
    pub state: BuildState,
    /// The publication epoch, which its events carry as `epoch`; null while it is not
    /// published.
    pub(crate) epoch: Option<u32>,
    /// Whether it was ever published.
    pub was_published: bool,
    /// When it was started; null for the first build.
    pub made_at: Option<Time>,
    /// Whether one rule of its fold is broken on purpose.
    pub drill: bool,
    /// The most facts a second; null while it is not throttled.
    pub throttle: Option<u32>,
    /// How many records are folded.
    pub folded: u64,
    /// How many records the log has.
    pub of: u64,
    /// Facts a second over the last ten seconds; null if that was not measured.
    pub facts_per_s: Option<f64>,
    /// Seconds until it has caught up, at that rate.
    pub seconds_left: Option<f64>,
    /// The error its projector ended with; null while it runs.
    pub error: Option<String>,
    /// The progress of each partition.
    pub partitions: Vec<PartitionProgress>,
}

impl BuildStatus {
    /// How many records it is behind.
    pub fn behind(&self) -> u64 {
        self.of.saturating_sub(self.folded)
    }

    /// Whether it is behind by the records of the last moments only.
    pub fn is_caught_up(&self) -> bool {
        self.behind() <= CAUGHT_UP_RECORDS
    }
}

/// Reads the status of every existing build from log and store. Rates and errors are not in it:
/// `BuildMonitor` knows these. Errors: the engines'.
pub async fn load_build_statuses(
    log: &dyn EventLog,
    store: &dyn OrderStore,
    known: &Builds,
) -> Result<Vec<BuildStatus>, EngineError> {
    let extents = log.extent(Topic::Intake).await?;
    let mut progress = BTreeMap::new();
    for (build, _) in known.existing() {
        let folded = store.build(build).await?.progress().await?;
        let none = Progress { log_id: log.id(), folded: Vec::new() };
        progress.insert(build, folded.unwrap_or(none));
    }
    let published = known.published();
    let partitions = current(&extents);
    // The same condition as for readers: they move to the published build once it has passed every
    // marker.
    let has_moved = known.unmarked_switch().is_none()
        && (progress.get(&published.build))
            .is_some_and(|progress| has_passed_switch(progress, &partitions, published.epoch));
    let readers = if has_moved { Readers::Moved } else { Readers::Outgoing };
    let builds = known.existing().map(|(build, record)| {
        build_status((build, record), known, &progress[&build], &extents, readers)
    });
    Ok(builds.collect())
}

/// The build that readers of orders read while a switch runs.
#[derive(Clone, Copy, PartialEq)]
enum Readers {
    /// Still the build that was published before the newest switch.
    Outgoing,
    /// The published one.
    Moved,
}

fn build_status(
    (build, record): (u32, &BuildRecord),
    known: &Builds,
    progress: &Progress,
    extents: &[Extent],
    readers: Readers,
) -> BuildStatus {
    let last_folded = |partition: u32| {
        let found = progress.folded.iter().find(|one| one.position.partition == partition);
        found.map_or(0, |folded| folded.position.offset)
    };
    let partitions: Vec<PartitionProgress> = (extents.iter())
        .map(|extent| PartitionProgress {
            partition: extent.partition,
            folded: last_folded(extent.partition),
            last: extent.last,
        })
        .collect();
    let published = known.published();
    let mut status = BuildStatus {
        build,
        state: BuildState::Building,
        epoch: (published.build == build).then_some(published.epoch),
        was_published: record.was_published,
        made_at: record.made_at,
        drill: record.drill,
        throttle: record.facts_per_s.filter(|_| !record.was_published),
        folded: partitions.iter().fold(0, |sum, one| sum.saturating_add(one.folded)),
        of: partitions.iter().fold(0, |sum, one| sum.saturating_add(one.last)),
        facts_per_s: None,
        seconds_left: None,
        error: None,
        partitions,
    };
    status.state = match (published.build == build, record.was_published) {
        (true, _) if readers == Readers::Moved || published.epoch == 1 => BuildState::Live,
        (true, _) => BuildState::Switching,
        // Readers stay on this build until the switch away from it is complete.
        (false, true) if readers == Readers::Outgoing && is_outgoing(known, build) => {
            BuildState::Live
        }
        (false, true) => BuildState::Standby,
        (false, false) if record.paused => BuildState::Paused,
        (false, false) if status.is_caught_up() => BuildState::Ready,
        (false, false) => BuildState::Building,
    };
    status
}

/// Whether the last switch leads away from this build.
fn is_outgoing(known: &Builds, build: u32) -> bool {
    known.previously_published().is_some_and(|previous| previous.build == build)
}

/// What only this process's supervisor knows of builds: rates, and the errors of projectors that
/// ended.
#[derive(Debug, Default)]
pub struct BuildMonitor {
    /// The error of each build with a failed projector.
    errors: Mutex<BTreeMap<u32, String>>,
    /// By build, times and how many records were folded then, oldest first.
    samples: Mutex<BTreeMap<u32, VecDeque<(Time, u64)>>>,
}

impl BuildMonitor {
    /// Adds rates and errors to statuses.
    pub(crate) fn complete_statuses(&self, statuses: &mut [BuildStatus]) {
        let (errors, samples) = (lock(&self.errors), lock(&self.samples));
        for status in statuses {
            if let Some(error) = errors.get(&status.build) {
                status.state = BuildState::Failed;
                status.error = Some(error.clone());
                continue;
            }
            status.facts_per_s = samples.get(&status.build).and_then(facts_per_s);
            status.seconds_left = match status.state {
                BuildState::Building => {
                    status.facts_per_s.and_then(|rate| seconds_left(status.behind(), rate))
                }
                BuildState::Paused | BuildState::Ready | BuildState::Live => None,
                BuildState::Switching | BuildState::Standby | BuildState::Failed => None,
            };
        }
    }

    /// Forgets the error of a build, so that the supervisor starts its projector again.
    pub(crate) fn clear_failure(&self, build: u32) {
        lock(&self.errors).remove(&build);
    }

    pub(super) fn record_failure(&self, build: u32, error: &RunError) {
        lock(&self.errors).insert(build, error.to_string());
    }

    pub(super) fn has_failed(&self, build: u32) -> bool {
        lock(&self.errors).contains_key(&build)
    }

    /// Forgets everything about a build that is dropped.
    pub(super) fn forget_build(&self, build: u32) {
        lock(&self.errors).remove(&build);
        lock(&self.samples).remove(&build);
    }

    /// Samples the progress of the builds that were never published. Errors: the engines'.
    pub(super) async fn sample_progress(
        &self,
        parts: &ProjectorParts,
        known: &Builds,
    ) -> Result<(), EngineError> {
        for (build, record) in known.existing() {
            if record.was_published {
                continue;
            }
            let progress = parts.store.build(build).await?.progress().await?;
            let positions = progress.iter().flat_map(|progress| &progress.folded);
            let folded = positions.fold(0_u64, |sum, one| sum.saturating_add(one.position.offset));
            let mut samples = lock(&self.samples);
            let samples = samples.entry(build).or_default();
            samples.push_back((parts.clock.now(), folded));
            if samples.len() > SAMPLES {
                samples.pop_front();
            }
        }
        Ok(())
    }
}

/// Facts a second from the first sample to the last.
fn facts_per_s(samples: &VecDeque<(Time, u64)>) -> Option<f64> {
    let ((from, before), (until, after)) = (samples.front()?, samples.back()?);
    let millis = u32::try_from(until.unix_ms().checked_sub(from.unix_ms())?).ok()?;
    let facts = u32::try_from(after.saturating_sub(*before)).ok()?;
    (millis > 0).then(|| f64::from(facts) * 1_000.0 / f64::from(millis))
}

/// The seconds in which `facts` are folded at a rate; `None` at rate 0.
fn seconds_left(facts: u64, facts_per_s: f64) -> Option<f64> {
    let facts = u32::try_from(facts).ok()?;
    (facts_per_s > 0.0).then(|| f64::from(facts) / facts_per_s)
}
