//! Owns the finding `PARTNER_SILENT`: a partner's records list payments, and this system has no
//! notice of any of these payments. Pure.

use payfold_schemas::digest::Digest;
use payfold_schemas::finding::{Code, Side};

use super::comparer::{GroupComparer, RunTally};
use super::detected_finding::{DetectedFinding, FindingIdentity};

/// Fewer payments than this are too few to conclude anything.
const PAYMENTS_MIN: u64 = 3;

/// Detects the finding, if none of the listed payments has a notice.
pub(crate) fn detect_silence(
    comparer: &GroupComparer,
    tally: &RunTally,
) -> Option<DetectedFinding> {
    let silent = tally.payments >= PAYMENTS_MIN && tally.unnoticed == tally.payments;
    let identity = FindingIdentity {
        partner: comparer.partner.clone(),
        merchant_code: None,
        order_id: None,
        provider_ref: None,
        code: Code::PartnerSilent.to_string(),
        what: comparer.rules.day.to_string(),
        day: None,
    };
    silent.then(|| DetectedFinding {
        id: identity.id(),
        code: Code::PartnerSilent,
        severity: Code::PartnerSilent.severity(),
        flag: None,
        reference: None,
        field: String::new(),
        ours: Side { value: "no notice".to_owned(), source: "intake".to_owned() },
        partners: Side {
            value: format!("{} payments", tally.payments),
            source: comparer.file.clone(),
        },
        at_risk: 0,
        currency: None,
        lines: Vec::new(),
        evidence: Digest::of_content("finding evidence", &identity),
        identity,
    })
}
