//! Owns what the journal's entries come to: the generations, what is told, and what is decided and not done yet.

use std::collections::BTreeMap;

use payfold_schemas::publication::{Publication, Switch};
use payfold_schemas::time::Time;

use super::entry::{Decided, Entry};

/// One generation of the order store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generation {
    /// When it was made; none for the first, which every store begins with.
    pub made_at: Option<Time>,
    /// One rule of its fold is another on purpose.
    pub drill: bool,
    /// Its folding stands still.
    pub paused: bool,
    /// Facts a second at most.
    pub facts_per_s: Option<u32>,
    /// It is told, or was once.
    pub was_told: bool,
    /// It is thrown away, or is about to be.
    pub dropped: bool,
    /// Nothing is left of it.
    pub gone: bool,
}

/// All that is decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Generations {
    entries: u64,
    generations: BTreeMap<u32, Generation>,
    /// Every publication so far, oldest first; never empty.
    publications: Vec<Publication>,
    /// The last switch, while its markers are not in every partition.
    unmarked: Option<Switch>,
}

impl Default for Generations {
    fn default() -> Self {
        let first = Generation {
            made_at: None,
            drill: false,
            paused: false,
            facts_per_s: None,
            was_told: true,
            dropped: false,
            gone: false,
        };
        Self {
            entries: 0,
            generations: BTreeMap::from([(Publication::FIRST.tables, first)]),
            publications: vec![Publication::FIRST],
            unmarked: None,
        }
    }
}

impl Generations {
    /// The number of the entry that comes next.
    pub(super) fn next(&self) -> u64 {
        self.entries.saturating_add(1)
    }

    /// The generations whose tables are there, by number.
    pub fn existing(&self) -> impl Iterator<Item = (u32, &Generation)> {
        self.generations
            .iter()
            .filter(|(_, generation)| !generation.dropped)
            .map(|(tables, generation)| (*tables, generation))
    }

    /// Those with one rule that is another on purpose, also where nothing is left of them.
    pub fn drills(&self) -> impl Iterator<Item = u32> {
        self.generations.iter().filter(|(_, one)| one.drill).map(|(tables, _)| *tables)
    }

    /// Those that are to be thrown away and are still there.
    pub fn leaving(&self) -> impl Iterator<Item = u32> {
        let leaving = |one: &&Generation| one.dropped && !one.gone;
        self.generations
            .iter()
            .filter(move |(_, generation)| leaving(generation))
            .map(|(tables, _)| *tables)
    }

    /// A generation that is there.
    pub fn get(&self, tables: u32) -> Option<&Generation> {
        self.generations.get(&tables).filter(|generation| !generation.dropped)
    }

    /// The number the next new tables get: none is used twice.
    pub fn next_tables(&self) -> u32 {
        self.generations.keys().next_back().map_or(1, |last| last.saturating_add(1))
    }

    /// Every publication so far, oldest first.
    pub fn publications(&self) -> &[Publication] {
        &self.publications
    }

    /// What the last switch decided is told.
    pub fn told(&self) -> Publication {
        *self.publications.last().expect("there is always the first")
    }

    /// What was told before that from other tables.
    pub fn told_before(&self) -> Option<Publication> {
        let tables = self.told().tables;
        self.publications.iter().rev().find(|one| one.tables != tables).copied()
    }

    /// The last switch, while its markers are not known to be in every partition.
    pub fn unmarked(&self) -> Option<&Switch> {
        self.unmarked.as_ref()
    }

    /// The claim that comes next is none of the journal's.
    pub(super) fn pass_over(&mut self) {
        self.entries = self.next();
    }

    pub(super) fn take(&mut self, decided: &Decided) {
        self.entries = self.next();
        match &decided.entry {
            Entry::Made { tables, drill, facts_per_s } => {
                let generation = Generation {
                    made_at: Some(decided.at),
                    drill: *drill,
                    paused: false,
                    facts_per_s: *facts_per_s,
                    was_told: false,
                    dropped: false,
                    gone: false,
                };
                self.generations.insert(*tables, generation);
            }
            Entry::Paced { tables, paused, facts_per_s } => self.change(*tables, |generation| {
                generation.paused = *paused;
                generation.facts_per_s = *facts_per_s;
            }),
            Entry::Switched { publication } => {
                self.publications.push(*publication);
                let (publication, request_id) = (*publication, decided.request_id);
                self.unmarked = Some(Switch { publication, request_id, at: decided.at });
                self.change(publication.tables, |generation| generation.was_told = true);
            }
            Entry::Marked { number } => {
                self.unmarked.take_if(|switch| switch.publication.number <= *number);
            }
            Entry::Dropped { tables } => self.change(*tables, |one| one.dropped = true),
            Entry::Gone { tables } => self.change(*tables, |one| one.gone = true),
        }
    }

    fn change(&mut self, tables: u32, change: impl FnOnce(&mut Generation)) {
        if let Some(generation) = self.generations.get_mut(&tables) {
            change(generation);
        }
    }
}
