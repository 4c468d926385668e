//! Owns the planted texts: for each rule what breaks it, and where the same text is fine.

use crate::source::File;
use crate::{RULES, failures};

/// Rule, path, text with `|` for a line's end; each breaks that rule once and no other.
const BREAKS: &[(&str, &str, &str)] = &[
    ("opening", "src/a.rs", "fn main() {|}"),
    ("decision", "docs/decisions/0001-a.md", "LONG"),
    (
        "direction",
        "ingest/Cargo.toml",
        "[package]|name = 'payfold-ingest'|[dependencies]|payfold-projector = '1'|\
         [lints]|workspace = true",
    ),
    (
        "direction",
        "engines/Cargo.toml",
        "[package]|name = 'payfold-engines'|[dev-dependencies]|payfold-partners = '1'|\
         [lints]|workspace = true",
    ),
    (
        "vocabulary",
        "schemas/Cargo.toml",
        "[package]|name = 'payfold-schemas'|[dependencies]|tokio = '1'|[lints]|workspace = true",
    ),
    ("lints", "x/Cargo.toml", "[package]|name = 'x'"),
    ("size", "src/a.rs", "//! LONG"),
    ("unsafe", "src/a.rs", "//! A.|unsafe fn a() {}"),
    ("macro", "src/a.rs", "//! A.|macro_rules! a { () => {} }"),
    ("unwrap", "src/a.rs", "//! A.|fn a() { b(\"//\").unwrap(); }"),
    ("unfinished", "tests/a.rs", "//! A.|fn a() { todo!() }"),
    ("print", "engines/src/a.rs", "//! A.|fn a() { println!(\"a\") }"),
    ("environment", "ingest/src/a.rs", "//! A.|fn a() { std::env::var(\"A\"); }"),
    ("clock", "ingest/src/a.rs", "//! A.|fn a() { SystemTime::now() }"),
    ("anyhow", "ingest/src/admit.rs", "//! A.|use anyhow::Result;"),
    ("ignored", "tests/a.rs", "//! A.|#[test]|#[ignore]|fn a() {}"),
    ("ignored", "tests/a.rs", "//! A.|#[test]|#[ignore = \"nightly: moon\"]|fn a() {}"),
    ("trait", "src/a.rs", "//! A.|pub trait Manager {}"),
    ("metric", "ingest/src/metrics.rs", "//! A.|const A: &str = \"payfold_requests_total\";"),
    ("message", "src/a.rs", "//! A.|#[error(\"It broke\")]"),
    ("message", "src/a.rs", "//! A.|#[error(\"it broke.\")]"),
    (
        "print",
        "src/a.rs",
        "//! A.|const A: &str = \"b \\|c\";|#[cfg(test)]|mod tests {|}|fn a() { print!(\"a\") }",
    ),
    ("secret", "src/a.rs", "//! A.|fn a() { info!(ipn.body = %request.body, \"got\") }"),
];

/// The same words where they may stand.
const FINE: &[(&str, &str)] = &[
    (
        "src/a.rs",
        "//! Says unsafe { } and .unwrap() and todo!() in prose.|// dbg!(x)|/* trait X {} */",
    ),
    ("src/a.rs", "//! A.|const A: &str = \"x.unwrap() todo!(\";|const B: &str = r#\"dbg!(\"\"#;"),
    ("src/a.rs", "//! A.|#[cfg(test)]|mod tests {|    fn a() { b().unwrap(); }|}"),
    ("src/a.rs", "//! A.|fn a<'a>(c: &'a str) { c.split('\"'); d('\\''); }"),
    ("src/settings.rs", "//! A.|fn a() { std::env::var(\"A\"); }"),
    ("projector/src/run.rs", "//! A.|use anyhow::Result;"),
    ("engines/src/log.rs", "//! A.|pub trait EventLog {}|#[error(\"HMAC differs\")]"),
    ("ingest/src/metrics.rs", "//! A.|const A: &str = \"payfold_ingest_requests_total\";"),
    ("tests/a.rs", "//! A.|fn a() { println!(\"a\"); b().unwrap(); }"),
];

/// The file in a repository of its own, beside a lock file and a deny.toml that agree.
fn planted(path: &str, text: &str) -> Vec<File> {
    let text = text.replace("LONG", &"x\n".repeat(500)).replace('|', "\n");
    let file = |path: &str, text: &str| File::new(path.to_owned(), text.to_owned());
    vec![file(path, &text), file("Cargo.lock", ""), file("deny.toml", "")]
}

#[test]
fn every_rule_can_fail() {
    for (rule, path, text) in BREAKS {
        let found = failures(&planted(path, text));
        assert_eq!(found.len(), 1, "{rule} on {text:?}: {found:?}");
        assert_eq!(found[0].0, *rule, "{text:?}: {found:?}");
        assert!(found[0].1.starts_with(&format!("{path}:")), "{found:?}");
    }
    // These need words this file can't hold, or other files.
    let apart = ["machine", "duplicate", "dependency", "circle"];
    for rule in RULES {
        let planted =
            apart.contains(&rule.name) || BREAKS.iter().any(|(name, _, _)| *name == rule.name);
        assert!(planted, "plant a text that breaks {}", rule.name);
    }
}

#[test]
fn a_rule_leaves_alone_what_is_fine() {
    for (path, text) in FINE {
        let found = failures(&planted(path, text));
        assert!(found.is_empty(), "{text:?}: {found:?}");
    }
}

#[test]
fn a_machines_traces_are_found_in_any_text() {
    for piece in [["see /wo", "rk/x"], ["see /ho", "me/x"], ["from arti", "factory"]] {
        let found = failures(&planted("docs/a.md", &piece.concat()));
        assert!(matches!(&found[..], [("machine", _)]), "{found:?}");
    }
    let vectors = ["//! A.|fn a() { read(\"../sha", "red/vectors/momo.json\") }"].concat();
    assert_eq!(failures(&planted("partners/src/a.rs", &vectors)).len(), 1);
    assert_eq!(failures(&planted("partners/tests/a.rs", &vectors)).len(), 0);
}

#[test]
fn files_that_import_from_each_other_are_a_circle() {
    let found = |texts: &[(&str, &str)]| {
        let file = |path: &str, text: &str| {
            File::new(path.to_owned(), format!("//! A.\n{}", text.replace('|', "\n")))
        };
        let bare = |path: &str| File::new(path.to_owned(), String::new());
        let sources = texts.iter().map(|(path, text)| file(path, text));
        let files: Vec<File> = sources.chain([bare("Cargo.lock"), bare("deny.toml")]).collect();
        failures(&files).into_iter().map(|(_, message)| message).collect::<Vec<_>>()
    };
    let lib = ("schemas/src/lib.rs", "mod a;|mod b;|use a::A;");
    for (a, b) in [
        ("use crate::b::B;", "use crate::a::{self, A};"),
        ("pub struct A(super::b::B);", "use super::{a::A, c::C};"),
        ("use crate::{b::{B, D}, c::C};", "fn b() { crate::a::f(1) }"),
    ] {
        let found = found(&[lib, ("schemas/src/a.rs", a), ("schemas/src/b.rs", b)]);
        assert_eq!(found.len(), 1, "{a} {b}: {found:?}");
        assert!(found[0].starts_with("schemas/src/a.rs:1: a circle: a → b → a"), "{found:?}");
    }
    // A file and the module it declares.
    let texts =
        [("schemas/src/a.rs", "mod b;|pub use b::B;"), ("schemas/src/a/b.rs", "use super::C;")];
    assert_eq!(found(&texts).len(), 1);
    let texts = [
        ("schemas/src/a.rs", "mod b;|fn c() { b::f() }"),
        ("schemas/src/a/b.rs", "use super::super::a::C;"),
    ];
    assert_eq!(found(&texts).len(), 1);
    // Tests may use what they test, and a declaration is no import.
    let tested = "use crate::a::A;|#[cfg(test)]|mod tests {|    use crate::b::B;|}";
    let texts = [("schemas/src/a.rs", "mod b;|use crate::c::C;"), ("schemas/src/a/b.rs", tested)];
    assert!(found(&texts).is_empty());
    assert!(found(&[("schemas/src/a.rs", "use self::b;|pub(in crate::a) fn f() {}")]).is_empty());
}

#[test]
fn duplicate_versions_are_listed_with_who_pulls_them() {
    let lock =
        "[[package]]\nname = 'a'\nversion = '1.9.0'\n[[package]]\nname = 'a'\nversion = '1.10.0'";
    let count = |deny: &str| {
        let file = |path: &str, text: &str| File::new(path.to_owned(), text.to_owned());
        failures(&[file("Cargo.lock", lock), file("deny.toml", deny)]).len()
    };
    assert_eq!(count("[bans]\nskip = [{ crate = 'a@1.9.0', reason = 'b' }]"), 0);
    assert_eq!(count(""), 1);
    assert_eq!(count("[bans]\nskip = [{ crate = 'a@1.9.0' }]"), 1);
    assert_eq!(count("[bans]\nskip = [{ crate = 'a@1.10.0', reason = 'b' }]"), 2);
}

#[test]
fn every_dependency_has_a_reason_and_every_reason_a_dependency() {
    let manifest = "[package]\nname = 'payfold-x'\n[dependencies]\na = '1'\npayfold-y = '1'\n\
                    [dev-dependencies]\nb = '1'\n[lints]\nworkspace = true";
    let count = |table: &str| {
        let file = |path: &str, text: &str| File::new(path.to_owned(), text.to_owned());
        let lock = [file("Cargo.lock", ""), file("deny.toml", "")];
        let ours = [file("x/Cargo.toml", manifest), file("docs/dependencies.md", table)];
        let files: Vec<File> = lock.into_iter().chain(ours).collect();
        failures(&files).len()
    };
    assert_eq!(count("| Crate | |\n|---|---|\n| a, b | why |"), 0);
    assert_eq!(count("| a | why |"), 1);
    assert_eq!(count("| a, b | why |\n| c | why |"), 1);
}

#[test]
fn the_file_of_a_test_module_is_a_test() {
    let file = |path: &str, text: &str| File::new(path.to_owned(), text.to_owned());
    let mut files = [
        file("x/src/fold.rs", "//! A.\n#[cfg(test)]\nmod kit;\nmod real;\n"),
        file("x/src/fold/kit.rs", ""),
        file("x/src/fold/real.rs", ""),
        file("x/src/lib.rs", "//! A.\n#[cfg(test)]\npub(crate) mod aid;\n"),
        file("x/src/aid.rs", ""),
    ];
    File::mark_test_modules(&mut files);
    let tests: Vec<_> = files.iter().filter(|f| f.is_test).map(|f| f.path.as_str()).collect();
    assert_eq!(tests, ["x/src/fold/kit.rs", "x/src/aid.rs"]);
}
