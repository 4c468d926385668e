//! Owns the counts that say how far the tree is from what it should be: circles of imports, lines,
//! public items, tuples in the place of named parameters, errors without a type, and asserted
//! invariants. Some have a bound that only ever gets tighter: a change that lowers a count writes
//! the new bound here. `cargo count` prints them all.

use std::collections::BTreeMap;

use crate::imports;
use crate::source::File;

/// The code that keeps state: what must always hold there is asserted.
const STATE: [&str; 3] = ["projector/src/", "engines/src/orders/", "engines/src/log/"];

/// What each count may be at most.
const AT_MOST: &[(&str, usize)] = &[
    ("circles of imports", 0),
    ("functions that take a tuple", 141),
    ("functions that take a tuple of three or more", 0),
    ("functions with a String as their error", 1),
    ("results of results", 0),
    ("type names that stand for more than two types", 0),
];

/// What each count has to be at least.
const AT_LEAST: &[(&str, usize)] = &[("asserts in 10,000 lines of state", 30)];

/// Every count of these files, by name.
fn counts(files: &[File]) -> BTreeMap<String, usize> {
    let sources: Vec<_> = files.iter().filter(|file| crate_of(file).is_some()).collect();
    let mut counts = BTreeMap::new();
    let mut add = |name: &str, count: usize| *counts.entry(name.to_owned()).or_default() += count;
    let (mut asserts, mut state) = (0, 0);
    let mut types: BTreeMap<String, usize> = BTreeMap::new();
    for file in sources {
        let code = production(file);
        add("lines of code", code.len());
        let public = code.iter().filter(|line| line.trim_start().starts_with("pub ")).count();
        add("public items", public);
        add(&format!("public items of {}", crate_of(file).unwrap_or_default()), public);
        let text = code.join(" ");
        for parameters in parameter_lists(&text) {
            let largest = parameters.into_iter().filter_map(tuple_size).max().unwrap_or(0);
            add("functions that take a tuple", usize::from(largest >= 2));
            add("functions that take a tuple of three or more", usize::from(largest >= 3));
        }
        let text = text.split_whitespace().collect::<String>();
        for name in code.iter().filter_map(|line| type_name(line)) {
            *types.entry(name.to_owned()).or_default() += 1;
        }
        add("functions with a String as their error", text.matches(",String>{").count());
        add("results of results", text.matches("Result<Result<").count());
        if STATE.iter().any(|place| file.path.starts_with(place)) {
            state += code.len();
            asserts += text.matches("assert!(").count() + text.matches("assert_eq!(").count();
        }
    }
    add("asserts in 10,000 lines of state", (asserts * 10_000).checked_div(state).unwrap_or(0));
    let repeated = types.values().filter(|count| **count > 2).count();
    add("type names that stand for more than two types", repeated);
    add("circles of imports", imports::circles(files).len());
    counts
}

/// The name of the type that a line begins to define.
fn type_name(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub"));
    let is_type = matches!(words.next()?, "struct" | "enum" | "trait");
    let name = words.next().filter(|_| is_type)?;
    name.split(|letter: char| !letter.is_alphanumeric()).next()
}

/// The crate's folder of a file below a `src`; `payfold` is the root's.
fn crate_of(file: &File) -> Option<&str> {
    let is_source = file.is_rust() && !file.is_test;
    let folder = match file.path.strip_prefix("src/") {
        Some(_) => "payfold",
        None => file.path.split_once("/src/")?.0,
    };
    (is_source && folder != "fuzz" && folder != "testing").then_some(folder)
}

/// The lines of code of a file, without tests, comments and empty lines.
fn production(file: &File) -> Vec<String> {
    let lines = file.lines().into_iter().filter(|line| !line.in_tests).map(|line| line.code);
    lines.filter(|code| !code.trim().is_empty()).collect()
}

/// The parameters of every function.
fn parameter_lists(text: &str) -> Vec<Vec<&str>> {
    let mut lists = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("fn ") {
        let is_word = !rest[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
        rest = &rest[at + 3..];
        let name = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
        let opens = if rest[name..].starts_with('<') {
            name + split(&rest[name + 1..], '>').len() + 2
        } else {
            name
        };
        if is_word && name > 0 && rest.get(opens..).is_some_and(|rest| rest.starts_with('(')) {
            lists.push(parts(split(&rest[opens + 1..], ')')));
        }
    }
    lists
}

/// What stands before the bracket that closes at this depth.
fn split(text: &str, close: char) -> &str {
    let mut depth = 0_i32;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            // `->` closes nothing.
            '>' if before == '-' => {}
            _ if c == close && depth == 0 => return &text[..at],
            ')' | ']' | '}' | '>' => depth -= 1,
            _ => {}
        }
        before = c;
    }
    text
}

/// The parts of a list between its commas.
fn parts(list: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut from, mut before) = (0_i32, 0, ' ');
    for (at, c) in list.char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            '>' if before == '-' => {}
            ')' | ']' | '}' | '>' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[from..at]);
                from = at + 1;
            }
            _ => {}
        }
        before = c;
    }
    parts.push(&list[from..]);
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// The count of values in a parameter of a tuple type; `None` for any other type.
fn tuple_size(parameter: &str) -> Option<usize> {
    let pattern_ends = parts_until_colon(parameter)?;
    let kind = parameter[pattern_ends + 1..].trim_start().trim_start_matches('&').trim_start();
    let inner = kind.strip_prefix("mut ").unwrap_or(kind).strip_prefix('(')?;
    Some(parts(split(inner, ')')).len())
}

/// The index of the colon between a parameter's pattern and its type.
fn parts_until_colon(parameter: &str) -> Option<usize> {
    let mut depth = 0_i32;
    for (at, c) in parameter.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ':' if depth == 0 => return Some(at),
            _ => {}
        }
    }
    None
}

#[test]
fn no_count_is_worse_than_its_bound() {
    let counts = counts(&File::below(std::path::Path::new(env!("CARGO_MANIFEST_DIR"))));
    for (name, count) in &counts {
        println!("{count:>8}  {name}");
    }
    let of = |name: &str| counts.get(name).copied().unwrap_or(0);
    let above = AT_MOST.iter().filter(|(name, bound)| of(name) > *bound);
    let below = AT_LEAST.iter().filter(|(name, bound)| of(name) < *bound);
    let worse: Vec<_> = above
        .chain(below)
        .map(|(name, bound)| format!("{}: {}, the bound is {bound}", name, of(name)))
        .collect();
    assert!(worse.is_empty(), "worse than before: {worse:?}");
}

#[test]
fn a_planted_text_is_counted() {
    let text = "//! A.\nuse b::C;\n\
        pub struct D;\nfn a<F: Fn(u8, u8) -> u8>((b, c): (u8, &str), d: F) {}\n\
        fn e(\n    (f, g, h): (u8, Vec<(u8, u8)>, u8),\n) \
            -> Result<Result<u8, ()>, String> {\n    assert!(true);\n}\n\
        fn i(j: (u8,), k: &[(u8, u8, u8)]) {}\n\
            #[cfg(test)]\nmod tests {\n    fn l(m: (u8, u8)) {}\n}\n";
    let file = File::new("projector/src/a.rs".to_owned(), text.to_owned());
    let counts = counts(&[file]);
    for (name, count) in [
        ("lines of code", 9),
        ("public items", 1),
        ("public items of projector", 1),
        ("functions that take a tuple", 2),
        ("functions that take a tuple of three or more", 1),
        ("functions with a String as their error", 1),
        ("results of results", 1),
        ("asserts in 10,000 lines of state", 1_111),
    ] {
        assert_eq!(counts.get(name), Some(&count), "{name}: {counts:?}");
    }
}

#[test]
fn a_third_type_of_one_name_is_counted() {
    let file = |path: &str| {
        File::new(path.to_owned(), "//! A.\npub(crate) struct Walk<'a>(&'a u8);\n".to_owned())
    };
    let files = ["a/src/a.rs", "b/src/b.rs", "c/src/c.rs"].map(file);
    let name = "type names that stand for more than two types";
    assert_eq!(counts(&files[..2])[name], 0);
    assert_eq!(counts(&files)[name], 1);
}
