//! Owns the tables of a CQL store: what they are, whether they are there, and how they are made.
//! Invariants: nothing that is there is ever changed or dropped, it is told; making them twice is the same as
//! once; a row is one cell, so that two writers' halves never meet in it.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use scylla::statement::{Consistency, Statement};

use super::errors::MEND;
use super::link::Link;
use super::settings::CqlSettings;
use crate::EngineError;

/// The generation of every table this version makes; claims are outside of generations.
pub(super) const GENERATION: u32 = 1;

/// Copies without which the loss of one node stops the store or loses what was told.
pub(super) const REPLICATION_MIN: usize = 3;

/// Making a table waits until all nodes agree about it.
const DDL_TIMEOUT: Duration = Duration::from_secs(60);

type Column = (&'static str, &'static str);

/// A table's columns, name and type.
struct Table {
    name: &'static str,
    in_generation: InGeneration,
    partition_key: &'static [Column],
    clustering: &'static [Column],
    regular: &'static [Column],
}

#[derive(PartialEq)]
enum InGeneration {
    Yes,
    No,
}

/// A time view: buckets of ten minutes, each spread over shards.
const BY_TIME: (&[Column], &[Column]) =
    (&[("bucket", "bigint"), ("shard", "tinyint")], &[("at", "bigint"), ("key", "text")]);

const TABLES: [Table; 9] = [
    Table {
        in_generation: InGeneration::No,
        ..table("claims", (&[("key", "text")], &[]), &[("record", "blob")])
    },
    table("orders", (&[("key", "text")], &[]), &[("row", "blob")]),
    table("progress", (&[("topic", "text")], &[("partition", "bigint")]), &[("folded", "blob")]),
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
    compare(&Link::open(settings).await?, settings).await
}

/// Makes what is missing and returns how everything stood before. Errors: as `plan`; `Invalid` if anything
/// differs, and then nothing is made.
pub async fn apply(settings: &CqlSettings) -> Result<Vec<Step>, EngineError> {
    let link = Link::open(settings).await?;
    let steps = compare(&link, settings).await?;
    refuse_differences(&link, &steps)?;
    for step in steps.iter().filter(|step| step.state == State::Missing) {
        let mut statement = Statement::new(&step.statement);
        statement.set_is_idempotent(true);
        statement.set_request_timeout(Some(DDL_TIMEOUT));
        link.run(statement, ()).await?;
    }
    Ok(steps)
}

/// Refuses a store that is not whole. Errors: `Invalid` naming what is missing and what mends it.
pub(super) async fn check(link: &Link, settings: &CqlSettings) -> Result<(), EngineError> {
    let steps = compare(link, settings).await?;
    refuse_differences(link, &steps)?;
    let missing = steps.iter().filter(|step| step.state == State::Missing);
    let missing: Vec<_> = missing.map(|step| step.name.as_str()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(link.place.invalid(&format!("{} missing: {MEND}", missing.join(", "))))
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

/// A column as the database describes it, under its name.
type Columns = HashMap<String, Described>;

#[derive(PartialEq, Eq, Debug)]
struct Described {
    /// `partition_key`, `clustering` or `regular`.
    kind: String,
    /// Its place in its part of the key; -1 outside.
    position: i32,
    cql_type: String,
    /// `asc`, `desc` or `none`.
    order: String,
}

async fn compare(link: &Link, settings: &CqlSettings) -> Result<Vec<Step>, EngineError> {
    let keyspace = Step {
        name: format!("keyspace {}", settings.keyspace),
        statement: format!(
            "CREATE KEYSPACE IF NOT EXISTS {} WITH replication = {}",
            settings.keyspace,
            settings.replication()
        ),
        state: keyspace_state(link, settings).await?,
    };
    let mut found = columns_by_table(link).await?;
    let lifetimes = lifetimes(link).await?;
    let mut steps = vec![keyspace];
    for table in &TABLES {
        let name = table.full_name();
        let state = match found.remove(&name) {
            None => State::Missing,
            Some(columns) => {
                let mut differences = table.differences(columns);
                if lifetimes.get(&name).is_some_and(|seconds| *seconds != 0) {
                    differences.push("its rows have a time to live and would vanish".to_owned());
                }
                state_of(&differences)
            }
        };
        let statement = table.statement(&settings.keyspace);
        steps.push(Step { name: format!("table {name}"), statement, state });
    }
    Ok(steps)
}

fn state_of(differences: &[String]) -> State {
    match differences {
        [] => State::Present,
        some => State::Differs(some.join(", ")),
    }
}

impl Table {
    fn full_name(&self) -> String {
        match self.in_generation {
            InGeneration::Yes => format!("{}_g{GENERATION}", self.name),
            InGeneration::No => self.name.to_owned(),
        }
    }

    fn statement(&self, keyspace: &str) -> String {
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
            self.full_name(),
            columns.join(", "),
            key.join(", ")
        )
    }

    /// In what the table that is there is another one. A further column beside the key does no harm.
    fn differences(&self, mut found: Columns) -> Vec<String> {
        let parts = [
            ("partition_key", self.partition_key),
            ("clustering", self.clustering),
            ("regular", self.regular),
        ];
        let mut differences = Vec::new();
        for (kind, columns) in parts {
            for (position, (name, cql_type)) in (0..).zip(columns) {
                let expected = Described {
                    kind: kind.to_owned(),
                    position: if kind == "regular" { -1 } else { position },
                    cql_type: (*cql_type).to_owned(),
                    order: if kind == "clustering" { "asc" } else { "none" }.to_owned(),
                };
                match found.remove(*name) {
                    None => differences.push(format!("column {name} is missing")),
                    Some(column) if column != expected => {
                        differences.push(format!("column {name} is {column}, must be {expected}"));
                    }
                    Some(_) => {}
                }
            }
        }
        let mut strangers: Vec<_> =
            found.into_iter().filter(|(_, column)| column.position >= 0).collect();
        strangers.sort_by(|(one, _), (other, _)| one.cmp(other));
        differences.extend(
            strangers
                .iter()
                .map(|(name, column)| format!("column {name} is {column}, must not be in the key")),
        );
        differences
    }
}

impl fmt::Display for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.replace('_', " "), self.cql_type)?;
        if self.position >= 0 {
            write!(f, " at {}", self.position)?;
        }
        if self.order == "desc" { f.write_str(" descending") } else { Ok(()) }
    }
}

/// What a node knows of its tables, it knows alone.
fn of_the_node(cql: &str) -> Statement {
    let mut statement = Statement::new(cql);
    statement.set_consistency(Consistency::One);
    statement.set_is_idempotent(true);
    statement
}

async fn keyspace_state(link: &Link, settings: &CqlSettings) -> Result<State, EngineError> {
    let select =
        "SELECT replication, durable_writes FROM system_schema.keyspaces WHERE keyspace_name = ?";
    let rows = link.run(of_the_node(select), (&link.keyspace,)).await?.into_rows_result();
    let rows = rows.map_err(|error| link.undecodable(&error))?;
    let row = rows.maybe_first_row::<(HashMap<String, String>, bool)>();
    let Some((replication, durable)) = row.map_err(|error| link.undecodable(&error))? else {
        return Ok(State::Missing);
    };
    let mut differences = Vec::new();
    if !durable {
        differences.push("durable_writes is off".to_owned());
    }
    if !settings.dev {
        differences.extend(replication_differences(&replication, settings));
    }
    Ok(state_of(&differences))
}

/// What is wrong with a keyspace's copies, datacenter by datacenter. A class that is not one of the two
/// that count copies is left to whoever chose it.
fn replication_differences(
    replication: &HashMap<String, String>,
    settings: &CqlSettings,
) -> Vec<String> {
    // A number, or (ScyllaDB with racks) a list of one rack for each copy.
    let copies = |text: &str| match text.strip_prefix('[') {
        Some(racks) => Some(racks.split(',').count()),
        None => text.split('/').next().and_then(|number| number.parse::<usize>().ok()),
    };
    let mut counts: Vec<_> = (replication.iter())
        .filter_map(|(name, text)| copies(text).map(|copies| (name.as_str(), copies)))
        .filter(|(name, copies)| {
            *copies > 0
                && settings
                    .datacenter
                    .as_deref()
                    .is_none_or(|ours| ours == *name || *name == "replication_factor")
        })
        .collect();
    counts.sort_unstable();
    let few = counts.iter().filter(|(_, copies)| *copies < REPLICATION_MIN);
    let mut differences: Vec<_> = few
        .map(|(name, copies)| {
            format!("{name} has {copies} of at least {REPLICATION_MIN} copies (`dev` allows it)")
        })
        .collect();
    let local = matches!(settings.consistency, Consistency::LocalQuorum | Consistency::LocalOne);
    if local && settings.datacenter.is_none() && counts.len() > 1 {
        let text = "it is in several datacenters and the consistency is local: name the datacenter";
        differences.push(text.to_owned());
    }
    differences
}

async fn columns_by_table(link: &Link) -> Result<HashMap<String, Columns>, EngineError> {
    let select = "SELECT table_name, column_name, kind, position, type, clustering_order
         FROM system_schema.columns WHERE keyspace_name = ?";
    let rows = link.run(of_the_node(select), (&link.keyspace,)).await?.into_rows_result();
    let rows = rows.map_err(|error| link.undecodable(&error))?;
    let rows = rows.rows::<(String, String, String, i32, String, String)>();
    let mut tables: HashMap<String, Columns> = HashMap::new();
    for row in rows.map_err(|error| link.undecodable(&error))? {
        let (table, column, kind, position, cql_type, order) =
            row.map_err(|error| link.undecodable(&error))?;
        let described = Described { kind, position, cql_type, order };
        tables.entry(table).or_default().insert(column, described);
    }
    Ok(tables)
}

/// The default times to live, seconds, by table.
async fn lifetimes(link: &Link) -> Result<HashMap<String, i32>, EngineError> {
    let select =
        "SELECT table_name, default_time_to_live FROM system_schema.tables WHERE keyspace_name = ?";
    let rows = link.run(of_the_node(select), (&link.keyspace,)).await?.into_rows_result();
    let rows = rows.map_err(|error| link.undecodable(&error))?;
    let rows = rows.rows::<(String, Option<i32>)>().map_err(|error| link.undecodable(&error))?;
    rows.map(|row| row.map(|(table, seconds)| (table, seconds.unwrap_or(0))))
        .collect::<Result<_, _>>()
        .map_err(|error| link.undecodable(&error))
}
