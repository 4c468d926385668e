//! Owns the words that the project no longer uses, each with the word to use, and the bounds of
//! what is left of them. A bound only ever gets tighter: a change that lowers a count writes the
//! new bound here. The table in `docs/glossary.md` has the words that are used.
//! Not judged: decisions and the changelog, which are history, and texts of partners.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::source::File;

// What is left: the keys of claims (`generations/…`) are stored; `tests/it/yesterday.rs` reads
// events of an earlier build; a test in the table of `docs/contract.md` has the contract's own
// words.

/// Where a word must not stand.
#[derive(Clone, Copy, PartialEq)]
enum Scope {
    /// In no name, comment, message or document.
    Anywhere,
    /// In no name that Rust code declares: of a file, a type, a function, a constant. The word is
    /// plain English elsewhere.
    Names,
}

use Scope::{Anywhere, Names};

/// A word, where it must not stand, how often it still does, and what to write instead.
const WORDS: &[(&str, Scope, usize, &str)] = &[
    ("told", Anywhere, 0, "published, answered, signalled or reported"),
    ("tell", Anywhere, 0, "publish, answer, signal or report"),
    ("tells", Anywhere, 0, "publishes, answers, signals or reports"),
    ("telling", Anywhere, 0, "publishing, answering, signalling or reporting"),
    ("generation", Anywhere, 1, "build (tables), epoch (the number in events)"),
    ("generations", Anywhere, 14, "builds, epochs"),
    ("stint", Anywhere, 0, "assignment"),
    ("crew", Anywhere, 0, "supervisor"),
    ("wish", Anywhere, 0, "request"),
    ("shelf", Anywhere, 0, "store of findings"),
    ("spool", Anywhere, 0, "spill file"),
    ("twin", Anywhere, 0, "compacted copy, or equivalent"),
    ("keeper", Anywhere, 0, "copier"),
    ("bury", Anywhere, 0, "drop"),
    ("revive", Anywhere, 0, "recreate"),
    ("patience", Anywhere, 0, "timeout"),
    ("genuine", Anywhere, 0, "authenticated"),
    ("quarrel", Anywhere, 0, "conflict"),
    ("nobody", Anywhere, 0, "no process, no key, no partner: what it is"),
    ("whoever", Anywhere, 0, "the process, person or caller that"),
    ("whose", Anywhere, 1, "of which, with, that has"),
    ("share", Names, 0, "assigned reader, assignment"),
    ("turning", Names, 0, "cutover"),
    ("desk", Names, 0, "service"),
    ("board", Names, 0, "status"),
    ("books", Names, 0, "reconciliation"),
    ("pile", Names, 0, "external sort, spill file"),
    ("leave", Names, 0, "permit"),
    ("elsewhere", Names, 0, "not found"),
    ("again", Names, 0, "retry, reverify"),
    ("says", Names, 0, "the noun of what it says"),
    ("putting", Names, 0, "request builder"),
    ("form", Names, 0, "variant, format"),
    ("word", Names, 0, "code, name, keyword"),
    ("voice", Names, 0, "source"),
    ("look", Names, 0, "check, scan, poll"),
    ("beat", Names, 0, "tick"),
    ("door", Names, 0, "endpoint, entry point"),
];

/// Lines of Rust over 100 columns; what is left are literals.
const LONG_LINES_MAX: usize = 149;

/// Types of one crate that have the name of another type of it.
const EQUAL_NAMES_MAX: usize = 1;

/// Comments that say one word, or the name over again.
const EMPTY_COMMENTS_MAX: usize = 0;

/// History, and this list itself.
const NOT_JUDGED: [&str; 5] = [
    "docs/decisions/",
    "CHANGELOG.md",
    "tests/tidy/words.rs",
    "fuzz/corpus/",
    "partners/profiles/earlier/",
];

/// The words of a text, in lower case; names are taken apart at underscores and capitals.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for letter in text.chars() {
        let begins = letter.is_uppercase() && was_lower;
        if !letter.is_alphabetic() || begins {
            words.push(String::new());
        }
        if letter.is_alphabetic() {
            words.last_mut().expect("there is always one").extend(letter.to_lowercase());
        }
        was_lower = letter.is_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The names that a line of code declares.
fn declared(code: &str) -> Vec<&str> {
    let mut names = Vec::new();
    let mut parts = code.split_whitespace().peekable();
    while let Some(part) = parts.next() {
        if ["fn", "struct", "enum", "trait", "type", "mod", "const", "static"].contains(&part) {
            let name = parts.peek().copied().unwrap_or_default();
            names.push(name.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or(""));
        }
    }
    names
}

/// Whether people read the file as ours.
fn is_judged(file: &File) -> bool {
    let is_text = file.is_rust()
        || [".md", ".toml", ".yaml", ".yml"].iter().any(|end| file.path.ends_with(end));
    is_text && !NOT_JUDGED.iter().any(|place| file.path.starts_with(place))
}

/// Where each word stands: path and line.
fn places(files: &[File]) -> BTreeMap<&'static str, Vec<String>> {
    let mut places: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut find = |scope: Scope, text: &str, place: &str| {
        for found in words(text) {
            let known = WORDS.iter().find(|(word, of, ..)| *of == scope && *word == found);
            if let Some((word, ..)) = known {
                places.entry(word).or_default().push(place.to_owned());
            }
        }
    };
    for file in files.iter().filter(|file| is_judged(file)) {
        let stem = file.path.rsplit('/').next().unwrap_or_default();
        find(Names, stem.split('.').next().unwrap_or_default(), &file.path);
        for (index, text) in file.text.lines().enumerate() {
            find(Anywhere, text, &format!("{}:{}", file.path, index + 1));
        }
        if file.is_rust() {
            for (index, line) in file.lines().iter().enumerate() {
                for name in declared(&line.code) {
                    find(Names, name, &format!("{}:{}", file.path, index + 1));
                }
            }
        }
    }
    places
}

/// Lines of Rust over 100 columns.
fn long_lines(files: &[File]) -> Vec<String> {
    let mut long = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        for (index, text) in file.text.lines().enumerate() {
            if text.chars().count() > 100 {
                long.push(format!("{}:{}", file.path, index + 1));
            }
        }
    }
    long
}

/// Types of production code that share their name with another type of the crate.
fn equal_names(files: &[File]) -> Vec<String> {
    let mut types: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test) {
        let Some((of, _)) = file.path.split_once("src/") else { continue };
        for line in file.lines().iter().filter(|line| !line.in_tests) {
            let code = line
                .code
                .trim_start()
                .trim_start_matches("pub(crate) ")
                .trim_start_matches("pub(super) ")
                .trim_start_matches("pub ");
            let kind = code.split(' ').next().unwrap_or_default();
            if ["struct", "enum", "trait"].contains(&kind)
                && let Some(name) = declared(code).first()
            {
                types
                    .entry((of.to_owned(), (*name).to_owned()))
                    .or_default()
                    .push(file.path.clone());
            }
        }
    }
    let equal = types.into_iter().filter(|(_, places)| places.len() > 1);
    equal.map(|((_, name), places)| format!("{name}: {}", places.join(", "))).collect()
}

/// Doc comments of one word.
fn empty_comments(files: &[File]) -> Vec<String> {
    let mut empty = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test) {
        let lines: Vec<_> = file.text.lines().map(str::trim).collect();
        for (index, text) in lines.iter().enumerate() {
            let is_doc = |at: usize| lines.get(at).is_some_and(|line| line.starts_with("///"));
            let alone = is_doc(index) && !is_doc(index + 1) && (index == 0 || !is_doc(index - 1));
            if alone && words(text).len() < 2 {
                empty.push(format!("{}:{}: {text}", file.path, index + 1));
            }
        }
    }
    empty
}

/// What to say where more was found than the bound allows, or less: then the bound is too wide.
fn verdict(bound: usize, found: &[String], what: &str) -> Option<String> {
    let shown: Vec<_> = found.iter().take(30).map(String::as_str).collect();
    match found.len().cmp(&bound) {
        Ordering::Equal => None,
        Ordering::Less => Some(format!("{} {what}: lower the bound of {bound}", found.len())),
        Ordering::Greater => {
            Some(format!("{} {what}, at most {bound}:\n{}", found.len(), shown.join("\n")))
        }
    }
}

#[test]
fn lines_and_names_and_comments_can_be_read() {
    let files = File::below(std::path::Path::new(env!("CARGO_MANIFEST_DIR")));
    let failures: Vec<_> = [
        verdict(LONG_LINES_MAX, &long_lines(&files), "lines of Rust over 100 columns"),
        verdict(EQUAL_NAMES_MAX, &equal_names(&files), "types of one name in one crate"),
        verdict(EMPTY_COMMENTS_MAX, &empty_comments(&files), "doc comments of one word"),
    ]
    .into_iter()
    .flatten()
    .collect();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

#[test]
fn no_replaced_word_comes_back() {
    let files = File::below(std::path::Path::new(env!("CARGO_MANIFEST_DIR")));
    let places = places(&files);
    let none = Vec::new();
    let failures: Vec<_> = WORDS
        .iter()
        .filter_map(|(word, _, bound, instead)| {
            let found = places.get(word).unwrap_or(&none);
            verdict(*bound, found, &format!("times `{word}` (write: {instead})"))
        })
        .collect();
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
}

#[test]
fn a_planted_word_is_found_where_it_must_not_stand() {
    let file = |path: &str, text: &str| File::new(path.to_owned(), text.to_owned());
    for (path, text, word, count) in [
        ("src/a.rs", "// It is told once.\nfn a() {}", "told", 1),
        ("src/a.rs", "fn is_told(told: u8) {}", "told", 2),
        ("src/a.rs", "struct WasTold;", "told", 1),
        ("docs/a.md", "Nobody knows.", "nobody", 1),
        ("docs/decisions/0001-a.md", "Nobody knows.", "nobody", 0),
        ("src/a.rs", "// Have a look.", "look", 0),
        ("src/a.rs", "fn look_again() {}", "look", 1),
        ("src/elsewhere.rs", "", "elsewhere", 1),
    ] {
        let found = places(&[file(path, text)]).get(word).map_or(0, Vec::len);
        assert_eq!(found, count, "{word} in {text:?} of {path}");
    }
    let long = file("src/a.rs", &"x".repeat(101));
    assert_eq!(long_lines(&[long]).len(), 1);
    let types = file(
        "src/a.rs",
        "struct A;\nmod b;\npub enum A {}\n#[cfg(test)]\nmod tests {\n    struct A;\n}\n",
    );
    assert_eq!(equal_names(&[types, file("b/src/a.rs", "struct A;")]).len(), 1);
    let comments = file("src/a.rs", "/// Why.\nfn a() {}\n/// What it is\n/// for.\nfn b() {}\n");
    assert_eq!(empty_comments(&[comments]).len(), 1);
}
