//! Owns the groups of findings by status: open, worth knowing, decided, cleared. Each group is
//! sorted by severity, kind and currency, then by money at risk. Pure.

use payfold_schemas::finding::{FindingChanged, FindingStatus};
use payfold_schemas::order::{Flag, Severity};

use crate::money::Sums;

/// The findings of a report, by group.
#[derive(Debug, Default)]
pub struct FindingGroups<'a> {
    /// Open, with a severity above `info`.
    pub open: Vec<&'a FindingChanged>,
    /// Open, with severity `info`.
    pub noted: Vec<&'a FindingChanged>,
    /// Decided by one person or two.
    pub decided: Vec<&'a FindingChanged>,
    /// Cleared: the cause has gone.
    pub cleared: Vec<&'a FindingChanged>,
}

impl<'a> FindingGroups<'a> {
    /// Groups findings.
    pub fn new(findings: impl IntoIterator<Item = &'a FindingChanged>) -> Self {
        let mut groups = Self::default();
        for finding in findings {
            let group = match finding.status {
                FindingStatus::Open if finding.severity > Severity::Info => &mut groups.open,
                FindingStatus::Open => &mut groups.noted,
                FindingStatus::Decided => &mut groups.decided,
                FindingStatus::Cleared => &mut groups.cleared,
            };
            group.push(finding);
        }
        for group in [&mut groups.open, &mut groups.noted, &mut groups.decided, &mut groups.cleared]
        {
            group.sort_by(|a, b| sort_rank(a).cmp(&sort_rank(b)));
        }
        groups
    }

    /// Money at risk by the open findings.
    pub(super) fn at_risk(&self) -> Sums {
        at_risk(&self.open)
    }

    /// The number of open findings that are flags of orders.
    pub(super) fn open_flags(&self) -> u64 {
        let open_flags = self.open.iter().filter(|finding| finding.flag.is_some());
        u64::try_from(open_flags.count()).unwrap_or(u64::MAX)
    }

    /// The number of open findings with a decision that waits for a second person.
    pub(super) fn waiting_decisions(&self) -> u64 {
        let waiting_decisions =
            self.open.iter().filter(|finding| finding.first_decision().is_some());
        u64::try_from(waiting_decisions.count()).unwrap_or(u64::MAX)
    }
}

/// The findings of a group, those of one code, flag and action together.
pub fn alike<'f, 'a>(
    findings: &'f [&'a FindingChanged],
) -> impl Iterator<Item = &'f [&'a FindingChanged]> {
    findings.chunk_by(|a, b| (a.code, a.flag, &a.action) == (b.code, b.flag, &b.action))
}

/// The sort key: the most severe first, findings of one code and action together, the largest money
/// at risk first.
fn sort_rank(finding: &FindingChanged) -> impl Ord + '_ {
    use std::cmp::Reverse;
    let flag = finding.flag.map(Flag::as_str);
    let kind = (Reverse(finding.severity), finding.code, flag, finding.action.as_str());
    (kind, finding.currency, Reverse(finding.money_at_risk), finding.finding_id.as_str())
}

/// Money at risk by these findings, in minor units by currency.
pub fn at_risk(findings: &[&FindingChanged]) -> Sums {
    let mut sums = Sums::new();
    for finding in findings {
        if let Some(currency) = finding.currency {
            *sums.entry(currency).or_default() += i128::from(finding.money_at_risk);
        }
    }
    sums
}
