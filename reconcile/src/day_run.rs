//! Owns one run: a partner's records of one day are compared with the orders, from reading the file
//! to publishing the findings. Invariants: a run compares no order before the projector has folded
//! everything that was appended until the run's start. If a run is interrupted and repeated, it
//! publishes the same events with the same ids. `RunEnded` is published last.

use std::sync::Arc;

use chrono::NaiveDate;
use payfold_engines::log::Message;
use payfold_engines::orders::{ClaimKey, Claimed};
use payfold_schemas::digest::Digest;
use payfold_schemas::event::EventAttributes;
use payfold_schemas::run::{RUN_ENDED_TYPE, RecordsFile, RunAsked, RunEnded, RunResult};
use payfold_schemas::time::Time;

use super::blocking::run_blocking;
use super::changed_orders::{ChangedOrders, still_raised};
use super::comparer::{GroupComparer, RunTally};
use super::conclusion::{Conclusion, RunFindings, count_findings, uncleared};
use super::day_rules::{DayRules, day_of};
use super::error::ReconcileError;
use super::ledger::{Ledger, PartnerDay};
use super::partner_accounts::PartnerAccounts;
use super::publish::{append, catch_up, message, publish_spilled, wait_until_folded};
use super::record_lines::{self, ReadFile, RecordLines};
use super::request::{NamedFile, RecordsSource, Replaceable, RunRequest};
use super::setup::{ReconcileSetup, RunProgress};
use super::spill_file::SpillFile;
use super::terms::PartnerTerms;
use super::transition::ChangeMoment;
use super::{doubles, matching, orders, silent_partner};
use crate::shared::SharedContext;

/// The partner's accounts and terms, as they are when the run begins.
struct RunPartner {
    accounts: PartnerAccounts,
    terms: PartnerTerms,
}

impl RunPartner {
    fn of(setup: &ReconcileSetup, request: &RunRequest) -> Result<Self, ReconcileError> {
        let partner = &request.partner;
        let accounts = PartnerAccounts::of(&setup.directory.load(), partner)?;
        let terms = match &request.source {
            RecordsSource::Answers(_) => {
                let (spec, zone) = (accounts.profile.records(), setup.zone_of(partner));
                PartnerTerms::of_answers(spec, zone, setup.lookback_ms)
            }
            RecordsSource::File(_) => {
                PartnerTerms::of_records(accounts.records_spec()?, setup.lookback_ms)
            }
        };
        Ok(Self { accounts, terms })
    }
}

/// Does one run. Errors: why it can't be done, for people; a halt.
pub(crate) async fn run_day(
    shared: &SharedContext,
    setup: &ReconcileSetup,
    ledger: &mut Ledger,
    request: RunRequest,
) -> Result<RunEnded, ReconcileError> {
    let partner = RunPartner::of(setup, &request)?;
    let begun_at = shared.storage.clock.now();
    let zone = partner.terms.zone;
    let day = request.day.unwrap_or_else(|| day_of(begun_at, zone).pred_opt().unwrap_or_default());
    let rules = partner.terms.rules(day, begun_at);
    if rules.from > begun_at {
        return Err(ReconcileError::Refused(format!(
            "{day} has not begun in {zone}, the zone of {}'s records",
            request.partner
        )));
    }
    // A payment that is appended but not folded yet would look as if it were missing here.
    wait_until_folded(shared, setup, begun_at).await?;
    let (lines, mut orders) = read_both_sides(shared, setup, (&request, &partner), &rules).await?;
    catch_up(shared, ledger).await?;
    let changed = ChangedOrders::since_last_run(ledger, &request.partner, (day, orders.from));
    changed.collect_flags(shared, &rules, |dated| orders.flagged.push(&dated, &rules)).await?;
    let RecordLines { sorted: sorted_lines, read: ReadFile { file, problems, trusted } } = lines;
    check_not_replacing(ledger, (&request, day), &file)?;
    let run = ClaimedRun::claim_run(shared, ledger, (&request, day), &file, begun_at).await?;
    let comparer = GroupComparer {
        partner: request.partner.clone(),
        file: file.name.clone(),
        day: day.to_string(),
        // The claimed start, not this process's time: a repeated run judges the same payments as
        // young, and so makes the same events.
        rules: DayRules { now: run.started_at, ..rules },
        by: partner.terms.by,
        uncleared: Arc::new(uncleared(ledger, &request.partner, partner.terms.by)?),
        other_days: ledger.other_days(&request.partner),
    };
    let orders::SortedOrders { sorted, paid_twice, flagged, .. } = orders;
    setup.show_progress(RunProgress { stage: "comparing", done: 0 });
    let mut tally = match trusted {
        true => {
            matching::compare_all(shared, &comparer, (sorted, sorted_lines), &setup.scratch).await?
        }
        false => RunTally::in_folder(&setup.scratch),
    };
    if trusted {
        tally.found.append(paid_twice);
        tally.flagged.append(flagged);
        let silent = silent_partner::detect_silence(&comparer, &tally);
        silent
            .iter()
            .try_for_each(|f| tally.found.push(f))
            .map_err(ReconcileError::scratch_disk)?;
    }
    let problems = [problems, tally.problems()].concat();
    let ended = run.conclude((shared, setup), ledger, (comparer, tally), (file, problems)).await?;
    setup.show_progress(RunProgress { stage: "done", done: 0 });
    if let (RecordsSource::Answers(surveyed), RunResult::Complete) = (&request.source, ended.result)
        && let Err(error) = std::fs::remove_file(&surveyed.path)
    {
        tracing::warn!(
            %error, file = %surveyed.path.display(),
            "could not delete the file of a partner's answers, which were compared: delete it by \
             hand");
    }
    Ok(ended)
}

/// Errors: the day was compared with another file, and the request does not say to replace it. A
/// day has one file: entries of the first file that the second one leaves out would become missing,
/// and the reverse with the next run.
fn check_not_replacing(
    ledger: &Ledger,
    (request, day): (&RunRequest, NaiveDate),
    file: &RecordsFile,
) -> Result<(), ReconcileError> {
    let before = ledger.run_of(&(request.partner.clone(), day.to_string()));
    let may_replace = |run: &RunEnded| match request.replace {
        Replaceable::No => false,
        Replaceable::Any => true,
        Replaceable::Only(sha256) => run.records.sha256 == sha256,
    };
    let Some(before) = before.filter(|run| run.is_replaced_by(file) && !may_replace(run)) else {
        return Ok(());
    };
    let (before, name) = (&before.records.name, &file.name);
    Err(ReconcileError::Refused(format!(
        "{day} was compared with {before} before. {name} would replace it, and payments that only \
         {before} lists would be missing. If {name} is the corrected file, run again with \
         --replace; if both are of that day, put them into one file"
    )))
}

/// Reads the records and the orders, at the same time.
async fn read_both_sides(
    shared: &SharedContext,
    setup: &ReconcileSetup,
    (request, partner): (&RunRequest, &RunPartner),
    rules: &DayRules,
) -> Result<(RecordLines, orders::SortedOrders), ReconcileError> {
    std::fs::create_dir_all(&setup.scratch).map_err(ReconcileError::scratch_disk)?;
    let (by, accounts) = (partner.terms.by, partner.accounts.clone());
    let (name, folder, source) =
        (request.name.clone(), setup.scratch.clone(), request.source.clone());
    let reading = run_blocking(move || match source {
        RecordsSource::File(path) => {
            let (spec, codes) = (accounts.records_spec()?, &accounts.merchant_codes);
            record_lines::sort_file(spec, &NamedFile { path, name }, codes, &folder)
                .map_err(|error| ReconcileError::Refused(error.to_string()))
        }
        RecordsSource::Answers(surveyed) => {
            record_lines::lines_of_answers(surveyed, &folder).map_err(ReconcileError::scratch_disk)
        }
    });
    let from = rules.oldest_order(rules.day);
    let show_progress = |done| setup.show_progress(RunProgress { stage: "reading orders", done });
    let ours = orders::read_orders(
        shared,
        &request.partner,
        (rules, by),
        (from, &setup.scratch),
        show_progress,
    );
    tokio::try_join!(reading, ours)
}

/// A run with its id and its start.
struct ClaimedRun {
    id: String,
    started_at: Time,
    day: NaiveDate,
    asked: Option<RunAsked>,
}

impl ClaimedRun {
    /// Claims the run. Every process that compares the same records of a day for the same time,
    /// also again after a crash, gets the same id, and the start of the process that claimed it
    /// first.
    async fn claim_run(
        shared: &SharedContext,
        ledger: &Ledger,
        (request, day): (&RunRequest, NaiveDate),
        file: &RecordsFile,
        begun_at: Time,
    ) -> Result<Self, ReconcileError> {
        let of_day = (request.partner.clone(), day.to_string());
        // Without the number of earlier runs, comparing the same file again later would take up the
        // old run and its start.
        let times = ledger.times_compared(&of_day, file.sha256);
        let (partner, day_text) = &of_day;
        let key = ClaimKey::reconciliation_run(partner, day_text, file.sha256, times);
        let record = begun_at.unix_nanos().to_be_bytes().to_vec();
        let ask = || shared.storage.store.claim(key.clone(), record.clone());
        let started_at = match shared.storage.ask("claim a run", ask).await? {
            Claimed::Mine => begun_at,
            Claimed::Taken(record) => <[u8; 8]>::try_from(record.as_slice())
                .map_or(begun_at, |nanos| Time::from_unix_nanos(i64::from_be_bytes(nanos))),
        };
        let mut id = Digest::of_bytes(key.as_str().as_bytes()).to_string();
        id.truncate(16);
        Ok(Self { id, started_at, day, asked: request.asked.clone() })
    }

    async fn conclude(
        self,
        (shared, setup): (&SharedContext, &ReconcileSetup),
        ledger: &mut Ledger,
        (comparer, tally): (GroupComparer, RunTally),
        (records, problems): (RecordsFile, Vec<String>),
    ) -> Result<RunEnded, ReconcileError> {
        let result = if problems.is_empty() { RunResult::Complete } else { RunResult::Incomplete };
        let day = self.day.to_string();
        let moment = ChangeMoment { day: &day, run: Some(&self.id), at: self.started_at };
        let RunTally { mut found, left_over, doubled, flagged, .. } = tally;
        let mut doubles = SpillFile::in_folder(&setup.scratch);
        doubles::settle(shared, ledger, doubled, (&mut doubles, &mut found)).await?;
        let still_raised = still_raised(shared, ledger, (&comparer.partner, &day)).await?;
        let findings = RunFindings { found, left_over, doubled: doubles, flagged, still_raised };
        let conclusion = Conclusion::new(ledger, &comparer.partner, (result, moment));
        let changes = conclusion.changes(
            findings,
            &tally.now_listed,
            SpillFile::in_folder(&setup.scratch),
        )?;
        publish_spilled(shared, changes, self.started_at).await?;
        // The counts come from the topic, not from here: another process may have appended a change
        // of the same finding first, and the first event counts.
        catch_up(shared, ledger).await?;
        let findings = count_findings(ledger, &comparer.partner, (&day, &self.id))?;
        let of_day = (comparer.partner.clone(), day.clone());
        let ended = RunEnded {
            run: self.id,
            partner: comparer.partner,
            day,
            from: comparer.rules.from,
            until: comparer.rules.until,
            zone: comparer.rules.zone.name().to_owned(),
            started_at: self.started_at,
            result,
            problems,
            records,
            compared: tally.compared,
            findings,
            totals: tally.totals.into_list(),
            listed_early: Vec::new(),
            listed_apart: tally.apart.all(),
            unlisted: tally.unlisted.all().filter(|_| result == RunResult::Complete),
            asked: self.asked,
            adjusts: None,
        };
        let ended = RunEnded { adjusts: adjusted_seal(ledger, &of_day, &ended)?, ..ended };
        append(&shared.storage, vec![run_event(&ended)]).await?;
        catch_up(shared, ledger).await?;
        Ok(ended)
    }
}

fn run_event(ended: &RunEnded) -> Message {
    let (id, kind, time) = (ended.event_id(), RUN_ENDED_TYPE, ended.started_at);
    message(ended.partner.to_string(), EventAttributes { id, kind, time }, ended)
}

/// The seal of a closed day, if the day's totals or findings have changed since. `None` if they
/// have not changed, or if the run is incomplete.
fn adjusted_seal(
    ledger: &Ledger,
    day: &PartnerDay,
    ended: &RunEnded,
) -> Result<Option<Digest>, ReconcileError> {
    let closed = ledger.closed(day).filter(|_| ended.result == RunResult::Complete);
    let Some(closed) = closed else { return Ok(None) };
    let findings = ledger.findings_store().versions(&day.0, &day.1)?;
    let is_unchanged = closed.totals == ended.totals && closed.findings == findings;
    Ok((!is_unchanged).then_some(closed.seal))
}
