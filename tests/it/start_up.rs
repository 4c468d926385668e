//! Owns the refusals of a start at scale, on real servers. Each row breaks one thing, and has the
//! words that `payfold run` and `payfold check --connect` name it with, and the fix. Invariant: a
//! refused start ends with one error and one fix, and serves no request before. Its exit code is 1,
//! or 3 where log, order store and claims are damaged or don't belong together.

mod away;
mod broker;
mod database;
mod pairing;
mod settings;
mod topics;

use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;

use crate::support::pair::Names;
use crate::support::system::{Done, Home, RUN};

/// How long a start may take that is refused at once.
const REFUSED_MAX: Duration = Duration::from_secs(14);

/// A start that is going to be refused: names that are new on the servers, and a folder that uses
/// them.
struct Start {
    names: Names,
    home: Rc<Home>,
}

/// Variables over those of the folder.
type Variables<'a> = &'a [(&'a str, &'a str)];

impl Start {
    /// A start without topics and tables; `None` where real servers are left out.
    fn new() -> Option<Self> {
        let names = Names::new()?;
        let home = names.home();
        Some(Self { names, home })
    }

    /// `payfold topics apply`.
    fn make_topics(&self) {
        self.home.payfold(&["topics", "apply"]).ok();
    }

    /// `payfold schema apply`.
    fn make_tables(&self) {
        self.home.payfold(&["schema", "apply"]).ok();
    }

    /// `payfold run`, which has to end.
    fn run(&self, variables: Variables, time_max: Duration) -> Done {
        self.home.ends(&RUN, variables, time_max)
    }

    /// Holds `run` and `check --connect` to what they must say; what they say else.
    fn is_refused(&self, variables: Variables, words: &[&str]) -> Vec<String> {
        self.ends_with(1, variables, words)
    }

    /// The same where log, order store and claims don't belong together.
    fn differs(&self, words: &[&str]) -> Vec<String> {
        self.ends_with(3, &[], words)
    }

    fn ends_with(&self, code: i32, variables: Variables, words: &[&str]) -> Vec<String> {
        let mut failures = not_refused(&self.run(variables, REFUSED_MAX), code, words);
        let check = ["check", "--connect", "--output", "json"];
        let checked = self.home.ends(&check, variables, REFUSED_MAX);
        failures.extend(not_failed(&checked, code, words));
        failures
    }
}

/// How the refusal of a start differs from what it must be; empty if it does not.
fn not_refused(run: &Done, code: i32, words: &[&str]) -> Vec<String> {
    let text = &run.stderr;
    let mut failures = missing("run", text, words);
    let lines = |begin| text.lines().filter(|line| line.starts_with(begin)).count();
    if (run.code(), lines("error: "), lines("  fix: ")) != (code, 1, 1) {
        failures.push(format!("run ends with {}, one error and one fix: {text}", run.code()));
    }
    // A start waits only for what may come; a refusal comes at once, on any machine.
    if text.contains("trying again for") {
        failures.push(format!("run waited for what never comes: {text}"));
    }
    if !run.stdout.is_empty() {
        failures.push(format!("run says before: {}", run.stdout));
    }
    failures
}

/// What is wrong with a check that has to fail.
fn not_failed(check: &Done, code: i32, words: &[&str]) -> Vec<String> {
    if check.code() != code {
        return vec![format!("check ends with {}: {}", check.code(), check.stdout)];
    }
    let rows: Vec<Value> = serde_json::from_str(&check.stdout).unwrap_or_default();
    let failed = rows.iter().filter(|row| row["result"] == "failed");
    let text = |row: &Value, name: &str| row[name].as_str().unwrap_or_default().to_owned();
    let mut printed: Vec<_> =
        failed.map(|row| format!("{} {}", text(row, "detail"), text(row, "fix"))).collect();
    // Without settings there is nothing to check.
    printed.push(check.stderr.clone());
    missing("check", &printed.join("\n"), words)
}

fn missing(who: &str, text: &str, words: &[&str]) -> Vec<String> {
    let not_said = words.iter().filter(|word| !text.contains(**word));
    not_said.map(|word| format!("{who} does not say {word:?}: {text}")).collect()
}

/// Fails with everything that went wrong in a table.
fn settle(failures: &[String]) {
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}
