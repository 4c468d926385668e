//! Owns what people ask of a rebuild: each is decided in the journal, or refused with the reason. Doing it is the crew's.
//! Invariants: nothing is told that is not caught up; no switch begins before the last one is through; what is told, or is
//! about to be, is not thrown away; an order that would vanish is not let go unless somebody insists.

use std::sync::Arc;

use payfold_engines::EngineError;
use payfold_engines::generations::{Asked, DecideError, Entry, Generations, Journal};
use payfold_engines::log::epoch::current;
use payfold_engines::log::{EventLog, Topic};
use payfold_engines::orders::OrderStore;
use payfold_engines::orders::live::passed;
use payfold_schemas::publication::Publication;
use serde::Serialize;

use super::difference::{Comparison, Tally};
use super::standing::{Board, Standing, State, standings};
use crate::run::Speed;

/// Where rebuilds are asked for.
#[derive(Clone)]
pub struct Desk {
    log: Arc<dyn EventLog>,
    store: Arc<dyn OrderStore>,
    journal: Arc<Journal>,
    board: Arc<Board>,
}

/// What a new generation is to be like.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wish {
    /// With one rule broken on purpose.
    pub drill: bool,
    /// Facts a second at most.
    pub facts_per_s: Option<u32>,
}

/// What is to be told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Target {
    /// Which generation; none is the one in the making, or for a rollback the one before.
    pub generation: Option<u32>,
    /// Also if orders are missing in it.
    pub force: bool,
}

/// A switch that is decided.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Switched {
    /// What is told from the markers on.
    pub publication: Publication,
    /// How the orders compared a moment before.
    pub tally: Tally,
}

impl Desk {
    /// A desk over these engines, beside the crew of this board.
    pub fn new(log: Arc<dyn EventLog>, store: Arc<dyn OrderStore>, board: Arc<Board>) -> Self {
        let journal = Arc::new(Journal::new(Arc::clone(&store)));
        Self { log, store, journal, board }
    }

    /// How far every generation is.
    pub async fn standings(&self) -> Result<Vec<Standing>, DecideError> {
        let known = self.journal.read().await?;
        let mut standings = standings(&*self.log, &*self.store, &known).await?;
        self.board.complete(&mut standings);
        Ok(standings)
    }

    /// Begins to fold the log into new tables; returns their number.
    pub async fn start(&self, asked: &Asked, wish: Wish) -> Result<u32, DecideError> {
        let extents = self.log.extent(Topic::Intake).await?;
        if current(&extents).len() < extents.len() {
            return Err(refused(
                "intake has grown into a new epoch, and a generation can't be folded over the border of one yet; \
                 docs/operations.md, \"Rebuild\" says what can be done instead",
            ));
        }
        let known = self
            .journal
            .decide(asked, |known| match in_the_making(known) {
                Some(tables) => Err(format!(
                    "generation {tables} is in the making already: wait for it, or drop it with \
                     `payfold rebuild drop {tables} --yes`"
                )),
                None => Ok(Entry::Made {
                    tables: known.next_tables(),
                    drill: wish.drill,
                    facts_per_s: wish.facts_per_s,
                }),
            })
            .await?;
        Ok(in_the_making(&known).unwrap_or_default())
    }

    /// Lets the generation in the making stand still, or go on, so fast at most.
    pub async fn pace(
        &self,
        asked: &Asked,
        Speed { paused, facts_per_s }: Speed,
    ) -> Result<u32, DecideError> {
        let known = self
            .journal
            .decide(asked, |known| {
                let tables = in_the_making(known).ok_or_else(nothing_in_the_making)?;
                let before = known.get(tables).and_then(|one| one.facts_per_s);
                Ok(Entry::Paced { tables, paused, facts_per_s: facts_per_s.or(before) })
            })
            .await?;
        let tables = in_the_making(&known).unwrap_or_default();
        if !paused {
            self.board.try_again(tables);
        }
        Ok(tables)
    }

    /// Decides that another generation is told, once it is found fit for it.
    pub async fn switch(&self, asked: &Asked, target: Target) -> Result<Switched, DecideError> {
        let known = self.journal.read().await?;
        let tables = match target.generation {
            Some(tables) => tables,
            None => in_the_making(&known).ok_or_else(|| refused(nothing_in_the_making()))?,
        };
        self.decide_switch(asked, (tables, target), &known).await
    }

    /// Decides that what was told before the last switch is told again.
    pub async fn roll_back(&self, asked: &Asked, target: Target) -> Result<Switched, DecideError> {
        let known = self.journal.read().await?;
        let before = known
            .told_before()
            .ok_or_else(|| refused("there was no switch that could be taken back"))?;
        let tables = target.generation.unwrap_or(before.tables);
        self.decide_switch(asked, (tables, target), &known).await
    }

    async fn decide_switch(
        &self,
        asked: &Asked,
        (tables, target): (u32, Target),
        known: &Generations,
    ) -> Result<Switched, DecideError> {
        let told = known.told();
        if known.get(tables).is_none() {
            return Err(refused(format!(
                "there is no generation {tables}; `payfold rebuild status` lists them"
            )));
        }
        if told.tables == tables {
            return Err(refused(format!("generation {tables} is the one that is told")));
        }
        if !self.is_through(known).await? {
            return Err(refused(format!(
                "the switch to generation {} is not through everywhere yet; `payfold rebuild status` shows it",
                told.tables
            )));
        }
        let standings = self.standings().await?;
        let standing = standings.iter().find(|one| one.generation == tables);
        check_fit(standing.ok_or_else(|| refused("it has gone meanwhile"))?)?;
        let (live, new) =
            (self.store.generation(told.tables).await?, self.store.generation(tables).await?);
        let tally = Comparison::new(&*live, &*new).tally().await?;
        if tally.missing > 0 && !target.force {
            return Err(refused(format!(
                "{} orders that are told now are not in generation {tables}: nobody would be told of them any more. \
                 `payfold rebuild diff` names them; --force switches all the same",
                tally.missing
            )));
        }
        // Above whatever a marker said, also where the journal was lost and forgot.
        let highest = highest(&[&*live, &*new]).await?.max(told.number);
        let publication = Publication { tables, number: highest.saturating_add(1) };
        self.journal
            .decide(asked, |known| {
                let same = known.told() == told && known.get(tables).is_some();
                match same && known.unmarked().is_none() {
                    true => Ok(Entry::Switched { publication }),
                    false => {
                        Err("somebody else has switched or dropped meanwhile; look again"
                            .to_owned())
                    }
                }
            })
            .await?;
        Ok(Switched { publication, tally })
    }

    /// Decides that a generation is thrown away.
    pub async fn throw_away(&self, asked: &Asked, tables: u32) -> Result<(), DecideError> {
        let known = self.journal.read().await?;
        let through = self.is_through(&known).await?;
        let check = |known: &Generations| {
            if known.get(tables).is_none() {
                return Err(format!("there is no generation {tables}"));
            }
            if known.told().tables == tables {
                return Err(format!("generation {tables} is the one that is told"));
            }
            let left = known.told_before().is_some_and(|before| before.tables == tables);
            if left && !(through && known.unmarked().is_none()) {
                return Err(format!(
                    "the switch away from generation {tables} is not through everywhere yet"
                ));
            }
            Ok(Entry::Dropped { tables })
        };
        self.journal.decide(asked, check).await?;
        Ok(())
    }

    /// Whether every partition has passed the last switch's marker, in both generations: who holds there compares.
    async fn is_through(&self, known: &Generations) -> Result<bool, EngineError> {
        let told = known.told();
        if known.unmarked().is_some() {
            return Ok(false);
        }
        if told == Publication::FIRST {
            return Ok(true);
        }
        let partitions = current(&self.log.extent(Topic::Intake).await?);
        for tables in [Some(told.tables), known.told_before().map(|before| before.tables)] {
            let Some(tables) = tables.filter(|tables| known.get(*tables).is_some()) else {
                continue;
            };
            let progress = self.store.generation(tables).await?.progress().await?;
            if !progress.is_some_and(|progress| passed(&progress, &partitions, told.number)) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The generation nobody was ever told of, if there is one.
pub fn in_the_making(known: &Generations) -> Option<u32> {
    known.existing().find(|(_, generation)| !generation.was_told).map(|(tables, _)| tables)
}

/// The highest number a marker brought to these.
async fn highest(stores: &[&dyn OrderStore]) -> Result<u32, EngineError> {
    let mut highest = 0;
    for store in stores {
        let progress = store.progress().await?;
        let numbers = progress.iter().flat_map(|progress| &progress.folded);
        highest = numbers.map(|one| one.publication.number).fold(highest, u32::max);
    }
    Ok(highest)
}

fn nothing_in_the_making() -> String {
    "no generation is in the making: `payfold rebuild start` makes one".to_owned()
}

fn check_fit(standing: &Standing) -> Result<(), DecideError> {
    let tables = standing.generation;
    match standing.state {
        State::Failed => Err(refused(format!(
            "the projector of generation {tables} has ended: {}",
            standing.error.as_deref().unwrap_or("see the log")
        ))),
        State::Paused => Err(refused(format!(
            "generation {tables} stands still: `payfold rebuild resume`, and wait until it is ready"
        ))),
        State::Building | State::Ready | State::Standby | State::Live | State::Switching => {
            if standing.is_caught_up() {
                return Ok(());
            }
            Err(refused(format!(
                "generation {tables} is {} records behind: wait until `payfold rebuild status` says ready",
                standing.behind()
            )))
        }
    }
}

fn refused(why: impl Into<String>) -> DecideError {
    DecideError::Refused(why.into())
}
