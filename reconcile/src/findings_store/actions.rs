//! Owns the table of people's actions, by time.

use payfold_schemas::ids::Author;
use rusqlite::{Connection, Result, ToSql, params};

use super::table::from_json;
use crate::person_action::PersonAction;

pub(super) const TABLE: &str = "
CREATE TABLE action (id TEXT PRIMARY KEY, at INTEGER NOT NULL, author TEXT, body BLOB NOT NULL);
CREATE INDEX of_time ON action (at, id);
CREATE INDEX of_author ON action (author, at, id);
";

/// Selects actions of people, the newest first.
#[derive(Clone, Copy, Debug)]
pub struct ActionFilter<'a> {
    /// Actions of this person.
    pub author: Option<&'a Author>,
    /// Actions before this one: its time in nanoseconds since the epoch, and its id.
    pub before: Option<(i64, &'a str)>,
    /// The most actions.
    pub limit: usize,
}

/// Stores these actions. One that is stored stays as it is.
pub(super) fn add(rows: &mut Connection, actions: &[PersonAction]) -> Result<()> {
    if actions.is_empty() {
        return Ok(());
    }
    let all = rows.transaction()?;
    let mut insert = all.prepare_cached("INSERT OR IGNORE INTO action VALUES (?1, ?2, ?3, ?4)")?;
    for action in actions {
        let author = action.author.as_ref().map(Author::as_str);
        let body = serde_json::to_vec(action).expect("an action serializes to JSON");
        insert.execute(params![action.id, action.at.unix_nanos(), author, body])?;
    }
    drop(insert);
    all.commit()
}

/// The selected actions, the newest first.
pub(super) fn select(rows: &Connection, filter: ActionFilter<'_>) -> Result<Vec<PersonAction>> {
    let ActionFilter { author, before, limit } = filter;
    let author = author.map(Author::as_str);
    let (at, id) = before.unwrap_or((i64::MAX, ""));
    let mut select = "SELECT body FROM action WHERE (at, id) < (?1, ?2)".to_owned();
    let mut values: Vec<&dyn ToSql> = vec![&at, &id];
    if let Some(author) = &author {
        values.push(author);
        select += " AND author = ?3";
    }
    select += &format!(" ORDER BY at DESC, id DESC LIMIT {limit}");
    rows.prepare_cached(&select)?.query_map(&values[..], from_json)?.collect()
}
