//! The tables a start refuses: missing, or not as they must be.

use scylla::client::session_builder::SessionBuilder;

use super::{Start, settle};
use crate::support::pair::runtime;

const BY_HAND: &str = "alter the table by hand, or use another keyspace";

/// One way to break a keyspace that `payfold schema apply` made: the statements that break it,
/// where `KS` is the keyspace, and the words of the report.
struct Row(&'static [&'static str], &'static [&'static str]);

const ALTERED: [Row; 5] = [
    Row(&["DROP TABLE KS.claims"], &["table claims", "missing", "payfold schema apply"]),
    Row(
        &["DROP TABLE KS.view_nonce_g1", "DROP TABLE KS.progress_g1"],
        &["table progress_g1", "table view_nonce_g1", "missing", "payfold schema apply"],
    ),
    Row(
        &["DROP TABLE KS.orders_g1", "CREATE TABLE KS.orders_g1 (key text PRIMARY KEY, row text)"],
        &["table orders_g1: differs", "row", BY_HAND],
    ),
    Row(
        &["ALTER TABLE KS.claims WITH default_time_to_live = 3600"],
        &["table claims: differs", "time to live", BY_HAND],
    ),
    Row(
        &["ALTER KEYSPACE KS WITH durable_writes = false"],
        &["differs: durable_writes is off", BY_HAND],
    ),
];

#[test]
#[ignore = "nightly: servers"]
fn tables_that_are_not_as_they_must_be_are_refused() {
    let mut failures = Vec::new();
    for Row(statements, words) in ALTERED {
        let Some(start) = Start::new() else { return };
        start.make_topics();
        start.make_tables();
        let cql = start.names.cql();
        runtime().block_on(async {
            let session = SessionBuilder::new().known_nodes(&cql.nodes).build().await;
            let session = session.expect("the database is there");
            for statement in statements {
                let done = session.query_unpaged(statement.replace("KS", &cql.keyspace), ()).await;
                done.expect("the statement is a good one");
            }
        });
        let of_row = start.is_refused(&[], words);
        failures.extend(of_row.iter().map(|failure| format!("{statements:?}: {failure}")));
    }
    settle(&failures);
}

#[test]
#[ignore = "nightly: servers"]
fn a_missing_keyspace_is_refused() {
    let Some(start) = Start::new() else { return };
    start.make_topics();
    let missing = format!("keyspace {}", start.names.cql().keyspace);
    settle(&start.is_refused(&[], &[&missing, "missing", "payfold schema apply"]));
}

/// One broker and one node can't have both: so it is `check` alone that comes as far as the tables.
#[test]
#[ignore = "nightly: servers"]
fn one_copy_of_the_tables_is_not_for_money() {
    let Some(start) = Start::new() else { return };
    start.make_tables();
    let check = ["check", "--connect", "--output", "json"];
    let production = [("PAYFOLD_DEV", "false")];
    let checked = start.home.ends(&check, &production, super::REFUSED_MAX);
    let words = [" has 1 replicas, needs at least 3 (`dev` allows fewer)", BY_HAND];
    settle(&super::not_failed(&checked, 1, &words));
}
