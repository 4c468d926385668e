//! Owns the question what one payment came to, and what the partner's answer is worth. Pure.
//! An answer is about the payment that was asked for, or it is wrong: its echoes must match, its word must be one
//! the profile knows, its money must be read from plain digits. Nothing of it is repaired or guessed.

use payfold_schemas::fact::QueryAnswer;
use payfold_schemas::ids::{MerchantCode, OrderId, ProviderRef};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;
use serde::Deserialize;
use serde_json::value::RawValue;
use url::Url;

use crate::mac::MacKey;
use crate::profile::{Profile, QueryField, QueryRule, Word};
use crate::signing::query_signing_text;

/// What is asked for: one payment of one of our accounts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Question {
    /// Our account there.
    pub merchant_code: MerchantCode,
    /// The order the answer must name.
    pub order_id: OrderId,
    /// The transaction, where one is known; else the order is asked for.
    pub provider_ref: Option<ProviderRef>,
}

/// A field can't be sent: its value holds the separator, so the signature would prove nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} holds the separator of the signing text")]
pub struct Ambiguous(pub QueryField);

impl Question {
    /// The signed address behind the partner's; `url` is that of the rule's path. Errors: `Ambiguous`.
    pub fn signed(
        &self,
        (profile, rule): (&Profile, &QueryRule),
        key: &MacKey,
        now: Time,
        mut url: Url,
    ) -> Result<Url, Ambiguous> {
        let timestamp = now.to_string();
        let provider_ref = self.path_ref();
        let value_of = |field| match field {
            QueryField::MerchantCode => Some(self.merchant_code.as_str()),
            QueryField::ProviderRef => provider_ref,
            QueryField::OrderId if provider_ref.is_some() => None,
            QueryField::OrderId => Some(self.order_id.as_str()),
            QueryField::Timestamp => Some(timestamp.as_str()),
        };
        let mut text = Vec::with_capacity(128);
        if let Some(field) = query_signing_text(profile, rule, value_of, &mut text) {
            return Err(Ambiguous(field));
        }
        if let (Some(provider_ref), Ok(mut path)) = (provider_ref, url.path_segments_mut()) {
            path.push(provider_ref);
        }
        let mut parameters = url.query_pairs_mut();
        for field in [QueryField::MerchantCode, QueryField::OrderId, QueryField::Timestamp] {
            if let Some(value) = value_of(field) {
                parameters.append_pair(field.name(), value);
            }
        }
        parameters.append_pair("signature", &profile.output().write(&key.sign(&text)));
        drop(parameters);
        Ok(url)
    }

    /// The transaction as a segment of a path; one that a path would swallow is asked for by its order.
    fn path_ref(&self) -> Option<&str> {
        let text = self.provider_ref.as_ref().map(ProviderRef::as_str);
        text.filter(|text| *text != "." && *text != "..")
    }
}

/// What a right answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// Not decided yet.
    Pending,
    /// The partner knows no such payment.
    Unknown,
    /// The payment's end there.
    Ended(QueryAnswer),
}

/// The rule a complete answer broke: it is about something else, or says nothing that can be believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrongAnswer {
    /// A redirect instead of an answer.
    Redirect,
    /// Not a JSON object, or one with a key twice.
    NotJson,
    /// merchantCode is not the one that was asked.
    MerchantCode,
    /// orderId is not the one that was asked for.
    OrderId,
    /// providerRef is none, or not the one that was asked for.
    ProviderRef,
    /// status is no word of the profile.
    Status,
    /// amount is not plain digits of minor units.
    Amount,
    /// currency is no ISO 4217 code with minor units.
    Currency,
}

impl WrongAnswer {
    /// Every rule, in the order they are looked at.
    pub const ALL: [WrongAnswer; 8] = [
        Self::Redirect,
        Self::NotJson,
        Self::MerchantCode,
        Self::OrderId,
        Self::Status,
        Self::ProviderRef,
        Self::Amount,
        Self::Currency,
    ];

    /// The rule's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Redirect => "redirect",
            Self::NotJson => "not_json",
            Self::MerchantCode => "merchant_code",
            Self::OrderId => "order_id",
            Self::ProviderRef => "provider_ref",
            Self::Status => "status",
            Self::Amount => "amount",
            Self::Currency => "currency",
        }
    }
}

/// Judges a complete 200 answer. Errors: the first rule it breaks.
///
/// Whether the money is what the order asked for is not judged here: an end with other money is evidence, and the
/// fold flags it as it flags a notice's.
pub fn judge(body: &[u8], question: &Question, rule: &QueryRule) -> Result<Told, WrongAnswer> {
    let answer = Answer::parse(body).ok_or(WrongAnswer::NotJson)?;
    if text(answer.merchant_code).as_deref() != Some(question.merchant_code.as_str()) {
        return Err(WrongAnswer::MerchantCode);
    }
    if text(answer.order_id).as_deref() != Some(question.order_id.as_str()) {
        return Err(WrongAnswer::OrderId);
    }
    let word = text(answer.status).and_then(|word| rule.words.get(&word).copied());
    let status = match word.ok_or(WrongAnswer::Status)? {
        Word::Pending => return Ok(Told::Pending),
        Word::Unknown => return Ok(Told::Unknown),
        Word::Terminal(status) => status,
    };
    let provider_ref = text(answer.provider_ref).and_then(|text| ProviderRef::parse(&text).ok());
    let provider_ref = provider_ref.ok_or(WrongAnswer::ProviderRef)?;
    if question.provider_ref.as_ref().is_some_and(|asked| *asked != provider_ref) {
        return Err(WrongAnswer::ProviderRef);
    }
    // The digits as they were sent: a number that was a float on its way would be another one.
    let amount = answer.amount.and_then(|raw| Amount::parse(raw.get()).ok());
    let currency = text(answer.currency).and_then(|code| Currency::parse(&code).ok());
    Ok(Told::Ended(QueryAnswer {
        provider_ref,
        status,
        amount: amount.ok_or(WrongAnswer::Amount)?,
        currency: currency.ok_or(WrongAnswer::Currency)?,
    }))
}

/// The answer's fields as their source text; `null` counts as absent, a key twice as no JSON.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer<'a> {
    #[serde(borrow)]
    merchant_code: Option<&'a RawValue>,
    #[serde(borrow)]
    order_id: Option<&'a RawValue>,
    #[serde(borrow)]
    provider_ref: Option<&'a RawValue>,
    #[serde(borrow)]
    status: Option<&'a RawValue>,
    #[serde(borrow)]
    amount: Option<&'a RawValue>,
    #[serde(borrow)]
    currency: Option<&'a RawValue>,
}

impl<'a> Answer<'a> {
    fn parse(body: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(body).ok()?;
        // serde's derive would take an array for a struct.
        text.trim_ascii_start().starts_with('{').then(|| serde_json::from_str(text).ok()).flatten()
    }
}

/// What a string says; none for anything that is no string.
fn text(raw: Option<&RawValue>) -> Option<String> {
    serde_json::from_str(raw?.get()).ok()
}

#[cfg(test)]
mod tests;
