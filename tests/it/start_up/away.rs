//! The servers that are away: a start waits for them some seconds, says so once, and gives up with
//! their addresses.

use std::time::{Duration, Instant};

use super::{Start, Variables, settle};

/// How long a start waits for servers.
const WAIT: Duration = Duration::from_secs(15);
const GIVEN_UP_MAX: Duration = Duration::from_secs(45);
/// No server listens at the lowest port.
const CLOSED_PORT: &str = "127.0.0.1:1";

/// The variables that lead to no server, what is waited for, and what is said in the end.
struct Row(Variables<'static>, &'static str, &'static [&'static str]);

static AWAY: [Row; 3] = [
    Row(
        &[("PAYFOLD_LOG", "kafka://127.0.0.1:1/pay")],
        "can't check the topics yet",
        &["Kafka did not answer", CLOSED_PORT],
    ),
    Row(
        &[("PAYFOLD_ORDERS", "cql://127.0.0.1:1/pay")],
        "can't open the order store yet",
        &["cql://127.0.0.1:1/pay"],
    ),
    Row(
        &[("PAYFOLD_CQL__DATACENTER", "moon")],
        "can't open the order store yet",
        &["cql.datacenter names a datacenter without nodes"],
    ),
];

#[test]
#[ignore = "nightly: servers"]
fn servers_that_are_away_are_waited_for_and_named() {
    // Most of the time nothing is done but to wait.
    let failures = std::thread::scope(|scope| {
        let tried: Vec<_> = AWAY.iter().map(|row| scope.spawn(move || row.attempt())).collect();
        let failures = tried.into_iter().flat_map(|one| one.join().expect("it does not panic"));
        failures.collect::<Vec<_>>()
    });
    settle(&failures);
}

impl Row {
    /// What is wrong with what is said.
    fn attempt(&self) -> Vec<String> {
        let Self(variables, waits, words) = *self;
        let Some(start) = Start::new() else { return Vec::new() };
        start.make_topics();
        start.make_tables();
        let begun = Instant::now();
        let run = start.run(variables, GIVEN_UP_MAX);
        let took = begun.elapsed();
        let mut failures = super::missing("run", &run.stderr, words);
        failures.extend(super::missing(
            "run",
            &run.stderr,
            &["fix: correct the cause, then start again"],
        ));
        // It says once that it waits.
        if (run.code(), run.stderr.matches(waits).count()) != (1, 1) || took < WAIT {
            failures.push(format!("after {took:.1?}: {run:?}"));
        }
        let check = ["check", "--connect", "--output", "json"];
        let checked = start.home.ends(&check, variables, GIVEN_UP_MAX);
        failures.extend(super::not_failed(&checked, 1, words));
        failures
    }
}
