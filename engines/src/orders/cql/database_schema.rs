//! Owns reading the keyspace and its tables from the database's system tables, and comparing them
//! with the definitions. Invariant: every difference is reported with what is expected instead.

use std::collections::HashMap;
use std::fmt;

use scylla::statement::{Consistency, Statement};

use super::definitions::{REPLICATION_MIN, State, Table};
use super::link::Link;
use super::settings::CqlSettings;
use crate::EngineError;

/// The tables of the keyspace.
pub(super) struct DatabaseSchema {
    /// Columns by table.
    columns: HashMap<String, Columns>,
    /// Default time to live by table, seconds; 0 for none.
    lifetimes: HashMap<String, i32>,
}

/// A keyspace's replication as the database returns it: the class, and replicas by datacenter.
type Replication = HashMap<String, String>;

/// The name of the number of replicas where no datacenter is named.
const REPLICATION_FACTOR: &str = "replication_factor";

/// Columns by name, as the database describes them.
type Columns = HashMap<String, ColumnDescription>;

#[derive(Clone, PartialEq, Eq, Debug)]
struct ColumnDescription {
    /// `partition_key`, `clustering` or `regular`.
    kind: String,
    /// Its index in its part of the key; -1 outside the key.
    position: i32,
    cql_type: String,
    /// `asc`, `desc` or `none`.
    order: String,
}

impl DatabaseSchema {
    pub(super) async fn read(link: &Link) -> Result<Self, EngineError> {
        let (columns, lifetimes) = (columns_by_table(link).await?, lifetimes(link).await?);
        Ok(Self { columns, lifetimes })
    }

    /// Whether a table exists as it must be.
    pub(super) fn table_state(&self, table: &Table, build: u32) -> State {
        let name = table.full_name(build);
        let Some(columns) = self.columns.get(&name) else { return State::Missing };
        let mut differences = differences(table, columns.clone());
        if self.lifetimes.get(&name).is_some_and(|seconds| *seconds != 0) {
            differences
                .push("its rows have a default time to live and would be deleted".to_owned());
        }
        state_of(&differences)
    }
}

/// Reads a keyspace's replication, and whether its writes are durable; `None` if it doesn't exist.
async fn read_keyspace(link: &Link) -> Result<Option<(Replication, bool)>, EngineError> {
    let select =
        "SELECT replication, durable_writes FROM system_schema.keyspaces WHERE keyspace_name = ?";
    let rows = link.run(system_query(select), (&link.keyspace,)).await?.into_rows_result();
    let rows = rows.map_err(|error| link.undecodable(&error))?;
    let row = rows.maybe_first_row::<(Replication, bool)>();
    row.map_err(|error| link.undecodable(&error))
}

/// The datacenters with replicas of the keyspace, sorted; `None` without a keyspace. A replication
/// class that doesn't name datacenters may place replicas in any datacenter with nodes.
pub(super) async fn datacenters(link: &Link) -> Result<Option<Vec<String>>, EngineError> {
    let Some((replication, _)) = read_keyspace(link).await? else { return Ok(None) };
    let named =
        replica_counts(&replication).into_iter().filter(|(name, _)| *name != REPLICATION_FACTOR);
    let named: Vec<_> = named.map(|(name, _)| name.to_owned()).collect();
    Ok(Some(if named.is_empty() { link.datacenters() } else { named }))
}

/// The number of replicas by datacenter, or in all by `replication_factor`, sorted by name; zeros
/// are left out.
fn replica_counts(replication: &Replication) -> Vec<(&str, usize)> {
    // A number, or (ScyllaDB with racks) a list with one rack for each replica.
    let count = |text: &str| match text.strip_prefix('[') {
        Some(racks) => Some(racks.split(',').count()),
        None => text.split('/').next().and_then(|number| number.parse::<usize>().ok()),
    };
    let counted = replication.iter().filter_map(|(name, text)| Some((name.as_str(), count(text)?)));
    let mut counts: Vec<_> = counted.filter(|(_, copies)| *copies > 0).collect();
    counts.sort_unstable();
    counts
}

/// Whether the keyspace exists as it must be.
pub(super) async fn keyspace_state(
    link: &Link,
    settings: &CqlSettings,
) -> Result<State, EngineError> {
    let Some((replication, durable)) = read_keyspace(link).await? else {
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

/// What is wrong with a keyspace's replication, by datacenter. A class that has no number of
/// replicas is not checked.
fn replication_differences(replication: &Replication, settings: &CqlSettings) -> Vec<String> {
    let ours = |name: &str| {
        settings.datacenter.as_deref().is_none_or(|ours| ours == name || name == REPLICATION_FACTOR)
    };
    let few = replica_counts(replication)
        .into_iter()
        .filter(|(name, copies)| ours(name) && *copies < REPLICATION_MIN);
    few.map(|(name, copies)| {
        format!(
            "{name} has {copies} replicas, needs at least {REPLICATION_MIN} (`dev` allows fewer)"
        )
    })
    .collect()
}

fn state_of(differences: &[String]) -> State {
    match differences {
        [] => State::Present,
        some => State::Differs(some.join(", ")),
    }
}

/// The differences between a table and its definition. An additional column outside the key is
/// fine.
fn differences(table: &Table, mut found: Columns) -> Vec<String> {
    let parts = [
        ("partition_key", table.partition_key),
        ("clustering", table.clustering),
        ("regular", table.regular),
    ];
    let mut differences = Vec::new();
    for (kind, columns) in parts {
        for (position, (name, cql_type)) in (0..).zip(columns) {
            let expected = ColumnDescription {
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

impl fmt::Display for ColumnDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.replace('_', " "), self.cql_type)?;
        if self.position >= 0 {
            write!(f, " at {}", self.position)?;
        }
        if self.order == "desc" { f.write_str(" descending") } else { Ok(()) }
    }
}

/// Makes a query of a node's system tables. They are local to the node, so consistency ONE is
/// enough.
fn system_query(cql: &str) -> Statement {
    let mut statement = Statement::new(cql);
    statement.set_consistency(Consistency::One);
    statement.set_is_idempotent(true);
    statement
}

async fn columns_by_table(link: &Link) -> Result<HashMap<String, Columns>, EngineError> {
    let select = "SELECT table_name, column_name, kind, position, type, clustering_order
         FROM system_schema.columns WHERE keyspace_name = ?";
    let rows = link.run(system_query(select), (&link.keyspace,)).await?.into_rows_result();
    let rows = rows.map_err(|error| link.undecodable(&error))?;
    let rows = rows.rows::<(String, String, String, i32, String, String)>();
    let mut tables: HashMap<String, Columns> = HashMap::new();
    for row in rows.map_err(|error| link.undecodable(&error))? {
        let (table, column, kind, position, cql_type, order) =
            row.map_err(|error| link.undecodable(&error))?;
        let described = ColumnDescription { kind, position, cql_type, order };
        tables.entry(table).or_default().insert(column, described);
    }
    Ok(tables)
}

/// Reads the default time to live of each table, seconds.
async fn lifetimes(link: &Link) -> Result<HashMap<String, i32>, EngineError> {
    let select =
        "SELECT table_name, default_time_to_live FROM system_schema.tables WHERE keyspace_name = ?";
    let rows = link.run(system_query(select), (&link.keyspace,)).await?.into_rows_result();
    let rows = rows.map_err(|error| link.undecodable(&error))?;
    let rows = rows.rows::<(String, Option<i32>)>().map_err(|error| link.undecodable(&error))?;
    rows.map(|row| row.map(|(table, seconds)| (table, seconds.unwrap_or(0))))
        .collect::<Result<_, _>>()
        .map_err(|error| link.undecodable(&error))
}
