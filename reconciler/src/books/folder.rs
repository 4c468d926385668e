//! Owns the watched folders: where a partner's records come by themselves, and when the day's are due. A file is compared
//! once it is whole and was not compared before; one that doesn't come when it is due is told of once a day.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use chrono::{Days, NaiveDate};
use chrono_tz::Tz;
use croner::Cron;
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::run::RunResult;
use payfold_schemas::time::Time;

use super::day::{Request, Source};
use super::desk::Books;
use super::ledger::Ledger;
use super::rules::{day_bounds, day_of};
use super::survey::Survey;
use super::terms;
use crate::run::{Halt, Shared};

/// Records of so many days are waited for: later ones are run by hand.
const DAYS_BACK: u64 = 7;
/// So long after a survey that was not answered whole comes the next one, ms.
const ASK_AGAIN_MS: i64 = 3_600_000;
/// A file that was written to more recently may still be on its way, s.
const QUIET_S: u64 = 10;

/// A partner whose records come into a folder.
#[derive(Clone, Debug)]
pub struct Folder {
    /// Whose.
    pub partner: PartnerCode,
    /// Where.
    pub folder: PathBuf,
    /// When a day's records are due, on the day after or later, in the partner's zone.
    pub due: Due,
}

/// When records are due: a cron expression.
#[derive(Clone, Debug)]
pub struct Due(Cron);

impl Due {
    /// Reads a cron expression. Errors: what is wrong with it.
    pub fn parse(expression: &str) -> Result<Self, String> {
        Cron::new(expression)
            .with_seconds_optional()
            .parse()
            .map(Self)
            .map_err(|error| error.to_string())
    }

    /// When the records of a day are due: the first time after its end.
    fn of_day(&self, day: NaiveDate, zone: Tz) -> Option<Time> {
        let (_, until) = day_bounds(day, zone);
        let end = chrono::DateTime::from_timestamp_nanos(until.unix_nanos()).with_timezone(&zone);
        let due = self.0.find_next_occurrence(&end, true).ok()?;
        Some(Time::from_unix_ms(due.timestamp_millis()))
    }
}

/// What was seen in the folders.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Size and time of the files that were compared or turned out to be known.
    known: HashMap<PathBuf, (u64, SystemTime)>,
    /// Days whose records were missed.
    missed: HashSet<(PartnerCode, NaiveDate)>,
    /// Days that were asked for, and when.
    asked: HashMap<(PartnerCode, NaiveDate), Time>,
}

impl Seen {
    /// What has come and is due.
    pub(crate) async fn requests(
        &mut self,
        shared: &Shared,
        books: &Books,
        ledger: &Ledger,
    ) -> Result<Vec<Request>, Halt> {
        let now = shared.clock.now();
        let mut requests = Vec::new();
        for folder in &books.folders {
            let Some((zone, pattern)) = written(books, &folder.partner) else { continue };
            let today = day_of(now, zone);
            for back in (1..=DAYS_BACK).rev() {
                let Some(day) = today.checked_sub_days(Days::new(back)) else { continue };
                if folder.due.of_day(day, zone).is_none_or(|due| due > now) {
                    continue;
                }
                let name = day.format(&pattern).to_string();
                requests.extend(self.request(ledger, folder, (day, name)).await);
            }
        }
        Ok(requests)
    }

    /// Which partner is to be asked for which day now: it is due, and no run of it is complete.
    pub(crate) fn surveys(&mut self, now: Time, books: &Books, ledger: &Ledger) -> Vec<Survey> {
        let mut surveys = Vec::new();
        for (partner, due) in &books.surveyed {
            let Some(zone) = terms(books, partner).map(|terms| terms.zone) else { continue };
            let Some(day) = day_of(now, zone).pred_opt() else { continue };
            let run = ledger.run_of(&(partner.clone(), day.to_string()));
            let is_done = run.is_some_and(|run| run.result == RunResult::Complete);
            if is_done || due.of_day(day, zone).is_none_or(|due| due > now) {
                continue;
            }
            let name = (partner.clone(), day);
            let asked = self.asked.get(&name).is_some_and(|at| at.plus_ms(ASK_AGAIN_MS) > now);
            if !asked {
                self.asked.insert(name, now);
                surveys.push(Survey { partner: partner.clone(), day: Some(day), replace: false });
            }
        }
        surveys
    }

    async fn request(
        &mut self,
        ledger: &Ledger,
        folder: &Folder,
        (day, name): (NaiveDate, String),
    ) -> Option<Request> {
        let path = folder.folder.join(&name);
        let of_day = (folder.partner.clone(), day.to_string());
        let Some(state) = state(&path) else {
            let compared = ledger.run_of(&of_day).is_some();
            if !compared && self.missed.insert((folder.partner.clone(), day)) {
                tracing::warn!(
                    partner = %folder.partner, %day, file = %path.display(),
                    "the day's records are due and not there; they are compared when they come"
                );
            }
            return None;
        };
        let quiet = state.1.elapsed().is_ok_and(|age| age.as_secs() >= QUIET_S);
        if !quiet || self.known.get(&path) == Some(&state) {
            return None;
        }
        let hashed = path.clone();
        let sha256 =
            super::blocking(move || Digest::of_reader(&mut File::open(hashed)?)).await.ok()?.0;
        self.known.insert(path.clone(), state);
        let known = ledger.run_of(&of_day).is_some_and(|run| run.records.sha256 == sha256);
        // It is the day's file, whatever was given by hand before.
        let partner = folder.partner.clone();
        let source = Source::File(path);
        (!known).then_some(Request { partner, day: Some(day), source, name, replace: true })
    }
}

/// The zone of a partner's days and what its files are called.
fn written(books: &Books, partner: &PartnerCode) -> Option<(Tz, String)> {
    let directory = books.directory.load();
    let spec = directory.profile_of(partner)?.records()?;
    Some((spec.zone(), spec.file_name()?.to_owned()))
}

fn state(path: &Path) -> Option<(u64, SystemTime)> {
    let metadata = path.metadata().ok().filter(std::fs::Metadata::is_file)?;
    Some((metadata.len(), metadata.modified().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_due_at_the_first_time_after_the_days_end() {
        let due = |cron: &str, day: &str, zone: &str| {
            let (day, zone) = (day.parse().unwrap(), zone.parse().unwrap());
            Due::parse(cron).unwrap().of_day(day, zone).unwrap().to_string()
        };
        for (cron, day, zone, expected) in [
            ("0 6 * * *", "2026-01-31", "UTC", "2026-02-01T06:00:00Z"),
            ("0 0 * * *", "2026-01-31", "UTC", "2026-02-01T00:00:00Z"),
            ("30 7 * * *", "2026-01-31", "Asia/Ho_Chi_Minh", "2026-02-01T00:30:00Z"),
            // only on working days: Friday's to Sunday's come on Monday
            ("0 9 * * MON-FRI", "2026-01-30", "UTC", "2026-02-02T09:00:00Z"),
            ("0 9 * * MON-FRI", "2026-02-01", "UTC", "2026-02-02T09:00:00Z"),
            // clocks jump over it: as soon as there is a time again; clocks show it twice: the first
            ("30 2 * * *", "2026-03-28", "Europe/Berlin", "2026-03-29T01:00:00Z"),
            ("30 2 * * *", "2026-10-24", "Europe/Berlin", "2026-10-25T00:30:00Z"),
        ] {
            assert_eq!(due(cron, day, zone), expected, "{cron} {day}");
        }
        assert!(Due::parse("61 * * * *").is_err() && Due::parse("soon").is_err());
    }
}
