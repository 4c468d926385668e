//! Owns the projectors of this process: one for each generation there is, told or not, and the doing of what is decided.
//!
//! Invariants: what stands in the journal is done, once or again: a new generation is folded, the markers of a switch are
//! written, what is dropped is thrown away after nobody here uses it. A crash anywhere leaves it to whoever reads the
//! journal next. A generation that was told never stands still without the role ending: its orders are somebody's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use payfold_engines::EngineError;
use payfold_engines::clock::Clock;
use payfold_engines::generations::{
    Asked, DecideError, Entry, Generation, Generations, Journal, marker,
};
use payfold_engines::log::{EventLog, Topic};
use payfold_engines::orders::OrderStore;
use payfold_schemas::ids::Author;
use payfold_schemas::publication::Switch;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};

use super::standing::Board;
use crate::fold::Rules;
use crate::metrics::Metrics;
use crate::run::{Projector, RunError, Settings, Speed};

/// Between two looks at the journal.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The author of what is done because it was decided.
const CREW: &str = "projector";

/// What a crew works with.
pub struct Parts {
    /// The log.
    pub log: Arc<dyn EventLog>,
    /// The order store, on whichever generation.
    pub store: Arc<dyn OrderStore>,
    /// What is counted.
    pub metrics: Arc<Metrics>,
    /// How each projector is run; group, tables, rules and speed are its generation's.
    pub settings: Settings,
    /// The clock.
    pub clock: Arc<dyn Clock>,
}

/// The projectors of this process.
pub struct Crew {
    parts: Parts,
    journal: Journal,
    board: Arc<Board>,
    members: BTreeMap<u32, Member>,
    running: JoinSet<(u32, Result<(), RunError>)>,
    /// Whose projectors have not ended yet, members or not any more.
    at_work: BTreeSet<u32>,
    /// What could not be read lately, so that it is told once.
    trouble: Option<EngineError>,
}

/// One projector that runs.
struct Member {
    stop: watch::Sender<bool>,
    speed: watch::Sender<Speed>,
}

impl Crew {
    /// A crew that does not work yet.
    pub fn new(parts: Parts) -> Self {
        let journal = Journal::new(Arc::clone(&parts.store));
        let (board, members, running, at_work) = Default::default();
        Self { parts, journal, board, members, running, at_work, trouble: None }
    }

    /// Tells what its projectors do.
    pub fn board(&self) -> Arc<Board> {
        Arc::clone(&self.board)
    }

    /// Works until `stop` holds true (or its sender is gone), then lets every projector finish what is in flight.
    /// Errors: the first error of a projector whose generation is told or was; it is logged.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) -> Result<(), RunError> {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut known = Generations::default();
        let ended = loop {
            tokio::select! {
                biased;
                () = stopped(&mut stop) => break Ok(()),
                Some(ended) = self.running.join_next() => {
                    if let Err(error) = self.ended(&known, ended) {
                        break Err(error);
                    }
                }
                _ = ticks.tick() => match self.look().await {
                    Ok(read) => {
                        known = read;
                        self.trouble = None;
                    }
                    Err(error @ EngineError::Corrupt(_)) => {
                        break Err(RunError::Engine { what: "read which generations there are", error });
                    }
                    Err(error) => self.told_once(error),
                },
            }
        };
        self.members.values().for_each(|member| {
            member.stop.send_replace(true);
        });
        let mut first = ended;
        while let Some(ended) = self.running.join_next().await {
            let (_, result) = unwound(ended);
            first = first.and(result);
        }
        first
    }

    /// One look at the journal: starts and stops projectors, and does what is decided.
    async fn look(&mut self) -> Result<Generations, EngineError> {
        let known = self.journal.read().await?;
        self.members.retain(|tables, member| {
            let stays = known.get(*tables).is_some();
            if !stays {
                member.stop.send_replace(true);
            }
            stays
        });
        for (tables, generation) in known.existing() {
            let speed = Speed { paused: generation.paused, facts_per_s: generation.facts_per_s };
            match self.members.get(&tables) {
                Some(member) => {
                    member.speed.send_if_modified(|now| std::mem::replace(now, speed) != speed);
                }
                None if self.board.has_failed(tables) || self.at_work.contains(&tables) => {}
                None => self.start(tables, generation, speed).await?,
            }
        }
        self.do_what_is_decided(&known).await?;
        self.board.sample(&self.parts, &known).await?;
        Ok(known)
    }

    async fn start(
        &mut self,
        tables: u32,
        generation: &Generation,
        speed: Speed,
    ) -> Result<(), EngineError> {
        let parts = &self.parts;
        let store = match generation.made_at {
            None => Arc::clone(&parts.store),
            Some(_) => parts.store.generation(tables).await?,
        };
        let (stop, stopped) = watch::channel(false);
        let (speed, keeps) = watch::channel(speed);
        let mut settings = match generation.was_told {
            true => parts.settings.clone(),
            false => parts.settings.clone().for_a_build(),
        };
        (settings.tables, settings.speed) = (tables, Some(keeps));
        if generation.made_at.is_some() {
            settings.group = format!("{}-g{tables}", settings.group);
        }
        if generation.drill {
            settings.rules = Rules::Drill;
        }
        let metrics = Arc::clone(&parts.metrics);
        let projector = Projector::new(Arc::clone(&parts.log), store, metrics, settings);
        self.parts.metrics.generation_has_not_failed(tables);
        self.running.spawn(async move { (tables, projector.run(stopped).await) });
        self.members.insert(tables, Member { stop, speed });
        self.at_work.insert(tables);
        Ok(())
    }

    /// A projector has ended that was not told to, or was because its generation goes.
    fn ended(
        &mut self,
        known: &Generations,
        ended: Result<(u32, Result<(), RunError>), JoinError>,
    ) -> Result<(), RunError> {
        let (tables, result) = unwound(ended);
        let was_member = self.members.remove(&tables).is_some();
        self.at_work.remove(&tables);
        match result {
            Err(error) if known.get(tables).is_some_and(|one| one.was_told) => Err(error),
            Err(error) if was_member => {
                self.board.failed(tables, &error);
                self.parts.metrics.generation_has_failed(tables);
                Ok(())
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }

    async fn do_what_is_decided(&mut self, known: &Generations) -> Result<(), EngineError> {
        if let Some(switch) = known.unmarked() {
            let positions = self.parts.log.append_marker(Topic::Intake, marker(switch)).await?;
            tracing::info!(partitions = positions.len(), "the markers of a switch are written");
            self.note(Entry::Marked { number: switch.publication.number }, switch).await?;
        }
        let leaving: Vec<u32> = known.leaving().collect();
        for tables in leaving {
            // Its projector was told to stop, and may still be at work: then the next look does it.
            if !self.at_work.contains(&tables) {
                self.parts.store.drop_generation(tables).await?;
                self.board.forget(tables);
                self.parts.metrics.generation_has_not_failed(tables);
                tracing::info!(tables, "a generation is thrown away");
                self.note_gone(tables).await?;
            }
        }
        Ok(())
    }

    async fn note(&self, entry: Entry, switch: &Switch) -> Result<(), EngineError> {
        let number = switch.publication.number;
        let marked = |known: &Generations| match known.unmarked() {
            Some(unmarked) if unmarked.publication.number == number => Ok(entry.clone()),
            // Somebody else has seen to it.
            Some(_) | None => Err(String::new()),
        };
        self.decide(marked).await
    }

    async fn note_gone(&self, tables: u32) -> Result<(), EngineError> {
        self.decide(|known| match known.leaving().any(|one| one == tables) {
            true => Ok(Entry::Gone { tables }),
            false => Err(String::new()),
        })
        .await
    }

    async fn decide(
        &self,
        entry: impl Fn(&Generations) -> Result<Entry, String>,
    ) -> Result<(), EngineError> {
        let asked = Asked {
            author: Author::parse(CREW).expect("it is an author's name"),
            reason: String::new(),
            request_id: self.parts.clock.request_id(),
            at: self.parts.clock.now(),
        };
        match self.journal.decide(&asked, entry).await {
            Ok(_) | Err(DecideError::Refused(_)) => Ok(()),
            Err(DecideError::Engine(error)) => Err(error),
        }
    }

    fn told_once(&mut self, error: EngineError) {
        if self.trouble.as_ref() != Some(&error) {
            tracing::warn!(%error, "can't see to the generations, trying again until it works");
            self.trouble = Some(error);
        }
    }
}

/// Resolves when `stop` holds true. Nobody left to tell it is an end too.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stop| *stop).await;
}

fn unwound(ended: Result<(u32, Result<(), RunError>), JoinError>) -> (u32, Result<(), RunError>) {
    match ended {
        Ok(ended) => ended,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is going down.
            Err(_) => (0, Ok(())),
        },
    }
}
