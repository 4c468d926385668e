//! Owns the counting of one rule's checks, and the finding they result in.

use serde::Serialize;

use crate::observations::{ObservedPayment, RunObservations};
use crate::rule::Rule;

/// The most faults or notes quoted in the evidence of a rule.
const QUOTED_MAX: usize = 3;

/// Why page rules do not apply: a partner may show QR codes only (contract 4.4.1).
pub(super) const NO_PAGES: &str = "the partner shows QR codes and no pages";

/// The result of one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleResult {
    /// Every check passed.
    Passed,
    /// At least one check failed.
    Failed,
    /// A person states that it holds.
    Attested,
    /// Only a person can check it, and no person has.
    Open,
    /// The run had no occasion to check it.
    NotTested,
    /// The rule does not apply to this profile or address.
    NotApplicable,
}

impl RuleResult {
    /// The result's name in reports.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Attested => "attested",
            Self::Open => "open",
            Self::NotTested => "not_tested",
            Self::NotApplicable => "not_applicable",
        }
    }
}

/// A rule with its result and evidence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The rule.
    pub rule: Rule,
    /// The result.
    pub outcome: RuleResult,
    /// The evidence, for a person.
    pub evidence: String,
}

/// The checks of one rule.
#[derive(Debug)]
pub(super) enum Tally {
    /// The rule was checked against observations.
    Checked {
        /// How many checks passed.
        passed: usize,
        /// The noun for one checked item, such as `IPN`.
        item: &'static str,
        /// One text for each failed check.
        faults: Vec<String>,
        /// The evidence if there was no check.
        not_tested_reason: &'static str,
        /// Further evidence if all checks passed.
        notes: Vec<String>,
    },
    /// The result is decided without checks.
    Decided(RuleResult, String),
}

impl Tally {
    pub(super) fn new(item: &'static str, not_tested_reason: &'static str) -> Self {
        Self::Checked { passed: 0, item, faults: Vec::new(), not_tested_reason, notes: Vec::new() }
    }

    /// Counts a passed check.
    pub(super) fn add_pass(&mut self) {
        if let Self::Checked { passed, .. } = self {
            *passed += 1;
        }
    }

    /// Adds a failed check.
    pub(super) fn add_fault(&mut self, fault: String) {
        if let Self::Checked { faults, .. } = self {
            faults.push(fault);
        }
    }

    /// Adds further evidence.
    pub(super) fn add_note(&mut self, note: String) {
        if let Self::Checked { notes, .. } = self {
            notes.push(note);
        }
    }

    /// Adds one check: failed with `fault`, or passed.
    pub(super) fn add_check(&mut self, fault: Option<String>) {
        match fault {
            Some(fault) => self.add_fault(fault),
            None => self.add_pass(),
        }
    }

    /// Whether no check was made.
    pub(super) fn is_untested(&self) -> bool {
        matches!(self, Self::Checked { passed: 0, faults, .. } if faults.is_empty())
    }

    /// Replaces a tally without checks by `NotApplicable` if the partner shows QR codes only: a QR
    /// code has no page and no browser return.
    pub(super) fn or_qr_only(self, observed: &RunObservations) -> Self {
        let has_codes = observed.payments.iter().any(ObservedPayment::is_qr_only);
        let has_pages = observed.payments.iter().any(|payment| payment.page.is_some());
        if self.is_untested() && has_codes && !has_pages {
            return Self::Decided(RuleResult::NotApplicable, NO_PAGES.to_owned());
        }
        self
    }

    /// Closes the tally as the finding of `rule`.
    pub(super) fn into_finding(self, rule: Rule) -> Finding {
        let (outcome, evidence) = match self {
            Self::Decided(outcome, evidence) => (outcome, evidence),
            Self::Checked { faults, item, passed, .. } if !faults.is_empty() => {
                let all = count_items(faults.len() + passed, item);
                (RuleResult::Failed, format!("{} of {all}: {}", faults.len(), quote(&faults)))
            }
            Self::Checked { passed: 0, not_tested_reason, .. } => {
                (RuleResult::NotTested, not_tested_reason.to_owned())
            }
            Self::Checked { passed, item, notes, .. } if notes.is_empty() => {
                (RuleResult::Passed, count_items(passed, item))
            }
            Self::Checked { passed, item, notes, .. } => {
                (RuleResult::Passed, format!("{}: {}", count_items(passed, item), quote(&notes)))
            }
        };
        Finding { rule, outcome, evidence }
    }
}

fn quote(texts: &[String]) -> String {
    texts[..texts.len().min(QUOTED_MAX)].join("; ")
}

/// The count with the noun in singular or plural: `1 retry`, `2 retries`.
pub(super) fn count_items(count: usize, item: &str) -> String {
    match (count, item.strip_suffix('y')) {
        (1, _) => format!("1 {item}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) if item.ends_with('s') => format!("{count} {item}es"),
        (_, None) => format!("{count} {item}s"),
    }
}
