//! Owns the check of one partition: its records are read once, from the first that was folded under a head to the last that
//! is folded, and the head of each commit has to come out. Invariant: where one does not, the commit is named, and the
//! check goes on from the head that was kept, so that every commit that was tampered with is found.

use std::collections::VecDeque;

use indicatif::ProgressBar;
use payfold_engines::EngineError;
use payfold_engines::log::{Delivered, EventLog, Topic};
use payfold_engines::orders::Folded;
use payfold_schemas::chain::Head;
use payfold_schemas::digest::Digest;
use payfold_schemas::record::{Position, Record};

use super::super::Verdict;
use super::anchor::Anchored;
use crate::wiring::Engines;

const PAGE: usize = 5_000;
/// How many places of one commit are named.
const NAMED_MAX: usize = 5;

/// One partition and how far it is checked.
pub struct Partition<'a> {
    engines: &'a Engines,
    /// How far it is folded.
    folded: Folded,
    /// Heads that were remembered elsewhere, to be met on the way.
    remembered: Vec<Anchored>,
    /// Heads of commits that are still to be met.
    kept: VecDeque<(Position, Head)>,
    /// The last of them that was read.
    kept_to: Position,
    /// What came out so far, and after which record.
    head: Head,
    at: Position,
    /// The end of the last commit that came out right or was named.
    commit_before: Position,
}

impl<'a> Partition<'a> {
    /// Nothing of it is checked yet.
    pub fn new(engines: &'a Engines, folded: Folded, remembered: Vec<Anchored>) -> Self {
        let start = Position { offset: 0, ..folded.position };
        let head = Head::genesis(engines.log.id(), start.partition);
        let kept = VecDeque::new();
        Self {
            engines,
            folded,
            remembered,
            kept,
            kept_to: start,
            head,
            at: start,
            commit_before: start,
        }
    }

    /// Where it ends and with which head; none while nothing of it was folded under a head.
    pub fn end(&self) -> Option<Anchored> {
        let Position { partition, offset } = self.folded.position;
        let head = self.folded.head.filter(|_| self.at.offset >= offset)?;
        Some(Anchored { partition, offset, head })
    }

    /// Reads it to where it is folded. What differs goes to `verdict`.
    pub async fn check(&mut self, verdict: &mut Verdict, bar: &ProgressBar) -> anyhow::Result<()> {
        self.read_heads().await?;
        self.resume(verdict).await?;
        while self.at.offset < self.folded.position.offset {
            let page = match next(&*self.engines.log, (Topic::Intake, self.at)).await? {
                Next::Records(page) if page.is_empty() => break,
                Next::Records(page) => page,
                Next::Gap => {
                    self.at.offset = self.at.offset.saturating_add(1);
                    continue;
                }
            };
            bar.inc(u64::try_from(page.len())?);
            for record in page {
                if record.position.offset > self.folded.position.offset {
                    break;
                }
                self.take(&record, verdict).await?;
            }
            if self.kept.is_empty() {
                self.read_heads().await?;
            }
        }
        self.finish(verdict).await
    }

    async fn read_heads(&mut self) -> anyhow::Result<()> {
        let heads = self.engines.store()?.heads(self.kept_to, PAGE).await?;
        if let Some((last, _)) = heads.last() {
            self.kept_to = *last;
        }
        self.kept.extend(heads);
        Ok(())
    }

    /// Begins where the folding went on of a store of before there were heads, if this is one.
    async fn resume(&mut self, verdict: &mut Verdict) -> anyhow::Result<()> {
        let Some((position, head)) = self.kept.front().copied() else {
            if self.folded.head.is_none() {
                verdict.differs(
                    &"-",
                    "chain",
                    &format!("folded to {}", self.folded.position),
                    &"nothing was chained; it begins when the next record is folded",
                );
            }
            return Ok(());
        };
        let before = Position { offset: position.offset.saturating_sub(1), ..position };
        let Next::Records(page) = next(&*self.engines.log, (Topic::Intake, before)).await? else {
            return Ok(());
        };
        let Some(record) = page.first().filter(|record| record.position == position) else {
            return Ok(());
        };
        let value = Digest::of_bytes(&record.value);
        if Head::resumed(self.engines.log.id(), position, value) == head {
            (self.head, self.at, self.commit_before) = (head, position, position);
            self.kept.pop_front();
        }
        Ok(())
    }

    /// One more record: what was to be met before it or at it is met.
    async fn take(&mut self, record: &Delivered, verdict: &mut Verdict) -> anyhow::Result<()> {
        verdict.records += 1;
        let position = record.position;
        // The record a commit ended at is not there.
        while let Some((end, head)) = self.kept.front().copied()
            && end.offset < position.offset
        {
            self.name(end, verdict).await?;
            (self.head, self.commit_before) = (head, end);
            self.kept.pop_front();
            self.more_heads().await?;
        }
        self.head = self.head.after(position, &record.key, &record.value);
        self.at = position;
        self.remember(position, verdict);
        if self.kept.front().is_some_and(|(end, _)| *end == position) {
            let (_, head) = self.kept.pop_front().expect("it was looked at");
            if head != self.head {
                self.name(position, verdict).await?;
            }
            (self.head, self.commit_before) = (head, position);
            self.more_heads().await?;
        }
        Ok(())
    }

    async fn more_heads(&mut self) -> anyhow::Result<()> {
        if self.kept.is_empty() { self.read_heads().await } else { Ok(()) }
    }

    /// Compares what came out with what was remembered elsewhere.
    fn remember(&self, position: Position, verdict: &mut Verdict) {
        let known = self.remembered.iter().find(|known| known.position() == position);
        if let Some(known) = known.filter(|known| known.head != self.head) {
            verdict.differs(
                &"-",
                "anchor",
                &format!("{position}: {}", self.head),
                &format!("{}; something up to there was changed since", known.head),
            );
        }
    }

    /// Names the commit that ends at `end` and what of it can be told.
    async fn name(&self, end: Position, verdict: &mut Verdict) -> anyhow::Result<()> {
        let first = Position { offset: self.commit_before.offset.saturating_add(1), ..end };
        let told = told(&*self.engines.log, (first, end)).await?;
        verdict.differs(&"-", "chain", &format!("the commit of {first} to {end}"), &told);
        Ok(())
    }

    /// What is left: heads nothing came to, and the head the store stands at.
    async fn finish(&mut self, verdict: &mut Verdict) -> anyhow::Result<()> {
        let folded = self.folded.position;
        if self.at.offset < folded.offset {
            let (at, to) = (self.at, format!("folded to {folded}"));
            verdict.differs(&"-", "chain", &to, &format!("the log ends at {at}: its tail is gone"));
            return Ok(());
        }
        if self.folded.head.is_some_and(|head| head != self.head) {
            self.name(folded, verdict).await?;
        }
        let unmet = self.remembered.iter().filter(|known| known.offset > folded.offset);
        for known in unmet {
            let to = format!("folded to {folded}");
            verdict.differs(&"-", "anchor", &to, &format!("a head at {}", known.position()));
        }
        Ok(())
    }
}

/// What a log gives after a place.
pub enum Next {
    /// Records; none at its end.
    Records(Vec<Delivered>),
    /// The next record is not there or can't be read, which the engine stops at.
    Gap,
}

/// Reads on in a topic behind a place; a gap is no error. Errors: the log's, but for a gap.
pub async fn next(
    log: &dyn EventLog,
    (topic, after): (Topic, Position),
) -> Result<Next, EngineError> {
    let mut limit = PAGE;
    loop {
        match log.read_after(topic, after, limit).await {
            Ok(page) => return Ok(Next::Records(page)),
            // Something of the page is not there, perhaps not the first of it.
            Err(EngineError::Corrupt(_)) if limit > 1 => limit /= 2,
            Err(EngineError::Corrupt(_)) => return Ok(Next::Gap),
            Err(error) => return Err(error),
        }
    }
}

/// What is wrong between two places, as far as the records themselves tell.
async fn told(log: &dyn EventLog, (first, end): (Position, Position)) -> anyhow::Result<String> {
    let mut wrong = Vec::new();
    let mut expected = first.offset;
    let mut place = Position { offset: first.offset.saturating_sub(1), ..first };
    'pages: while place.offset < end.offset && wrong.len() < NAMED_MAX {
        let page = match next(log, (Topic::Intake, place)).await? {
            Next::Records(page) if page.is_empty() => break,
            Next::Records(page) => page,
            Next::Gap => {
                place.offset = place.offset.saturating_add(1);
                continue;
            }
        };
        for record in page {
            if record.position.offset > end.offset {
                break 'pages;
            }
            if record.position.offset > expected {
                wrong.push(missing(Position { offset: expected, ..first }, record.position.offset));
            }
            if let Err(error) = Record::decode(&record.value) {
                wrong.push(format!("{}: {error}", record.position));
            }
            (expected, place) = (record.position.offset.saturating_add(1), record.position);
        }
    }
    if expected <= end.offset && wrong.len() < NAMED_MAX {
        wrong.push(missing(Position { offset: expected, ..first }, end.offset.saturating_add(1)));
    }
    Ok(if wrong.is_empty() {
        "other records than were folded: one was replaced, moved or put in".to_owned()
    } else {
        wrong.join("; ")
    })
}

fn missing(first: Position, until: u64) -> String {
    match until.saturating_sub(first.offset) {
        0 | 1 => format!("{first} is not there"),
        count => format!("{first} and the {} after it are not there", count - 1),
    }
}
