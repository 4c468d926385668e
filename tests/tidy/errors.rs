//! Owns `docs/errors.md`: every error and warning a person can meet, made from the code, so that a
//! search for the first words of a message finds it. Invariant: the page is what the code yields;
//! where it is stale, the test writes the new page beside the build and says where it is.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::source::File;

const PAGE: &str = "docs/errors.md";

const OPENING: &str = "# Errors and warnings

Made from the code (`cargo test --test tidy errors`): `…` stands for what a message names. Search this page for the
first words of a message. Refusals of notices are in [the contract](contract.md#what-a-refusal-looks-like), problems of
the shop API in `/openapi.json`, alerts in [metrics and alerts](reference/metrics.md).
";

/// An argument of a call: its literals, and its code with the literals left out.
#[derive(Default)]
struct Argument {
    literals: Vec<String>,
    code: String,
}

/// Reads the arguments of a call from behind its opening bracket.
fn arguments(text: &str) -> Vec<Argument> {
    let mut arguments = vec![Argument::default()];
    let (mut depth, mut rest) = (0_usize, text);
    while let Some(letter) = rest.chars().next() {
        let argument = arguments.last_mut().expect("there is always one");
        if let Some((literal, behind)) = literal(rest) {
            argument.literals.push(literal);
            rest = behind;
            continue;
        }
        if rest.starts_with("//") {
            rest = rest.split_once('\n').map_or("", |(_, behind)| behind);
            continue;
        }
        match letter {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => break,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        match (letter, depth) {
            (',', 0) => arguments.push(Argument::default()),
            _ => argument.code.push(letter),
        }
        rest = &rest[letter.len_utf8()..];
    }
    arguments
}

/// A string literal at the beginning of a text, and what follows it.
fn literal(text: &str) -> Option<(String, &str)> {
    if let Some(raw) = text.strip_prefix("r\"") {
        return raw.split_once('"').map(|(literal, behind)| (literal.to_owned(), behind));
    }
    if let Some(raw) = text.strip_prefix("r#\"") {
        return raw.split_once("\"#").map(|(literal, behind)| (literal.to_owned(), behind));
    }
    let mut letters = text.strip_prefix('"')?.char_indices();
    let mut literal = String::new();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((literal, &text[at + 2..])),
            '\\' => match letters.next()?.1 {
                // The line goes on behind the white space of the next one.
                '\n' => {
                    let behind = letters.as_str().trim_start();
                    let skipped = letters.as_str().len() - behind.len();
                    for _ in 0..skipped {
                        letters.next();
                    }
                }
                'n' => literal.push(' '),
                other => literal.push(other),
            },
            other => literal.push(other),
        }
    }
    None
}

/// A message as the page shows it: placeholders as `…`, in one line, safe in a table.
fn shown(message: &str) -> String {
    let mut shown = String::new();
    let mut depth = 0_usize;
    for letter in message.replace("{{", "\u{1}").replace("}}", "\u{2}").chars() {
        match letter {
            '{' => {
                shown.push('…');
                depth += 1;
            }
            '}' => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            '\u{1}' => shown.push('{'),
            '\u{2}' => shown.push('}'),
            '|' => shown.push_str("\\|"),
            '<' => shown.push_str("&lt;"),
            other => shown.push(other),
        }
    }
    // An example of a URL is code, so that it does not become a link.
    let code = |word: &str| match word.contains("://") && !word.contains('`') {
        true => format!("`{word}`"),
        false => word.to_owned(),
    };
    shown.split_whitespace().map(code).collect::<Vec<_>>().join(" ")
}

/// The sentences among the texts of an argument, such as those of a match.
fn alternatives(texts: &[String]) -> String {
    let (first, others) = texts.split_first().expect("an argument with a text");
    let sentences = others.iter().filter(|text| text.trim().contains(' '));
    std::iter::once(first).chain(sentences).cloned().collect::<Vec<_>>().join("; or: ")
}

/// Every constant text, by name: advice that several errors share is one.
fn constants(texts: &[String]) -> BTreeMap<String, String> {
    let mut constants = BTreeMap::new();
    for text in texts {
        for (at, opening) in text.match_indices(": &str =") {
            let name = text[..at].rsplit(' ').next().unwrap_or_default();
            if let Some((value, _)) = literal(text[at + opening.len()..].trim_start()) {
                constants.insert(name.to_owned(), value);
            }
        }
    }
    constants
}

/// The production code of a file.
fn production(file: &File) -> String {
    let lines = file.lines();
    let kept = file.text.lines().zip(&lines).filter(|(_, line)| !line.in_tests);
    kept.map(|(text, _)| text).collect::<Vec<_>>().join("\n")
}

/// What an error without advice is made with. Its text is the first argument.
const MAKES_ERROR: [&str; 8] = [
    "#[error(",
    "EngineError::Invalid(",
    "EngineError::Corrupt(",
    "Refused(",
    "RefusedPerson(",
    "refused(",
    "bail!(",
    "anyhow!(",
];

/// The page: errors with advice, other errors, log lines.
fn page(files: &[File]) -> String {
    let is_ours = |file: &&File| {
        let outside = ["fuzz/", "benches/", "examples/", "testing/", "tests/"];
        file.is_rust() && !file.is_test && !outside.iter().any(|of| file.path.starts_with(of))
    };
    let texts: Vec<String> = files.iter().filter(is_ours).map(production).collect();
    let constants = constants(&texts);
    let said = |argument: &Argument| match argument.literals.is_empty() {
        true => constants.get(argument.code.trim().trim_end_matches(".to_owned()")).cloned(),
        false => Some(alternatives(&argument.literals)),
    };
    let mut advised: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut plain = BTreeSet::new();
    let mut logged: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for text in &texts {
        for call in ["Fixable::error(", "Fixable::difference("] {
            for (at, _) in text.match_indices(call) {
                let arguments = arguments(&text[at + call.len()..]);
                let mut said = arguments.iter().map(&said);
                if let (Some(Some(what)), Some(fix)) = (said.next(), said.next()) {
                    let fixes = advised.entry(shown(&what)).or_default();
                    fixes.insert(shown(&fix.unwrap_or_default()));
                }
            }
        }
        for call in MAKES_ERROR {
            for (at, _) in text.match_indices(call) {
                let arguments = arguments(&text[at + call.len()..]);
                plain.extend(arguments.first().and_then(&said).map(|what| shown(&what)));
            }
        }
        for (level, call) in [("ERROR", "tracing::error!("), ("WARN", "tracing::warn!(")] {
            for (at, _) in text.match_indices(call) {
                let arguments = arguments(&text[at + call.len()..]);
                let message = arguments.iter().rev().find_map(|one| one.literals.first());
                logged.entry(level).or_default().extend(message.map(|what| shown(what)));
            }
        }
    }
    plain.retain(|what| what.split(' ').filter(|word| !word.contains('…')).count() >= 2);
    let mut page =
        format!("{OPENING}\n## Errors with advice\n\n| Message | What to do |\n|---|---|\n");
    for (what, fixes) in &advised {
        let fixes = fixes.iter().map(String::as_str).filter(|fix| !fix.is_empty());
        let fixes: Vec<&str> = fixes.collect();
        page.push_str(&format!("| {what} | {} |\n", fixes.join("; or: ")));
    }
    for (level, messages) in &logged {
        page.push_str(&format!("\n## Log lines: {level}\n\n"));
        messages.iter().for_each(|what| page.push_str(&format!("- {what}\n")));
    }
    page.push_str("\n## Other errors\n\nMost stand inside another message, which says what was being done.\n\n");
    plain.iter().for_each(|what| page.push_str(&format!("- {what}\n")));
    page
}

#[test]
fn the_page_of_errors_is_what_the_code_yields() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let expected = page(&File::below(root));
    let stored = std::fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    if stored != expected {
        let new = Path::new(env!("CARGO_TARGET_TMPDIR")).join("errors.md");
        std::fs::write(&new, expected).expect("the build's folder can be written");
        panic!("{PAGE} is stale: copy {} there", new.display());
    }
}

#[test]
fn messages_are_found_with_their_advice() {
    let text = "//! A.\nconst RESTORE: &str = \"restore it\";\nfn a() {\n    Fixable::error(format!(\"no {x}, \\\n        here\"), RESTORE);\n    tracing::warn!(a = \"b\", %error, \"can't | {{read}}\");\n}\nfn c() {\n    Fixable::error(\"it is there\", \"move it\");\n    Fixable::error(\"it is there\", \"name another\");\n    refused(\"that can't be\");\n}\n#[error(\"it broke\")]\n#[cfg(test)]\nmod tests {\n    fn b() { bail!(\"not shown here\") }\n}\n";
    let page = page(&[File::new("src/a.rs".to_owned(), text.to_owned())]);
    for line in [
        "| no …, here | restore it |",
        "| it is there | move it; or: name another |",
        "- can't \\| {read}",
        "- it broke",
        "- that can't be",
    ] {
        assert!(page.contains(line), "{line} in {page}");
    }
    assert!(!page.contains("not shown"), "{page}");
}
