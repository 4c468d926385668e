//! Owns the account of a run: what should be in the log and in quarantine, and that just this is
//! there, with nothing secret in what the process wrote and no connection left open.

use payfold_engines::log::Topic;
use payfold_schemas::record::Parts;

use super::accounts::{self, Accounts};
use super::expected::{Kept, Outcome};
use crate::support::system::System;

/// What was sent, by where it should be.
#[derive(Default)]
pub struct Ledger {
    accepted: Vec<Vec<u8>>,
    quarantined: Vec<(String, Vec<u8>)>,
    signatures: Vec<String>,
}

impl Ledger {
    /// Notes what was sent; what failed.
    pub fn take(&mut self, outcomes: Vec<Outcome>) -> Vec<String> {
        for (kept, code, body) in outcomes.iter().flat_map(|outcome| &outcome.sent) {
            self.note(*kept, code, body);
        }
        outcomes.into_iter().filter_map(|outcome| outcome.failure).collect()
    }

    fn note(&mut self, kept: Kept, code: &str, body: &[u8]) {
        match kept {
            Kept::Log => self.accepted.push(body.to_vec()),
            Kept::Quarantine => self.quarantined.push((code.to_owned(), body.to_vec())),
            Kept::Nowhere => {}
        }
        let text = String::from_utf8_lossy(body);
        if let Some((_, signature)) = text.split_once("\"signature\":\"") {
            self.signatures.push(signature.chars().take(32).collect());
        }
    }

    /// Holds the log, the listings and the process against it.
    pub fn compare(mut self, accounts: &Accounts) {
        let system = &accounts.system;
        let (mut accepted, mut quarantined) = (Vec::new(), Vec::new());
        for record in accounts.records(Topic::Intake) {
            assert!(matches!(record.parts, Parts::Fact(_)));
            accepted.push(record.raw);
        }
        for record in accounts.records(Topic::Quarantine) {
            let Parts::Quarantine(parts) = record.parts else { panic!("no quarantine record") };
            quarantined.push((parts.code, record.raw));
        }
        let counts = (accepted.len(), quarantined.len());
        self.accepted.sort();
        accepted.sort();
        self.quarantined.sort();
        quarantined.sort();
        assert!(accepted == self.accepted, "intake: {} of {}", counts.0, self.accepted.len());
        assert_eq!(text_of(&quarantined), text_of(&self.quarantined));
        assert!(quarantined == self.quarantined, "quarantine holds other bytes");
        compare_listings(system, counts);
        self.search_for_secrets(system);
        accounts.settle();
    }

    fn search_for_secrets(&self, system: &System) {
        let log = system.home().log();
        assert!(log.contains("ipn refused"), "refusals are sampled into the log");
        assert!(!log.contains("panicked"), "{log}");
        assert!(!log.contains("\"level\":\"ERROR\""), "{log}");
        for word in ["merchantCode\\\"", "providerRef\\\"", "\"signature"] {
            assert!(!log.contains(word), "{word} is in the log");
        }
        let signatures = self.signatures.iter().filter(|signature| signature.len() == 32);
        for secret in accounts::secrets().chain(signatures.cloned()) {
            assert!(!log.contains(&secret), "{secret} is in the log");
        }
    }
}

fn text_of(quarantined: &[(String, Vec<u8>)]) -> Vec<(&str, String)> {
    let text = |raw: &[u8]| String::from_utf8_lossy(raw).into_owned();
    quarantined.iter().map(|(code, raw)| (code.as_str(), text(raw))).collect()
}

/// What operators read says the same.
fn compare_listings(system: &System, (accepted, quarantined): (usize, usize)) {
    assert_eq!(system.home().tail("intake").len(), accepted);
    let listed = ["quarantine", "list", "--limit", "10000", "--output", "json"];
    let listed = system.payfold(&listed).json();
    let listed = listed.as_array().expect("an array");
    assert_eq!(listed.len(), quarantined);
    for record in listed {
        assert!(record["rawBytes"].as_u64().is_some_and(|bytes| bytes > 0), "{record}");
        assert!(record["detail"].is_string() && record["requestId"].is_string(), "{record}");
    }
}
