//! Owns the projectors of this process, one for each projection build that exists, and carries out
//! what the journal decides.
//!
//! Invariants: what the journal decides is carried out, once or again: a new build is folded, the
//! markers of a switch are written, and a dropped build's tables are deleted after this process has
//! stopped using them. After a crash anywhere the process that reads the journal next does it. If
//! the projector of a build that is or was published ends with an error, the role ends. A partition
//! halted at a record that can't be read stays there by itself, while the others go on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use payfold_engines::EngineError;
use payfold_engines::log::Topic;
use payfold_kit::{RunError, wait_for_stop};
use payfold_schemas::ids::Author;
use payfold_schemas::publication::Switch;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use super::projector_parts::ProjectorParts;
use super::status::BuildMonitor;
use crate::fold::FoldRules;
use crate::journal::{
    BuildRecord, Builds, DecideError, DecisionRequest, Journal, JournalEntry, switch_marker,
};
use crate::run::{Projector, Speed};

/// The time between two reads of the journal.
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// The time from the first check that finds a build dropped to the deletion of its tables. By then
/// every process has read the journal several times, so no reader and no projector of any process
/// still uses them.
const DELETE_AFTER: Duration = Duration::from_secs(3);

/// The author of journal entries that record work done by a projector process.
const AUTHOR: &str = "projector";

/// Runs the projectors of this process.
pub struct Supervisor {
    parts: ProjectorParts,
    journal: Journal,
    monitor: Arc<BuildMonitor>,
    /// The projectors of builds that exist, by build.
    projectors: BTreeMap<u32, RunningProjector>,
    tasks: JoinSet<(u32, Result<(), RunError>)>,
    /// The builds with a projector task that has not ended, also those that were asked to stop.
    unfinished: BTreeSet<u32>,
    /// When this process first read that a build is dropped.
    dropped_since: BTreeMap<u32, Instant>,
    /// The last error of a check, so that the same error is logged once.
    last_error: Option<EngineError>,
}

/// The controls of a running projector.
struct RunningProjector {
    stop: watch::Sender<bool>,
    speed: watch::Sender<Speed>,
}

impl Supervisor {
    /// A supervisor that does not run yet.
    pub fn new(parts: ProjectorParts) -> Self {
        let journal = Journal::new(Arc::clone(&parts.store));
        let (monitor, projectors, tasks, unfinished, dropped_since) = Default::default();
        Self {
            parts,
            journal,
            monitor,
            projectors,
            tasks,
            unfinished,
            dropped_since,
            last_error: None,
        }
    }

    /// The errors and rates of its projectors.
    pub fn monitor(&self) -> Arc<BuildMonitor> {
        Arc::clone(&self.monitor)
    }

    /// Runs until `stop` holds true (or its sender is gone), then lets every projector finish what
    /// is in flight. Errors: the first error of a projector of a build that is or was published; it
    /// is logged.
    pub async fn run(mut self, stop: watch::Receiver<bool>) -> Result<(), RunError> {
        let mut ticks = tokio::time::interval(CHECK_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut known = Builds::default();
        let ended = loop {
            tokio::select! {
                biased;
                () = wait_for_stop(&stop) => break Ok(()),
                Some(ended) = self.tasks.join_next() => {
                    if let Err(error) = self.handle_end(&mut known, ended).await {
                        break Err(error);
                    }
                }
                _ = ticks.tick() => match self.check_journal().await {
                    Ok(read) => {
                        known = read;
                        self.last_error = None;
                    }
                    Err(error @ EngineError::Corrupt(_)) => {
                        break Err(RunError::Engine { what: "read which builds there are", error });
                    }
                    Err(error) => self.log_once(error),
                },
            }
        };
        self.projectors.values().for_each(|projector| {
            projector.stop.send_replace(true);
        });
        let mut first = ended;
        while let Some(ended) = self.tasks.join_next().await {
            let (_, result) = task_result(ended);
            first = first.and(result);
        }
        first
    }

    /// Reads the journal once, starts and stops projectors, and carries out what is decided.
    async fn check_journal(&mut self) -> Result<Builds, EngineError> {
        let known = self.journal.read().await?;
        self.projectors.retain(|build, projector| {
            let exists = known.get(*build).is_some();
            if !exists {
                projector.stop.send_replace(true);
            }
            exists
        });
        for (build, record) in known.existing() {
            // A throttle, like a pause, is for a build that was never published: live traffic is
            // not slowed down.
            let speed = match record.was_published {
                true => Speed::default(),
                false => Speed { paused: record.paused, facts_per_s: record.facts_per_s },
            };
            match self.projectors.get(&build) {
                Some(projector) => {
                    projector.speed.send_if_modified(|now| std::mem::replace(now, speed) != speed);
                }
                None if self.unfinished.contains(&build) => {}
                None if self.monitor.has_failed(build) && known.published().build != build => {}
                // It may have failed just before this process read its switch. Started again it
                // goes on, or ends the role.
                None => self.start_projector(build, record, speed).await?,
            }
        }
        self.carry_out_decisions(&known).await?;
        self.monitor.sample_progress(&self.parts, &known).await?;
        Ok(known)
    }

    async fn start_projector(
        &mut self,
        build: u32,
        record: &BuildRecord,
        speed: Speed,
    ) -> Result<(), EngineError> {
        let parts = &self.parts;
        let store = match record.made_at {
            None => Arc::clone(&parts.store),
            Some(_) => parts.store.build(build).await?,
        };
        let (stop, stopped) = watch::channel(false);
        let (speed, speed_changes) = watch::channel(speed);
        let mut settings = match record.was_published {
            true => parts.settings.clone(),
            false => parts.settings.clone().for_rebuild(),
        };
        (settings.build, settings.speed) = (build, Some(speed_changes));
        // The first build keeps the plain group name. The suffix of the others is a stored name
        // and stays (docs/decisions/0075).
        if record.made_at.is_some() {
            settings.group = format!("{}-g{build}", settings.group);
        }
        if record.drill {
            settings.rules = FoldRules::Drill;
        }
        let metrics = Arc::clone(&parts.metrics);
        let projector = Projector::new(Arc::clone(&parts.log), store, metrics, settings);
        self.monitor.clear_failure(build);
        self.parts.metrics.clear_build_failed(build);
        self.tasks.spawn(async move { (build, projector.run(stopped).await) });
        self.projectors.insert(build, RunningProjector { stop, speed });
        self.unfinished.insert(build);
        Ok(())
    }

    /// Decides what the end of a projector means. The journal is read once more before a failed
    /// build ends the role: if another process has deleted its tables, its last statements fail on
    /// tables that are gone.
    pub(super) async fn handle_end(
        &mut self,
        known: &mut Builds,
        ended: Result<(u32, Result<(), RunError>), JoinError>,
    ) -> Result<(), RunError> {
        let (build, result) = task_result(ended);
        let was_wanted = self.projectors.remove(&build).is_some();
        self.unfinished.remove(&build);
        if result.is_err()
            && let Ok(read) = self.journal.read().await
        {
            *known = read;
        }
        // Nothing of a standby is published or read.
        let fails_alone =
            matches!(result, Err(RunError::Unsealed(_))) && known.published().build != build;
        match result {
            Err(error)
                if known.get(build).is_some_and(|record| record.was_published) && !fails_alone =>
            {
                Err(error)
            }
            Err(error) if was_wanted && known.get(build).is_some() => {
                self.monitor.record_failure(build, &error);
                self.parts.metrics.set_build_failed(build);
                Ok(())
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    async fn carry_out_decisions(&mut self, known: &Builds) -> Result<(), EngineError> {
        if let Some(switch) = known.unmarked_switch() {
            // Written again after a crash before the entry below: readers skip a repeated marker.
            let markers =
                self.parts.log.append_marker(Topic::Intake, switch_marker(switch)).await?;
            tracing::info!(
                partitions = markers.len(),
                epoch = switch.publication.epoch,
                "the markers of a switch are written"
            );
            self.record_markers_written(switch).await?;
        }
        let to_drop: Vec<u32> = known.builds_to_drop().collect();
        for build in to_drop {
            // Its projector was asked to stop and may not have ended yet: then a later check
            // deletes the tables.
            let since = *self.dropped_since.entry(build).or_insert_with(Instant::now);
            if !self.unfinished.contains(&build) && since.elapsed() >= DELETE_AFTER {
                self.parts.store.drop_build(build).await?;
                self.monitor.forget_build(build);
                self.parts.metrics.clear_build_failed(build);
                tracing::info!(build, "the tables of a dropped build are deleted");
                self.record_tables_dropped(build).await?;
                self.dropped_since.remove(&build);
            }
        }
        Ok(())
    }

    async fn record_markers_written(&self, switch: &Switch) -> Result<(), EngineError> {
        let epoch = switch.publication.epoch;
        self.record(|known| {
            let unmarked = known.unmarked_switch()?;
            let is_open = unmarked.publication.epoch == epoch;
            is_open.then_some(JournalEntry::MarkersWritten { epoch })
        })
        .await
    }

    async fn record_tables_dropped(&self, build: u32) -> Result<(), EngineError> {
        self.record(|known| {
            let is_open = known.builds_to_drop().any(|other| other == build);
            is_open.then_some(JournalEntry::TablesDropped { build })
        })
        .await
    }

    /// Adds an entry to the journal. `entry` returns `None` if another process has recorded it.
    async fn record(
        &self,
        entry: impl Fn(&Builds) -> Option<JournalEntry>,
    ) -> Result<(), EngineError> {
        let request = DecisionRequest {
            author: Author::parse(AUTHOR).expect("it is an author's name"),
            reason: String::new(),
            request_id: self.parts.clock.request_id(),
            at: self.parts.clock.now(),
        };
        let recorded = || DecideError::Refused("another process has recorded it".to_owned());
        match self.journal.decide(&request, |known| entry(known).ok_or_else(recorded)).await {
            Ok(_) | Err(DecideError::Refused(_)) => Ok(()),
            Err(DecideError::Engine(error)) => Err(error),
        }
    }

    fn log_once(&mut self, error: EngineError) {
        if self.last_error.as_ref() != Some(&error) {
            tracing::warn!(
                %error,
                "can't carry out what is decided about builds, trying again until it works"
            );
            self.last_error = Some(error);
        }
    }
}

/// The build of an ended task and its result. A panic of the task goes on here.
fn task_result(
    ended: Result<(u32, Result<(), RunError>), JoinError>,
) -> (u32, Result<(), RunError>) {
    match ended {
        Ok(ended) => ended,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down. No build has the number 0.
            Err(_) => (0, Ok(())),
        },
    }
}
