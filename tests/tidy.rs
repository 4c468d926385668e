//! Owns the house style as a test: every rule that a machine can check, and for each a planted text
//! that proves it can fail. A failure names file and line, the text there, and the correction.

#[path = "tidy/counts.rs"]
mod counts;
#[path = "tidy/errors.rs"]
mod errors;
#[path = "tidy/features.rs"]
mod features;
#[path = "tidy/imports.rs"]
mod imports;
#[path = "tidy/lines.rs"]
mod lines;
#[path = "tidy/manifests.rs"]
mod manifests;
#[path = "tidy/named_files.rs"]
mod named_files;
#[path = "tidy/planted.rs"]
mod planted;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/words.rs"]
mod words;

use std::path::Path;

use source::File;

/// A place that breaks a rule.
#[derive(Debug)]
pub struct Hit {
    path: String,
    line: usize,
    what: String,
}

fn hit(path: &str, line: usize, what: String) -> Hit {
    Hit { path: path.to_owned(), line, what }
}

/// A rule: its name, how it finds what breaks it, and what to do then.
pub struct Rule {
    name: &'static str,
    find: fn(&[File]) -> Vec<Hit>,
    advice: &'static str,
}

/// Every rule.
const RULES: &[Rule] = &[
    rule("size", manifests::sizes, "split it by noun; tests under #[cfg(test)] don't count"),
    rule("opening", manifests::openings, "say in `//!` what the file owns and its invariants"),
    rule("decision", manifests::decisions, "a decision is at most one page: shorten it"),
    rule(
        "direction",
        manifests::directions,
        "schemas ← engines, partners ← roles; roles never meet",
    ),
    rule(
        "circle",
        imports::circles,
        "move what both need into a file below them; import from the file that has it",
    ),
    rule(
        "vocabulary",
        manifests::pure_vocabulary,
        "schemas has no I/O: move the code to a role or engine",
    ),
    rule("lints", manifests::lints, "add `[lints]` with `workspace = true`"),
    rule(
        "duplicate",
        manifests::duplicates,
        "list every older version with who pulls it, nothing else",
    ),
    rule(
        "dependency",
        manifests::reasons,
        "a row says what it does here, why this one, and what else was looked at",
    ),
    rule("unsafe", |files| lines::banned(files, "unsafe"), "write it safely"),
    rule("macro", |files| lines::banned(files, "macro"), "write a function"),
    rule(
        "unwrap",
        |files| lines::banned(files, "unwrap"),
        "return the error, or `expect(\"why not\")`",
    ),
    rule("unfinished", |files| lines::banned(files, "unfinished"), "finish it or leave it out"),
    rule("print", |files| lines::banned(files, "print"), "log it, or print through src/output.rs"),
    rule(
        "environment",
        |files| lines::banned(files, "environment"),
        "read it in src/settings.rs and pass it in",
    ),
    rule("clock", |files| lines::banned(files, "clock"), "take `now`, or ask engines::clock"),
    rule("anyhow", |files| lines::banned(files, "anyhow"), "give the seam an error enum"),
    rule(
        "ignored",
        lines::ignored_tests,
        "say why, or `nightly: GROUP` with a group of docs/testing.md",
    ),
    rule("trait", lines::traits, "use a concrete type; a new seam goes into the short list"),
    rule("metric", lines::metric_names, "name it payfold_<role>_<noun>_<unit>"),
    rule("message", lines::error_messages, "error messages are lower-case, without a full stop"),
    rule("secret", lines::logged_secrets, "never log bodies, signatures or secrets"),
    rule("machine", lines::machine_traces, "remove what only one machine has"),
];

const fn rule(name: &'static str, find: fn(&[File]) -> Vec<Hit>, advice: &'static str) -> Rule {
    Rule { name, find, advice }
}

fn failures(files: &[File]) -> Vec<(&'static str, String)> {
    let mut failures = Vec::new();
    for rule in RULES {
        for Hit { path, line, what } in (rule.find)(files) {
            failures.push((rule.name, format!("{path}:{line}: {what}: {}", rule.advice)));
        }
    }
    failures
}

#[test]
fn the_repository_keeps_the_house_style() {
    let files = File::below(Path::new(env!("CARGO_MANIFEST_DIR")));
    assert!(files.len() > 20, "the walk finds the repository");
    let failures: Vec<_> = failures(&files).into_iter().map(|(_, message)| message).collect();
    assert!(failures.is_empty(), "\n{}\n", failures.join("\n"));
}
