//! Owns compared days as rows: the last run of each, and what is open and decided now.

use payfold_schemas::ids::PartnerCode;
use payfold_schemas::run::{PeriodClosed, RunEnded};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ReadError;
use crate::reader::Reader;

/// The last run of a day, and the day as it is now.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PeriodRow {
    /// The last run of the day.
    #[serde(flatten)]
    pub run: RunEnded,
    /// The day as it is now.
    pub now: PeriodNow,
    /// How the day was closed; null while it is open.
    pub closed: Option<PeriodClosed>,
}

/// A day as it is now.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PeriodNow {
    /// The number of open findings with a severity above `info`.
    pub open: u64,
    /// The number of decided findings.
    pub decided: u64,
}

/// Which days to list, by partner and day.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListPeriods {
    /// Only days of this partner.
    pub partner: Option<PartnerCode>,
    /// Only this day, such as 2026-01-31.
    pub day: Option<String>,
}

/// Compared days.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Periods {
    /// The days.
    pub periods: Vec<PeriodRow>,
}

impl Reader {
    /// Lists the days that were compared. Errors: the log's.
    pub async fn periods(&self, asked: &ListPeriods) -> Result<Periods, ReadError> {
        self.ledger(|ledger| {
            let wanted = ledger.runs().filter(|run| {
                asked.partner.as_ref().is_none_or(|only| run.partner == *only)
                    && asked.day.as_ref().is_none_or(|only| run.day == *only)
            });
            let mut periods = Vec::new();
            for run in wanted.cloned() {
                let day = (run.partner.clone(), run.day.clone());
                let (open, decided) = ledger.open_and_decided(&day)?;
                let closed = ledger.closed(&day).cloned();
                periods.push(PeriodRow { run, now: PeriodNow { open, decided }, closed });
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
        let other = ListPeriods { day: Some("1999-01-01".to_owned()), partner: None };
        assert!(bed.reader.periods(&other).await.unwrap().periods.is_empty());
    }
}
