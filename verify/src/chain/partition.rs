//! Owns the check of one partition. It reads the records once, from the first that was folded with
//! heads to the last that is folded, and computes the head of each commit. Invariant: where a
//! computed head differs from the stored one, the commit is reported, and the check continues from
//! the stored head, so that every commit that was tampered with is found.

use std::collections::VecDeque;

use indicatif::ProgressBar;
use payfold_engines::EngineError;
use payfold_engines::log::{Delivered, EventLog, Topic};
use payfold_engines::orders::Folded;
use payfold_schemas::chain::Head;
use payfold_schemas::digest::Digest;
use payfold_schemas::position::Position;

use crate::chain::anchored::Anchored;
use crate::subject::Subject;
use crate::verification::Verification;

const PAGE: usize = 5_000;
/// How many wrong records of one commit are reported.
const NAMED_MAX: usize = 5;

/// The check of one partition and its state.
pub(crate) struct PartitionCheck<'a> {
    subject: &'a Subject,
    /// The last folded record.
    folded: Folded,
    /// The anchors of this partition.
    anchors: Vec<Anchored>,
    /// Stored heads of commits that were not reached yet.
    stored: VecDeque<(Position, Head)>,
    /// The position of the last stored head that was read.
    stored_to: Position,
    /// The computed head after the record at `at`.
    head: Head,
    at: Position,
    /// The end of the last commit that was correct or was reported.
    commit_before: Position,
}

impl<'a> PartitionCheck<'a> {
    /// Makes the check of a partition; nothing is read yet.
    pub(crate) fn new(subject: &'a Subject, folded: Folded, anchors: Vec<Anchored>) -> Self {
        let start = Position { offset: 0, ..folded.position };
        let head = Head::genesis(subject.log.id(), start.partition);
        let stored = VecDeque::new();
        Self {
            subject,
            folded,
            anchors,
            stored,
            stored_to: start,
            head,
            at: start,
            commit_before: start,
        }
    }

    /// The partition's last position and head; `None` if it was folded without heads, or the log
    /// ends before.
    pub(crate) fn end(&self) -> Option<Anchored> {
        let Position { partition, offset } = self.folded.position;
        let head = self.folded.head.filter(|_| self.at.offset >= offset)?;
        Some(Anchored { partition, offset, head })
    }

    /// Checks the partition up to its last folded record; adds differences to `verification`.
    pub(crate) async fn check(
        &mut self,
        verification: &mut Verification,
        progress: &ProgressBar,
    ) -> Result<(), EngineError> {
        self.read_heads().await?;
        self.resume(verification).await?;
        while self.at.offset < self.folded.position.offset {
            let page = match read_next(&*self.subject.log, (Topic::Intake, self.at)).await? {
                ReadResult::Records(page) if page.is_empty() => break,
                ReadResult::Records(page) => page,
                ReadResult::Gap => {
                    self.at.offset = self.at.offset.saturating_add(1);
                    continue;
                }
            };
            progress.inc(u64::try_from(page.len()).unwrap_or(u64::MAX));
            for record in page {
                if record.position.offset > self.folded.position.offset {
                    break;
                }
                self.add_record(&record, verification).await?;
            }
            self.more_heads().await?;
        }
        self.finish(verification).await
    }

    async fn read_heads(&mut self) -> Result<(), EngineError> {
        let heads = self.subject.store.heads(self.stored_to, PAGE).await?;
        if let Some((last, _)) = heads.last() {
            self.stored_to = *last;
        }
        self.stored.extend(heads);
        Ok(())
    }

    /// Starts at the first stored head, if an older version folded the records before it without
    /// heads.
    async fn resume(&mut self, verification: &mut Verification) -> Result<(), EngineError> {
        let Some((position, head)) = self.stored.front().copied() else {
            if self.folded.head.is_none() {
                verification.differs(
                    &"-",
                    "chain",
                    &format!("folded to {}", self.folded.position),
                    &"nothing was chained; it begins when the next record is folded",
                );
            }
            return Ok(());
        };
        let before = Position { offset: position.offset.saturating_sub(1), ..position };
        let ReadResult::Records(page) =
            read_next(&*self.subject.log, (Topic::Intake, before)).await?
        else {
            return Ok(());
        };
        let Some(record) = page.first().filter(|record| record.position == position) else {
            return Ok(());
        };
        let value = Digest::of_bytes(&record.value);
        if Head::resumed(self.subject.log.id(), position, value) == head {
            (self.head, self.at, self.commit_before) = (head, position, position);
            self.stored.pop_front();
        }
        Ok(())
    }

    /// Adds a record to the chain, and compares with the stored head and the anchor at it.
    async fn add_record(
        &mut self,
        record: &Delivered,
        verification: &mut Verification,
    ) -> Result<(), EngineError> {
        verification.records += 1;
        let position = record.position;
        // The last record of a commit is missing.
        while let Some((end, head)) = self.stored.front().copied()
            && end.offset < position.offset
        {
            self.report_commit(end, verification).await?;
            (self.head, self.commit_before) = (head, end);
            self.stored.pop_front();
            self.more_heads().await?;
        }
        self.head = self.head.after(position, &record.key, &record.value);
        self.at = position;
        self.compare_anchor(position, verification);
        if self.stored.front().is_some_and(|(end, _)| *end == position) {
            let (_, head) = self.stored.pop_front().expect("it was looked at");
            if head != self.head {
                self.report_commit(position, verification).await?;
            }
            (self.head, self.commit_before) = (head, position);
            self.more_heads().await?;
        }
        Ok(())
    }

    async fn more_heads(&mut self) -> Result<(), EngineError> {
        if self.stored.is_empty() { self.read_heads().await } else { Ok(()) }
    }

    /// Compares the computed head with the anchor at this position.
    fn compare_anchor(&self, position: Position, verification: &mut Verification) {
        let known = self.anchors.iter().find(|known| known.position() == position);
        if let Some(known) = known.filter(|known| known.head != self.head) {
            verification.differs(
                &"-",
                "anchor",
                &format!("{position}: {}", self.head),
                &format!("{}; something up to there was changed since", known.head),
            );
        }
    }

    /// Reports the commit that ends at `end`, with what is wrong in it.
    async fn report_commit(
        &self,
        end: Position,
        verification: &mut Verification,
    ) -> Result<(), EngineError> {
        let first = Position { offset: self.commit_before.offset.saturating_add(1), ..end };
        let wrong = describe_damage(&*self.subject.log, (first, end)).await?;
        verification.differs(&"-", "chain", &format!("the commit of {first} to {end}"), &wrong);
        Ok(())
    }

    /// Reports a missing end of the log, a wrong last head, and anchors that were not reached.
    async fn finish(&mut self, verification: &mut Verification) -> Result<(), EngineError> {
        let folded = self.folded.position;
        if self.at.offset < folded.offset {
            let (at, to) = (self.at, format!("folded to {folded}"));
            verification.differs(
                &"-",
                "chain",
                &to,
                &format!("the log ends at {at}: its tail is gone"),
            );
            return Ok(());
        }
        if self.folded.head.is_some_and(|head| head != self.head) {
            self.report_commit(folded, verification).await?;
        }
        let unmet = self.anchors.iter().filter(|known| known.offset > folded.offset);
        for known in unmet {
            let to = format!("folded to {folded}");
            verification.differs(&"-", "anchor", &to, &format!("a head at {}", known.position()));
        }
        Ok(())
    }
}

/// What a log returns after a position.
pub(crate) enum ReadResult {
    /// Records; empty at the end of the partition.
    Records(Vec<Delivered>),
    /// The next record is missing or unreadable, so the engine can't read past it.
    Gap,
}

/// Reads a topic after a position; a gap is a result and no error. Errors: the log's, except a gap.
pub(crate) async fn read_next(
    log: &dyn EventLog,
    (topic, after): (Topic, Position),
) -> Result<ReadResult, EngineError> {
    let mut limit = PAGE;
    loop {
        match log.read_after(topic, after, limit).await {
            Ok(page) => return Ok(ReadResult::Records(page)),
            // A record of the page is missing, maybe not the first one: try a smaller page.
            Err(EngineError::Corrupt(_)) if limit > 1 => limit /= 2,
            Err(EngineError::Corrupt(_)) => return Ok(ReadResult::Gap),
            Err(error) => return Err(error),
        }
    }
}

/// Describes what is wrong from `first` to `end`, as far as the records show it.
async fn describe_damage(
    log: &dyn EventLog,
    (first, end): (Position, Position),
) -> Result<String, EngineError> {
    let mut wrong = Vec::new();
    let mut expected = first.offset;
    let mut place = Position { offset: first.offset.saturating_sub(1), ..first };
    'pages: while place.offset < end.offset && wrong.len() < NAMED_MAX {
        let page = match read_next(log, (Topic::Intake, place)).await? {
            ReadResult::Records(page) if page.is_empty() => break,
            ReadResult::Records(page) => page,
            ReadResult::Gap => {
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
            if let Err(error) = record.record() {
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
