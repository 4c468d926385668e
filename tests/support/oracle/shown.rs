//! Owns the conversion of a fold's summary into the oracle's terms, so that the two can be
//! compared.

use payfold_schemas::order::Summary;

use super::Expected;

impl Expected {
    /// What a fold shows.
    pub fn shown(summary: &Summary, version: u64) -> Self {
        let summary = summary.clone();
        Self {
            state: summary.state,
            fulfil: summary.fulfil,
            flags: (summary.flags.iter())
                .map(|raised| (raised.flag, raised.severity, raised.is_open()))
                .collect(),
            reference: summary.reference,
            attempt: summary.attempt,
            amount: summary.amount,
            currency: summary.currency,
            paid_amount: summary.paid_amount,
            refunded_amount: summary.refunded_amount,
            overpaid: summary.overpaid,
            refunded_at_least: summary.refunded_at_least,
            session_ref: summary.session_ref,
            payment_ref: summary.payment_ref,
            paid_at: summary.paid_at,
            deadline: summary.deadline,
            version,
        }
    }
}
