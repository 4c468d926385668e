//! Owns the requirements that some tests have and not every machine meets: real servers, a browser,
//! root, a system-call tracer, other languages. Invariants: a test that can't run is listed at the
//! end of the whole run with its requirement (`tests/not_run.rs`). Under CI it fails instead.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::thread;

use crate::knobs;

/// A requirement of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Kafka and a CQL database.
    Servers,
    /// Chromium and its driver, and npm.
    Browser,
    /// The right to mount a file system and to freeze a file.
    Root,
    /// `strace`, and the right to trace.
    Tracer,
    /// The languages of the example subscribers: Python, TypeScript and Java.
    Languages,
}

impl Need {
    const ALL: [Self; 5] =
        [Self::Servers, Self::Browser, Self::Root, Self::Tracer, Self::Languages];

    const fn name(self) -> &'static str {
        match self {
            Self::Servers => "servers",
            Self::Browser => "browser",
            Self::Root => "root",
            Self::Tracer => "tracer",
            Self::Languages => "languages",
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Servers => {
                "Kafka and a CQL database: Docker with Compose; or Java 17, Maven and Python 3.9 \
                 (Debian: apt-get install openjdk-17-jdk-headless maven python3; Fedora: dnf \
                 install java-17-openjdk-headless maven python3; macOS: brew install openjdk@17 \
                 maven); or running ones named in PAYFOLD_TEST_KAFKA and PAYFOLD_TEST_CQL"
            }
            Self::Browser => {
                "a browser, and npm (Debian: apt-get install chromium chromium-driver npm; Fedora: \
                 dnf install chromium chromedriver npm; macOS: brew install --cask chromium \
                 chromedriver; brew install node)"
            }
            Self::Root => "root, on Linux: a small disk is mounted and files are frozen",
            Self::Tracer => {
                "strace, on Linux, and the right to trace (Debian: apt-get install strace; Fedora: \
                 dnf install strace)"
            }
            Self::Languages => {
                "Python 3.9 with venv, Node 20 with npm, Java 17 and Maven (Debian: apt-get \
                 install python3-venv npm openjdk-17-jdk-headless maven; Fedora: dnf install \
                 python3 npm java-17-openjdk-devel maven; macOS: brew install python node \
                 openjdk@17 maven)"
            }
        })
    }
}

/// Returns the value of a met requirement. If it is not met, notes this thread's test as not run
/// and returns `None`. Panics under CI.
pub fn require<T>(need: Need, found: Result<T, String>) -> Option<T> {
    let reason = match found {
        Ok(found) => return Some(found),
        Err(reason) => reason,
    };
    assert!(
        !knobs::is_ci(),
        "under CI no test may be left out, and this one needs {need}. Here: {reason}"
    );
    note_not_run(need, &reason).expect("a file can be written to the target folder");
    None
}

fn note_not_run(need: Need, reason: &str) -> io::Result<()> {
    let path = notes_path();
    fs::create_dir_all(path.parent().expect("it is in a folder"))?;
    let thread = thread::current();
    let (test, reason) = (thread.name().unwrap_or("a test"), reason.lines().next().unwrap_or(""));
    let line = format!("{}\t{test}\t{reason}\n", need.name());
    OpenOptions::new().create(true).append(true).open(path)?.write_all(line.as_bytes())
}

/// The file with the notes of one run. Its name has the id of the parent process, because `cargo
/// test` is the parent of all test binaries.
fn notes_path() -> PathBuf {
    let binary = std::env::current_exe().expect("a running program has a path");
    let target =
        binary.ancestors().nth(3).expect("Cargo puts test binaries into target/PROFILE/deps");
    target.join("not-run").join(std::os::unix::process::parent_id().to_string())
}

/// Reads and removes the notes of this run. Returns the list of tests that did not run, for a
/// person; empty if all of them ran.
pub fn take_not_run() -> String {
    let noted = fs::read_to_string(notes_path()).unwrap_or_default();
    let _ = fs::remove_file(notes_path());
    format_not_run(&noted)
}

fn format_not_run(noted: &str) -> String {
    let mut tests: BTreeMap<Need, BTreeMap<&str, &str>> = BTreeMap::new();
    for line in noted.lines() {
        let mut parts = line.splitn(3, '\t');
        let need =
            parts.next().and_then(|name| Need::ALL.into_iter().find(|one| one.name() == name));
        if let (Some(need), Some(test), Some(reason)) = (need, parts.next(), parts.next()) {
            tests.entry(need).or_default().insert(test, reason);
        }
    }
    let mut text = String::new();
    for (need, tests) in &tests {
        let reason = tests.values().next().unwrap_or(&"");
        text += &format!("\nnot run: {} tests that need {need}. Here: {reason}\n", tests.len());
        for test in tests.keys() {
            text += &format!("    {test}\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_that_did_not_run_is_listed_once_under_its_requirement() {
        let noted = "tracer\ttraced::b\tno strace\nservers\tkafka::a\tno \
                     Java\nservers\tkafka::a\tno Java\n\
                     servers\tcql::c\tno Java\nnonsense\n";
        let listed = format_not_run(noted);
        let servers = listed.find("not run: 2 tests that need Kafka and a CQL database").unwrap();
        let tracer = listed.find("not run: 1 tests that need strace").unwrap();
        assert!(servers < tracer, "{listed}");
        assert!(listed.contains("Here: no Java\n    cql::c\n    kafka::a\n"), "{listed}");
        assert_eq!(format_not_run(""), "");
    }
}
