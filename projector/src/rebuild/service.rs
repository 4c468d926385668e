//! Owns what people ask of a rebuild. The journal takes each request as a decision, or it is
//! refused with the reason; the supervisor carries decisions out.
//!
//! Invariants: only a build that has caught up is published; a switch is refused until the last one
//! is complete; the published build is never dropped, nor the one it replaces before
//! every partition has passed the switch; a switch to a build
//! that lacks orders is refused unless it is forced.

use std::sync::Arc;

use payfold_engines::log::epoch::current;
use payfold_engines::log::{EventLog, Topic};
use payfold_engines::orders::OrderStore;
use payfold_engines::{EngineError, pairing};
use payfold_schemas::publication::Publication;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::difference::{Comparison, Tally};
use super::status::{BuildMonitor, BuildState, BuildStatus, load_build_statuses};
use crate::journal::{Builds, DecideError, DecisionRequest, Journal, JournalEntry};
use crate::live::has_passed_switch;
use crate::run::Speed;

/// Takes requests about projection builds.
#[derive(Clone)]
pub struct RebuildService {
    log: Arc<dyn EventLog>,
    store: Arc<dyn OrderStore>,
    journal: Arc<Journal>,
    monitor: Arc<BuildMonitor>,
}

/// The properties of a new build.
#[derive(Clone, Copy, Debug, Default)]
pub struct BuildRequest {
    /// Whether one rule is broken on purpose.
    pub drill: bool,
    /// The most facts a second; `None` for no limit.
    pub facts_per_s: Option<u32>,
}

/// The build to be published next.
#[derive(Clone, Copy, Debug, Default)]
pub struct SwitchTarget {
    /// Its number; `None` for the new build, or the previous one in a rollback.
    pub build: Option<u32>,
    /// Whether to switch although orders are missing in it.
    pub force: bool,
}

/// A switch that is decided.
#[derive(Clone, Debug, PartialEq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DecidedSwitch {
    /// The build that is published from the markers on.
    pub publication: Publication,
    /// How its orders compared with the published ones, a moment before.
    pub tally: Tally,
}

impl RebuildService {
    /// A service over these engines. `monitor` is the one of this process's supervisor.
    pub fn new(
        log: Arc<dyn EventLog>,
        store: Arc<dyn OrderStore>,
        monitor: Arc<BuildMonitor>,
    ) -> Self {
        let journal = Arc::new(Journal::new(Arc::clone(&store)));
        Self { log, store, journal, monitor }
    }

    /// The status of every existing build.
    pub async fn build_statuses(&self) -> Result<Vec<BuildStatus>, DecideError> {
        let known = self.journal.read().await?;
        let mut statuses = load_build_statuses(&*self.log, &*self.store, &known).await?;
        self.monitor.complete_statuses(&mut statuses);
        Ok(statuses)
    }

    /// Starts a build, which folds the log from its beginning; returns its number. Errors:
    /// `Refused` while there is a new build, or once intake has grown into a second epoch.
    pub async fn start_build(
        &self,
        request: &DecisionRequest,
        build: BuildRequest,
    ) -> Result<u32, DecideError> {
        let extents = self.log.extent(Topic::Intake).await?;
        if current(&extents).len() < extents.len() {
            return Err(refused(
                "intake has grown into a new epoch, and a build can't be folded over the border of \
                 one yet; docs/how-to/rebuild.md says what can be done instead",
            ));
        }
        let known = self
            .journal
            .decide(request, |known| match new_build(known) {
                Some(other) => Err(refused(format!(
                    "build {other} is not published yet, and there can be only one such build: \
                     wait until it is ready, compare it (`payfold rebuild diff`) and switch to it, \
                     or drop it with `payfold rebuild drop {other} --yes --reason TEXT`"
                ))),
                None => Ok(JournalEntry::BuildStarted {
                    build: known.next_build(),
                    drill: build.drill,
                    facts_per_s: build.facts_per_s,
                }),
            })
            .await?;
        Ok(new_build(&known).unwrap_or_default())
    }

    /// Pauses or resumes the new build, and sets its speed limit if one is given; returns
    /// its number. A resumed build is started again in this process if its projector has
    /// failed.
    pub async fn set_speed(
        &self,
        request: &DecisionRequest,
        Speed { paused, facts_per_s }: Speed,
    ) -> Result<u32, DecideError> {
        let known = self
            .journal
            .decide(request, |known| {
                let build = new_build(known).ok_or_else(no_new_build)?;
                let before = known.get(build).and_then(|record| record.facts_per_s);
                let facts_per_s = facts_per_s.or(before);
                Ok(JournalEntry::SpeedSet { build, paused, facts_per_s })
            })
            .await?;
        let build = new_build(&known).unwrap_or_default();
        if !paused {
            self.monitor.clear_failure(build);
        }
        Ok(build)
    }

    /// Decides to publish from another build. Errors: `Refused` if it is not ready now.
    pub async fn switch(
        &self,
        request: &DecisionRequest,
        target: SwitchTarget,
    ) -> Result<DecidedSwitch, DecideError> {
        let known = self.journal.read().await?;
        let build = match target.build {
            Some(build) => build,
            None => new_build(&known).ok_or_else(no_new_build)?,
        };
        self.decide_switch(request, (build, target), &known).await
    }

    /// Decides to publish again from the build that was published before the last switch.
    pub async fn roll_back(
        &self,
        request: &DecisionRequest,
        target: SwitchTarget,
    ) -> Result<DecidedSwitch, DecideError> {
        let known = self.journal.read().await?;
        let previous = known
            .previously_published()
            .ok_or_else(|| refused("there is no earlier switch to roll back"))?;
        let build = target.build.unwrap_or(previous.build);
        self.decide_switch(request, (build, target), &known).await
    }

    async fn decide_switch(
        &self,
        request: &DecisionRequest,
        (build, target): (u32, SwitchTarget),
        known: &Builds,
    ) -> Result<DecidedSwitch, DecideError> {
        let published = known.published();
        if known.get(build).is_none() {
            return Err(no_build(build));
        }
        if published.build == build {
            return Err(is_published(build));
        }
        if !self.is_switch_complete(known).await? {
            return Err(refused(format!(
                "the switch to build {} is not complete in every partition yet; \
                 `payfold rebuild status` shows it",
                published.build
            )));
        }
        let statuses = self.build_statuses().await?;
        let status = statuses.iter().find(|status| status.build == build);
        check_ready(status.ok_or_else(|| no_build(build))?)?;
        let live = self.store.build(published.build).await?;
        let new = self.store.build(build).await?;
        pairing::check_build(&*self.log, &*new).await.map_err(|error| match error {
            EngineError::Invalid(why) => {
                refused(format!("build {build} can't be published: {why}"))
            }
            error @ (EngineError::Unavailable(_) | EngineError::Corrupt(_)) => error.into(),
        })?;
        let tally = Comparison::new(&*live, &*new).tally_orders().await?;
        if tally.missing > 0 && !target.force {
            return Err(refused(format!(
                "{} orders of the published build are not in build {build}: after a switch nothing \
                 more would be published of them. `payfold rebuild diff` lists them; --force \
                 switches all the same",
                tally.missing
            )));
        }
        // Above the epoch of every marker that was folded, too: a journal that was lost starts
        // again at epoch 1, and subscribers would drop its events.
        let highest = highest_epoch(&[&*live, &*new]).await?.max(published.epoch);
        let publication = Publication { build, epoch: highest.saturating_add(1) };
        self.journal
            .decide(request, |known| {
                check_switch(known, published, build)?;
                Ok(JournalEntry::SwitchDecided { publication })
            })
            .await?;
        Ok(DecidedSwitch { publication, tally })
    }

    /// Decides to drop a build; its tables are deleted later. Errors: `Refused` for a build that is
    /// published or that a switch still leads away from.
    pub async fn drop_build(
        &self,
        request: &DecisionRequest,
        build: u32,
    ) -> Result<(), DecideError> {
        let known = self.journal.read().await?;
        let (is_complete, published) = (self.is_switch_complete(&known).await?, known.published());
        let check = |known: &Builds| {
            if known.get(build).is_none() {
                return Err(no_build(build));
            }
            if known.published().build == build {
                return Err(is_published(build));
            }
            let previous = known.previously_published();
            let is_outgoing = previous.is_some_and(|previous| previous.build == build);
            // A switch that was decided and marked meanwhile is not complete either.
            let is_complete =
                is_complete && known.published() == published && known.unmarked_switch().is_none();
            if is_outgoing && !is_complete {
                return Err(refused(format!(
                    "the switch away from build {build} is not complete in every partition yet; \
                     `payfold rebuild status` shows it"
                )));
            }
            Ok(JournalEntry::DropDecided { build })
        };
        self.journal.decide(request, check).await?;
        Ok(())
    }

    /// Whether both builds of the last switch have passed its marker in every partition. The
    /// outgoing build counts, too, as a safeguard: the incoming one compares with it at the marker.
    async fn is_switch_complete(&self, known: &Builds) -> Result<bool, EngineError> {
        let published = known.published();
        if known.unmarked_switch().is_some() {
            return Ok(false);
        }
        if published == Publication::FIRST {
            return Ok(true);
        }
        let partitions = current(&self.log.extent(Topic::Intake).await?);
        let previous = known.previously_published().map(|previous| previous.build);
        for build in [Some(published.build), previous] {
            let Some(build) = build.filter(|build| known.get(*build).is_some()) else {
                continue;
            };
            let progress = self.store.build(build).await?.progress().await?;
            let has_passed = |progress| has_passed_switch(&progress, &partitions, published.epoch);
            if !progress.is_some_and(has_passed) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The new build, which was never published; there is at most one.
pub fn new_build(known: &Builds) -> Option<u32> {
    known.existing().find(|(_, record)| !record.was_published).map(|(build, _)| build)
}

/// The highest epoch of a marker that any of these builds has passed; 0 if none has.
pub(super) async fn highest_epoch(stores: &[&dyn OrderStore]) -> Result<u32, EngineError> {
    let mut highest = 0;
    for store in stores {
        let progress = store.progress().await?;
        let epochs = progress.iter().flat_map(|progress| &progress.folded);
        highest = epochs.map(|folded| folded.publication.epoch).fold(highest, u32::max);
    }
    Ok(highest)
}

/// Checks that a switch to `build` can still be decided. Both builds were compared before, while
/// `published` was published. Errors: `Refused`.
pub(super) fn check_switch(
    known: &Builds,
    published: Publication,
    build: u32,
) -> Result<(), DecideError> {
    let record = known.get(build).filter(|_| known.published() == published);
    match record {
        // Paused since it was found ready, it may be far behind by now. A pause of a build that was
        // published before has no effect (`supervisor`).
        Some(record) if record.paused && !record.was_published => Err(is_paused(build)),
        Some(_) if known.unmarked_switch().is_none() => Ok(()),
        Some(_) | None => Err(refused(
            "another switch or drop was decided meanwhile: see `payfold rebuild status`",
        )),
    }
}

fn check_ready(status: &BuildStatus) -> Result<(), DecideError> {
    let build = status.build;
    match status.state {
        BuildState::Failed => Err(refused(format!(
            "the projector of build {build} has ended with an error: {}",
            status.error.as_deref().unwrap_or("see the log")
        ))),
        BuildState::Paused => Err(is_paused(build)),
        BuildState::Building
        | BuildState::Ready
        | BuildState::Standby
        | BuildState::Live
        | BuildState::Switching => {
            if status.is_caught_up() {
                return Ok(());
            }
            Err(refused(format!(
                "build {build} is {} records behind: \
                 try again when `payfold rebuild status` shows that it has caught up",
                status.behind()
            )))
        }
    }
}

fn no_new_build() -> DecideError {
    refused("there is no new build: `payfold rebuild start` starts one")
}

fn no_build(build: u32) -> DecideError {
    refused(format!("there is no build {build}; `payfold rebuild status` lists the builds"))
}

fn is_published(build: u32) -> DecideError {
    refused(format!(
        "build {build} is the published one; `payfold rebuild status` lists the others"
    ))
}

fn is_paused(build: u32) -> DecideError {
    refused(format!(
        "build {build} is paused: `payfold rebuild resume`, and wait until it is ready"
    ))
}

fn refused(reason: impl Into<String>) -> DecideError {
    DecideError::Refused(reason.into())
}
