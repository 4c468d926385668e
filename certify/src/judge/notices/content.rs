//! Owns the selection of admissible IPNs, and their description in evidence.

use crate::observations::{IpnDelivery, ObservedPayment, PaymentCase, SignedIpn};

pub(super) const NO_IPN: &str = "no admissible IPN came";

/// The admissible IPNs of a payment, in order of arrival.
pub(super) fn admissible_ipns(
    payment: &ObservedPayment,
) -> impl Iterator<Item = (&IpnDelivery, &SignedIpn)> {
    payment
        .deliveries
        .iter()
        .filter_map(|delivery| Some((delivery, delivery.reading.admissible()?)))
}

/// Describes an IPN in evidence, such as `pay: SUCCESS of sbx-1`.
pub(super) fn describe_ipn(case: PaymentCase, ipn: &SignedIpn) -> String {
    format!("{case}: {} of {}", ipn.status.as_str(), ipn.provider_ref)
}
