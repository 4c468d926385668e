//! Owns the configuration of reconciliation: which partners' records are compared, where they come
//! from, how often, and by which terms each partner's days are compared.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use chrono::NaiveDate;
use chrono_tz::Tz;
use croner::Cron;
use croner::errors::CronError;
use payfold_partners::directory::Directory;
use payfold_partners::token::TokenEntry;
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::time::Time;
use tokio::sync::watch;

use super::day_rules::day_bounds;
use super::people::People;
use super::terms::PartnerTerms;

/// The configuration of reconciliation, and where a run shows its progress.
pub struct ReconcileSetup {
    /// Accounts and profiles; each use loads the directory in force.
    pub directory: Arc<ArcSwap<Directory>>,
    /// The folder of temporary files; sorting takes some 300 bytes for each order and line.
    pub(crate) scratch: PathBuf,
    /// How long before the day an order may have been created and still be paid on it, ms.
    pub lookback_ms: i64,
    /// Folders in which partners' record files arrive.
    pub folders: Vec<RecordsFolder>,
    /// Partners that are surveyed by schedule.
    pub surveyed: Vec<(PartnerCode, DueSchedule)>,
    /// Zones of partners with a profile without `[records]`.
    pub zones: HashMap<PartnerCode, Tz>,
    /// How often the service looks for record files and rechecks findings.
    pub poll: Duration,
    /// Which people may decide.
    pub people: People,
    /// The tokens of the vault in force.
    pub tokens: Arc<ArcSwap<Vec<TokenEntry>>>,
    progress: watch::Sender<RunProgress>,
}

/// The progress of a run, shown to people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunProgress {
    /// The step that is being done.
    pub stage: &'static str,
    /// What the step has done so far: orders, queries, or seconds, as the step says.
    pub done: u64,
}

/// A folder in which a partner's record files arrive.
#[derive(Clone, Debug)]
pub struct RecordsFolder {
    /// The partner.
    pub partner: PartnerCode,
    /// The folder.
    pub folder: PathBuf,
    /// When a day's records are due: on the following day or later, in the partner's zone.
    pub due: DueSchedule,
}

/// The times at which records are due, as a cron expression.
#[derive(Clone, Debug)]
pub struct DueSchedule(Cron);

impl DueSchedule {
    /// Parses a cron expression. Errors: what is wrong with it.
    pub fn parse(expression: &str) -> Result<Self, CronError> {
        Cron::new(expression).with_seconds_optional().parse().map(Self)
    }

    /// The first due time after the end of a day; `None` if the expression has no further time.
    pub(super) fn due_after(&self, day: NaiveDate, zone: Tz) -> Option<Time> {
        let (_, until) = day_bounds(day, zone);
        let end = chrono::DateTime::from_timestamp_nanos(until.unix_nanos()).with_timezone(&zone);
        let due = self.0.find_next_occurrence(&end, true).ok()?;
        Some(Time::from_unix_ms(due.timestamp_millis()))
    }
}

impl ReconcileSetup {
    /// A configuration with default bounds and no folders or surveys.
    pub fn new(directory: Arc<ArcSwap<Directory>>, scratch: PathBuf) -> Self {
        Self {
            directory,
            scratch,
            lookback_ms: 7 * 24 * 3_600 * 1_000,
            folders: Vec::new(),
            surveyed: Vec::new(),
            zones: HashMap::new(),
            poll: Duration::from_secs(10),
            people: People::default(),
            tokens: Arc::default(),
            progress: watch::Sender::new(RunProgress::default()),
        }
    }

    /// The terms for judging findings a partner already has; `None` if its records can't be
    /// compared any more.
    pub(super) fn terms(&self, partner: &PartnerCode) -> Option<PartnerTerms> {
        let directory = self.directory.load();
        let profile = directory.profile_of(partner)?;
        let zone = self.zone_of(partner);
        let by_answers = || {
            let of_answers =
                |_| PartnerTerms::of_answers(profile.records(), zone, self.lookback_ms);
            profile.query_pace().map(of_answers)
        };
        let of_records = |spec| PartnerTerms::of_records(spec, self.lookback_ms);
        profile.records().map(of_records).or_else(by_answers)
    }

    /// The zone of a partner with a profile without `[records]`; UTC if no zone is set.
    pub(super) fn zone_of(&self, partner: &PartnerCode) -> Tz {
        self.zones.get(partner).copied().unwrap_or(Tz::UTC)
    }

    /// Shows a run's progress.
    pub(super) fn show_progress(&self, progress: RunProgress) {
        self.progress.send_replace(progress);
    }

    /// The sender of a run's progress.
    pub(super) fn progress(&self) -> &watch::Sender<RunProgress> {
        &self.progress
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_due_at_the_first_time_after_the_days_end() {
        let due = |cron: &str, day: &str, zone: &str| {
            let (day, zone) = (day.parse().unwrap(), zone.parse().unwrap());
            DueSchedule::parse(cron).unwrap().due_after(day, zone).unwrap().to_string()
        };
        for (cron, day, zone, expected) in [
            ("0 6 * * *", "2026-01-31", "UTC", "2026-02-01T06:00:00Z"),
            ("0 0 * * *", "2026-01-31", "UTC", "2026-02-01T00:00:00Z"),
            ("30 7 * * *", "2026-01-31", "Asia/Ho_Chi_Minh", "2026-02-01T00:30:00Z"),
            // Only on working days: the records of Friday to Sunday come on Monday.
            ("0 9 * * MON-FRI", "2026-01-30", "UTC", "2026-02-02T09:00:00Z"),
            ("0 9 * * MON-FRI", "2026-02-01", "UTC", "2026-02-02T09:00:00Z"),
            // Clocks jump over the due time: the first time after it. Clocks show it twice: the
            // first one.
            ("30 2 * * *", "2026-03-28", "Europe/Berlin", "2026-03-29T01:00:00Z"),
            ("30 2 * * *", "2026-10-24", "Europe/Berlin", "2026-10-25T00:30:00Z"),
        ] {
            assert_eq!(due(cron, day, zone), expected, "{cron} {day}");
        }
        assert!(DueSchedule::parse("61 * * * *").is_err() && DueSchedule::parse("soon").is_err());
    }
}
