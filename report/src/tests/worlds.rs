//! Owns the days that the tests make reports of.

use payfold_schemas::digest::Digest;
use payfold_schemas::finding::FindingChanged;
use payfold_schemas::ids::Author;
use payfold_schemas::money::Currency;
use payfold_schemas::run::{BadLine, Compared, PeriodClosed, RunEnded, RunResult};
use payfold_schemas::time::Time;
use serde::Deserialize;

use super::super::{Report, render_page};

/// A day with most kinds of findings in most of their states.
const SAMPLE: &str = include_str!("sample.json");

#[derive(Clone, Debug, Deserialize)]
pub(super) struct TestDay {
    pub(super) ended: RunEnded,
    pub(super) findings: Vec<FindingChanged>,
    pub(super) closed: Option<PeriodClosed>,
    pub(super) now: Time,
}

impl TestDay {
    pub(super) fn sample() -> Self {
        serde_json::from_str(SAMPLE).expect("the sample is a day")
    }

    /// A day on which nothing happened.
    pub(super) fn empty() -> Self {
        let mut world = Self::sample();
        world.findings.clear();
        world.ended.totals.clear();
        world.ended.compared = Compared::default();
        world.ended.records.lines = 1;
        world.ended.records.entries = 0;
        world
    }

    /// A day with this many copies of the first finding.
    pub(super) fn of_many(number: u32) -> Self {
        let mut world = Self::sample();
        let first = world.findings.first().expect("there is one").clone();
        let like =
            |place: u32| FindingChanged { finding_id: format!("{place:032x}"), ..first.clone() };
        world.findings = (0..number).map(like).collect();
        world
    }

    pub(super) fn incomplete(&mut self) {
        self.ended.result = RunResult::Incomplete;
        self.ended.problems = vec![
            "settlement-20260131.csv: the file is cut off: its last line has no end".to_owned(),
        ];
        self.ended.records.bad = 2;
        let problem = "amount: not a number".to_owned();
        self.ended.records.bad_lines = vec![BadLine { line: 1_017, problem }];
    }

    pub(super) fn close(&mut self) {
        self.closed = Some(PeriodClosed {
            partner: self.ended.partner.clone(),
            day: self.ended.day.clone(),
            run: self.ended.run.clone(),
            author: Author::parse("minh.le").expect("a name"),
            at: self.now,
            totals: self.ended.totals.clone(),
            findings: self.findings.iter().map(FindingChanged::event_id).collect(),
            seal: Digest::of_bytes(b"seal"),
        });
    }

    /// The finding with a decision for this reason.
    pub(super) fn finding(&self, reason: &str) -> &FindingChanged {
        let has_reason = |finding: &&FindingChanged| {
            finding.decision.as_ref().is_some_and(|decision| decision.reason.contains(reason))
        };
        self.findings.iter().find(has_reason).expect("there is one")
    }

    pub(super) fn report(&self) -> Report<'_> {
        Report {
            ended: &self.ended,
            findings: &self.findings,
            closed: self.closed.as_ref(),
            now: self.now,
        }
    }

    pub(super) fn page(&self) -> String {
        render_page(&self.report())
    }
}

pub(super) fn currency(code: &str) -> Currency {
    Currency::parse(code).expect("a currency")
}
