//! Owns which findings stand where: open, only worth knowing, decided, cleared; the loudest first. Pure.

use payfold_schemas::finding::{FindingChanged, FindingDecision, FindingStatus};
use payfold_schemas::order::Severity;

use crate::money::Sums;

/// The findings of a report.
#[derive(Debug, Default)]
pub(super) struct Parts<'a> {
    /// Nobody has decided them, and they are more than worth knowing.
    pub(super) open: Vec<&'a FindingChanged>,
    /// Open, and only worth knowing.
    pub(super) noted: Vec<&'a FindingChanged>,
    /// A person, or two, decided them.
    pub(super) decided: Vec<&'a FindingChanged>,
    /// Their cause has gone.
    pub(super) cleared: Vec<&'a FindingChanged>,
}

impl<'a> Parts<'a> {
    pub(super) fn of(findings: &'a [FindingChanged]) -> Self {
        let mut parts = Self::default();
        for finding in findings {
            let part = match finding.status {
                FindingStatus::Open if finding.severity > Severity::Info => &mut parts.open,
                FindingStatus::Open => &mut parts.noted,
                FindingStatus::Decided => &mut parts.decided,
                FindingStatus::Cleared => &mut parts.cleared,
            };
            part.push(finding);
        }
        for part in [&mut parts.open, &mut parts.noted, &mut parts.decided, &mut parts.cleared] {
            part.sort_by(|a, b| loudness(a).cmp(&loudness(b)));
        }
        parts
    }

    /// What the open ones put at risk.
    pub(super) fn at_risk(&self) -> Sums {
        at_risk(&self.open)
    }

    /// How many of the open ones are flags of orders.
    pub(super) fn flags(&self) -> u64 {
        let flags = self.open.iter().filter(|finding| finding.flag.is_some());
        u64::try_from(flags.count()).unwrap_or(u64::MAX)
    }

    /// Those that wait for a second person.
    pub(super) fn waiting(&self) -> u64 {
        let waiting = self.open.iter().filter(|finding| first_word(finding).is_some());
        u64::try_from(waiting.count()).unwrap_or(u64::MAX)
    }
}

/// Sorts the loudest and the most costly first, kinds and actions together.
fn loudness(finding: &FindingChanged) -> impl Ord + '_ {
    use std::cmp::Reverse;
    let kind = (Reverse(finding.severity), finding.code, finding.action.as_str());
    (kind, finding.currency, Reverse(finding.money_at_risk), finding.finding_id.as_str())
}

/// Minor units that these put at risk.
pub(super) fn at_risk(findings: &[&FindingChanged]) -> Sums {
    let mut sums = Sums::new();
    for finding in findings {
        if let Some(currency) = finding.currency {
            *sums.entry(currency).or_default() += i128::from(finding.money_at_risk);
        }
    }
    sums
}

/// The first person's word, while it waits for the second's: on the evidence as it still is.
pub(super) fn first_word(finding: &FindingChanged) -> Option<&FindingDecision> {
    let is_open = finding.status == FindingStatus::Open;
    finding.decision.as_ref().filter(|said| is_open && said.evidence == finding.evidence)
}
