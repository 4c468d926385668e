//! Owns the input of a report: a run, the findings of its day, and the day's closing.

use payfold_schemas::finding::FindingChanged;
use payfold_schemas::run::{PeriodClosed, RunEnded};
use payfold_schemas::time::Time;

use super::text::argument;
use super::times::PartnerZone;

/// The input of a report.
#[derive(Clone, Copy, Debug)]
pub struct Report<'a> {
    /// The run.
    pub ended: &'a RunEnded,
    /// The present findings of the run's day, in any order.
    pub findings: &'a [FindingChanged],
    /// The day's closing, if it is closed.
    pub closed: Option<&'a PeriodClosed>,
    /// When the report is made; findings are aged as of this time.
    pub now: Time,
}

impl Report<'_> {
    pub(super) fn zone(&self) -> PartnerZone {
        PartnerZone::of(&self.ended.zone)
    }

    /// The options `--partner P --day D` of commands.
    pub(super) fn day_options(&self) -> String {
        format!("--partner {} --day {}", self.ended.partner, argument(&self.ended.day))
    }
}
