//! Owns the judgement of a run: every rule gets one result with its evidence. Pure. A rule fails for what was seen and
//! never for what was not: what a run could not bring about is not tested, and says why. Each fault is told by one rule,
//! the narrowest, so that a report names what is to be mended and nothing else.

mod creates;
mod notices;
mod pages;
mod returns;
#[cfg(test)]
pub(in crate::certify) mod tests;

use serde::Serialize;

use super::rule::Rule;
use super::seen::Seen;

/// How many faults or notes a rule's evidence quotes.
const QUOTED_MAX: usize = 3;

/// A partner may show codes alone (contract 4.4.1).
const NO_PAGES: &str = "the partner shows QR codes and no pages";

/// What a rule came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Held wherever it was looked at.
    Passed,
    /// Broken once at least.
    Failed,
    /// A person says that it holds.
    Attested,
    /// Only a person can look at it, and none has.
    Open,
    /// The run did not bring it about.
    NotTested,
    /// The profile or the address makes it meaningless.
    NotApplicable,
}

impl Outcome {
    /// Its name.
    pub const fn as_str(self) -> &'static str {
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

/// A rule, its result and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Which rule.
    pub rule: Rule,
    /// What it came to.
    pub outcome: Outcome,
    /// Why, for people.
    pub evidence: String,
}

/// What a whole run came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every rule passed, is attested or does not apply.
    Passed,
    /// No rule failed, and one at least is open or not tested.
    Incomplete,
    /// A rule failed.
    Failed,
}

impl Verdict {
    /// Of these findings.
    pub fn of(findings: &[Finding]) -> Self {
        let open = |finding: &Finding| match finding.outcome {
            Outcome::Open => true,
            Outcome::NotTested => !finding.rule.is_incidental(),
            Outcome::Passed | Outcome::Failed | Outcome::Attested | Outcome::NotApplicable => false,
        };
        if findings.iter().any(|finding| finding.outcome == Outcome::Failed) {
            Self::Failed
        } else if findings.iter().any(open) {
            Self::Incomplete
        } else {
            Self::Passed
        }
    }

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Incomplete => "incomplete",
            Self::Failed => "failed",
        }
    }
}

/// Judges every rule, in the order of `Rule::all`.
pub fn judge(seen: &Seen) -> Vec<Finding> {
    Rule::all().into_iter().map(|rule| judge_one(rule, seen)).collect()
}

fn judge_one(rule: Rule, seen: &Seen) -> Finding {
    let tally = match rule {
        Rule::CreateAnswered => creates::answered(seen),
        Rule::Create(violation) => creates::rule(seen, violation),
        Rule::CreateRefUnique => creates::ref_unique(seen),
        Rule::IpnSent => notices::sent(seen),
        Rule::IpnSignature => notices::signature(seen),
        Rule::IpnFields => notices::fields(seen),
        Rule::IpnIds => notices::ids(seen),
        Rule::IpnAmount => notices::amount(seen),
        Rule::IpnCurrency => notices::currency(seen),
        Rule::IpnPaidAt => notices::paid_at(seen),
        Rule::IpnPaidInSession => notices::paid_in_session(seen),
        Rule::IpnTimestamp => notices::timestamp(seen),
        Rule::IpnRetryBusy | Rule::IpnRetrySilent => notices::retried(seen, rule),
        Rule::IpnRetryFresh => notices::retry_fresh(seen),
        Rule::IpnContent => notices::content(seen),
        Rule::IpnOnce => notices::once(seen),
        Rule::IpnOneOutcome => notices::one_outcome(seen),
        Rule::IpnPaidOnce => notices::paid_once(seen),
        Rule::IpnRefundAmount => notices::refund_amount(seen),
        Rule::IpnRefundOnce => notices::refund_once(seen),
        Rule::ReturnSuccess | Rule::ReturnCancel => returns::led_back(seen, rule),
        Rule::ReturnSignature => returns::signature(seen),
        Rule::ReturnFields => returns::fields(seen),
        Rule::PageShown => pages::shown(seen),
        Rule::PageHttps => pages::https(seen),
        Rule::PageFrameOptions => pages::frame_options(seen),
        Rule::PageFrameAncestors => pages::frame_ancestors(seen),
        Rule::PageCookies => pages::cookies(seen),
        Rule::PageWidth | Rule::PageWebView => pages::attested(seen, rule),
    };
    tally.close(rule)
}

/// What speaks for a rule and what against it.
#[derive(Debug)]
enum Tally {
    /// It was looked at.
    Looked {
        /// How often it held.
        kept: usize,
        /// What it held for, one of them: `IPN`.
        what: &'static str,
        /// Where it was broken.
        broken: Vec<String>,
        /// Why it may not have been looked at.
        or_else: &'static str,
        /// What is worth knowing though it held.
        notes: Vec<String>,
    },
    /// It was not looked at, or not by us.
    Said(Outcome, String),
}

impl Tally {
    fn new(what: &'static str, or_else: &'static str) -> Self {
        Self::Looked { kept: 0, what, broken: Vec::new(), or_else, notes: Vec::new() }
    }

    fn keep(&mut self) {
        if let Self::Looked { kept, .. } = self {
            *kept += 1;
        }
    }

    fn fault(&mut self, fault: String) {
        if let Self::Looked { broken, .. } = self {
            broken.push(fault);
        }
    }

    fn note(&mut self, note: String) {
        if let Self::Looked { notes, .. } = self {
            notes.push(note);
        }
    }

    /// Holds, or is broken with the fault.
    fn hold_or(&mut self, fault: Option<String>) {
        match fault {
            Some(fault) => self.fault(fault),
            None => self.keep(),
        }
    }

    fn close(self, rule: Rule) -> Finding {
        let (outcome, evidence) = match self {
            Self::Said(outcome, evidence) => (outcome, evidence),
            Self::Looked { broken, what, kept, .. } if !broken.is_empty() => {
                let all = counted(broken.len() + kept, what);
                (Outcome::Failed, format!("{} of {all}: {}", broken.len(), quoted(&broken)))
            }
            Self::Looked { kept: 0, or_else, .. } => (Outcome::NotTested, or_else.to_owned()),
            Self::Looked { kept, what, notes, .. } if notes.is_empty() => {
                (Outcome::Passed, counted(kept, what))
            }
            Self::Looked { kept, what, notes, .. } => {
                (Outcome::Passed, format!("{}: {}", counted(kept, what), quoted(&notes)))
            }
        };
        Finding { rule, outcome, evidence }
    }
}

fn quoted(texts: &[String]) -> String {
    texts[..texts.len().min(QUOTED_MAX)].join("; ")
}

/// `1 retry`, `2 retries`.
fn counted(count: usize, what: &str) -> String {
    match (count, what.strip_suffix('y')) {
        (1, _) => format!("1 {what}"),
        (_, Some(stem)) => format!("{count} {stem}ies"),
        (_, None) if what.ends_with('s') => format!("{count} {what}es"),
        (_, None) => format!("{count} {what}s"),
    }
}
