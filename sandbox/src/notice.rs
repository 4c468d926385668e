//! Writes the notices of a payment by the partner's profile. In the contract (2.4) the browser
//! return has the same fields as a notice.

use payfold_partners::profile::Field;
use payfold_partners::scheme::{
    NoticeFlaw, NoticeValues, PaymentValues, SimulatedNotice, SimulationError,
};
use payfold_schemas::time::Time;
use serde_json::{Map, Value};
use url::Url;

use crate::payment::{Payment, TransactionState};
use crate::plan::ReturnDefect;

/// The parts of a notice that belong to one attempt.
pub(crate) struct NoticeStamp {
    /// The current time.
    pub(crate) now: Time,
    /// The notice's own time.
    pub(crate) at: Time,
    pub(crate) nonce: Option<String>,
    /// Replaces the merchantCode of the payment's account.
    pub(crate) merchant_code: Option<&'static str>,
    pub(crate) flaw: Option<NoticeFlaw>,
}

/// The values of a payment in this state.
pub(crate) fn payment_values<'a>(
    payment: &'a Payment,
    state: &'a TransactionState,
) -> PaymentValues<'a> {
    PaymentValues {
        merchant_code: payment.account.merchant_code().as_str(),
        order_id: payment.order_id.as_str(),
        provider_ref: state.provider_ref.as_str(),
        amount: state.amount,
        currency: state.currency,
        paid_at: state.paid_at,
    }
}

/// Writes a signed notice. Errors: the profile has no such notice.
pub(crate) fn write(
    payment: &Payment,
    state: &TransactionState,
    stamp: &NoticeStamp,
) -> Result<SimulatedNotice, SimulationError> {
    let mut values = NoticeValues {
        payment: payment_values(payment, state),
        status: state.status,
        at: stamp.at,
        nonce: stamp.nonce.as_deref(),
    };
    if let Some(other) = stamp.merchant_code {
        values.payment.merchant_code = other;
    }
    payment.account.write_notice(payment.ipn_url.as_str(), &values, stamp.flaw, stamp.now)
}

/// The browser's return address. In the contract it has the fields of a notice in its query,
/// without their signature if that is the defect; any other profile adds nothing.
pub(crate) fn return_address(
    payment: &Payment,
    state: &TransactionState,
    stamp: &NoticeStamp,
    defect: ReturnDefect,
) -> Result<String, SimulationError> {
    let mut target: Url = (*payment.return_url).clone();
    if payment.account.profile().is_default_scheme() {
        let notice = write(payment, state, stamp)?;
        let fields: Map<String, Value> = serde_json::from_slice(&notice.body).unwrap_or_default();
        let mut query = target.query_pairs_mut();
        for field in Field::ALL {
            let is_left_out = field == Field::Signature && defect == ReturnDefect::Unsigned;
            if let Some(value) = fields.get(field.name()).filter(|_| !is_left_out) {
                let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                query.append_pair(field.name(), &text);
            }
        }
    }
    Ok(target.into())
}
