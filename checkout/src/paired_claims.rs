//! Owns the pairing of claims with the log at start-up. Invariants: claims are used only with the
//! log they were made for. Every create request of a shop has its claim, or the start is refused,
//! because without the claim the same Idempotency-Key would make a second payment. Claims that are
//! newer than the log are accepted, with a warning: the shop's retry completes a claim without a
//! create request.

use std::collections::HashSet;

use payfold_engines::EngineError;
use payfold_engines::log::sqlite::SqliteLog;
use payfold_engines::log::{Delivered, EventLog, Extent, Topic};
use payfold_engines::orders::sqlite::PairedClaims;
use payfold_schemas::fact::Fact;
use payfold_schemas::position::Position;
use payfold_schemas::record::{Parts, decode_intake};

/// How many of the newest create requests of a partition are looked up. An old copy of the claims
/// lacks the newest ones, so a few would be enough. More are looked up because claims and create
/// requests that were made at the same time may be stored in different orders.
const CREATES_MAX: usize = 64;
/// How many of the newest claims are compared with as many of the log's last records.
const NEWEST: u32 = 64;
/// A claim without a record is a request in flight, if it is newer than the log by less than this.
/// Records are dated by their arrival: the last ones may be older than the time of their append.
const IN_FLIGHT_MS_MAX: i64 = 60_000;
/// How many of the newest records of a partition are searched for create requests: about 0.1 s.
const RECORDS_MAX: u64 = 20_000;
/// The most records of one read.
const PAGE: u64 = 1_000;

/// What a missing claim leads to, for messages.
const LOST: &str =
    "without its claim a create request that a shop sends again makes a second payment";

/// The result of looking up the claims of a log's newest create requests.
#[derive(Debug)]
pub struct ClaimSearch {
    /// How many create requests were looked up.
    pub searched: usize,
    /// How many of them have no claim.
    pub unclaimed: usize,
    /// The newest create request without a claim.
    pub newest: Option<Delivered>,
}

/// Checks that the claims next to an order store belong to this log. A log that was never used with
/// claims, or only by an older program, matches any claims that do not name another log. Errors:
/// `Corrupt`, the claims are missing, are an older copy or belong to another log; `Unavailable`, a
/// file can't be read.
pub async fn check_files(log: &SqliteLog, claims: &PairedClaims) -> Result<(), EngineError> {
    let (path, log_path) = (claims.path().display(), log.path().display());
    let exists = claims.exists()?;
    let paired_with = if exists { claims.log_id()? } else { None };
    if paired_with.is_some_and(|log_id| log_id != log.id()) {
        return Err(EngineError::Corrupt(format!(
            "the claims {path} belong to another log than {log_path}: one of the two files was \
             replaced, or is another system's"
        )));
    }
    let since = log.claims_since()?;
    if since.is_some() && !exists {
        return Err(EngineError::Corrupt(format!(
            "there are no claims {path}, and the log {log_path} was used with claims: {LOST}"
        )));
    }
    if since.is_some() && paired_with.is_none() {
        return Err(EngineError::Corrupt(format!(
            "the claims {path} have been emptied, or are an older copy: the log {log_path} was \
             paired with its claims, and they name no log: {LOST}"
        )));
    }
    if exists {
        warn_of_lost_end(log, claims).await?;
    }
    let search = search(log, claims, since.unwrap_or(0)).await?;
    let Some(newest) = search.newest else { return Ok(()) };
    let found = format!(
        "{} of the newest {} create requests in the log have no claim, the newest at {} of order \
         {}",
        search.unclaimed, search.searched, newest.position, newest.key
    );
    if since.is_none() {
        tracing::warn!(claims = %path, "{found}; they were lost before claims were paired with \
            the log: {LOST}");
        return Ok(());
    }
    Err(EngineError::Corrupt(format!(
        "the claims {path} are an older copy, or lost their -wal: {found}; {LOST}"
    )))
}

/// Warns of claims that are newer than the log's last records. The log is used all the same: the
/// shop's retry completes such a claim.
async fn warn_of_lost_end(log: &SqliteLog, claims: &PairedClaims) -> Result<(), EngineError> {
    let mut last = Vec::new();
    for extent in log.extent(Topic::Intake).await? {
        let offset = extent.last.saturating_sub(u64::from(NEWEST));
        let after = Position { partition: extent.partition, offset };
        last.extend(log.read_after(Topic::Intake, after, NEWEST as usize).await?);
    }
    let ends = last.iter().filter_map(|one| Some(one.intake_record().ok()?.received_at())).max();
    let claimed = claims.newest(NEWEST)?;
    let received_at = |record: &Vec<u8>| Some(decode_intake(record).ok()?.received_at());
    let claimed = claimed.iter().filter_map(received_at).max();
    let Some(claimed) = claimed else { return Ok(()) };
    let is_lost = match ends {
        Some(ends) => claimed > ends.plus_ms(IN_FLIGHT_MS_MAX),
        None => last.is_empty(),
    };
    if is_lost {
        let ends = ends.map_or_else(|| "is empty".to_owned(), |at| format!("ends at {at}"));
        tracing::warn!(
            claims = %claims.path().display(),
            log = %log.path().display(),
            "shops created payments until {claimed}, and the log {ends}: it has lost its end, or \
             took no records then. What was acknowledged in between is lost: compare those days \
             with the partners' records (payfold reconcile run)"
        );
    }
    Ok(())
}

/// Pairs the claims with the log, if they are not paired yet: from the log's present end on, every
/// create request of a shop has to have its claim. Errors: the engines'.
pub fn pair_files(log: &SqliteLog, claims: &PairedClaims) -> Result<(), EngineError> {
    // The log last: once the log says that it has claims, they are durable.
    claims.pair(log.id())?;
    log.pair_claims()
}

/// Looks up the claims of the newest create requests after the offset `since` of intake. Errors:
/// the engines'.
pub async fn search(
    log: &SqliteLog,
    claims: &PairedClaims,
    since: u64,
) -> Result<ClaimSearch, EngineError> {
    let creates = newest_creates(log, since).await?;
    let records: Vec<&[u8]> = creates.iter().map(|create| create.value.as_slice()).collect();
    let unclaimed: HashSet<&[u8]> = match claims.exists()? {
        true => claims.unclaimed(&records)?,
        false => records.iter().copied().collect(),
    };
    let newest = creates.iter().find(|create| unclaimed.contains(create.value.as_slice()));
    let (searched, newest) = (creates.len(), newest.cloned());
    Ok(ClaimSearch { searched, unclaimed: unclaimed.len(), newest })
}

/// Checks that a log with an empty table of claims holds no create request of a shop. The caller
/// checks only empty tables: a table can't look claims up by their records, so a single missing
/// claim can't be found there. Errors: `Corrupt`, all claims are lost; or the engines'.
pub async fn check_empty_table(log: &dyn EventLog) -> Result<(), EngineError> {
    let Some(create) = newest_creates(log, 0).await?.into_iter().next() else { return Ok(()) };
    Err(EngineError::Corrupt(format!(
        "the table of claims is empty, and the log holds create requests that shops made, such \
         as the one at {} of order {}: {LOST}",
        create.position, create.key
    )))
}

/// The newest create requests that were made with a claim, after the offset `since`, newest first
/// within each partition.
async fn newest_creates(log: &dyn EventLog, since: u64) -> Result<Vec<Delivered>, EngineError> {
    let mut creates = Vec::new();
    for extent in log.extent(Topic::Intake).await? {
        creates.extend(newest_of_partition(log, &extent, since).await?);
    }
    Ok(creates)
}

async fn newest_of_partition(
    log: &dyn EventLog,
    extent: &Extent,
    since: u64,
) -> Result<Vec<Delivered>, EngineError> {
    let first = extent.first.saturating_sub(1);
    let floor = since.max(first).max(extent.last.saturating_sub(RECORDS_MAX));
    let (mut creates, mut end) = (Vec::new(), extent.last);
    while end > floor && creates.len() < CREATES_MAX {
        let begin = end.saturating_sub(PAGE).max(floor);
        let after = Position { partition: extent.partition, offset: begin };
        let limit = usize::try_from(end - begin).unwrap_or(usize::MAX);
        let page = log.read_after(Topic::Intake, after, limit).await?;
        let page = page.into_iter().filter(|message| message.position.offset <= end);
        creates.extend(page.rev().filter(is_claimed_create));
        end = begin;
    }
    creates.truncate(CREATES_MAX);
    Ok(creates)
}

/// Whether a record is a create request that was made with a claim. Such a record has the shop's
/// request as its raw bytes; the demo's own create requests have none. Damaged records are passed
/// over: the projector reports them.
fn is_claimed_create(message: &Delivered) -> bool {
    let Ok(record) = message.record() else { return false };
    let is_create = |fact: &Fact| matches!(fact, Fact::CreateRequested(_));
    !record.raw.is_empty() && matches!(&record.parts, Parts::Fact(one) if is_create(&one.fact))
}
