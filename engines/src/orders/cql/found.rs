//! Owns what the database says of the keyspace and its tables, and in what that differs from what they must be.
//! Invariant: a difference is told as it is met, with what must be there instead; nothing is guessed from a
//! table's name.

use std::collections::HashMap;
use std::fmt;

use scylla::statement::{Consistency, Statement};

use super::link::Link;
use super::schema::{REPLICATION_MIN, State, Table};
use super::settings::CqlSettings;
use crate::EngineError;

/// What there is in the keyspace.
pub(super) struct Found {
    /// Columns by table.
    columns: HashMap<String, Columns>,
    /// Default times to live by table, seconds; 0 for ever.
    lifetimes: HashMap<String, i32>,
}

/// How a keyspace's copies are placed, as the database says it: the class, and copies by datacenter.
type Replication = HashMap<String, String>;

/// Under which name copies are counted where no datacenter is named.
const FACTOR: &str = "replication_factor";

/// Columns as the database describes them, under their names.
type Columns = HashMap<String, Described>;

#[derive(Clone, PartialEq, Eq, Debug)]
struct Described {
    /// `partition_key`, `clustering` or `regular`.
    kind: String,
    /// Its place in its part of the key; -1 outside.
    position: i32,
    cql_type: String,
    /// `asc`, `desc` or `none`.
    order: String,
}

impl Found {
    pub(super) async fn read(link: &Link) -> Result<Self, EngineError> {
        let (columns, lifetimes) = (columns_by_table(link).await?, lifetimes(link).await?);
        Ok(Self { columns, lifetimes })
    }

    /// How a table stands.
    pub(super) fn table_state(&self, table: &Table, generation: u32) -> State {
        let name = table.full_name(generation);
        let Some(columns) = self.columns.get(&name) else { return State::Missing };
        let mut differences = differences(table, columns.clone());
        if self.lifetimes.get(&name).is_some_and(|seconds| *seconds != 0) {
            differences.push("its rows have a time to live and would vanish".to_owned());
        }
        state_of(&differences)
    }
}

/// What a keyspace is made with: its replication, and whether its writes are durable. None where there is none.
async fn keyspace(link: &Link) -> Result<Option<(Replication, bool)>, EngineError> {
    let select =
        "SELECT replication, durable_writes FROM system_schema.keyspaces WHERE keyspace_name = ?";
    let rows = link.run(of_the_node(select), (&link.keyspace,)).await?.into_rows_result();
    let rows = rows.map_err(|error| link.undecodable(&error))?;
    let row = rows.maybe_first_row::<(Replication, bool)>();
    row.map_err(|error| link.undecodable(&error))
}

/// The datacenters that have copies of the keyspace, in order; none without a keyspace. A class that counts copies
/// without naming datacenters may place them in any that has nodes.
pub(super) async fn datacenters(link: &Link) -> Result<Option<Vec<String>>, EngineError> {
    let Some((replication, _)) = keyspace(link).await? else { return Ok(None) };
    let named = copies(&replication).into_iter().filter(|(name, _)| *name != FACTOR);
    let named: Vec<_> = named.map(|(name, _)| name.to_owned()).collect();
    Ok(Some(if named.is_empty() { link.datacenters() } else { named }))
}

/// How many copies there are by datacenter, or by `replication_factor` in all, in order; those that have none are left
/// out.
fn copies(replication: &Replication) -> Vec<(&str, usize)> {
    // A number, or (ScyllaDB with racks) a list of one rack for each copy.
    let count = |text: &str| match text.strip_prefix('[') {
        Some(racks) => Some(racks.split(',').count()),
        None => text.split('/').next().and_then(|number| number.parse::<usize>().ok()),
    };
    let counted = replication.iter().filter_map(|(name, text)| Some((name.as_str(), count(text)?)));
    let mut counts: Vec<_> = counted.filter(|(_, copies)| *copies > 0).collect();
    counts.sort_unstable();
    counts
}

/// How the keyspace stands.
pub(super) async fn keyspace_state(
    link: &Link,
    settings: &CqlSettings,
) -> Result<State, EngineError> {
    let Some((replication, durable)) = keyspace(link).await? else { return Ok(State::Missing) };
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
fn replication_differences(replication: &Replication, settings: &CqlSettings) -> Vec<String> {
    let ours = |name: &str| {
        settings.datacenter.as_deref().is_none_or(|ours| ours == name || name == FACTOR)
    };
    let few = copies(replication)
        .into_iter()
        .filter(|(name, copies)| ours(name) && *copies < REPLICATION_MIN);
    few.map(|(name, copies)| {
        format!("{name} has {copies} of at least {REPLICATION_MIN} copies (`dev` allows it)")
    })
    .collect()
}

fn state_of(differences: &[String]) -> State {
    match differences {
        [] => State::Present,
        some => State::Differs(some.join(", ")),
    }
}

/// In what the table that is there is another one. A further column beside the key does no harm.
fn differences(table: &Table, mut found: Columns) -> Vec<String> {
    let parts = [
        ("partition_key", table.partition_key),
        ("clustering", table.clustering),
        ("regular", table.regular),
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
