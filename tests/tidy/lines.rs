//! Owns the rules that look at lines: what may not stand in code, in literals, in any text.

use crate::source::{File, Line};
use crate::{Hit, hit};

/// Words that may not stand in code.
pub struct Banned {
    /// The rule's name.
    pub rule: &'static str,
    /// The words.
    pub words: &'static [&'static str],
    /// Whether tests may.
    pub tests: Tests,
    /// The files that may: a whole path, or an ending that begins with `/`, or a folder that ends
    /// with `/`.
    pub allowed: &'static [&'static str],
}

#[derive(Clone, Copy, PartialEq)]
pub enum Tests {
    May,
    MayNot,
}

/// Every banned word; what to do instead is the rule's advice.
pub const BANNED: &[Banned] = &[
    Banned { rule: "unsafe", words: &["unsafe "], tests: Tests::MayNot, allowed: &[] },
    Banned { rule: "macro", words: &["macro_rules!"], tests: Tests::MayNot, allowed: &[] },
    Banned { rule: "unwrap", words: &[".unwrap()"], tests: Tests::May, allowed: &[] },
    Banned {
        rule: "unfinished",
        words: &["todo!(", "dbg!(", "unimplemented!("],
        tests: Tests::MayNot,
        allowed: &[],
    },
    Banned {
        rule: "print",
        words: &["println!(", "print!(", "eprintln!(", "eprint!("],
        tests: Tests::May,
        allowed: &["src/output.rs"],
    },
    Banned {
        rule: "environment",
        words: &["env::var(", "env::var_os(", "env::vars("],
        tests: Tests::MayNot,
        allowed: &["src/settings.rs", "tests/support/worlds.rs", "testing/src/knobs.rs"],
    },
    Banned {
        rule: "clock",
        words: &["SystemTime::now", "Utc::now", "Local::now", "Uuid::now_v7", "Uuid::new_v"],
        tests: Tests::MayNot,
        allowed: &["engines/src/clock.rs"],
    },
    Banned {
        rule: "anyhow",
        words: &["anyhow::", "use anyhow"],
        tests: Tests::May,
        allowed: &["src/", "/src/run.rs"],
    },
];

/// The only traits allowed: the id rule, the seams, the wrappers of engines in tests, and the bed
/// of the conformance suite.
pub const TRAITS: [&str; 10] = [
    "TextRule",
    "EventLog",
    "Subscription",
    "AssignedReader",
    "OrderStore",
    "Clock",
    "Bed",
    "Row",
    "StoreDouble",
    "LogDouble",
];

/// Who may stand second in a metric's name.
const METRIC_ROLES: [&str; 10] = [
    "build",
    "ingest",
    "checkout",
    "projector",
    "reconciler",
    "sandbox",
    "quarantine",
    "engine",
    "key",
    "vault",
];

const OUR_CRATES: [&str; 17] = [
    "payfold_schemas",
    "payfold_engines",
    "payfold_partners",
    "payfold_ingest",
    "payfold_checkout",
    "payfold_projector",
    "payfold_reconciler",
    "payfold_sandbox",
    "payfold_certify",
    "payfold_kit",
    "payfold_bench",
    "payfold_reconcile",
    "payfold_report",
    "payfold_verify",
    "payfold_views",
    "payfold_api",
    "payfold_console",
];

/// What a log line may never show.
const SECRET_WORDS: [&str; 6] = ["body", "raw", "signature", "secret", "key_bytes", "token"];

/// Folders and registries of one machine. They are in pieces, so that this file passes its own
/// rule.
const MACHINE: [&str; 6] = [
    concat!("/wo", "rk/"),
    concat!("/ho", "me/"),
    concat!("/ro", "ot/"),
    concat!("index.crates", ".io"),
    concat!("static.crates", ".io"),
    concat!("arti", "factory"),
];
const SHARED: &str = concat!("../sha", "red");
const VECTORS: &str = concat!("../sha", "red/vectors");

pub fn banned(files: &[File], rule: &str) -> Vec<Hit> {
    let ban = BANNED.iter().find(|ban| ban.rule == rule).expect("every such rule is in the table");
    let allows = |path: &str| {
        ban.allowed.iter().any(|allowed| {
            path == *allowed
                || (allowed.starts_with('/') && path.ends_with(allowed))
                || (allowed.ends_with('/') && path.starts_with(allowed))
        })
    };
    rust_lines(files, |file, line| {
        let exempt = allows(&file.path) || (line.in_tests && ban.tests == Tests::May);
        let found = ban.words.iter().find(|word| stands_in(&line.code, word))?;
        (!exempt).then(|| format!("`{}`", found.trim()))
    })
}

/// Whether the word occurs in the code and is not the end of a longer word.
fn stands_in(code: &str, word: &str) -> bool {
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        word.starts_with('.') || !before.is_some_and(|c| c.is_alphanumeric() || c == '_')
    })
}

pub fn traits(files: &[File]) -> Vec<Hit> {
    rust_lines(files, |_, line| {
        let declared = line.code.trim_start();
        let declared = ["pub(crate) ", "pub "]
            .iter()
            .find_map(|p| declared.strip_prefix(p))
            .unwrap_or(declared);
        let name: String = (declared.strip_prefix("trait ")?.chars())
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        (!TRAITS.contains(&name.as_str())).then(|| format!("trait {name}"))
    })
}

pub fn metric_names(files: &[File]) -> Vec<Hit> {
    rust_lines(files, |file, line| {
        (line.literals.iter())
            .filter(|_| !file.is_test)
            .filter(|name| name.starts_with("payfold_") && !OUR_CRATES.contains(&name.as_str()))
            .find(|name| {
                let mut parts = name.split('_').skip(1);
                let role = parts.next().is_some_and(|role| METRIC_ROLES.contains(&role));
                let plain =
                    name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
                !(role && plain && parts.next().is_some_and(|noun| !noun.is_empty()))
            })
            .map(|name| format!("metric `{name}`"))
    })
}

pub fn error_messages(files: &[File]) -> Vec<Hit> {
    rust_lines(files, |_, line| {
        let message = line.code.contains("#[error(").then(|| line.literals.first())??;
        let mut letters = message.chars();
        let (first, second) = (letters.next()?, letters.next().unwrap_or(' '));
        // HMAC and RFC may open a message.
        let shouts = first.is_uppercase() && !second.is_uppercase();
        (shouts || message.ends_with('.')).then(|| format!("message {message:?}"))
    })
}

pub fn logged_secrets(files: &[File]) -> Vec<Hit> {
    rust_lines(files, |_, line| {
        let traced = line.code.split(['%', '?']).skip(1).map(|field| {
            let path: String =
                field.chars().take_while(|c| c.is_alphanumeric() || "_.".contains(*c)).collect();
            path.rsplit('.').next().unwrap_or_default().to_owned()
        });
        let logs =
            ["= %", "= ?", "(%", "(?", ", %", ", ?"].iter().any(|sign| line.code.contains(sign));
        let mut secret = traced.filter(|name| SECRET_WORDS.contains(&name.as_str()));
        logs.then(|| secret.next())?.map(|name| format!("field `{name}`"))
    })
}

pub fn machine_traces(files: &[File]) -> Vec<Hit> {
    let mut hits = Vec::new();
    for file in files {
        for (index, text) in file.text.lines().enumerate() {
            let trace = MACHINE.iter().find(|trace| text.contains(**trace));
            let reads_vectors = file.is_test && text.contains(VECTORS);
            if let Some(trace) = trace {
                hits.push(hit(&file.path, index + 1, format!("`{trace}`")));
            } else if text.contains(SHARED) && !reads_vectors {
                hits.push(hit(&file.path, index + 1, format!("`{SHARED}`")));
            }
        }
    }
    hits
}

/// The hits of a check on every line of Rust.
fn rust_lines(files: &[File], check: impl Fn(&File, &Line) -> Option<String>) -> Vec<Hit> {
    let mut hits = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        for (index, line) in file.lines().iter().enumerate() {
            if let Some(what) = check(file, line) {
                hits.push(hit(&file.path, index + 1, what));
            }
        }
    }
    hits
}

/// Tests that are ignored without a reason, or for a nightly group that no row of docs/testing.md
/// describes.
pub fn ignored_tests(files: &[File]) -> Vec<Hit> {
    let docs = files.iter().find(|file| file.path == "docs/testing.md");
    let is_group = |name: &str| {
        let row = format!("| {name} | ");
        docs.is_some_and(|docs| docs.text.lines().any(|line| line.starts_with(&row)))
    };
    rust_lines(files, |_, line| {
        let reason = line.literals.first().map_or("", String::as_str);
        let is_fine = !reason.is_empty() && reason.strip_prefix("nightly: ").is_none_or(is_group);
        let is_ignored = line.code.trim_start().starts_with("#[ignore");
        (is_ignored && !is_fine).then(|| format!("ignored: {reason:?}"))
    })
}
