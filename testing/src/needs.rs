//! Owns what some tests need and not every machine has: real servers, a browser, root, a system-call tracer.
//! Invariants: a test that can't run for want of one is listed at the end of the whole run, with what it needs
//! (`tests/not_run.rs`); under CI it fails instead.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::thread;

use crate::knobs;

/// What a test needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Kafka and a CQL database.
    Servers,
    /// Chromium and its driver.
    Browser,
    /// The right to mount a file system and to freeze a file.
    Root,
    /// `strace`, and the right to trace.
    Tracer,
}

impl Need {
    const ALL: [Self; 4] = [Self::Servers, Self::Browser, Self::Root, Self::Tracer];

    const fn name(self) -> &'static str {
        match self {
            Self::Servers => "servers",
            Self::Browser => "browser",
            Self::Root => "root",
            Self::Tracer => "tracer",
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Servers => {
                "Kafka and a CQL database: Docker with Compose; or Java 17, Maven and Python 3.9 (Debian: apt-get install \
                 openjdk-17-jdk-headless maven python3; Fedora: dnf install java-17-openjdk-headless maven python3; macOS: brew \
                 install openjdk@17 maven); or running ones named in PAYFOLD_TEST_KAFKA and PAYFOLD_TEST_CQL"
            }
            Self::Browser => {
                "a browser (Debian: apt-get install chromium chromium-driver; Fedora: dnf install chromium chromedriver; \
                 macOS: brew install --cask chromium chromedriver)"
            }
            Self::Root => "root, on Linux: a small disk is mounted and files are frozen",
            Self::Tracer => {
                "strace, on Linux, and the right to trace (Debian: apt-get install strace; Fedora: dnf install strace)"
            }
        })
    }
}

/// What was found of a need; if it is not there, this thread's test is noted as not run. Panics under CI.
pub fn met<T>(need: Need, found: Result<T, String>) -> Option<T> {
    let reason = match found {
        Ok(found) => return Some(found),
        Err(reason) => reason,
    };
    assert!(!knobs::is_ci(), "under CI nothing is left out, and this needs {need}. Here: {reason}");
    note(need, &reason).expect("the target folder takes a file");
    None
}

fn note(need: Need, reason: &str) -> io::Result<()> {
    let path = notes();
    fs::create_dir_all(path.parent().expect("it is in a folder"))?;
    let thread = thread::current();
    let (test, reason) = (thread.name().unwrap_or("a test"), reason.lines().next().unwrap_or(""));
    let line = format!("{}\t{test}\t{reason}\n", need.name());
    OpenOptions::new().create(true).append(true).open(path)?.write_all(line.as_bytes())
}

/// Where the tests of one run note what they lack: `cargo test` is the parent of all test binaries.
fn notes() -> PathBuf {
    let binary = std::env::current_exe().expect("a running program has a path");
    let target =
        binary.ancestors().nth(3).expect("Cargo puts test binaries into target/PROFILE/deps");
    target.join("not-run").join(std::os::unix::process::parent_id().to_string())
}

/// What the tests of this run have noted, and forgets it. Returns text for a person; empty if all of them ran.
pub fn take_not_run() -> String {
    let noted = fs::read_to_string(notes()).unwrap_or_default();
    let _ = fs::remove_file(notes());
    list(&noted)
}

fn list(noted: &str) -> String {
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
    fn what_was_not_run_is_listed_once_by_what_it_needs() {
        let noted = "tracer\ttraced::b\tno strace\nservers\tkafka::a\tno Java\nservers\tkafka::a\tno Java\n\
                     servers\tcql::c\tno Java\nnonsense\n";
        let listed = list(noted);
        let servers = listed.find("not run: 2 tests that need Kafka and a CQL database").unwrap();
        let tracer = listed.find("not run: 1 tests that need strace").unwrap();
        assert!(servers < tracer, "{listed}");
        assert!(listed.contains("Here: no Java\n    cql::c\n    kafka::a\n"), "{listed}");
        assert_eq!(list(""), "");
    }
}
