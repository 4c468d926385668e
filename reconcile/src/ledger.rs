//! Owns the ledger: the fold of the `findings` topic into findings, runs, decisions, closed days
//! and actions of people. Invariants: of two events with the same id the first counts. The ledger's
//! version of a finding is the highest version it has read. The findings themselves are in a
//! `findings_store`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use payfold_engines::EngineError;
use payfold_engines::log::{Delivered, DeliveredEvent, EventLog, Extent, Topic};
use payfold_schemas::decision::{FLAG_DECIDED_TYPE, FlagDecided};
use payfold_schemas::digest::Digest;
use payfold_schemas::finding::{FINDING_CHANGED_TYPE, FindingChanged, FindingStatus};
use payfold_schemas::ids::{Author, OrderKey, PartnerCode};
use payfold_schemas::order::Flag;
use payfold_schemas::position::Position;
use payfold_schemas::raw_read::RAW_READ_TYPE;
use payfold_schemas::release::{NOTICE_DECIDED_TYPE, NoticeDecided, NoticeVerdict};
use payfold_schemas::run::{PERIOD_CLOSED_TYPE, PeriodClosed, RUN_ENDED_TYPE, RunEnded};
use payfold_schemas::time::Time;
use payfold_schemas::token::{TOKEN_RECORDED_TYPE, TokenChange, TokenRecorded};

use super::findings_store::{
    ActionFilter, DayFindings, FindingFilter, FindingsStore, FindingsStoreError,
};
use super::other_days::OtherDays;
use super::person_action::PersonAction;
use super::unproved;

/// Messages that one read of the log returns.
const PAGE: usize = 1_000;

/// A partner and one of its days.
pub(crate) type PartnerDay = (PartnerCode, String);

/// What the store holds of one page of the topic.
#[derive(Default)]
struct PageRead {
    findings: Vec<FindingChanged>,
    /// When each change of a finding was made.
    times: Vec<String>,
    actions: Vec<PersonAction>,
}

/// The fold of the topic, up to the offsets read so far.
#[derive(Debug)]
pub struct Ledger {
    offsets: BTreeMap<u32, u64>,
    store: FindingsStore,
    /// Whether people's actions are stored, which no comparison needs.
    keeps_actions: bool,
    runs: BTreeMap<PartnerDay, RunEnded>,
    /// What each partner's last runs say of each other's days.
    other_days: HashMap<PartnerCode, Arc<OtherDays>>,
    /// The runs that ended, by day and digest of the records. A repeated run with the same records
    /// gets a number of its own.
    compared: HashMap<(PartnerDay, Digest), BTreeSet<String>>,
    /// The day of each run that has ended, by run id.
    days: HashMap<String, String>,
    closed: BTreeMap<PartnerDay, PeriodClosed>,
    /// Every decision and withdrawal on flags, in the order they came.
    flag_decisions: BTreeMap<OrderKey, Vec<FlagDecided>>,
    /// Every decision and withdrawal on quarantined notices, in the order they came.
    notice_decisions: BTreeMap<Position, Vec<NoticeDecided>>,
    /// The tokens of people that are not removed, by their digest.
    tokens: BTreeMap<Digest, TokenRecorded>,
}

impl Ledger {
    /// An empty ledger with its findings in memory, for readers; it has people's actions, too.
    /// Errors: SQLite can't make the table.
    pub fn in_memory() -> Result<Self, FindingsStoreError> {
        let ledger = FindingsStore::in_memory().map(Self::with_store)?;
        Ok(Self { keeps_actions: true, ..ledger })
    }

    /// An empty ledger with its findings in a temporary file of this folder, which ends with the
    /// process. Errors: the disk.
    pub(crate) fn in_folder(folder: &Path) -> Result<Self, FindingsStoreError> {
        FindingsStore::in_folder(folder).map(Self::with_store)
    }

    fn with_store(store: FindingsStore) -> Self {
        Self {
            offsets: BTreeMap::new(),
            store,
            keeps_actions: false,
            runs: BTreeMap::new(),
            other_days: HashMap::new(),
            compared: HashMap::new(),
            days: HashMap::new(),
            closed: BTreeMap::new(),
            flag_decisions: BTreeMap::new(),
            notice_decisions: BTreeMap::new(),
            tokens: BTreeMap::new(),
        }
    }

    /// Reads and folds the topic up to its present end. Errors: the log's; `Corrupt` for an event
    /// that can't be parsed.
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
            self.offsets.get(&partition).copied().unwrap_or(extent.first.saturating_sub(1));
        while offset < extent.last {
            let page =
                log.read_after(Topic::Findings, Position { partition, offset }, PAGE).await?;
            let Some(last) = page.last() else { break };
            offset = last.position.offset;
            let mut read = PageRead::default();
            for message in &page {
                self.apply(message, &mut read)?;
            }
            self.store(read)?;
            self.offsets.insert(partition, offset);
        }
        Ok(())
    }

    /// Stores what was read of a page. The decisions of a version that is ignored were refused, so
    /// they are no actions.
    fn store(&self, read: PageRead) -> Result<(), FindingsStoreError> {
        let PageRead { findings, times, mut actions } = read;
        let stored = self.store.upsert(&findings)?;
        if self.keeps_actions {
            let changed = findings.iter().zip(&times).zip(stored);
            let changed = changed.filter_map(|(changed, is_stored)| is_stored.then_some(changed));
            actions.extend(changed.flat_map(|(one, at)| PersonAction::on_finding(one, at)));
            self.store.add_actions(&actions)?;
        }
        Ok(())
    }

    /// Folds one message. What the store holds is put into `read`. Events of other types are
    /// ignored, and so is what no role of this system wrote. Errors: `Corrupt`.
    fn apply(&mut self, message: &Delivered, read: &mut PageRead) -> Result<(), EngineError> {
        let Some(DeliveredEvent { kind, time, .. }) = &message.event else { return Ok(()) };
        let unreadable = |error: serde_json::Error| {
            EngineError::Corrupt(format!(
                "the {kind} at {} of the findings topic can't be parsed: {error}; if a newer \
                 version of payfold wrote it, upgrade this one",
                message.position
            ))
        };
        let Some(value) = unproved::value_of(message) else { return Ok(()) };
        match kind.as_str() {
            FINDING_CHANGED_TYPE => {
                let mut changed: FindingChanged =
                    serde_json::from_slice(value).map_err(unreadable)?;
                if changed.status == FindingStatus::Cleared {
                    changed.lines = Vec::new();
                }
                read.findings.push(changed);
                read.times.push(time.clone());
            }
            RUN_ENDED_TYPE => {
                let ended = serde_json::from_slice(value).map_err(unreadable)?;
                read.actions.extend(PersonAction::on_run(&ended));
                self.add_run(ended);
            }
            PERIOD_CLOSED_TYPE => {
                let closed = serde_json::from_slice(value).map_err(unreadable)?;
                read.actions.push(PersonAction::on_day(&closed));
                self.add_closing(closed);
            }
            FLAG_DECIDED_TYPE => {
                let said = serde_json::from_slice(value).map_err(unreadable)?;
                read.actions.push(PersonAction::on_flag(&said));
                self.add_flag_decision(said);
            }
            RAW_READ_TYPE if self.keeps_actions => {
                let looked = serde_json::from_slice(value).map_err(unreadable)?;
                read.actions.push(PersonAction::on_bytes(&looked));
            }
            NOTICE_DECIDED_TYPE => {
                let said = serde_json::from_slice(value).map_err(unreadable)?;
                read.actions.push(PersonAction::on_notice(&said));
                self.add_notice_decision(said);
            }
            TOKEN_RECORDED_TYPE => {
                let recorded = serde_json::from_slice(value).map_err(unreadable)?;
                let action = PersonAction::on_token(&recorded);
                if self.add_token(recorded) {
                    read.actions.push(action);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Adds a change of a token, and returns whether it is one: another process may have found it,
    /// too. A token that is added once more, with the same owner and role, keeps its time.
    pub(crate) fn add_token(&mut self, recorded: TokenRecorded) -> bool {
        match recorded.change {
            TokenChange::Removed => self.tokens.remove(&recorded.token).is_some(),
            TokenChange::Added => {
                let known = self.tokens.get(&recorded.token);
                let is_change = known.is_none_or(|known| !known.is_same_as(&recorded));
                if is_change {
                    self.tokens.insert(recorded.token, recorded);
                }
                is_change
            }
        }
    }

    /// When the newest token of a person was recorded.
    pub(crate) fn newest_token_of(&self, person: &Author) -> Option<Time> {
        let tokens = self.tokens.values().filter(|token| token.owner == *person);
        tokens.map(|token| token.at).max()
    }

    /// The selected actions of people, the newest first. Errors: the findings store.
    pub fn actions(
        &self,
        which: ActionFilter<'_>,
    ) -> Result<Vec<PersonAction>, FindingsStoreError> {
        self.store.actions(which)
    }

    /// The tokens of people that are not removed.
    pub fn tokens(&self) -> &BTreeMap<Digest, TokenRecorded> {
        &self.tokens
    }

    /// Adds a decision on a flag, or its withdrawal; a repeated event is ignored.
    pub(crate) fn add_flag_decision(&mut self, said: FlagDecided) {
        let decisions = self.flag_decisions.entry(said.order.clone()).or_default();
        if !decisions.contains(&said) {
            decisions.push(said);
        }
    }

    /// Every decision and withdrawal on this evidence of a flag, in the order they came.
    pub(crate) fn decisions_on_flag<'a>(
        &'a self,
        (order, flag): (&'a OrderKey, Flag),
        evidence: Digest,
    ) -> impl DoubleEndedIterator<Item = &'a FlagDecided> {
        let on_it = move |said: &&FlagDecided| said.flag == flag && said.evidence == evidence;
        self.flags_of(order).iter().filter(on_it)
    }

    /// The final decision on this evidence of a flag.
    pub(crate) fn decided_flag<'a>(
        &'a self,
        of: (&'a OrderKey, Flag),
        evidence: Digest,
    ) -> Option<&'a FlagDecided> {
        self.decisions_on_flag(of, evidence).find(|said| said.decision_id.is_some())
    }

    /// The first decision on this evidence of a flag, while it waits for a second person.
    pub fn waiting_flag_decision<'a>(
        &'a self,
        of: (&'a OrderKey, Flag),
        evidence: Digest,
    ) -> Option<&'a FlagDecided> {
        let last = self.decisions_on_flag(of, evidence).next_back();
        last.filter(|said| !said.withdrawn && self.decided_flag(of, evidence).is_none())
    }

    /// Every decision and withdrawal on flags, by order.
    pub fn flags(&self) -> impl Iterator<Item = &FlagDecided> {
        self.flag_decisions.values().flatten()
    }

    /// Every decision and withdrawal on the flags of an order, in the order they came.
    pub fn flags_of(&self, order: &OrderKey) -> &[FlagDecided] {
        self.flag_decisions.get(order).map(Vec::as_slice).unwrap_or_default()
    }

    /// Adds a decision on a quarantined notice, or its withdrawal; a repeated event is ignored.
    pub(crate) fn add_notice_decision(&mut self, said: NoticeDecided) {
        let decisions = self.notice_decisions.entry(said.position).or_default();
        if !decisions.iter().any(|known| known.event_id() == said.event_id()) {
            decisions.push(said);
        }
    }

    /// Every decision and withdrawal on quarantined notices, by position.
    pub fn notices(&self) -> impl Iterator<Item = &NoticeDecided> {
        self.notice_decisions.values().flatten()
    }

    /// Every decision and withdrawal on this evidence of one notice, in the order they came.
    pub fn decisions_on_notice(
        &self,
        position: Position,
        evidence: Digest,
    ) -> impl DoubleEndedIterator<Item = &NoticeDecided> {
        let decisions = self.notice_decisions.get(&position).map(Vec::as_slice).unwrap_or_default();
        decisions.iter().filter(move |said| said.evidence == evidence)
    }

    /// The final decision on a notice. A release wins over a dismissal: the released fact is in
    /// `intake` and stays there.
    pub fn decided_notice(&self, position: Position, evidence: Digest) -> Option<&NoticeDecided> {
        let decided = || self.decisions_on_notice(position, evidence).filter(|said| said.decided);
        decided().find(|said| said.verdict == NoticeVerdict::Release).or_else(|| decided().next())
    }

    /// The first decision on a notice, while it waits for a second person.
    pub fn waiting_notice(&self, position: Position, evidence: Digest) -> Option<&NoticeDecided> {
        let last = self.decisions_on_notice(position, evidence).next_back();
        last.filter(|said| !said.withdrawn && self.decided_notice(position, evidence).is_none())
    }

    fn add_run(&mut self, ended: RunEnded) {
        let day = (ended.partner.clone(), ended.day.clone());
        let runs = self.compared.entry((day.clone(), ended.records.sha256)).or_default();
        self.days.insert(ended.run.clone(), ended.day.clone());
        if runs.insert(ended.run.clone()) {
            let other_days = self.other_days.entry(ended.partner.clone()).or_default();
            Arc::make_mut(other_days).set_run(&ended);
            self.runs.insert(day, ended);
        }
    }

    fn add_closing(&mut self, closed: PeriodClosed) {
        self.closed.entry((closed.partner.clone(), closed.day.clone())).or_insert(closed);
    }

    /// The finding with this id. Errors: the findings store.
    pub(crate) fn find(&self, id: &str) -> Result<Option<FindingChanged>, FindingsStoreError> {
        self.store.find(id)
    }

    /// The selected findings, by id. Errors: the findings store.
    pub fn findings<'a>(
        &'a self,
        which: FindingFilter<'a>,
    ) -> impl Iterator<Item = Result<FindingChanged, FindingsStoreError>> + 'a {
        self.store.findings(which)
    }

    /// The uncleared findings of an order. Errors: the findings store.
    pub fn of_order(&self, order: &OrderKey) -> Result<Vec<FindingChanged>, FindingsStoreError> {
        self.store.of_order(order)
    }

    /// The store of the findings.
    pub(crate) fn findings_store(&self) -> &FindingsStore {
        &self.store
    }

    /// The last run of each day, by partner and day.
    pub fn runs(&self) -> impl DoubleEndedIterator<Item = &RunEnded> {
        self.runs.values()
    }

    /// What the partner's last runs say of each other's days.
    pub(crate) fn other_days(&self, partner: &PartnerCode) -> Arc<OtherDays> {
        self.other_days.get(partner).cloned().unwrap_or_default()
    }

    /// The last run of a day.
    pub(crate) fn run_of(&self, day: &PartnerDay) -> Option<&RunEnded> {
        self.runs.get(day)
    }

    /// The day of the run that changed a finding last; `None` if no run did, or that run has not
    /// ended.
    pub(crate) fn day_of_run(&self, known: &FindingChanged) -> Option<&str> {
        known.run.as_ref().and_then(|run| self.days.get(run)).map(String::as_str)
    }

    /// What people have to do with the findings of a day. Errors: the findings store.
    pub fn day_findings(
        &self,
        (partner, day): &PartnerDay,
    ) -> Result<DayFindings, FindingsStoreError> {
        self.store.day_findings(partner, day)
    }

    /// How many runs of a day have ended with these records.
    pub(crate) fn times_compared(&self, day: &PartnerDay, records: Digest) -> usize {
        self.compared.get(&(day.clone(), records)).map_or(0, BTreeSet::len)
    }

    /// The seal of a day, if it is closed.
    pub fn closed(&self, day: &PartnerDay) -> Option<&PeriodClosed> {
        self.closed.get(day)
    }
}
