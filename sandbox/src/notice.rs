//! Owns the encoding and signing of a notice (contract 2.3, 2.4, 5) by the partner's profile. The
//! body of an IPN and the query of a browser return have the same fields.

use bytes::Bytes;
use payfold_partners::mac::MacKey;
use payfold_partners::profile::{Field, Profile, TimeKind};
use payfold_partners::signing;
use payfold_schemas::time::Time;
use serde::Serialize;
use serde_json::Value;
use url::Url;

use crate::payment::{Payment, TransactionState};

/// The fields of a signed notice.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SignedNotice<'a> {
    merchant_code: &'a str,
    order_id: &'a str,
    provider_ref: &'a str,
    status: &'a str,
    amount: Value,
    currency: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    paid_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce: Option<String>,
    signature: String,
    #[serde(skip)]
    digits: String,
}

/// The JSON type of the amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AmountFormat {
    Number,
    String,
}

/// The parts of a notice that belong to one attempt.
pub(crate) struct NoticeStamp {
    pub(crate) at: Time,
    pub(crate) nonce: Option<String>,
    /// Replaces the merchantCode of the payment's account.
    pub(crate) merchant_code: Option<&'static str>,
    pub(crate) amount: AmountFormat,
}

impl<'a> SignedNotice<'a> {
    pub(crate) fn sign(
        profile: &Profile,
        key: &MacKey,
        (payment, state): (&'a Payment, &'a TransactionState),
        stamp: NoticeStamp,
    ) -> Self {
        let has_time = profile.time().kind != TimeKind::None;
        let mut notice = Self {
            merchant_code: stamp.merchant_code.unwrap_or(payment.account.merchant_code.as_str()),
            order_id: payment.order_id.as_str(),
            provider_ref: state.provider_ref.as_str(),
            status: state.status.as_str(),
            amount: match stamp.amount {
                AmountFormat::Number => state.amount.minor().into(),
                AmountFormat::String => state.amount.to_string().into(),
            },
            currency: state.currency.code(),
            paid_at: state.paid_at.map(|time| time.to_string()),
            timestamp: has_time.then(|| stamp.at.to_string()),
            nonce: stamp.nonce,
            signature: String::new(),
            digits: state.amount.to_string(),
        };
        notice.signature = signing::sign(profile, key, |field| notice.value(field));
        notice
    }

    fn value(&self, field: Field) -> Option<&str> {
        match field {
            Field::MerchantCode => Some(self.merchant_code),
            Field::OrderId => Some(self.order_id),
            Field::ProviderRef => Some(self.provider_ref),
            Field::Status => Some(self.status),
            Field::Amount => Some(&self.digits),
            Field::Currency => Some(self.currency),
            Field::PaidAt => self.paid_at.as_deref(),
            Field::Timestamp => self.timestamp.as_deref(),
            Field::Nonce => self.nonce.as_deref(),
            Field::Signature => Some(&self.signature),
        }
    }

    /// Removes the signature.
    pub(crate) fn remove_signature(&mut self) {
        self.signature.clear();
    }

    /// Encodes the body of an IPN.
    pub(crate) fn encode_body(&self) -> Bytes {
        serde_json::to_vec(self).expect("a notice consists of texts and a number").into()
    }

    /// The browser's return address: `return_url` with the fields in its query.
    pub(crate) fn return_address(&self, return_url: &Url) -> String {
        let mut target = return_url.clone();
        for field in Field::ALL {
            if let Some(value) = self.value(field).filter(|value| !value.is_empty()) {
                target.query_pairs_mut().append_pair(field.name(), value);
            }
        }
        target.into()
    }
}
