//! Owns the finding of a partner that sends no notices: its records list payments that this system knows by queries only.
//! Pure.

use payfold_schemas::digest::Digest;
use payfold_schemas::finding::{Code, Side};

use super::found::{About, Found};
use super::judge::{Judge, Tally};

/// Fewer payments tell nothing.
const PAYMENTS_MIN: u64 = 3;

/// The finding, if no notice told any of the payments.
pub(crate) fn found(judge: &Judge, tally: &Tally) -> Option<Found> {
    let silent = tally.payments >= PAYMENTS_MIN && tally.unnoticed == tally.payments;
    let about = About {
        partner: judge.partner.clone(),
        merchant_code: None,
        order_id: None,
        provider_ref: None,
        code: Code::PartnerSilent.to_string(),
        what: judge.rules.day.to_string(),
        day: None,
    };
    silent.then(|| Found {
        id: about.id(),
        code: Code::PartnerSilent,
        severity: Code::PartnerSilent.severity(),
        flag: None,
        reference: None,
        field: String::new(),
        ours: Side { value: "no notice".to_owned(), source: "intake".to_owned() },
        partners: Side {
            value: format!("{} payments", tally.payments),
            source: judge.file.clone(),
        },
        at_risk: 0,
        currency: None,
        lines: Vec::new(),
        evidence: Digest::of_content("finding evidence", &about),
        about,
    })
}
