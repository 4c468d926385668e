//! Owns the state that the journal's entries add up to: the builds, what is published, and what is
//! decided and not carried out yet.

use std::collections::BTreeMap;

use payfold_schemas::publication::{Publication, Switch};
use payfold_schemas::time::Time;

use super::entry::{JournalEntry, JournalRecord};

/// One projection build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildRecord {
    /// When it was started; `None` for the first build, which every store begins with.
    pub made_at: Option<Time>,
    /// Whether one rule of its fold is broken on purpose.
    pub drill: bool,
    /// Whether a person has paused it.
    pub paused: bool,
    /// The most facts a second.
    pub facts_per_s: Option<u32>,
    /// Whether it is published, or was once.
    pub(crate) was_published: bool,
    /// Whether it is to be dropped. Its tables may still be there.
    pub(crate) dropped: bool,
    /// Whether its tables are deleted.
    pub tables_dropped: bool,
}

/// The builds of an order store, after all entries read so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Builds {
    /// How many entries are read.
    entries: u64,
    builds: BTreeMap<u32, BuildRecord>,
    /// Every publication so far, oldest first; never empty.
    publications: Vec<Publication>,
    /// The last switch, until its markers are known to be in every partition.
    unmarked: Option<Switch>,
}

impl Default for Builds {
    fn default() -> Self {
        let first = BuildRecord {
            made_at: None,
            drill: false,
            paused: false,
            facts_per_s: None,
            was_published: true,
            dropped: false,
            tables_dropped: false,
        };
        Self {
            entries: 0,
            builds: BTreeMap::from([(Publication::FIRST.build, first)]),
            publications: vec![Publication::FIRST],
            unmarked: None,
        }
    }
}

impl Builds {
    /// The number of the next entry.
    pub(super) fn next_entry(&self) -> u64 {
        self.entries.saturating_add(1)
    }

    /// The builds that are not dropped, by number. The tables of a new one may not exist yet.
    pub fn existing(&self) -> impl Iterator<Item = (u32, &BuildRecord)> {
        self.builds
            .iter()
            .filter(|(_, record)| !record.dropped)
            .map(|(build, record)| (*build, record))
    }

    /// The builds with a rule that is broken on purpose, also dropped ones.
    pub fn drill_builds(&self) -> impl Iterator<Item = u32> {
        self.builds.iter().filter(|(_, record)| record.drill).map(|(build, _)| *build)
    }

    /// The dropped builds with tables that are not deleted yet.
    pub(crate) fn builds_to_drop(&self) -> impl Iterator<Item = u32> {
        let is_left = |record: &&BuildRecord| record.dropped && !record.tables_dropped;
        self.builds.iter().filter(move |(_, record)| is_left(record)).map(|(build, _)| *build)
    }

    /// A build; `None` if there never was one of this number or it is dropped.
    pub(crate) fn get(&self, build: u32) -> Option<&BuildRecord> {
        self.builds.get(&build).filter(|record| !record.dropped)
    }

    /// The number of the next build: numbers are never used again.
    pub fn next_build(&self) -> u32 {
        self.builds.keys().next_back().map_or(1, |last| last.saturating_add(1))
    }

    /// Every publication so far, oldest first.
    pub(crate) fn publications(&self) -> &[Publication] {
        &self.publications
    }

    /// What is published after the last decided switch.
    pub fn published(&self) -> Publication {
        *self.publications.last().expect("there is always the first")
    }

    /// The last publication of another build than the published one.
    pub(crate) fn previously_published(&self) -> Option<Publication> {
        let build = self.published().build;
        self.publications.iter().rev().find(|publication| publication.build != build).copied()
    }

    /// The last switch, until its markers are known to be in every partition.
    pub(crate) fn unmarked_switch(&self) -> Option<&Switch> {
        self.unmarked.as_ref()
    }

    /// Skips a claim that holds no entry of the journal.
    pub(super) fn skip_entry(&mut self) {
        self.entries = self.next_entry();
    }

    /// Applies the next entry.
    pub(super) fn apply(&mut self, record: &JournalRecord) {
        self.entries = self.next_entry();
        match &record.entry {
            JournalEntry::BuildStarted { build, drill, facts_per_s } => {
                let started = BuildRecord {
                    made_at: Some(record.at),
                    drill: *drill,
                    paused: false,
                    facts_per_s: *facts_per_s,
                    was_published: false,
                    dropped: false,
                    tables_dropped: false,
                };
                self.builds.insert(*build, started);
            }
            JournalEntry::SpeedSet { build, paused, facts_per_s } => {
                self.change(*build, |record| {
                    record.paused = *paused;
                    record.facts_per_s = *facts_per_s;
                });
            }
            JournalEntry::SwitchDecided { publication } => {
                self.publications.push(*publication);
                let (publication, request_id) = (*publication, record.request_id);
                self.unmarked = Some(Switch { publication, request_id, at: record.at });
                self.change(publication.build, |record| record.was_published = true);
            }
            JournalEntry::MarkersWritten { epoch } => {
                self.unmarked.take_if(|switch| switch.publication.epoch <= *epoch);
            }
            JournalEntry::DropDecided { build } => {
                self.change(*build, |record| record.dropped = true);
            }
            JournalEntry::TablesDropped { build } => {
                self.change(*build, |record| record.tables_dropped = true);
            }
        }
    }

    fn change(&mut self, build: u32, change: impl FnOnce(&mut BuildRecord)) {
        if let Some(record) = self.builds.get_mut(&build) {
            change(record);
        }
    }
}
