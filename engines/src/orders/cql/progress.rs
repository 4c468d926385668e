//! Owns the progress of the fold: one cell for each partition of the log, all in one partition of
//! the database, so that one query reads them. Invariants: progress is written after the rows; it
//! never goes back, because its write timestamp is made from its position; a commit from another
//! log, or with another record at the position that was folded last, as far as this process knows,
//! is refused before any of it is written.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use payfold_schemas::chain::Head;
use payfold_schemas::digest::Digest;
use payfold_schemas::position::Position;
use payfold_schemas::publication::Publication;
use scylla::statement::prepared::PreparedStatement;

use super::link::Link;
use super::timestamp;
use crate::EngineError;
use crate::orders::{Commit, Folded, Progress};

/// The partition key of all progress: the topic that is folded.
const TOPIC: &str = "intake";

const CELL_VERSION: u8 = 1;
const CELL_BYTES: usize = 1 + 16 + 8 + 32;
/// Version 2 adds the publication, version 3 the head. A cell has the lowest version that fits.
const CELL_VERSION_SWITCHED: u8 = 2;
const SWITCHED_BYTES: usize = CELL_BYTES + 4 + 4;
const CELL_VERSION_CHAINED: u8 = 3;
const CHAINED_BYTES: usize = SWITCHED_BYTES + 32;

/// The progress that this process last read or wrote. Other processes may have folded further
/// since; progress never goes back.
#[derive(Default)]
struct KnownProgress {
    log_id: Option<[u8; 16]>,
    folded: HashMap<u32, Folded>,
}

/// The statements on progress, and the last known progress.
pub(super) struct Advance {
    select: PreparedStatement,
    insert: PreparedStatement,
    known: Mutex<KnownProgress>,
}

impl Advance {
    pub(super) async fn prepare(link: &Link, build: u32) -> Result<Self, EngineError> {
        let table = format!("{}.progress_g{build}", link.keyspace);
        let select = format!("SELECT partition, folded FROM {table} WHERE topic = '{TOPIC}'");
        let insert = format!(
            "INSERT INTO {table} (topic, partition, folded) VALUES ('{TOPIC}', ?, ?) USING \
             TIMESTAMP ?"
        );
        let (select, insert) = (link.prepare(&select).await?, link.prepare(&insert).await?);
        Ok(Self { select, insert, known: Mutex::default() })
    }

    /// Reads how far the store is folded.
    pub(super) async fn read(&self, link: &Link) -> Result<Option<Progress>, EngineError> {
        let rows = link.read(&self.select, ()).await?;
        let rows = rows.rows::<(i64, &[u8])>().map_err(|error| link.undecodable(&error))?;
        let mut progress: Option<Progress> = None;
        for row in rows {
            let (partition, cell) = row.map_err(|error| link.undecodable(&error))?;
            let (log_id, folded) = decode(partition, cell).ok_or_else(|| {
                link.address
                    .corrupt(&format!("the progress of partition {partition} does not decode"))
            })?;
            let known = progress.get_or_insert_with(|| Progress { log_id, folded: Vec::new() });
            if known.log_id != log_id {
                return Err(link.address.corrupt(
                    "the order store's progress names two logs: restore the topics and the tables \
                     of one log",
                ));
            }
            known.folded.push(folded);
        }
        if let Some(progress) = &progress {
            self.remember(progress.log_id, &progress.folded);
        }
        Ok(progress)
    }

    /// Checks that a commit belongs to the log that was folded, and that the record folded last is
    /// the same. A late commit is fine; its writes lose by their timestamps. Errors: `Corrupt`, or
    /// the read's.
    pub(super) async fn check(&self, link: &Link, commit: &Commit) -> Result<(), EngineError> {
        if self.is_ahead(commit) {
            return Ok(());
        }
        let Some(progress) = self.read(link).await? else { return Ok(()) };
        if progress.log_id != commit.log_id {
            return Err(link
                .address
                .corrupt("a commit was folded from another log than this order store"));
        }
        let rewritten = commit.folded.iter().find(|one| {
            progress
                .folded
                .iter()
                .any(|known| known.position == one.position && known.digest != one.digest)
        });
        match rewritten {
            None => Ok(()),
            Some(one) => Err(link.address.corrupt(&format!(
                "the record at {} is not the one that was folded before",
                one.position
            ))),
        }
    }

    /// Whether a commit is ahead of the known progress in every partition, so that no read is
    /// needed.
    fn is_ahead(&self, commit: &Commit) -> bool {
        let known = self.lock();
        known.log_id == Some(commit.log_id)
            && commit.folded.iter().all(|one| {
                let known = known.folded.get(&one.position.partition);
                known.is_some_and(|known| known.position.offset < one.position.offset)
            })
    }

    /// Writes the progress of a commit.
    pub(super) async fn store(&self, link: &Link, commit: &Commit) -> Result<(), EngineError> {
        link.all(commit.folded.iter().map(async |one| {
            let (partition, cell) = (i64::from(one.position.partition), encode(commit.log_id, one));
            let timestamp = timestamp::of(one.position)?;
            link.write(&self.insert, (partition, cell, timestamp)).await
        }))
        .await?;
        if !commit.folded.is_empty() {
            self.remember(commit.log_id, &commit.folded);
        }
        Ok(())
    }

    /// The heads to write with a commit: after `check`, which loads the progress, and before
    /// `store`, which replaces it. Where a partition was folded without heads before, its
    /// first head comes with the head that the chain resumes from.
    pub(super) fn heads_of(&self, commit: &Commit) -> Vec<(Position, Head)> {
        let known = self.lock();
        let mut heads = Vec::new();
        for one in &commit.folded {
            let Some(head) = one.head else { continue };
            let before = known.folded.get(&one.position.partition);
            let before = before.filter(|before| before.position.offset < one.position.offset);
            if let Some(before) = before.filter(|before| before.head.is_none()) {
                let resumed = Head::resumed(commit.log_id, before.position, before.digest);
                heads.push((before.position, resumed));
            }
            heads.push((one.position, head));
        }
        heads
    }

    fn remember(&self, log_id: [u8; 16], folded: &[Folded]) {
        let mut known = self.lock();
        known.log_id = Some(log_id);
        for one in folded {
            let entry = known.folded.entry(one.position.partition).or_insert(*one);
            if entry.position.offset < one.position.offset {
                *entry = *one;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, KnownProgress> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Encodes a cell: a version byte, the log's id, the offset (big-endian) and the record's digest;
/// from version 2 on the published build and the publication epoch (big-endian); from version 3 on
/// the head of the chain.
fn encode(log_id: [u8; 16], folded: &Folded) -> Vec<u8> {
    let mut cell = Vec::with_capacity(CHAINED_BYTES);
    let Publication { build, epoch } = folded.publication;
    let has_publication = folded.publication != Publication::FIRST || folded.head.is_some();
    cell.push(match (has_publication, folded.head) {
        (_, Some(_)) => CELL_VERSION_CHAINED,
        (true, None) => CELL_VERSION_SWITCHED,
        (false, None) => CELL_VERSION,
    });
    cell.extend_from_slice(&log_id);
    cell.extend_from_slice(&folded.position.offset.to_be_bytes());
    cell.extend_from_slice(folded.digest.as_bytes());
    if has_publication {
        cell.extend_from_slice(&build.to_be_bytes());
        cell.extend_from_slice(&epoch.to_be_bytes());
    }
    if let Some(head) = folded.head {
        cell.extend_from_slice(head.digest().as_bytes());
    }
    cell
}

fn decode(partition: i64, cell: &[u8]) -> Option<([u8; 16], Folded)> {
    let partition = u32::try_from(partition).ok()?;
    let (version, rest) = cell.split_first()?;
    let (rest, head) = match *version {
        CELL_VERSION_CHAINED => {
            let (rest, head) = rest.split_last_chunk::<32>()?;
            (rest, Some(Head::kept(Digest::from_bytes(*head))))
        }
        _ => (rest, None),
    };
    let (rest, publication) = match *version {
        CELL_VERSION => (rest, Publication::FIRST),
        CELL_VERSION_SWITCHED | CELL_VERSION_CHAINED => {
            let (rest, epoch) = rest.split_last_chunk::<4>()?;
            let (rest, build) = rest.split_last_chunk::<4>()?;
            let (build, epoch) = (u32::from_be_bytes(*build), u32::from_be_bytes(*epoch));
            (rest, Publication { build, epoch })
        }
        _ => return None,
    };
    let (log_id, rest) = rest.split_first_chunk::<16>()?;
    let (offset, digest) = rest.split_first_chunk::<8>()?;
    let position = Position { partition, offset: u64::from_be_bytes(*offset) };
    let digest = Digest::from_bytes(digest.try_into().ok()?);
    Some((*log_id, Folded { position, digest, publication, head }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_is_read_back_and_an_unknown_one_is_refused() {
        let position = Position { partition: 1 << 16 | 3, offset: 1 << 43 };
        let folded = Folded::new(position, Digest::of_bytes(b"x"));
        let cell = encode([7; 16], &folded);
        assert_eq!(cell.len(), CELL_BYTES);
        assert_eq!(decode(i64::from(position.partition), &cell), Some(([7; 16], folded)));
        assert_eq!(decode(-1, &cell), None);
        assert_eq!(decode(0, &cell[..CELL_BYTES - 1]), None);
        assert_eq!(decode(0, &[&cell[..], &[0]].concat()), None);
        assert_eq!(decode(0, &[&[9], &cell[1..]].concat()), None);
        let publication = Publication { build: 2, epoch: 7 };
        let switched = Folded { publication, ..folded };
        let cell = encode([7; 16], &switched);
        assert_eq!((cell.len(), cell[0]), (SWITCHED_BYTES, 2));
        assert_eq!(decode(i64::from(position.partition), &cell), Some(([7; 16], switched)));
        assert_eq!(decode(0, &cell[..SWITCHED_BYTES - 1]), None);
        let chained = Folded { head: Some(Head::genesis([7; 16], 1)), ..switched };
        let cell = encode([7; 16], &chained);
        assert_eq!((cell.len(), cell[0]), (CHAINED_BYTES, 3));
        assert_eq!(decode(i64::from(position.partition), &cell), Some(([7; 16], chained)));
        assert_eq!(decode(0, &cell[..CHAINED_BYTES - 1]), None);
    }
}
