//! Owns the evaluation of a run: each rule gets one result with its evidence. Pure. A rule fails
//! only for an observation, never for a missing one. A rule without observations is `NotTested`,
//! with the reason. Each fault is reported by one rule only, the narrowest, so that a report lists
//! each defect once.

mod creates;
mod notices;
mod pages;
mod returns;
mod tally;
#[cfg(test)]
pub(crate) mod tests;

use serde::Serialize;

pub use self::tally::{Finding, RuleResult};
use super::observations::RunObservations;
use super::rule::Rule;

/// The overall result of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every rule passed, is attested or does not apply.
    Passed,
    /// No rule failed, and at least one is open or not tested.
    Incomplete,
    /// At least one rule failed.
    Failed,
}

impl Verdict {
    /// The overall result of these findings.
    pub fn from_findings(findings: &[Finding]) -> Self {
        let is_incomplete = |finding: &Finding| match finding.outcome {
            RuleResult::Open => true,
            RuleResult::NotTested => !finding.rule.is_incidental(),
            RuleResult::Passed
            | RuleResult::Failed
            | RuleResult::Attested
            | RuleResult::NotApplicable => false,
        };
        if findings.iter().any(|finding| finding.outcome == RuleResult::Failed) {
            Self::Failed
        } else if findings.iter().any(is_incomplete) {
            Self::Incomplete
        } else {
            Self::Passed
        }
    }

    /// The verdict's name in reports.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Incomplete => "incomplete",
            Self::Failed => "failed",
        }
    }
}

/// Evaluates every rule, in the order of `Rule::all`.
pub(crate) fn evaluate_rules(observed: &RunObservations) -> Vec<Finding> {
    Rule::all().into_iter().map(|rule| evaluate_rule(rule, observed)).collect()
}

fn evaluate_rule(rule: Rule, observed: &RunObservations) -> Finding {
    let tally = match rule {
        Rule::CreateAnswered => creates::check_answered(observed),
        Rule::Create(violation) => creates::check_violation(observed, violation),
        Rule::CreateRefUnique => creates::check_unique_refs(observed),
        Rule::IpnSent => notices::check_sent(observed),
        Rule::IpnSignature => notices::check_signatures(observed),
        Rule::IpnFields => notices::check_fields(observed),
        Rule::IpnIds => notices::check_ids(observed),
        Rule::IpnAmount => notices::check_amounts(observed),
        Rule::IpnCurrency => notices::check_currencies(observed),
        Rule::IpnPaidInSession => notices::check_paid_in_session(observed),
        Rule::IpnTimestamp => notices::check_timestamps(observed),
        Rule::IpnRetryBusy | Rule::IpnRetrySilent => notices::check_retries(observed, rule),
        Rule::IpnRetryFresh => notices::check_fresh_retries(observed),
        Rule::IpnContent => notices::check_content(observed),
        Rule::IpnOnce => notices::check_sent_once(observed),
        Rule::IpnOneOutcome => notices::check_one_outcome(observed),
        Rule::IpnPaidOnce => notices::check_paid_once(observed),
        Rule::IpnRefundAmount => notices::check_refund_amounts(observed),
        Rule::IpnRefundOnce => notices::check_refund_sums(observed),
        Rule::ReturnSuccess | Rule::ReturnCancel => returns::check_returned(observed, rule),
        Rule::ReturnSignature => returns::check_signatures(observed),
        Rule::ReturnFields => returns::check_fields(observed),
        Rule::PageShown => pages::check_shown(observed),
        Rule::PageHttps => pages::check_https(observed),
        Rule::PageFrameOptions => pages::check_frame_options(observed),
        Rule::PageFrameAncestors => pages::check_frame_ancestors(observed),
        Rule::PageCookies => pages::check_cookies(observed),
        Rule::PageWidth | Rule::PageWebView => pages::check_attested(observed, rule),
    };
    tally.into_finding(rule)
}
