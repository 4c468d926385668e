//! Checks a page against the rules of accessibility, with axe-core: WCAG 2.2 at level AA, and what
//! axe calls best practice.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use super::driver::Browser;
use crate::support::fetched::{made, run};
use crate::support::needs::{self, Need};

/// axe-core, as a script.
pub struct Axe(String);

impl Axe {
    /// Fetches axe-core, as its lock names it; `None` without npm.
    pub fn fetch() -> Option<Self> {
        let asked = Command::new("npm").arg("--version").stdout(Stdio::null()).status();
        let installed = match asked.is_ok_and(|status| status.success()) {
            true => Ok(()),
            false => Err("no npm".to_owned()),
        };
        needs::require(Need::Browser, installed)?;
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/browser/axe");
        let place = made("axe", &source.join("package-lock.json"), |place| {
            for file in ["package.json", "package-lock.json"] {
                std::fs::copy(source.join(file), place.join(file)).expect("it can be copied");
            }
            run(Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(place));
        });
        let script = std::fs::read_to_string(place.join("node_modules/axe-core/axe.min.js"));
        Some(Self(script.expect("npm has fetched it")))
    }

    /// Checks that the page breaks no rule.
    pub fn assert_clear(&self, browser: &Browser, page: &str) {
        let broken = self.violations(browser);
        assert!(broken.is_empty(), "{page}: {}", broken.join("\n"));
    }

    /// What the page breaks: each rule, with the elements that break it.
    pub fn violations(&self, browser: &Browser) -> Vec<String> {
        browser.ask(&self.0);
        let found = browser.ask_later(
            "const done = arguments[arguments.length - 1];
             axe.run().then(found => done(found.violations.flatMap(rule => rule.nodes.map(
                 node => `${rule.id}: ${node.html} ${node.failureSummary}`))), done);",
        );
        let Value::Array(found) = found else { panic!("axe ends with {found}") };
        found.iter().map(|one| one.as_str().expect("a text").to_owned()).collect()
    }
}
