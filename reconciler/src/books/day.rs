//! Owns one run: a partner's records of one day against the orders, from the reading of the file to the telling of what it
//! found. Invariants: nothing is judged ahead of what is folded; a run that is interrupted and repeated tells the same
//! things under the same ids; that it has ended is told last.

use std::path::PathBuf;
use std::sync::Arc;

use chrono::NaiveDate;
use chrono_tz::Tz;
use payfold_engines::log::{Message, Topic};
use payfold_engines::orders::{ClaimKey, Claimed};
use payfold_partners::profile::Profile;
use payfold_schemas::digest::Digest;
use payfold_schemas::event::EventAttributes;
use payfold_schemas::finding::{FINDING_CHANGED_TYPE, FindingChanged};
use payfold_schemas::ids::{MerchantCode, PartnerCode};
use payfold_schemas::run::{RUN_ENDED_TYPE, RecordsFile, RunEnded, RunResult};
use payfold_schemas::time::Time;
use serde::Serialize;

use super::changed::{ChangedOrders, still_raised};
use super::conclude::{Concluding, Piles, counts, watched};
use super::desk::{Books, Progress};
use super::judge::{Judge, Tally};
use super::ledger::Ledger;
use super::lines::{self, Lines};
use super::pile::Pile;
use super::rules::{Rules, day_of};
use super::settle::Moment;
use super::survey::Surveyed;
use super::terms::Terms;
use super::{BooksError, blocking, close, matching, orders, silence};
use crate::run::Shared;
use crate::watermark::Watermark;

/// Findings of one append.
const APPEND_MAX: usize = 500;
/// A projector that is further behind is told of.
const BEHIND_MS: i64 = 2_000;

/// What to compare.
#[derive(Clone, Debug)]
pub struct Request {
    /// Whose records.
    pub partner: PartnerCode,
    /// The day in the partner's zone; none is yesterday.
    pub day: Option<NaiveDate>,
    /// The records.
    pub source: Source,
    /// What the person who gave them calls them.
    pub name: String,
    /// Whether they may take the place of records that are called something else.
    pub replace: bool,
}

/// Where records come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A file of the partner's.
    File(PathBuf),
    /// Its answers to queries.
    Answers(Surveyed),
}

impl Request {
    /// What a file is called in findings: its name without its folders.
    pub fn name_of(path: &std::path::Path) -> String {
        path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
    }
}

/// A partner as its profile and the vault have it now.
struct Partner {
    profile: Arc<Profile>,
    accounts: Vec<MerchantCode>,
    terms: Terms,
}

impl Partner {
    fn of(books: &Books, request: &Request) -> Result<Self, BooksError> {
        let partner = &request.partner;
        let directory = books.directory.load();
        let accounts = || directory.accounts().iter().filter(|a| a.partner() == partner);
        let Some(first) = accounts().next() else {
            return Err(BooksError::Refused(format!(
                "there is no account at {partner}; `payfold partner list` shows whom there is"
            )));
        };
        let profile = Arc::clone(first.profile());
        let zone = books.zones.get(partner).copied().unwrap_or(Tz::UTC);
        let terms = match (&request.source, profile.records()) {
            (Source::Answers(_), spec) => Terms::of_answers(spec, zone),
            (Source::File(_), Some(spec)) => Terms::of_records(spec),
            (Source::File(_), None) => {
                return Err(BooksError::Refused(format!(
                    "the profile of {partner} does not say how its records are written: add [records] \
                     (docs/partners.md), and try it with `payfold partner records {partner} FILE`"
                )));
            }
        };
        let accounts = accounts().map(|account| account.merchant_code().clone()).collect();
        Ok(Self { profile, accounts, terms })
    }
}

/// Compares. Errors: it can't be done, or the role is to end.
pub(crate) async fn run(
    shared: &Shared,
    books: &Books,
    ledger: &mut Ledger,
    request: Request,
) -> Result<RunEnded, BooksError> {
    let partner = Partner::of(books, &request)?;
    let begun = shared.clock.now();
    let zone = partner.terms.zone;
    let day = request.day.unwrap_or_else(|| day_of(begun, zone).pred_opt().unwrap_or_default());
    let rules = partner.terms.rules(day, begun);
    if rules.from > begun {
        return Err(BooksError::Refused(format!(
            "{day} has not begun in {zone}, the zone of {}'s records",
            request.partner
        )));
    }
    folded_through(shared, books, begun).await?;
    let (lines, mut orders) = read(shared, books, (&request, &partner), &rules).await?;
    catch_up(shared, ledger).await?;
    let changed = ChangedOrders::of_run(ledger, &request.partner, (day, orders.from));
    changed.flags(shared, &rules, |dated| orders.flagged.take_one(&dated, &rules)).await?;
    takes_no_place(ledger, (&request, day), &lines.file)?;
    let run = Run::begin(shared, ledger, (&request, day), &lines.file, begun).await?;
    let judge = Judge {
        partner: request.partner.clone(),
        file: lines.file.name.clone(),
        day: day.to_string(),
        rules: Rules { now: run.started_at, ..rules },
        by: partner.terms.by,
        watched: Arc::new(watched(ledger, &request.partner, partner.terms.by)?),
    };
    let orders::Orders { sorted, paid_twice, flagged, .. } = orders;
    books.tell(Progress { stage: "comparing", done: 0 });
    let trusted = lines.trusted;
    let mut tally = match trusted {
        true => matching::all(shared, &judge, (sorted, lines.sorted), &books.scratch).await?,
        false => Tally::in_folder(&books.scratch),
    };
    if trusted {
        tally.found.take(paid_twice);
        tally.flagged.take(flagged);
        let silent = silence::found(&judge, &tally);
        silent.iter().try_for_each(|f| tally.found.push(f)).map_err(BooksError::scratch)?;
    }
    let mut problems = lines.problems;
    problems.extend(tally.problems());
    let ended = run.end((shared, books), ledger, (judge, tally), (lines.file, problems)).await?;
    books.tell(Progress { stage: "done", done: 0 });
    if let (Source::Answers(surveyed), RunResult::Complete) = (&request.source, ended.result)
        && let Err(error) = std::fs::remove_file(&surveyed.path)
    {
        tracing::warn!(%error, "a partner's answers that were compared could not be taken away");
    }
    Ok(ended)
}

/// A day has one file: what a second one leaves out would be missing, and the first one's would be so with the next run.
fn takes_no_place(
    ledger: &Ledger,
    (request, day): (&Request, NaiveDate),
    file: &RecordsFile,
) -> Result<(), BooksError> {
    let before = ledger.run_of(&(request.partner.clone(), day.to_string()));
    let in_place = |run: &&RunEnded| {
        let known = &run.records;
        run.result == RunResult::Complete && known.name != file.name && known.sha256 != file.sha256
    };
    let Some(before) = before.filter(in_place).filter(|_| !request.replace) else { return Ok(()) };
    let (before, name) = (&before.records.name, &file.name);
    Err(BooksError::Refused(format!(
        "{day} was compared with {before} before; {name} would take its place, and what {before} alone lists would be \
         missing. If {name} is the corrected one, say --replace; if both are of that day, put them into one file"
    )))
}

/// Both sides, read at the same time.
async fn read(
    shared: &Shared,
    books: &Books,
    (request, partner): (&Request, &Partner),
    rules: &Rules,
) -> Result<(Lines, orders::Orders), BooksError> {
    std::fs::create_dir_all(&books.scratch).map_err(BooksError::scratch)?;
    let by = partner.terms.by;
    let (profile, accounts) = (partner.profile.clone(), partner.accounts.clone());
    let (name, folder, source) =
        (request.name.clone(), books.scratch.clone(), request.source.clone());
    let reading = blocking(move || match source {
        Source::File(path) => {
            let spec = profile.records().expect("it was looked for before");
            lines::read(spec, (&path, &name), &accounts, (by, &folder))
                .map_err(|error| BooksError::Refused(error.to_string()))
        }
        Source::Answers(surveyed) => {
            lines::of_answers(surveyed, &folder).map_err(BooksError::scratch)
        }
    });
    let from = rules.from.plus_ms(-books.lookback_ms);
    let tell = |done| books.tell(Progress { stage: "reading orders", done });
    let ours = orders::read(shared, &request.partner, (rules, by), (from, &books.scratch), tell);
    tokio::try_join!(reading, ours)
}

/// Waits until everything that was appended before is folded; says so if that takes long.
pub(crate) async fn folded_through(
    shared: &Shared,
    books: &Books,
    begun: Time,
) -> Result<(), BooksError> {
    let mut told = false;
    loop {
        let watermark = Watermark::measure(shared).await?;
        if watermark.is_past(begun) {
            return Ok(());
        }
        let low = watermark.low();
        let behind_ms = shared.clock.now().unix_ms() - low.unix_ms().max(0);
        let behind_s = u64::try_from(behind_ms / 1_000).unwrap_or(0);
        books.tell(Progress { stage: "waiting for the projector, seconds behind", done: behind_s });
        if behind_ms > BEHIND_MS && !told {
            told = true;
            tracing::warn!(
                behind_s,
                "the projector is behind: the comparison with a partner's records waits for it"
            );
        }
        shared.pause(std::time::Duration::from_millis(50)).await?;
    }
}

/// Reads the ledger on. Errors: the role is to end.
pub(crate) async fn catch_up(shared: &Shared, ledger: &mut Ledger) -> Result<(), BooksError> {
    let mut outage = crate::outage::Outage::none(shared, "read the findings");
    loop {
        match ledger.catch_up(&*shared.log).await {
            Ok(()) => {
                outage.over();
                return Ok(());
            }
            Err(error) => outage.wait(error).await?,
        }
    }
}

/// One comparison, by its name.
struct Run {
    id: String,
    started_at: Time,
    day: NaiveDate,
}

impl Run {
    /// Who compares the same records of a day for the same time, here or elsewhere or again after a crash, does the same
    /// run: it began when the first of them did.
    async fn begin(
        shared: &Shared,
        ledger: &Ledger,
        (request, day): (&Request, NaiveDate),
        file: &RecordsFile,
        begun: Time,
    ) -> Result<Self, BooksError> {
        let of_day = (request.partner.clone(), day.to_string());
        let times = ledger.times_compared(&of_day, file.sha256);
        let (partner, day_text) = &of_day;
        let key = ClaimKey::reconciliation_run(partner, day_text, file.sha256, times);
        let record = begun.unix_nanos().to_be_bytes().to_vec();
        let ask = || shared.store.claim(key.clone(), record.clone());
        let started_at = match shared.ask("claim a run", ask).await? {
            Claimed::Mine => begun,
            Claimed::Taken(record) => <[u8; 8]>::try_from(record.as_slice())
                .map_or(begun, |nanos| Time::from_unix_nanos(i64::from_be_bytes(nanos))),
        };
        let mut id = Digest::of_bytes(key.as_str().as_bytes()).to_string();
        id.truncate(16);
        Ok(Self { id, started_at, day })
    }

    async fn end(
        self,
        (shared, books): (&Shared, &Books),
        ledger: &mut Ledger,
        (judge, tally): (Judge, Tally),
        (records, problems): (RecordsFile, Vec<String>),
    ) -> Result<RunEnded, BooksError> {
        let result = if problems.is_empty() { RunResult::Complete } else { RunResult::Incomplete };
        let day = self.day.to_string();
        let moment = Moment { day: &day, run: Some(&self.id), at: self.started_at };
        let Tally { found, left_over, flagged, .. } = tally;
        let still_raised = still_raised(shared, ledger, (&judge.partner, &day)).await?;
        let piles = Piles { found, left_over, flagged, still_raised };
        let concluding = Concluding::of(ledger, &judge.partner, (result, moment));
        let changes = concluding.changes(piles, &tally.came, Pile::in_folder(&books.scratch))?;
        tell_all(shared, changes, self.started_at).await?;
        // Not from here: another instance may have told something else before.
        catch_up(shared, ledger).await?;
        let findings = counts(ledger, &judge.partner, (&day, &self.id))?;
        let of_day = (judge.partner.clone(), day.clone());
        let ended = RunEnded {
            run: self.id,
            partner: judge.partner,
            day,
            from: judge.rules.from,
            until: judge.rules.until,
            zone: judge.rules.zone.name().to_owned(),
            started_at: self.started_at,
            result,
            problems,
            records,
            compared: tally.compared,
            findings,
            totals: tally.totals.told(),
            listed_early: tally.early.into_iter().collect(),
            adjusts: None,
        };
        let ended = RunEnded { adjusts: close::adjusts(ledger, &of_day, &ended)?, ..ended };
        append(shared, vec![event_of_run(&ended)]).await?;
        catch_up(shared, ledger).await?;
        Ok(ended)
    }
}

/// Appends findings, page by page.
async fn tell_all(
    shared: &Shared,
    changes: Pile<FindingChanged>,
    at: Time,
) -> Result<(), BooksError> {
    let mut page = Vec::with_capacity(APPEND_MAX);
    for change in changes.values() {
        page.push(event_of(&change.map_err(BooksError::scratch)?, at));
        if page.len() == APPEND_MAX {
            append(shared, std::mem::take(&mut page)).await?;
        }
    }
    if page.is_empty() {
        return Ok(());
    }
    append(shared, page).await
}

/// Appends findings, and the ledger knows them.
pub(crate) async fn tell(
    shared: &Shared,
    ledger: &mut Ledger,
    changes: Vec<FindingChanged>,
    at: Time,
) -> Result<(), BooksError> {
    if changes.is_empty() {
        return Ok(());
    }
    for chunk in changes.chunks(APPEND_MAX) {
        append(shared, chunk.iter().map(|change| event_of(change, at)).collect()).await?;
    }
    // Not from here: another instance may have told something else before.
    catch_up(shared, ledger).await
}

pub(crate) async fn append(shared: &Shared, messages: Vec<Message>) -> Result<(), BooksError> {
    let ask = || shared.log.append_all(Topic::Findings, messages.clone());
    shared.ask("append findings", ask).await?;
    Ok(())
}

pub(crate) fn event_of(change: &FindingChanged, at: Time) -> Message {
    let account = change.merchant_code.as_ref().map(|code| format!("/{code}"));
    let order = change.order_id.as_ref().map(|order| format!("/{order}"));
    let key = [Some(change.partner.to_string()), account, order];
    let key = key.into_iter().flatten().collect();
    event(key, (change.event_id(), FINDING_CHANGED_TYPE, at), change)
}

fn event_of_run(ended: &RunEnded) -> Message {
    event(ended.partner.to_string(), (ended.event_id(), RUN_ENDED_TYPE, ended.started_at), ended)
}

/// An event of the topic.
pub(crate) fn event(
    key: String,
    (id, kind, time): (String, &'static str, Time),
    data: &impl Serialize,
) -> Message {
    let value = serde_json::to_vec(data).expect("what is told is JSON");
    Message { key, event: Some(EventAttributes { id, kind, time }), value }
}
