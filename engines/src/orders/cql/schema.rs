//! Owns the tables of a CQL store: what they are, whether they are there, and how they are made.
//! Invariants: nothing that is there is ever changed or dropped, it is told; making them twice is the same as
//! once; a row is one cell, so that two writers' halves never meet in it.

use std::fmt;
use std::time::Duration;

use scylla::statement::Statement;

use super::agreeing;
use super::claims::Claims;
use super::errors::MEND;
use super::found::{self, Found};
use super::link::Link;
use super::settings::CqlSettings;
use crate::EngineError;

/// The generation whose tables `apply` makes; a rebuild makes those of others. Claims are outside of generations.
const FIRST: u32 = 1;

/// Copies without which the loss of one node stops the store or loses what was told.
pub(super) const REPLICATION_MIN: usize = 3;

/// The step that makes the claims.
const CLAIMS: &str = "table claims";

/// Making a table waits until all nodes agree about it.
const DDL_TIMEOUT: Duration = Duration::from_secs(60);

pub(super) type Column = (&'static str, &'static str);

/// A table's columns, name and type.
pub(super) struct Table {
    name: &'static str,
    in_generation: InGeneration,
    pub(super) partition_key: &'static [Column],
    pub(super) clustering: &'static [Column],
    pub(super) regular: &'static [Column],
}

#[derive(PartialEq)]
enum InGeneration {
    Yes,
    No,
}

/// A time view: buckets of ten minutes, each spread over shards.
const BY_TIME: (&[Column], &[Column]) =
    (&[("bucket", "bigint"), ("shard", "tinyint")], &[("at", "bigint"), ("key", "text")]);

static TABLES: [Table; 10] = [
    Table {
        in_generation: InGeneration::No,
        ..table("claims", (&[("key", "text")], &[]), &[("record", "blob")])
    },
    table("orders", (&[("key", "text")], &[]), &[("row", "blob")]),
    table("progress", (&[("topic", "text")], &[("partition", "bigint")]), &[("folded", "blob")]),
    table(
        "heads",
        (&[("partition", "bigint"), ("bucket", "bigint")], &[("at", "bigint")]),
        &[("head", "blob")],
    ),
    table("buckets", (&[("name", "text")], &[("bucket", "bigint")]), &[]),
    table("view_created", BY_TIME, &[]),
    table("view_deadline", BY_TIME, &[]),
    table(
        "view_reference",
        (&[("account", "text"), ("reference", "text")], &[("order_id", "text")]),
        &[],
    ),
    table(
        "view_provider_ref",
        (&[("account", "text"), ("provider_ref", "text")], &[("order_id", "text")]),
        &[],
    ),
    table(
        "view_nonce",
        (&[("account", "text"), ("nonce", "text")], &[("digest", "blob"), ("order_id", "text")]),
        &[],
    ),
];

const fn table(
    name: &'static str,
    (partition_key, clustering): (&'static [Column], &'static [Column]),
    regular: &'static [Column],
) -> Table {
    Table { name, in_generation: InGeneration::Yes, partition_key, clustering, regular }
}

/// One thing the store needs, how it is made, and whether it is there. Prints as a line to read and, where
/// something is to be done, the statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The keyspace's or table's name.
    pub name: String,
    /// The statement that makes it.
    pub statement: String,
    /// How it stands.
    pub state: State,
}

/// How something the store needs stands in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It is there.
    Present,
    /// It is not there; `apply` makes it.
    Missing,
    /// It is there and not as it must be: in what. `apply` leaves it alone.
    Differs(String),
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

/// What the store needs and how it stands. Errors: `Unavailable`, `Invalid` (settings, credentials).
pub async fn plan(settings: &CqlSettings) -> Result<Vec<Step>, EngineError> {
    let link = Link::open(settings).await?;
    let steps = compare(&link, settings).await?;
    check_copies(&link, settings, &steps).await?;
    Ok(steps)
}

/// Makes what is missing and returns how everything stood before. Errors: as `plan`; `Invalid` if anything
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

/// From now on other copies of the keyspace have to agree than so far: those that it has now, as the settings say.
/// Nothing of this keyspace may run, and all copies have to be repaired. Errors: as `plan`; `Invalid` if a table is
/// missing or another.
pub async fn change_copies(settings: &CqlSettings) -> Result<(), EngineError> {
    let link = Link::open(settings).await?;
    check(&link, settings).await?;
    let claims = Claims::prepare(&link, settings).await?;
    agreeing::change(&link, settings, &claims).await
}

/// Refuses settings that the keyspace or the claims contradict. Errors: `Invalid`, `Unavailable`.
async fn check_copies(
    link: &Link,
    settings: &CqlSettings,
    steps: &[Step],
) -> Result<(), EngineError> {
    let is_there = |step: &Step| step.name == CLAIMS && step.state == State::Present;
    if !steps.iter().any(is_there) {
        return agreeing::refuse_apart(link, settings).await;
    }
    agreeing::check(link, settings, &Claims::prepare(link, settings).await?).await
}

/// Refuses a store that is not whole. Errors: `Invalid` naming what is missing and what mends it.
pub(super) async fn check(link: &Link, settings: &CqlSettings) -> Result<(), EngineError> {
    let steps = compare(link, settings).await?;
    refuse_differences(link, &steps)?;
    let missing = steps.iter().filter(|step| step.state == State::Missing);
    let missing: Vec<_> = missing.map(|step| step.name.as_str()).collect();
    match missing[..] {
        [] => Ok(()),
        // Without it there can't be a table in it.
        [keyspace, ..] if missing.len() == steps.len() => {
            Err(link.place.invalid(&format!("{keyspace} missing: {MEND}")))
        }
        _ => Err(link.place.invalid(&format!("{} missing: {MEND}", missing.join(", ")))),
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
    Err(link.place.invalid(&format!("{what}; mend it by hand or name another keyspace")))
}

async fn compare(link: &Link, settings: &CqlSettings) -> Result<Vec<Step>, EngineError> {
    let keyspace = Step {
        name: format!("keyspace {}", settings.keyspace),
        statement: format!(
            "CREATE KEYSPACE IF NOT EXISTS {} WITH replication = {}",
            settings.keyspace,
            settings.replication()
        ),
        state: found::keyspace_state(link, settings).await?,
    };
    let found = Found::read(link).await?;
    let tables = TABLES.iter().map(|table| Step {
        name: format!("table {}", table.full_name(FIRST)),
        statement: table.statement(&settings.keyspace, FIRST),
        state: found.table_state(table, FIRST),
    });
    Ok(std::iter::once(keyspace).chain(tables).collect())
}

/// Whether all tables of a generation are there. Errors: `Invalid` for one that is another.
pub(super) async fn has(link: &Link, generation: u32) -> Result<bool, EngineError> {
    let found = Found::read(link).await?;
    let mut all = true;
    for table in of_generations() {
        match found.table_state(table, generation) {
            State::Present => {}
            State::Missing => all = false,
            State::Differs(how) => {
                let name = table.full_name(generation);
                return Err(link.place.invalid(&format!("table {name}: differs: {how}")));
            }
        }
    }
    Ok(all)
}

/// Makes what is missing of a generation's tables.
pub(super) async fn make(link: &Link, generation: u32) -> Result<(), EngineError> {
    for table in of_generations() {
        define(link, table.statement(&link.keyspace, generation)).await?;
    }
    Ok(())
}

/// Throws a generation away: its tables, or, of the first, what is in them, for every process asks for those when it
/// starts.
pub(super) async fn drop(link: &Link, generation: u32) -> Result<(), EngineError> {
    for table in of_generations() {
        let name = format!("{}.{}", link.keyspace, table.full_name(generation));
        let statement = match generation {
            FIRST => format!("TRUNCATE TABLE {name}"),
            _ => format!("DROP TABLE IF EXISTS {name}"),
        };
        define(link, statement).await?;
    }
    Ok(())
}

fn of_generations() -> impl Iterator<Item = &'static Table> {
    TABLES.iter().filter(|table| table.in_generation == InGeneration::Yes)
}

async fn define(link: &Link, statement: String) -> Result<(), EngineError> {
    let mut statement = Statement::new(statement);
    statement.set_is_idempotent(true);
    statement.set_request_timeout(Some(DDL_TIMEOUT));
    link.run(statement, ()).await.map(|_| ())
}

impl Table {
    pub(super) fn full_name(&self, generation: u32) -> String {
        match self.in_generation {
            InGeneration::Yes => format!("{}_g{generation}", self.name),
            InGeneration::No => self.name.to_owned(),
        }
    }

    fn statement(&self, keyspace: &str, generation: u32) -> String {
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
            self.full_name(generation),
            columns.join(", "),
            key.join(", ")
        )
    }
}
