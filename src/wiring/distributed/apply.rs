//! Owns the creation and the checks of topics and tables.

use std::time::Duration;

use payfold_engines::log::kafka::topics::{self, Footing, Severity, TopicStep, TopicsWanted};
use payfold_engines::log::kafka::{KafkaSettings, acls};
use payfold_engines::orders::cql::CqlSettings;
use payfold_engines::orders::cql::schema::{self, State};

use super::connection::DistributedEngines;
use crate::error;
use crate::settings::Settings;
use crate::wiring::cluster_state::{ApplyMode, ApplyStep, ClusterCheck, EngineState};
use crate::wiring::explain::explain;

impl DistributedEngines {
    /// The commands that allow each role what it does on the cluster.
    pub(crate) fn acls(&self, principal: &str) -> String {
        acls::commands(&self.kafka, principal)
    }

    /// Creates the topics, or lists what would be created. Errors: the broker's.
    pub(crate) async fn apply_topics(
        &self,
        settings: &Settings,
        mode: ApplyMode,
    ) -> anyhow::Result<Vec<ApplyStep>> {
        let wanted = wanted(settings);
        let steps = match mode {
            ApplyMode::Plan => topics::plan(&self.kafka, &wanted).await,
            ApplyMode::Apply => topics::apply(&self.kafka, &wanted).await,
        };
        let of = |step: &TopicStep| ApplyStep {
            line: step.to_string(),
            left: matches!(step, TopicStep::Leave(_)),
        };
        Ok(steps.map_err(explain)?.iter().map(of).collect())
    }

    /// Creates keyspace and tables, or lists what would be created. Existing tables that are right
    /// are left out. Errors: the database's.
    pub(crate) async fn apply_schema(&self, mode: ApplyMode) -> anyhow::Result<Vec<ApplyStep>> {
        let cql = self.cql()?;
        let steps = match mode {
            ApplyMode::Plan => schema::plan(cql).await,
            ApplyMode::Apply => schema::apply(cql).await,
        };
        let steps = steps.map_err(explain)?;
        let open = steps.iter().filter(|step| step.state != State::Present);
        Ok(open
            .map(|step| ApplyStep {
                line: step.to_string(),
                left: matches!(step.state, State::Differs(_)),
            })
            .collect())
    }

    /// Records a person's confirmation that the nodes hold all replicas that the keyspace names.
    /// Errors: the database's.
    pub(crate) async fn note_copies_repaired(&self) -> anyhow::Result<()> {
        schema::change_copies(self.cql()?).await.map_err(explain)
    }

    /// Checks topics and tables. Changes nothing.
    pub(crate) async fn check(&self) -> ClusterCheck {
        ClusterCheck { topics: self.check_topics().await, tables: self.check_tables().await }
    }

    async fn check_topics(&self) -> Vec<EngineState> {
        match topics::check(&self.kafka, self.footing).await {
            Err(error) => vec![bad(
                error.to_string(),
                "correct this first, then run payfold check --connect again",
            )],
            Ok(findings) if findings.is_empty() => {
                vec![EngineState::Good {
                    detail: "all exist, with the required settings".to_owned(),
                }]
            }
            Ok(findings) => (findings.into_iter())
                .map(|finding| {
                    let detail = format!("{}: {}", finding.subject, finding.what);
                    match finding.severity {
                        Severity::Refuse => EngineState::Bad { detail, fix: finding.fix },
                        Severity::Warn => EngineState::Doubtful { detail, fix: finding.fix },
                    }
                })
                .collect(),
        }
    }

    async fn check_tables(&self) -> EngineState {
        if self.cql().is_err() {
            return EngineState::Doubtful {
                detail: "orders names no database, so this process can only run ingest".to_owned(),
                fix: "for other roles set orders = \"cql://HOST:PORT,HOST:PORT/KEYSPACE\""
                    .to_owned(),
            };
        }
        let steps = match self.apply_schema(ApplyMode::Plan).await {
            Err(error) => {
                return bad(
                    error::describe(&error).0,
                    "correct this first, then run payfold check --connect again",
                );
            }
            Ok(steps) if steps.is_empty() => {
                return EngineState::Good { detail: "all exist".to_owned() };
            }
            Ok(steps) => steps,
        };
        let lines: Vec<String> = steps.iter().map(|step| step.line.replace('\n', " ")).collect();
        // `schema apply` creates nothing while a table differs.
        let fix = match steps.iter().any(|step| step.left) {
            true => "alter the table by hand, or use another keyspace",
            false => "payfold schema apply",
        };
        bad(lines.join("; "), fix)
    }

    /// Creates the topics of a bench at the URL. Returns their replication factor. Errors: the
    /// URL's, the broker's.
    pub(crate) async fn make_bench_topics(url: &str, partitions: u32) -> anyhow::Result<i32> {
        let settings = KafkaSettings::parse_url(url).map_err(explain)?;
        let replication = i32::try_from(settings.brokers.len().clamp(1, 3))?;
        let footing = Footing::Dev;
        let wanted = TopicsWanted { partitions, replication, footing, ..TopicsWanted::default() };
        topics::apply(&settings, &wanted).await.map_err(explain)?;
        Ok(replication)
    }

    /// Creates the keyspace of a bench at the URL. Errors: the URL's, the database's.
    pub(crate) async fn make_bench_keyspace(url: &str) -> anyhow::Result<()> {
        let mut settings = CqlSettings::parse_url(url).map_err(explain)?;
        settings.dev = true;
        schema::apply(&settings).await.map_err(explain)?;
        Ok(())
    }
}

fn bad(detail: String, fix: &str) -> EngineState {
    EngineState::Bad { detail, fix: fix.to_owned() }
}

/// The settings with which topics are created.
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
