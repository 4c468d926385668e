//! Owns the rule that no file of a crate imports, by whatever way, from a file that imports from
//! it: the graph of `use` and of paths between the files below each `src`, without tests. A file
//! that declares a module does not import from it; one that names something of it does.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::source::File;
use crate::{Hit, hit};

/// A module's path below its crate; the crate's root is empty.
type Module = Vec<String>;

/// Which module imports from which.
type Graph = BTreeMap<Module, BTreeSet<Module>>;

/// One hit for each circle, at the first of its files.
pub fn circles(files: &[File]) -> Vec<Hit> {
    let mut crates: BTreeMap<&str, BTreeMap<Module, &File>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test) {
        if let Some((name, module)) = place(&file.path) {
            crates.entry(name).or_default().insert(module, file);
        }
    }
    crates.values().flat_map(circles_of).collect()
}

/// The crate's folder and the module of a file below its `src`.
fn place(path: &str) -> Option<(&str, Module)> {
    let (folder, below) = match path.strip_prefix("src/") {
        Some(below) => ("", below),
        None => path.split_once("/src/")?,
    };
    let mut module: Module = below.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    if module.last().is_some_and(|last| ["lib", "main", "mod"].contains(&last.as_str())) {
        module.pop();
    }
    Some((folder, module))
}

fn circles_of(files: &BTreeMap<Module, &File>) -> Vec<Hit> {
    let graph: Graph = files
        .iter()
        .map(|(module, file)| {
            let named = named(module, &code(file)).into_iter();
            let imported = named.filter_map(|path| owner(files, path));
            (module.clone(), imported.filter(|other| other != module).collect())
        })
        .collect();
    let mut known = BTreeSet::new();
    let mut hits = Vec::new();
    for module in graph.keys() {
        let Some(circle) = shortest_circle(&graph, module) else { continue };
        if circle.iter().all(|module| known.insert(module.clone())) {
            let names: Vec<_> = circle.iter().chain([module]).map(|one| one.join("/")).collect();
            hits.push(hit(&files[module].path, 1, format!("a circle: {}", names.join(" → "))));
        }
    }
    hits
}

/// The module that a path leads into: the longest part of it that is a file. None for the crate's
/// root.
fn owner(files: &BTreeMap<Module, &File>, mut path: Module) -> Option<Module> {
    while !path.is_empty() {
        if files.contains_key(&path) {
            return Some(path);
        }
        path.pop();
    }
    None
}

/// The code of a file without its tests, in one line.
fn code(file: &File) -> String {
    let lines = file.lines();
    // A module in the file itself has the file above it.
    let inner = |code: &str| match code.strip_prefix(' ').map(str::trim_start) {
        Some(inner) if inner.starts_with("use super::") => inner.replacen("super", "self", 1),
        _ => code.to_owned(),
    };
    let code = lines.iter().filter(|line| !line.in_tests).map(|line| inner(&line.code));
    // Says who may see something; it names no file's content.
    let mut parts = Vec::new();
    let text = code.collect::<Vec<_>>().join(" ");
    let mut rest = text.as_str();
    while let Some((before, after)) = rest.split_once("pub(in ") {
        parts.push(before);
        rest = after.split_once(')').map_or("", |(_, after)| after);
    }
    parts.push(rest);
    parts.join("pub ")
}

/// Every path of this crate that a module's code names, from the crate's root.
fn named(module: &Module, code: &str) -> Vec<Module> {
    let children: BTreeSet<&str> = words_behind(code, "mod").collect();
    let mut paths = Vec::new();
    let mut rest = code;
    while let Some(at) = keyword_at(rest, "use") {
        plain_paths(&rest[..at], &mut paths);
        let (tree, after) = rest[at + 3..].split_once(';').unwrap_or((&rest[at + 3..], ""));
        expand(&[], tree, &mut paths);
        rest = after;
    }
    plain_paths(rest, &mut paths);
    let from_root = |path: Module| match path.first().map(String::as_str) {
        Some("crate") => Some(path[1..].to_vec()),
        Some("self") => Some([module.as_slice(), &path[1..]].concat()),
        Some("super") => {
            let ups = path.iter().take_while(|part| *part == "super").count();
            let base = &module[..module.len().checked_sub(ups)?];
            Some([base, &path[ups..]].concat())
        }
        Some(first) if path.len() > 1 && children.contains(first) => {
            Some([module.as_slice(), &path].concat())
        }
        _ => None,
    };
    paths.into_iter().filter_map(from_root).collect()
}

/// Where a keyword stands by itself.
fn keyword_at(text: &str, keyword: &str) -> Option<usize> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    let stands = |(at, _): &(usize, &str)| {
        !text[..*at].chars().next_back().is_some_and(is_part)
            && !text[at + keyword.len()..].chars().next().is_some_and(is_part)
    };
    text.match_indices(keyword).find(stands).map(|(at, _)| at)
}

/// The names that are declared with this word and end at once: `mod name;`.
fn words_behind<'a>(mut text: &'a str, what: &'a str) -> impl Iterator<Item = &'a str> {
    std::iter::from_fn(move || {
        loop {
            let at = keyword_at(text, what)?;
            text = &text[at + what.len()..];
            let (name, _) = text.split_once(';')?;
            let name = name.trim();
            if !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_') {
                return Some(name);
            }
        }
    })
}

/// Paths that stand in expressions and types: `crate::a::b`.
fn plain_paths(code: &str, paths: &mut Vec<Module>) {
    let runs = code.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'));
    for run in runs.filter(|run| run.contains("::") && !run.starts_with(':')) {
        paths.push(run.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect());
    }
}

/// The paths of one `use` with its braces.
fn expand(prefix: &[String], tree: &str, paths: &mut Vec<Module>) {
    let (head, group) = match tree.split_once('{') {
        Some((head, group)) => (head, group.trim_end().strip_suffix('}')),
        None => (tree, None),
    };
    let head = head.split(" as ").next().unwrap_or_default();
    let parts = head.split("::").map(str::trim).filter(|part| !part.is_empty() && *part != "*");
    let path: Vec<String> = prefix.iter().cloned().chain(parts.map(str::to_owned)).collect();
    let Some(group) = group else {
        paths.push(path);
        return;
    };
    let (mut depth, mut from) = (0_usize, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                expand(&path, &group[from..at], paths);
                from = at + 1;
            }
            _ => {}
        }
    }
    if !group[from..].trim().is_empty() {
        expand(&path, &group[from..], paths);
    }
}

/// The shortest way from a module back to itself, without its end; `None` if there is no way.
fn shortest_circle(graph: &Graph, start: &Module) -> Option<Vec<Module>> {
    let mut ways = VecDeque::from([vec![start.clone()]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        let last = way.last().expect("a way has a beginning");
        for next in graph.get(last).into_iter().flatten() {
            if next == start {
                return Some(way);
            }
            if seen.insert(next.clone()) {
                ways.push_back(way.iter().chain([next]).cloned().collect());
            }
        }
    }
    None
}
