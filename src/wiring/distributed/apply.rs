//! Owns making topics and tables, and looking whether they are as they must be.

use std::time::Duration;

use payfold_engines::log::kafka::KafkaSettings;
use payfold_engines::log::kafka::topics::{self, Footing, Severity, TopicStep, TopicsWanted};
use payfold_engines::orders::cql::CqlSettings;
use payfold_engines::orders::cql::schema::{self, State};

use super::Distributed;
use crate::error;
use crate::settings::Settings;
use crate::wiring::asked::{ClusterLook, Doing, Found, Step};
use crate::wiring::explain;

impl Distributed {
    /// Makes the topics, or tells what would be made. Errors: the broker's.
    pub async fn apply_topics(
        &self,
        settings: &Settings,
        doing: Doing,
    ) -> anyhow::Result<Vec<Step>> {
        let wanted = wanted(settings);
        let steps = match doing {
            Doing::Tell => topics::plan(&self.kafka, &wanted).await,
            Doing::Make => topics::apply(&self.kafka, &wanted).await,
        };
        let of = |step: &TopicStep| Step {
            line: step.to_string(),
            left: matches!(step, TopicStep::Leave(_)),
        };
        Ok(steps.map_err(explain)?.iter().map(of).collect())
    }

    /// Makes keyspace and tables, or tells what would be made; nothing of what is there. Errors: the database's.
    pub async fn apply_schema(&self, doing: Doing) -> anyhow::Result<Vec<Step>> {
        let cql = self.cql()?;
        let steps = match doing {
            Doing::Tell => schema::plan(cql).await,
            Doing::Make => schema::apply(cql).await,
        };
        let steps = steps.map_err(explain)?;
        let open = steps.iter().filter(|step| step.state != State::Present);
        Ok(open
            .map(|step| Step {
                line: step.to_string(),
                left: matches!(step.state, State::Differs(_)),
            })
            .collect())
    }

    /// Notes that the nodes hold as many copies as the keyspace says, on a person's word. Errors: the database's.
    pub async fn note_copies_repaired(&self) -> anyhow::Result<()> {
        schema::change_copies(self.cql()?).await.map_err(explain)
    }

    /// Looks at topics and tables. Changes nothing.
    pub async fn look(&self) -> ClusterLook {
        ClusterLook { topics: self.look_at_topics().await, tables: self.look_at_tables().await }
    }

    async fn look_at_topics(&self) -> Vec<Found> {
        match topics::check(&self.kafka, self.footing).await {
            Err(error) => vec![bad(error.to_string(), "mend that first")],
            Ok(findings) if findings.is_empty() => {
                vec![Found::Good {
                    detail: "all there, with the settings they must have".to_owned(),
                }]
            }
            Ok(findings) => (findings.into_iter())
                .map(|finding| {
                    let detail = format!("{}: {}", finding.subject, finding.what);
                    match finding.severity {
                        Severity::Refuse => Found::Bad { detail, fix: finding.fix },
                        Severity::Warn => Found::Doubtful { detail, fix: finding.fix },
                    }
                })
                .collect(),
        }
    }

    async fn look_at_tables(&self) -> Found {
        if self.cql().is_err() {
            return Found::Doubtful {
                detail: "no order store is named: only ingest does without".to_owned(),
                fix: "elsewhere write orders = \"cql://HOST:PORT,HOST:PORT/KEYSPACE\"".to_owned(),
            };
        }
        let steps = match self.apply_schema(Doing::Tell).await {
            Err(error) => return bad(error::told(&error).0, "mend that first"),
            Ok(steps) if steps.is_empty() => return Found::Good { detail: "all there".to_owned() },
            Ok(steps) => steps,
        };
        let lines: Vec<String> = steps.iter().map(|step| step.line.replace('\n', " ")).collect();
        // Nothing is made beside what differs.
        let fix = match steps.iter().any(|step| step.left) {
            true => "mend it by hand or name another keyspace",
            false => "payfold schema apply",
        };
        bad(lines.join("; "), fix)
    }

    /// Makes topics of a bench at the URL; how many copies each has. Errors: the URL, the broker's.
    pub async fn make_bench_topics(url: &str, partitions: u32) -> anyhow::Result<i32> {
        let settings = KafkaSettings::parse_url(url).map_err(explain)?;
        let replication = i32::try_from(settings.brokers.len().clamp(1, 3))?;
        let footing = Footing::Dev;
        let wanted = TopicsWanted { partitions, replication, footing, ..TopicsWanted::default() };
        topics::apply(&settings, &wanted).await.map_err(explain)?;
        Ok(replication)
    }

    /// Makes the keyspace of a bench at the URL. Errors: the URL, the database's.
    pub async fn make_bench_keyspace(url: &str) -> anyhow::Result<()> {
        let mut settings = CqlSettings::parse_url(url).map_err(explain)?;
        settings.dev = true;
        schema::apply(&settings).await.map_err(explain)?;
        Ok(())
    }
}

fn bad(detail: String, fix: &str) -> Found {
    Found::Bad { detail, fix: fix.to_owned() }
}

/// What topics are made with.
fn wanted(settings: &Settings) -> TopicsWanted {
    let section = &settings.kafka;
    let replication = match (section.replication, settings.dev) {
        (0, true) => 1,
        (0, false) => 3,
        (set, _) => i32::from(set),
    };
    TopicsWanted {
        partitions: section.partitions,
        replication,
        retention: Duration::from_secs(u64::from(section.retention_hours) * 3_600),
        footing: if settings.dev { Footing::Dev } else { Footing::Production },
    }
}
