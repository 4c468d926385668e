//! Owns compared days as rows: the last run of each, and what is open and decided now.

use payfold_schemas::ids::{Author, PartnerCode};
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
    /// How the day was closed; absent while it is open.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub closed: Option<PeriodClosed>,
}

/// A day as it is now.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PeriodNow {
    /// The number of open findings with a severity above `info`.
    pub open: u64,
    /// The number of decided findings.
    pub decided: u64,
    /// Who closed the day.
    pub closed_by: Option<Author>,
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
                let closed_by = closed.as_ref().map(|closed| closed.author.clone());
                let now = PeriodNow { open, decided, closed_by };
                periods.push(PeriodRow { run, now, closed });
            }
            Ok(Periods { periods })
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use payfold_engines::log::sqlite::{SqliteLog, SqliteLogSettings};
    use payfold_engines::log::{EventLog, Message, Topic};
    use payfold_engines::orders::sqlite::SqliteOrders;
    use payfold_schemas::event::EventAttributes;
    use payfold_schemas::finding::{FINDING_CHANGED_TYPE, FindingChanged, FindingStatus};
    use payfold_schemas::run::RUN_ENDED_TYPE;

    use super::*;

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
        let folder = tempfile::tempdir().unwrap();
        let log =
            SqliteLog::open(folder.path().join("log.db"), SqliteLogSettings::default()).unwrap();
        let event = |id: String, kind, value| {
            let event = Some(EventAttributes { id, kind, time: run.started_at });
            Message { key: "p".to_owned(), event, value }
        };
        let mut messages = Vec::new();
        for said in [&finding, &decided] {
            let value = serde_json::to_vec(said).unwrap();
            messages.push(event(said.event_id(), FINDING_CHANGED_TYPE, value));
        }
        messages.push(event(run.event_id(), RUN_ENDED_TYPE, serde_json::to_vec(&run).unwrap()));
        log.append_all(Topic::Findings, messages).await.unwrap();
        assert!(run.findings.open > 0, "the run found it open");
        let store = SqliteOrders::open(folder.path().join("orders.db")).unwrap();
        let reader = Reader::new(Arc::new(log), Arc::new(store));
        let days = reader.periods(&ListPeriods::default()).await.unwrap().periods;
        let now = &days[0].now;
        assert_eq!((days.len(), now.open, now.decided), (1, 0, 1));
        let other = ListPeriods { day: Some("1999-01-01".to_owned()), partner: None };
        assert!(reader.periods(&other).await.unwrap().periods.is_empty());
    }
}
