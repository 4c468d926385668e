//! Owns the notice as it is written and signed (contract 2.3, 2.4, 5), by the partner's profile: the body of an IPN
//! and the query of a browser return are the same fields.

use bytes::Bytes;
use payfold_partners::mac::MacKey;
use payfold_partners::profile::{Field, Profile, TimeKind};
use payfold_partners::signing;
use payfold_schemas::time::Time;
use serde::Serialize;
use serde_json::Value;
use url::Url;

use crate::payment::{Payment, Said};

/// A signed notice.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Notice<'a> {
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

/// How an amount is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AmountForm {
    Number,
    Text,
}

/// When and under which nonce a notice is sent, and for whom if not for its account.
pub(crate) struct Stamp {
    pub(crate) at: Time,
    pub(crate) nonce: Option<String>,
    /// Of another account than the payment's.
    pub(crate) merchant_code: Option<&'static str>,
    pub(crate) amount: AmountForm,
}

impl<'a> Notice<'a> {
    pub(crate) fn sign(
        profile: &Profile,
        key: &MacKey,
        (payment, said): (&'a Payment, &'a Said),
        stamp: Stamp,
    ) -> Self {
        let has_time = profile.time().kind != TimeKind::None;
        let mut notice = Self {
            merchant_code: stamp.merchant_code.unwrap_or(payment.account.merchant_code.as_str()),
            order_id: payment.order_id.as_str(),
            provider_ref: said.provider_ref.as_str(),
            status: said.status.as_str(),
            amount: match stamp.amount {
                AmountForm::Number => said.amount.minor().into(),
                AmountForm::Text => said.amount.to_string().into(),
            },
            currency: said.currency.code(),
            paid_at: said.paid_at.map(|time| time.to_string()),
            timestamp: has_time.then(|| stamp.at.to_string()),
            nonce: stamp.nonce,
            signature: String::new(),
            digits: said.amount.to_string(),
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

    /// Takes its signature away: what is left proves nothing.
    pub(crate) fn forget_signature(&mut self) {
        self.signature.clear();
    }

    /// The body of an IPN.
    pub(crate) fn body(&self) -> Bytes {
        serde_json::to_vec(self).expect("a notice is texts and a number").into()
    }

    /// Where the payer's browser goes back to: the return address with the fields as its query.
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
