//! Owns compared days as rows: the last run of each, and what is open and decided now.

use std::collections::BTreeMap;

use payfold_reconcile::findings_store::DayFindings;
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::money::Currency;
use payfold_schemas::run::{PeriodClosed, RunEnded};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::ReadError;
use crate::listing::{Cells, Row};
use crate::reader::Reader;

/// The last run of a day, and the day as it is now.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PeriodRow {
    /// The last run of the day, without the ids of payments that its records list for other days or
    /// don't list: its event has them.
    #[serde(flatten)]
    pub run: RunEnded,
    /// The day as it is now.
    pub now: PeriodNow,
    /// How the day was closed; null while it is open.
    pub closed: Option<PeriodClosed>,
}

impl Row for PeriodRow {
    const COLUMNS: &'static str = "partner day run result records:records.name \
        entries:records.entries bad:records.bad open:now.open decided:now.decided \
        closed_by";

    fn shown(&self, column: &str, _cells: Cells) -> Option<Value> {
        let in_words = |closed: &PeriodClosed| match self.run.adjusts {
            Some(_) => format!("{} (adjusted since)", closed.author),
            None => closed.author.to_string(),
        };
        (column == "closed_by").then(|| json!(self.closed.as_ref().map(in_words)))
    }
}

/// A day as it is now.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PeriodNow {
    /// The number of open findings with a severity above `info`.
    pub open: u64,
    /// The number of decided findings.
    pub decided: u64,
    /// The number of open findings with a first decision that waits for a second person.
    #[serde(default)]
    pub waiting: u64,
    /// Minor units that the open findings put at risk, by currency.
    #[serde(default)]
    pub at_risk: BTreeMap<Currency, i64>,
    /// Minor units that the decided findings put at risk, by currency.
    #[serde(default)]
    pub was_at_risk: BTreeMap<Currency, i64>,
}

/// Which days to list, by partner and day.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListPeriods {
    /// Only days of this partner.
    pub partner: Option<PartnerCode>,
    /// Only this day, such as 2026-01-31.
    pub day: Option<String>,
    /// Only days before this one.
    pub before: Option<String>,
    /// Only so many days of each partner, the latest.
    pub limit: Option<usize>,
}

/// Compared days.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Periods {
    /// The days of each partner, the latest last.
    pub periods: Vec<PeriodRow>,
}

impl ListPeriods {
    fn takes(&self, run: &RunEnded) -> bool {
        self.partner.as_ref().is_none_or(|only| run.partner == *only)
            && self.day.as_ref().is_none_or(|only| run.day == *only)
            && self.before.as_ref().is_none_or(|before| run.day < *before)
    }
}

/// A run as a row has it: the ids can be 20,000.
fn without_ids(run: &RunEnded) -> RunEnded {
    RunEnded { listed_early: Vec::new(), listed_apart: None, unlisted: None, ..run.clone() }
}

impl Reader {
    /// Lists the days that were compared. Errors: the log's.
    pub async fn periods(&self, asked: &ListPeriods) -> Result<Periods, ReadError> {
        self.ledger(|ledger| {
            let wanted: Vec<_> = ledger.runs().filter(|run| asked.takes(run)).collect();
            let mut periods = Vec::new();
            for runs in wanted.chunk_by(|one, next| one.partner == next.partner) {
                let first = asked.limit.map_or(0, |most| runs.len().saturating_sub(most));
                for run in &runs[first..] {
                    let day = (run.partner.clone(), run.day.clone());
                    let found = ledger.day_findings(&day)?;
                    let DayFindings { open, decided, waiting, at_risk, was_at_risk } = found;
                    let now = PeriodNow { open, decided, waiting, at_risk, was_at_risk };
                    let closed = ledger.closed(&day).cloned();
                    periods.push(PeriodRow { run: without_ids(run), now, closed });
                }
            }
            Ok(Periods { periods })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use payfold_engines::log::Topic;
    use payfold_schemas::finding::{FINDING_CHANGED_TYPE, FindingChanged, FindingStatus};
    use payfold_schemas::run::RUN_ENDED_TYPE;

    use super::*;
    use crate::testbed::{Testbed, event};

    #[tokio::test]
    async fn a_day_is_listed_with_what_is_open_now() {
        let sample: serde_json::Value =
            serde_json::from_str(include_str!("../../report/src/tests/sample.json")).unwrap();
        let run: RunEnded = serde_json::from_value(sample["ended"].clone()).unwrap();
        let mut finding: FindingChanged =
            serde_json::from_value(sample["findings"][0].clone()).unwrap();
        finding.status = FindingStatus::Open;
        let mut decided = finding.clone();
        (decided.status, decided.version) = (FindingStatus::Decided, finding.version + 1);
        let mut messages = Vec::new();
        for said in [&finding, &decided] {
            messages.push(event(FINDING_CHANGED_TYPE, said.event_id(), said));
        }
        messages.push(event(RUN_ENDED_TYPE, run.event_id(), &run));
        let bed = Testbed::new();
        bed.append(Topic::Findings, messages).await;
        assert!(run.findings.open > 0, "the run found it open");
        let days = bed.reader.periods(&ListPeriods::default()).await.unwrap().periods;
        let now = &days[0].now;
        assert_eq!((days.len(), now.open, now.decided), (1, 0, 1));
        let other = ListPeriods { day: Some("1999-01-01".to_owned()), ..Default::default() };
        assert!(bed.reader.periods(&other).await.unwrap().periods.is_empty());
    }

    #[tokio::test]
    async fn the_latest_days_of_each_partner_are_listed_without_ids() {
        let sample: serde_json::Value =
            serde_json::from_str(include_str!("../../report/src/tests/sample.json")).unwrap();
        let mut run: RunEnded = serde_json::from_value(sample["ended"].clone()).unwrap();
        run.unlisted = Some(vec!["0123456789abcdef0123456789abcdef".to_owned()]);
        let (mut messages, mut at) = (Vec::new(), 0);
        for (partner, day) in [("a", "30"), ("a", "28"), ("b", "01"), ("a", "29"), ("b", "02")] {
            at += 1;
            run.run = format!("{at:016x}");
            run.partner = PartnerCode::parse(partner).unwrap();
            run.day = format!("2026-01-{day}");
            messages.push(event(RUN_ENDED_TYPE, run.event_id(), &run));
        }
        let bed = Testbed::new();
        bed.append(Topic::Findings, messages).await;
        let before = |day: &str| Some(day.to_owned());
        for (asked, expected) in [
            (ListPeriods::default(), "a28 a29 a30 b01 b02"),
            (ListPeriods { limit: Some(1), ..Default::default() }, "a30 b02"),
            (
                ListPeriods { limit: Some(1), before: before("2026-01-30"), ..Default::default() },
                "a29 b02",
            ),
            (ListPeriods { before: before("2026-01-02"), ..Default::default() }, "b01"),
        ] {
            let rows = bed.reader.periods(&asked).await.unwrap().periods;
            assert!(rows.iter().all(|row| row.run.unlisted.is_none()), "{asked:?}");
            let day = |row: &PeriodRow| row.run.partner.to_string() + &row.run.day[8..];
            let days: Vec<_> = rows.iter().map(day).collect();
            assert_eq!(days.join(" "), expected, "{asked:?}");
        }
    }
}
