//! Owns the text a rule looks at: the repository's files, and Rust lines split into code, literals
//! and tests.

use std::path::Path;

/// A text file and its place below the repository's root, with `/` between the parts.
pub struct File {
    pub path: String,
    pub text: String,
    /// All of it is tests: a test file, or the file of a module under `#[cfg(test)]`.
    pub is_test: bool,
}

/// One line of Rust.
#[derive(Debug, Default)]
pub struct Line {
    /// Without comments; string and character literals are empty.
    pub code: String,
    /// The string literals that begin on it.
    pub literals: Vec<String>,
    /// It belongs to tests: a test file, or code under `#[cfg(test)]`.
    pub in_tests: bool,
}

const TEXT_FILES: [&str; 11] =
    ["rs", "toml", "md", "sh", "json", "yaml", "yml", "txt", "run", "lock", "Dockerfile"];

/// Folders that commands of this repository write beside the sources. Git ignores them.
const WRITTEN: [&str; 4] = ["target", "node_modules", "payfold-data", "payfold-scale"];

impl File {
    /// Every text file below `root`, without written and hidden ones (`.ci` counts as ours).
    pub fn below(root: &Path) -> Vec<File> {
        let mut files = Vec::new();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(&folder).expect("the repository can be read") {
                let path = entry.expect("the repository can be read").path();
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let ours =
                    name == ".ci" || !(name.starts_with('.') || WRITTEN.contains(&name.as_str()));
                let kind = name.rsplit('.').next().unwrap_or_default();
                if path.is_dir() && ours {
                    folders.push(path);
                } else if path.is_file() && ours && TEXT_FILES.contains(&kind) {
                    let below = path.strip_prefix(root).expect("it was found below the root");
                    let text = std::fs::read_to_string(&path).expect("a text file is UTF-8");
                    files.push(File::new(below.to_string_lossy().replace('\\', "/"), text));
                }
            }
        }
        files.sort_by(|one, other| one.path.cmp(&other.path));
        File::mark_test_modules(&mut files);
        files
    }

    /// A file; `mark_test_modules` says whether it is the file of a test module.
    pub fn new(path: String, text: String) -> File {
        let is_test = path.split('/').any(|part| part == "tests") || path.ends_with("tests.rs");
        File { path, text, is_test }
    }

    /// Marks the files of modules that another file declares under `#[cfg(test)]`.
    pub fn mark_test_modules(files: &mut [File]) {
        let mut modules = Vec::new();
        for file in files.iter().filter(|file| file.is_rust()) {
            let folder = ["lib.rs", "main.rs", "mod.rs"]
                .iter()
                .find_map(|root| file.path.strip_suffix(root))
                .map_or_else(|| format!("{}/", file.path.trim_end_matches(".rs")), str::to_owned);
            let lines: Vec<_> = file.text.lines().collect();
            for pair in lines.windows(2).filter(|pair| pair[0] == "#[cfg(test)]") {
                let declared = pair[1].split_once("mod ").map(|(_, name)| name);
                if let Some(name) = declared.and_then(|name| name.strip_suffix(';')) {
                    modules.push(format!("{folder}{name}.rs"));
                }
            }
        }
        for file in files.iter_mut().filter(|file| modules.contains(&file.path)) {
            file.is_test = true;
        }
    }

    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Its lines as Rust.
    pub fn lines(&self) -> Vec<Line> {
        let mut lines = split(&self.text);
        let mut in_tests = false;
        for (line, text) in lines.iter_mut().zip(self.text.lines()) {
            in_tests |= text == "#[cfg(test)]";
            line.in_tests = in_tests || self.is_test;
            // A module ends with a brace in the first column; `mod tests;` ends at once.
            let declares =
                ["mod ", "pub mod ", "pub(crate) mod "].iter().any(|m| text.starts_with(m));
            in_tests &= !(text == "}" || (declares && text.ends_with(';')));
        }
        lines
    }
}

/// Where the reading head is.
enum Within {
    Code,
    LineComment,
    /// So deep.
    BlockComment(usize),
    /// A literal that ends with a quote and so many `#`; escapes count where it is not raw.
    Literal {
        end: String,
        raw: Raw,
    },
}

#[derive(Clone, Copy, PartialEq)]
enum Raw {
    Yes,
    No,
}

fn split(text: &str) -> Vec<Line> {
    let mut lines = vec![Line::default()];
    let mut within = Within::Code;
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        if next == '\n' {
            lines.push(Line::default());
            if matches!(within, Within::LineComment) {
                within = Within::Code;
            }
        }
        let line = lines.last_mut().expect("there is always a line");
        let taken;
        (within, taken) = match within {
            Within::Code => code(rest, line),
            Within::LineComment => (Within::LineComment, next.len_utf8()),
            Within::BlockComment(depth) => comment(rest, depth),
            Within::Literal { end, raw } => literal(rest, line, end, raw),
        };
        rest = &rest[taken..];
    }
    lines
}

fn code(rest: &str, line: &mut Line) -> (Within, usize) {
    let after_word = line.code.chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_');
    let hashes =
        rest.strip_prefix('r').map_or(0, |raw| raw.len() - raw.trim_start_matches('#').len());
    if rest.starts_with("//") {
        (Within::LineComment, 2)
    } else if rest.starts_with("/*") {
        (Within::BlockComment(1), 2)
    } else if !after_word && rest.starts_with('r') && rest[1 + hashes..].starts_with('"') {
        line.literals.push(String::new());
        line.code.push_str("\"\"");
        let end = format!("\"{}", "#".repeat(hashes));
        (Within::Literal { end, raw: Raw::Yes }, 2 + hashes)
    } else if rest.starts_with('"') {
        line.literals.push(String::new());
        line.code.push_str("\"\"");
        (Within::Literal { end: "\"".to_owned(), raw: Raw::No }, 1)
    } else if let Some(bytes) = character(rest) {
        line.code.push_str("''");
        (Within::Code, bytes)
    } else {
        let next = rest.chars().next().unwrap_or('\n');
        if next != '\n' {
            line.code.push(next);
        }
        (Within::Code, next.len_utf8())
    }
}

/// The length of a character literal at the front; a lifetime is none.
fn character(rest: &str) -> Option<usize> {
    let inner = rest.strip_prefix('\'')?;
    let escaped = inner.starts_with('\\');
    let first = inner.chars().next()?.len_utf8();
    let from = if escaped { 2 } else { first };
    let close = inner.get(from..)?.find('\'')?;
    (escaped || close == 0).then_some(1 + from + close + 1)
}

fn comment(rest: &str, depth: usize) -> (Within, usize) {
    if rest.starts_with("/*") {
        (Within::BlockComment(depth + 1), 2)
    } else if rest.starts_with("*/") {
        (if depth == 1 { Within::Code } else { Within::BlockComment(depth - 1) }, 2)
    } else {
        (Within::BlockComment(depth), rest.chars().next().map_or(1, char::len_utf8))
    }
}

fn literal(rest: &str, line: &mut Line, end: String, raw: Raw) -> (Within, usize) {
    if rest.starts_with(&end) {
        return (Within::Code, end.len());
    }
    // A line's end is a line's end, also behind a backslash.
    let escape = raw == Raw::No && rest.starts_with('\\') && !rest[1..].starts_with('\n');
    let taken: usize = rest.chars().take(if escape { 2 } else { 1 }).map(char::len_utf8).sum();
    // What follows on later lines belongs to no line's literals: rules look at how one begins.
    if let Some(last) = line.literals.last_mut() {
        last.push_str(&rest[..taken]);
    }
    (Within::Literal { end, raw }, taken)
}
