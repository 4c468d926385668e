//! Owns the check that documents name source files and tests that exist.

use crate::source::File;

/// The code spans of a Markdown text.
fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// `a/{b,c}.rs` as `a/b.rs` and `a/c.rs`.
fn expanded(path: &str) -> Vec<String> {
    let parts = path.split_once('{').and_then(|(before, rest)| {
        let (inside, after) = rest.split_once('}')?;
        Some(inside.split(',').flat_map(|one| expanded(&format!("{before}{one}{after}"))).collect())
    });
    parts.unwrap_or_else(|| vec![path.to_owned()])
}

/// What a document names and the files don't have. A file is named by its path or the end of it; a
/// test as `file.rs::name`, and behind that also as `::name`.
fn missing(document: &File, files: &[File]) -> Vec<String> {
    let mut missing = Vec::new();
    let mut before = String::new();
    for span in code_spans(&document.text) {
        let (path, test) = span.split_once("::").unwrap_or((span, ""));
        let is_path = path.ends_with(".rs") && !path.contains([' ', '*', '<', '…']);
        if is_path {
            path.clone_into(&mut before);
        } else if !path.is_empty() || before.is_empty() {
            continue;
        }
        for path in expanded(&before) {
            let end = format!("/{path}");
            let mut named = files
                .iter()
                .filter(|file| file.path == path || file.path.ends_with(&end))
                .peekable();
            let test = test.rsplit("::").next().unwrap_or_default();
            let has_test = |file: &File| file.text.contains(&format!("fn {test}("));
            if named.peek().is_none() || !(test.is_empty() || named.any(has_test)) {
                missing.push(format!("{}: {span}", document.path));
            }
        }
    }
    missing
}

#[test]
fn documents_name_files_and_tests_that_exist() {
    let files = File::below(env!("CARGO_MANIFEST_DIR").as_ref());
    let is_document = |file: &&File| file.path.starts_with("docs/") || file.path == "README.md";
    let documents = files.iter().filter(|file| file.path.ends_with(".md")).filter(is_document);
    let missing: Vec<_> = documents.flat_map(|document| missing(document, &files)).collect();
    assert!(missing.is_empty(), "\n{}\n", missing.join("\n"));
}

#[test]
fn a_planted_file_and_a_planted_test_are_missed() {
    let file = |path: &str, text: &str| File::new(path.to_owned(), text.to_owned());
    let files = [
        file("a/src/b.rs", "fn first() {} fn second() {} fn third_one() {}"),
        file("a/src/c.rs", ""),
    ];
    let of = |text: &str| missing(&file("docs/a.md", text), &files).len();
    assert_eq!(of("`b.rs`, `a/src/{b,c}.rs`, `src/b.rs::first`, `::second`, `fn x`, `x::y`"), 0);
    assert_eq!(of("`d.rs`"), 1);
    assert_eq!(of("`a/src/{b,d}.rs`, `{a,b}/{src,tests}/c.rs`"), 4);
    assert_eq!(of("`b.rs::third`"), 1);
    assert_eq!(of("`b.rs::first`, `::third`"), 1);
}

#[test]
fn the_image_is_built_from_every_package() {
    let root: &std::path::Path = env!("CARGO_MANIFEST_DIR").as_ref();
    let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
    let manifest: toml::Value = toml::from_str(&read("Cargo.toml")).unwrap();
    let members = manifest["workspace"]["members"].as_array().unwrap().clone();
    let taken = read(".dockerignore");
    let is_taken = |path: &str| {
        let folder = path.split('/').next().unwrap_or_default();
        taken.lines().any(|line| line.strip_prefix('!') == Some(folder))
    };
    // The help of the console is made of the documentation.
    let missing: Vec<_> = members
        .iter()
        .filter_map(toml::Value::as_str)
        .chain(["docs"])
        .filter(|path| !is_taken(path))
        .collect();
    assert!(missing.is_empty(), ".dockerignore leaves out {missing:?}");
}
