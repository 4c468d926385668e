//! Owns checking and making the tables of a CQL store. Invariants: an existing table is never
//! altered, and dropped only with its build; a table that differs is reported; making the tables is
//! idempotent; a row is one cell, so that it can't be mixed from two writes.

use std::fmt;
use std::time::Duration;

use scylla::statement::Statement;

use super::agreeing_replicas;
use super::claims::CqlClaims;
use super::database_schema::{self, DatabaseSchema};
pub use super::definitions::State;
use super::definitions::{Column, InBuild, TABLES, Table};
use super::errors::MEND;
use super::link::Link;
use super::settings::CqlSettings;
use crate::EngineError;

/// The build for which `apply` makes the tables; a rebuild makes those of other builds. Claims
/// belong to no build.
const FIRST: u32 = 1;

/// The name of the step that makes the table of claims.
const CLAIMS: &str = "table claims";

/// The timeout of a schema change, which waits until all nodes agree on the schema.
const DDL_TIMEOUT: Duration = Duration::from_secs(60);

/// A keyspace or table that the store needs: its statement and its state. Prints one line, and the
/// statement where it is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The keyspace's or table's name.
    pub name: String,
    /// The statement that makes it.
    pub statement: String,
    /// Whether it exists as it must be.
    pub state: State,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.state {
            State::Present => write!(f, "{}: present", self.name),
            State::Missing => write!(f, "{}: missing\n{};", self.name, self.statement),
            State::Differs(how) => write!(f, "{}: differs: {how}", self.name),
        }
    }
}

/// Returns everything the store needs, with its state. Errors: `Unavailable`, `Invalid` (settings,
/// credentials).
pub async fn plan(settings: &CqlSettings) -> Result<Vec<Step>, EngineError> {
    let link = Link::open(settings).await?;
    let steps = compare(&link, settings).await?;
    check_copies(&link, settings, &steps).await?;
    Ok(steps)
}

/// Makes what is missing; returns the states before. Errors: as `plan`; `Invalid` if anything
/// differs, and then nothing is made.
pub async fn apply(settings: &CqlSettings) -> Result<Vec<Step>, EngineError> {
    let link = Link::open(settings).await?;
    let steps = compare(&link, settings).await?;
    refuse_differences(&link, &steps)?;
    check_copies(&link, settings, &steps).await?;
    for step in steps.iter().filter(|step| step.state == State::Missing) {
        define(&link, step.statement.clone()).await?;
    }
    Ok(steps)
}

/// Records the keyspace's present replicas as those that have to agree (`agreeing_replicas`). No
/// process of this keyspace may run, and all replicas must be repaired. Errors: as `plan`;
/// `Invalid` if a table is missing or differs.
pub async fn change_copies(settings: &CqlSettings) -> Result<(), EngineError> {
    let link = Link::open(settings).await?;
    check(&link, settings).await?;
    let claims = CqlClaims::prepare(&link, settings).await?;
    agreeing_replicas::record_change(&link, settings, &claims).await
}

/// Checks the settings against the keyspace and the recorded replicas. Errors: `Invalid`,
/// `Unavailable`.
async fn check_copies(
    link: &Link,
    settings: &CqlSettings,
    steps: &[Step],
) -> Result<(), EngineError> {
    let is_there = |step: &Step| step.name == CLAIMS && step.state == State::Present;
    if !steps.iter().any(is_there) {
        return agreeing_replicas::check_settings(link, settings).await;
    }
    agreeing_replicas::check(link, settings, &CqlClaims::prepare(link, settings).await?).await
}

/// Checks that the store is complete. Errors: `Invalid` with what is missing and how to mend it.
pub(super) async fn check(link: &Link, settings: &CqlSettings) -> Result<(), EngineError> {
    let steps = compare(link, settings).await?;
    refuse_differences(link, &steps)?;
    let missing = steps.iter().filter(|step| step.state == State::Missing);
    let missing: Vec<_> = missing.map(|step| step.name.as_str()).collect();
    match missing[..] {
        [] => Ok(()),
        // Without the keyspace every table is missing, too.
        [keyspace, ..] if missing.len() == steps.len() => {
            Err(link.address.invalid(&format!("{keyspace} missing: {MEND}")))
        }
        _ => Err(link.address.invalid(&format!("{} missing: {MEND}", missing.join(", ")))),
    }
}

fn refuse_differences(link: &Link, steps: &[Step]) -> Result<(), EngineError> {
    let differing: Vec<_> = (steps.iter())
        .filter(|step| matches!(step.state, State::Differs(_)))
        .map(Step::to_string)
        .collect();
    if differing.is_empty() {
        return Ok(());
    }
    let what = differing.join("; ");
    Err(link.address.invalid(&format!("{what}; alter the table by hand, or use another keyspace")))
}

async fn compare(link: &Link, settings: &CqlSettings) -> Result<Vec<Step>, EngineError> {
    let keyspace = Step {
        name: format!("keyspace {}", settings.keyspace),
        statement: format!(
            "CREATE KEYSPACE IF NOT EXISTS {} WITH replication = {}",
            settings.keyspace,
            settings.replication()
        ),
        state: database_schema::keyspace_state(link, settings).await?,
    };
    let found = DatabaseSchema::read(link).await?;
    let tables = TABLES.iter().map(|table| Step {
        name: format!("table {}", table.full_name(FIRST)),
        statement: table.statement(&settings.keyspace, FIRST),
        state: found.table_state(table, FIRST),
    });
    Ok(std::iter::once(keyspace).chain(tables).collect())
}

/// Whether all tables of a build are there. Errors: `Invalid` for one that is another.
pub(super) async fn has(link: &Link, build: u32) -> Result<bool, EngineError> {
    let found = DatabaseSchema::read(link).await?;
    let mut all = true;
    for table in of_builds() {
        match found.table_state(table, build) {
            State::Present => {}
            State::Missing => all = false,
            State::Differs(how) => {
                let name = table.full_name(build);
                return Err(link.address.invalid(&format!("table {name}: differs: {how}")));
            }
        }
    }
    Ok(all)
}

/// Makes what is missing of a build's tables.
pub(super) async fn make(link: &Link, build: u32) -> Result<(), EngineError> {
    for table in of_builds() {
        define(link, table.statement(&link.keyspace, build)).await?;
    }
    Ok(())
}

/// Throws a build away: its tables, or, of the first, what is in them, for every process asks
/// for those when it starts.
pub(super) async fn drop(link: &Link, build: u32) -> Result<(), EngineError> {
    for table in of_builds() {
        let name = format!("{}.{}", link.keyspace, table.full_name(build));
        let statement = match build {
            FIRST => format!("TRUNCATE TABLE {name}"),
            _ => format!("DROP TABLE IF EXISTS {name}"),
        };
        define(link, statement).await?;
    }
    Ok(())
}

fn of_builds() -> impl Iterator<Item = &'static Table> {
    TABLES.iter().filter(|table| table.in_build == InBuild::Yes)
}

/// Runs a schema statement.
async fn define(link: &Link, statement: String) -> Result<(), EngineError> {
    let mut statement = Statement::new(statement);
    statement.set_is_idempotent(true);
    statement.set_request_timeout(Some(DDL_TIMEOUT));
    link.run(statement, ()).await.map(|_| ())
}

impl Table {
    pub(super) fn full_name(&self, build: u32) -> String {
        match self.in_build {
            InBuild::Yes => format!("{}_g{build}", self.name),
            InBuild::No => self.name.to_owned(),
        }
    }

    fn statement(&self, keyspace: &str, build: u32) -> String {
        let names =
            |columns: &[Column]| -> Vec<_> { columns.iter().map(|(name, _)| *name).collect() };
        let columns: Vec<_> = [self.partition_key, self.clustering, self.regular]
            .concat()
            .iter()
            .map(|(name, cql_type)| format!("{name} {cql_type}"))
            .collect();
        let mut key = vec![format!("({})", names(self.partition_key).join(", "))];
        key.extend(names(self.clustering).into_iter().map(str::to_owned));
        format!(
            "CREATE TABLE IF NOT EXISTS {keyspace}.{} ({}, PRIMARY KEY ({}))",
            self.full_name(build),
            columns.join(", "),
            key.join(", ")
        )
    }
}
