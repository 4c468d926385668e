//! Owns the selection of signed IPNs, and their description in evidence.

use payfold_schemas::ipn::Status;

use crate::observations::{IpnDelivery, IpnReading, ObservedPayment, PaymentCase, SignedIpn};

pub(super) const NO_IPN: &str = "no signed IPN came";

/// The signed IPNs of a payment, in order of arrival.
pub(super) fn signed_ipns(
    payment: &ObservedPayment,
) -> impl Iterator<Item = (&IpnDelivery, &SignedIpn)> {
    payment.deliveries.iter().filter_map(|delivery| match &delivery.reading {
        IpnReading::Signed(ipn) => Some((delivery, ipn)),
        IpnReading::Unread(_) | IpnReading::Unsigned(_) => None,
    })
}

/// Describes an IPN in evidence, such as `pay: SUCCESS of sbx-1`.
pub(super) fn describe_ipn(case: PaymentCase, ipn: &SignedIpn) -> String {
    let status = ipn.status.map_or("an IPN", Status::as_str);
    format!("{case}: {status} of {}", ipn.provider_ref)
}
