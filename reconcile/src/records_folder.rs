//! Owns the watched folders in which partners' record files arrive, and the due times of files and
//! surveys. A file is compared once it is complete, unless it was compared before. If a file is
//! missing when it is due, this is logged once.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use chrono::{Days, NaiveDate};
use chrono_tz::Tz;
use payfold_kit::Halt;
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::run::RunResult;
use payfold_schemas::time::Time;

use super::blocking::run_blocking;
use super::day_rules::day_of;
use super::ledger::Ledger;
use super::request::{RecordsSource, Replaceable, RunRequest, SurveyRequest};
use super::setup::{ReconcileSetup, RecordsFolder};
use crate::shared::SharedContext;

/// The days before today for which the service looks for files. An operator runs older days.
const DAYS_BACK: u64 = 7;
/// The pause between two surveys of a day while its run is incomplete, ms.
const RESURVEY_PAUSE_MS: i64 = 3_600_000;
/// A file written to within this time may still be incomplete, s.
const QUIET_S: u64 = 10;

/// What the service remembers of the folders and surveys between two ticks.
#[derive(Debug, Default)]
pub(crate) struct FolderWatch {
    /// Size and modification time of files that were compared, or that have the content of a
    /// compared file.
    known: HashMap<PathBuf, (u64, SystemTime)>,
    /// Days for which missing records were logged.
    missed: HashSet<(PartnerCode, NaiveDate)>,
    /// Days that were surveyed, and when.
    surveyed: HashMap<(PartnerCode, NaiveDate), Time>,
}

impl FolderWatch {
    /// Returns run requests for files that have arrived and are due.
    pub(crate) async fn requests(
        &mut self,
        shared: &SharedContext,
        setup: &ReconcileSetup,
        ledger: &Ledger,
    ) -> Result<Vec<RunRequest>, Halt> {
        let now = shared.storage.clock.now();
        let mut requests = Vec::new();
        for folder in &setup.folders {
            let Some((zone, pattern)) = zone_and_pattern(setup, &folder.partner) else { continue };
            let today = day_of(now, zone);
            for back in (1..=DAYS_BACK).rev() {
                let Some(day) = today.checked_sub_days(Days::new(back)) else { continue };
                if folder.due.due_after(day, zone).is_none_or(|due| due > now) {
                    continue;
                }
                let name = day.format(&pattern).to_string();
                requests.extend(self.request_file(ledger, folder, (day, name)).await);
            }
        }
        Ok(requests)
    }

    /// Returns survey requests for days that are due and have no complete run.
    pub(crate) fn surveys(
        &mut self,
        now: Time,
        setup: &ReconcileSetup,
        ledger: &Ledger,
    ) -> Vec<SurveyRequest> {
        let mut surveys = Vec::new();
        for (partner, due) in &setup.surveyed {
            let Some(zone) = setup.terms(partner).map(|terms| terms.zone) else { continue };
            let Some(day) = day_of(now, zone).pred_opt() else { continue };
            let run = ledger.run_of(&(partner.clone(), day.to_string()));
            let is_done = run.is_some_and(|run| run.result == RunResult::Complete);
            if is_done || due.due_after(day, zone).is_none_or(|due| due > now) {
                continue;
            }
            let name = (partner.clone(), day);
            let was_surveyed =
                self.surveyed.get(&name).is_some_and(|at| at.plus_ms(RESURVEY_PAUSE_MS) > now);
            if !was_surveyed {
                self.surveyed.insert(name, now);
                surveys.push(SurveyRequest {
                    partner: partner.clone(),
                    day: Some(day),
                    replace: Replaceable::No,
                    asked: None,
                });
            }
        }
        surveys
    }

    async fn request_file(
        &mut self,
        ledger: &Ledger,
        folder: &RecordsFolder,
        (day, name): (NaiveDate, String),
    ) -> Option<RunRequest> {
        let path = folder.folder.join(&name);
        let of_day = (folder.partner.clone(), day.to_string());
        let Some(file_state) = file_state(&path) else {
            let compared = ledger.run_of(&of_day).is_some();
            if !compared && self.missed.insert((folder.partner.clone(), day)) {
                tracing::warn!(
                    partner = %folder.partner, %day, file = %path.display(),
                    "the day's records are due but the file is not there; it is compared when it \
                     arrives"
                );
            }
            return None;
        };
        let quiet = file_state.1.elapsed().is_ok_and(|age| age.as_secs() >= QUIET_S);
        if !quiet || self.known.get(&path) == Some(&file_state) {
            return None;
        }
        let hashed = path.clone();
        let sha256 =
            run_blocking(move || Digest::of_reader(&mut File::open(hashed)?)).await.ok()?.0;
        self.known.insert(path.clone(), file_state);
        let known = ledger.run_of(&of_day).is_some_and(|run| run.records.sha256 == sha256);
        // The watched folder holds the day's file, so it replaces one that was given by hand.
        let partner = folder.partner.clone();
        let source = RecordsSource::File(path);
        let (day, asked) = (Some(day), None);
        (!known).then_some(RunRequest {
            partner,
            day,
            source,
            name,
            replace: Replaceable::Any,
            asked,
        })
    }
}

/// The zone of a partner's days, and the name pattern of its files; `None` if its profile has no
/// file name.
fn zone_and_pattern(setup: &ReconcileSetup, partner: &PartnerCode) -> Option<(Tz, String)> {
    let directory = setup.directory.load();
    let spec = directory.profile_of(partner)?.records()?;
    Some((spec.zone(), spec.file_name()?.to_owned()))
}

/// Size and modification time of a file; `None` if there is no such file.
fn file_state(path: &Path) -> Option<(u64, SystemTime)> {
    let metadata = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    Some((metadata.len(), metadata.modified().ok()?))
}
