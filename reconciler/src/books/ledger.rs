//! Owns what is known of findings, runs and closed days: the fold of the `findings` topic. Invariant: of two events with one
//! id the first stands, and a finding is what its highest version says. Findings lie on the `shelf`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use payfold_engines::EngineError;
use payfold_engines::log::{Delivered, EventLog, Extent, Topic};
use payfold_schemas::decision::{FLAG_DECIDED_TYPE, FlagDecided};
use payfold_schemas::digest::Digest;
use payfold_schemas::finding::{FINDING_CHANGED_TYPE, FindingChanged, FindingStatus};
use payfold_schemas::ids::{OrderKey, PartnerCode};
use payfold_schemas::order::Flag;
use payfold_schemas::record::Position;
use payfold_schemas::release::{NOTICE_DECIDED_TYPE, NoticeDecided, NoticeVerdict};
use payfold_schemas::run::{PERIOD_CLOSED_TYPE, PeriodClosed, RUN_ENDED_TYPE, RunEnded};

use super::shelf::{Of, Shelf, ShelfError, Which};

/// Messages of one page.
const PAGE: usize = 1_000;

/// Partner and day.
pub type Day = (PartnerCode, String);

/// What the topic says, up to where it was read.
#[derive(Debug)]
pub struct Ledger {
    places: BTreeMap<u32, u64>,
    shelf: Shelf,
    runs: BTreeMap<Day, RunEnded>,
    /// How often the same records of a day were compared to the end.
    compared: HashMap<(Day, Digest), BTreeSet<String>>,
    /// The day of each run that has ended.
    days: HashMap<String, String>,
    closed: BTreeMap<Day, PeriodClosed>,
    /// First words on critical flags that wait for a second person, and decided ones.
    flags: Vec<FlagDecided>,
    /// Words on quarantined notices, as they were said.
    notices: BTreeMap<Position, Vec<NoticeDecided>>,
}

impl Ledger {
    /// Knows nothing yet, and keeps what it learns in memory: for who lists and ends.
    /// Errors: there is no memory.
    pub fn in_memory() -> Result<Self, ShelfError> {
        Shelf::in_memory().map(Self::over)
    }

    /// Knows nothing yet, and keeps findings in a file of this folder, which is gone with the process.
    /// Errors: the folder's disk.
    pub fn in_folder(folder: &Path) -> Result<Self, ShelfError> {
        Shelf::in_folder(folder).map(Self::over)
    }

    fn over(shelf: Shelf) -> Self {
        Self {
            places: BTreeMap::new(),
            shelf,
            runs: BTreeMap::new(),
            compared: HashMap::new(),
            days: HashMap::new(),
            closed: BTreeMap::new(),
            flags: Vec::new(),
            notices: BTreeMap::new(),
        }
    }

    /// Reads on to the topic's end as it is now. Errors: the log's; `Corrupt` for an event that can't be read.
    pub async fn catch_up(&mut self, log: &dyn EventLog) -> Result<(), EngineError> {
        for extent in log.extent(Topic::Findings).await? {
            self.read_partition(log, &extent).await?;
        }
        Ok(())
    }

    async fn read_partition(
        &mut self,
        log: &dyn EventLog,
        extent: &Extent,
    ) -> Result<(), EngineError> {
        let partition = extent.partition;
        let mut offset =
            self.places.get(&partition).copied().unwrap_or(extent.first.saturating_sub(1));
        while offset < extent.last {
            let page =
                log.read_after(Topic::Findings, Position { partition, offset }, PAGE).await?;
            let Some(last) = page.last() else { break };
            offset = last.position.offset;
            let mut changes = Vec::with_capacity(page.len());
            for message in &page {
                changes.extend(self.apply(message)?);
            }
            self.shelf.put(&changes)?;
            self.places.insert(partition, offset);
        }
        Ok(())
    }

    /// Folds one message, or hands out the change of a finding. Events of other types are other people's.
    /// Errors: `Corrupt`.
    fn apply(&mut self, message: &Delivered) -> Result<Option<FindingChanged>, EngineError> {
        let kind = message.event.as_ref().map_or("", |event| event.kind.as_str());
        let unreadable = |error: serde_json::Error| {
            EngineError::Corrupt(format!(
                "the {kind} at {} of findings can't be read: {error}; upgrade if a newer version wrote it",
                message.position
            ))
        };
        match kind {
            FINDING_CHANGED_TYPE => {
                let mut changed: FindingChanged =
                    serde_json::from_slice(&message.value).map_err(unreadable)?;
                if changed.status == FindingStatus::Cleared {
                    changed.lines = Vec::new();
                }
                return Ok(Some(changed));
            }
            RUN_ENDED_TYPE => self.run(serde_json::from_slice(&message.value).map_err(unreadable)?),
            PERIOD_CLOSED_TYPE => {
                self.close(serde_json::from_slice(&message.value).map_err(unreadable)?);
            }
            FLAG_DECIDED_TYPE => {
                self.flag(serde_json::from_slice(&message.value).map_err(unreadable)?);
            }
            NOTICE_DECIDED_TYPE => {
                self.notice(serde_json::from_slice(&message.value).map_err(unreadable)?);
            }
            _ => {}
        }
        Ok(None)
    }

    /// A word on a flag.
    pub fn flag(&mut self, said: FlagDecided) {
        if !self.flags.contains(&said) {
            self.flags.push(said);
        }
    }

    /// Every decision on this evidence of a flag, first ones and withdrawals too, as they came.
    pub fn decisions_on_flag<'a>(
        &'a self,
        (order, flag): (&'a OrderKey, Flag),
        evidence: Digest,
    ) -> impl DoubleEndedIterator<Item = &'a FlagDecided> {
        let on_it = move |said: &&FlagDecided| {
            said.order == *order && said.flag == flag && said.evidence == evidence
        };
        self.flags.iter().filter(on_it)
    }

    /// The decision on this evidence of a flag, once it takes no other person.
    pub fn decided_flag<'a>(
        &'a self,
        of: (&'a OrderKey, Flag),
        evidence: Digest,
    ) -> Option<&'a FlagDecided> {
        self.decisions_on_flag(of, evidence).find(|said| said.decision_id.is_some())
    }

    /// The first decision on this evidence of a flag, while it waits for a second person.
    pub fn waiting<'a>(
        &'a self,
        of: (&'a OrderKey, Flag),
        evidence: Digest,
    ) -> Option<&'a FlagDecided> {
        let last = self.decisions_on_flag(of, evidence).next_back();
        last.filter(|said| !said.withdrawn && self.decided_flag(of, evidence).is_none())
    }

    /// Every word on a flag, as they were said.
    pub fn flags(&self) -> impl Iterator<Item = &FlagDecided> {
        self.flags.iter()
    }

    /// A word on a quarantined notice.
    pub fn notice(&mut self, said: NoticeDecided) {
        let words = self.notices.entry(said.position).or_default();
        if !words.iter().any(|known| known.event_id() == said.event_id()) {
            words.push(said);
        }
    }

    /// Every word on quarantined notices, by position.
    pub fn notices(&self) -> impl Iterator<Item = &NoticeDecided> {
        self.notices.values().flatten()
    }

    /// Every word on one quarantined notice, as they were said.
    pub fn words_on_notice(
        &self,
        position: Position,
        evidence: Digest,
    ) -> impl DoubleEndedIterator<Item = &NoticeDecided> {
        let words = self.notices.get(&position).map(Vec::as_slice).unwrap_or_default();
        words.iter().filter(move |said| said.evidence == evidence)
    }

    /// What became of a notice: its release, or else that it was dismissed.
    pub fn decided_notice(&self, position: Position, evidence: Digest) -> Option<&NoticeDecided> {
        let decided = || self.words_on_notice(position, evidence).filter(|said| said.decided);
        decided().find(|said| said.verdict == NoticeVerdict::Release).or_else(|| decided().next())
    }

    /// The word on a notice that waits for a second person's.
    pub fn waiting_notice(&self, position: Position, evidence: Digest) -> Option<&NoticeDecided> {
        let last = self.words_on_notice(position, evidence).next_back();
        last.filter(|said| !said.withdrawn && self.decided_notice(position, evidence).is_none())
    }

    fn run(&mut self, ended: RunEnded) {
        let day = (ended.partner.clone(), ended.day.clone());
        let runs = self.compared.entry((day.clone(), ended.records.sha256)).or_default();
        self.days.insert(ended.run.clone(), ended.day.clone());
        if runs.insert(ended.run.clone()) {
            self.runs.insert(day, ended);
        }
    }

    fn close(&mut self, closed: PeriodClosed) {
        self.closed.entry((closed.partner.clone(), closed.day.clone())).or_insert(closed);
    }

    /// The finding of this id. Errors: the disk.
    pub fn find(&self, id: &str) -> Result<Option<FindingChanged>, ShelfError> {
        self.shelf.find(id)
    }

    /// These findings, by id. Errors: the disk.
    pub fn findings<'a>(
        &'a self,
        which: Which<'a>,
    ) -> impl Iterator<Item = Result<FindingChanged, ShelfError>> + 'a {
        self.shelf.findings(which)
    }

    /// The findings of an order that stand. Errors: the disk.
    pub fn of_order(&self, order: &OrderKey) -> Result<Vec<FindingChanged>, ShelfError> {
        self.shelf.of_order(order)
    }

    /// Where they lie.
    pub(crate) fn shelf(&self) -> &Shelf {
        &self.shelf
    }

    /// The last run of each day, by partner and day.
    pub fn runs(&self) -> impl DoubleEndedIterator<Item = &RunEnded> {
        self.runs.values()
    }

    /// The last run of a day.
    pub fn run_of(&self, day: &Day) -> Option<&RunEnded> {
        self.runs.get(day)
    }

    /// The day whose run changed a finding last; none if no run did, or it has not ended.
    pub(crate) fn day_of_run(&self, known: &FindingChanged) -> Option<&str> {
        known.run.as_ref().and_then(|run| self.days.get(run)).map(String::as_str)
    }

    /// How many findings of a day are open, without those that are only worth knowing, and how many are decided, as of now.
    /// Errors: the disk.
    pub fn open_and_decided(&self, (partner, day): &Day) -> Result<(u64, u64), ShelfError> {
        let counts = self.shelf.count(partner, Of::Day(day))?;
        Ok((counts.loud, counts.decided))
    }

    /// How often these records of a day were compared to the end.
    pub fn times_compared(&self, day: &Day, records: Digest) -> usize {
        self.compared.get(&(day.clone(), records)).map_or(0, BTreeSet::len)
    }

    /// The seal of a day, if it is closed.
    pub fn closed(&self, day: &Day) -> Option<&PeriodClosed> {
        self.closed.get(day)
    }
}
