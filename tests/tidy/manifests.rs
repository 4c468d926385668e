//! Owns the rules that look at whole files and at manifests: sizes, openings, dependency
//! directions, duplicates.

use std::collections::{BTreeMap, BTreeSet};

use toml::Value;

use crate::source::File;
use crate::{Hit, hit};

const FILE_LINES_MAX: usize = 400;
const DECISION_LINES_MAX: usize = 60;

/// The packages of this workspace that each of them may depend on. The root may depend on all.
const DIRECTIONS: [(&str, &[&str]); 19] = [
    ("payfold-schemas", &[]),
    ("payfold-engines", &["payfold-schemas"]),
    ("payfold-partners", &["payfold-schemas"]),
    ("payfold-kit", &["payfold-schemas", "payfold-engines"]),
    ("payfold-ingest", BELOW_ROLES),
    ("payfold-checkout", &["payfold-schemas", "payfold-engines", "payfold-partners"]),
    ("payfold-projector", &["payfold-schemas", "payfold-engines", "payfold-kit"]),
    (
        "payfold-reconcile",
        &["payfold-schemas", "payfold-engines", "payfold-partners", "payfold-kit"],
    ),
    (
        "payfold-reconciler",
        &[
            "payfold-schemas",
            "payfold-engines",
            "payfold-partners",
            "payfold-kit",
            "payfold-reconcile",
        ],
    ),
    ("payfold-report", &["payfold-schemas", "payfold-reconcile"]),
    (
        "payfold-verify",
        &[
            "payfold-schemas",
            "payfold-engines",
            "payfold-kit",
            "payfold-ingest",
            "payfold-projector",
        ],
    ),
    (
        "payfold-views",
        &[
            "payfold-schemas",
            "payfold-engines",
            "payfold-partners",
            "payfold-kit",
            "payfold-projector",
            "payfold-reconcile",
            "payfold-reconciler",
            "payfold-report",
        ],
    ),
    (
        "payfold-api",
        &[
            "payfold-schemas",
            "payfold-partners",
            "payfold-projector",
            "payfold-reconcile",
            "payfold-views",
        ],
    ),
    ("payfold-console", &["payfold-schemas", "payfold-views", "payfold-report", "payfold-api"]),
    ("payfold-sandbox", BELOW_ROLES),
    (
        "payfold-certify",
        &["payfold-schemas", "payfold-engines", "payfold-partners", "payfold-sandbox"],
    ),
    (
        "payfold-bench",
        &[
            "payfold-schemas",
            "payfold-engines",
            "payfold-partners",
            "payfold-projector",
            "payfold-sandbox",
        ],
    ),
    ("payfold-testing", &[]),
    ("payfold-doubles", &["payfold-schemas", "payfold-engines"]),
];
/// What the tests of every package may use besides.
const OF_TESTS: [&str; 2] = ["payfold-testing", "payfold-doubles"];
const BELOW_ROLES: &[&str] = &["payfold-schemas", "payfold-engines", "payfold-partners"];

/// What the vocabulary may not touch: I/O, clocks, threads, logs.
const IO_CRATES: [&str; 14] = [
    "actix-web",
    "age",
    "anyhow",
    "config",
    "futures-util",
    "governor",
    "prometheus",
    "rdkafka",
    "rusqlite",
    "scylla",
    "tempfile",
    "tokio",
    "tracing",
    "ureq",
];

pub fn sizes(files: &[File]) -> Vec<Hit> {
    (files.iter().filter(|file| file.is_rust()))
        .filter_map(|file| {
            let counted = file
                .lines()
                .iter()
                .zip(file.text.lines())
                .filter(|(line, _)| file.is_test || !line.in_tests)
                .count();
            let what = format!("{counted} lines of at most {FILE_LINES_MAX}");
            (counted > FILE_LINES_MAX).then(|| hit(&file.path, 1, what))
        })
        .collect()
}

pub fn openings(files: &[File]) -> Vec<Hit> {
    (files.iter())
        // One line owns nothing yet.
        .filter(|file| file.is_rust() && file.text.lines().count() > 1)
        .filter(|file| !file.text.starts_with("//! "))
        .map(|file| hit(&file.path, 1, "the file does not open with `//!`".to_owned()))
        .collect()
}

pub fn decisions(files: &[File]) -> Vec<Hit> {
    (files.iter().filter(|file| file.path.starts_with("docs/decisions/")))
        .filter_map(|file| {
            let lines = file.text.lines().count();
            let what = format!("{lines} lines of at most {DECISION_LINES_MAX}");
            (lines > DECISION_LINES_MAX).then(|| hit(&file.path, DECISION_LINES_MAX + 1, what))
        })
        .collect()
}

pub fn directions(files: &[File]) -> Vec<Hit> {
    on_dependencies(files, |package, dependency, kind| {
        let (_, may) = DIRECTIONS.iter().find(|(name, _)| *name == package)?;
        let of_tests = kind == "dev-dependencies" && OF_TESTS.contains(&dependency);
        let against = dependency.starts_with("payfold") && !may.contains(&dependency) && !of_tests;
        against.then(|| format!("{package} depends on {dependency}"))
    })
}

pub fn pure_vocabulary(files: &[File]) -> Vec<Hit> {
    on_dependencies(files, |package, dependency, _| {
        let against = package == "payfold-schemas" && IO_CRATES.contains(&dependency);
        against.then(|| format!("{package} depends on {dependency}"))
    })
}

pub fn lints(files: &[File]) -> Vec<Hit> {
    manifests(files)
        .filter(|(_, manifest)| manifest.get("package").is_some())
        .filter(|(_, manifest)| {
            let inherited = manifest.get("lints").and_then(|lints| lints.get("workspace"));
            inherited.and_then(Value::as_bool) != Some(true)
        })
        .map(|(file, _)| hit(&file.path, 1, "the workspace's lints are not inherited".to_owned()))
        .collect()
}

fn manifests(files: &[File]) -> impl Iterator<Item = (&File, Value)> {
    (files.iter().filter(|file| file.path == "Cargo.toml" || file.path.ends_with("/Cargo.toml")))
        .map(|file| (file, toml::from_str(&file.text).expect("a manifest is TOML")))
}

/// Hits of `check`, which gets a package, what it depends on, and the table that says so.
fn on_dependencies(files: &[File], check: impl Fn(&str, &str, &str) -> Option<String>) -> Vec<Hit> {
    let mut hits = Vec::new();
    for (file, manifest) in manifests(files) {
        let name = manifest.get("package").and_then(|package| package.get("name"));
        let package = name.and_then(Value::as_str).unwrap_or_default();
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            let table = manifest.get(kind).and_then(Value::as_table);
            for dependency in table.into_iter().flat_map(toml::Table::keys) {
                if let Some(what) = check(package, dependency, kind) {
                    let line = file.text.lines().position(|line| line.starts_with(dependency));
                    hits.push(hit(&file.path, line.map_or(1, |index| index + 1), what));
                }
            }
        }
    }
    hits
}

/// Every crate that a manifest names has a row in `docs/dependencies.md`, and every row's crate is
/// in a manifest.
pub fn reasons(files: &[File]) -> Vec<Hit> {
    const TABLE: &str = "docs/dependencies.md";
    let Some(table) = files.iter().find(|file| file.path == TABLE) else { return Vec::new() };
    let first = |row: &str| {
        row.strip_prefix("| ").and_then(|row| row.split(" |").next()).map(str::to_owned)
    };
    let cells = table.text.lines().filter_map(first).filter(|cell| cell != "Crate");
    let given: BTreeSet<String> =
        cells.flat_map(|cell| cell.split(", ").map(str::to_owned).collect::<Vec<_>>()).collect();
    let named = std::cell::RefCell::new(BTreeSet::new());
    let mut hits = on_dependencies(files, |package, dependency, _| {
        if dependency.starts_with("payfold") || !package.starts_with("payfold") {
            return None;
        }
        named.borrow_mut().insert(dependency.to_owned());
        (!given.contains(dependency)).then(|| format!("{dependency} has no row in {TABLE}"))
    });
    let named = named.into_inner();
    let unused = given.difference(&named).map(|name| format!("no manifest names {name}"));
    hits.extend(unused.map(|what| hit(TABLE, 1, what)));
    hits
}

/// Every version of a crate but the newest is in `deny.toml` with the reason, and nothing else is.
pub fn duplicates(files: &[File]) -> Vec<Hit> {
    let text_of = |path: &str| files.iter().find(|file| file.path == path).map(|file| &file.text);
    let (Some(lock), Some(deny)) = (text_of("Cargo.lock"), text_of("deny.toml")) else {
        return vec![hit("deny.toml", 1, "Cargo.lock or deny.toml is missing".to_owned())];
    };
    let locked = older_versions(lock);
    let listed = skipped(deny);
    let missing = locked.difference(&listed).map(|older| format!("{older} is not in bans.skip"));
    let stale = listed.difference(&locked).map(|entry| format!("{entry} is no older duplicate"));
    missing.chain(stale).map(|what| hit("deny.toml", 1, what)).collect()
}

/// `name@version` of every locked version of which a newer one is locked too.
fn older_versions(lock: &str) -> BTreeSet<String> {
    let lock: Value = toml::from_str(lock).expect("Cargo.lock is TOML");
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in lock.get("package").and_then(Value::as_array).into_iter().flatten() {
        let field = |name: &str| package.get(name).and_then(Value::as_str).unwrap_or_default();
        versions.entry(field("name")).or_default().push(field("version"));
    }
    let number = |version: &&str| -> Vec<u64> {
        version.split(['.', '-', '+']).map_while(|part| part.parse().ok()).collect()
    };
    let mut older = BTreeSet::new();
    for (name, mut of_name) in versions {
        of_name.sort_by_key(number);
        of_name.pop();
        older.extend(of_name.iter().map(|version| format!("{name}@{version}")));
    }
    older
}

fn skipped(deny: &str) -> BTreeSet<String> {
    let deny: Value = toml::from_str(deny).expect("deny.toml is TOML");
    let skip = deny.get("bans").and_then(|bans| bans.get("skip")).and_then(Value::as_array);
    (skip.into_iter().flatten())
        .filter(|entry| entry.get("reason").and_then(Value::as_str).is_some_and(|r| !r.is_empty()))
        .filter_map(|entry| entry.get("crate").and_then(Value::as_str))
        .map(str::to_owned)
        .collect()
}
