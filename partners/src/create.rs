//! Owns the create-payment request and what its answer is worth (contract 2.1, 2.2; design 7). Pure.
//! A complete answer is an offer or breaks a named rule; nothing of it is repaired or guessed.

use std::net::IpAddr;

use payfold_schemas::fact::Presentation;
use payfold_schemas::ids::{MerchantCode, OrderId, ProviderRef, Reference};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;
use serde_json::{Map, Value};

use crate::mac::MacKey;
use crate::outbound::{Reach, UrlProblem};
use crate::profile::{CreateField, CreateRule, Profile};
use crate::signing::create_signing_text;

/// The longest QR content that still makes a code: version 40, low correction, bytes.
const QR_BYTES_MAX: usize = 2_953;
/// Longer addresses break browsers and WebViews.
const URL_BYTES_MAX: usize = 2_048;

/// How the shop wants to show the payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// A hosted page.
    Page,
    /// A QR code.
    Qr,
}

/// What is asked of the partner (contract 2.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateRequest {
    /// Our account there.
    pub merchant_code: MerchantCode,
    /// Made by us, one per attempt.
    pub order_id: OrderId,
    /// Minor units.
    pub amount: Amount,
    /// ISO 4217.
    pub currency: Currency,
    /// Shown to the payer.
    pub description: String,
    /// Where the browser goes afterwards.
    pub return_url: String,
    /// Where notices go.
    pub ipn_url: String,
    /// When the shop wants the session to end.
    pub expires_at: Option<Time>,
    /// Page or QR, where the partner can be asked.
    pub wish: Option<Wish>,
    /// The shop's name for what is paid, for schemes that tell the partner.
    pub reference: Option<Reference>,
    /// The payer's address as the shop sees it, for schemes that tell the partner. Sent and not kept.
    pub payer_ip: Option<IpAddr>,
}

/// A field can't be sent: its value holds the separator, so the signature would prove nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} holds the separator of the signing text")]
pub struct Ambiguous(pub CreateField);

impl CreateRequest {
    /// The signed JSON body. Errors: `Ambiguous`.
    pub fn body(
        &self,
        profile: &Profile,
        rule: &CreateRule,
        key: &MacKey,
    ) -> Result<Vec<u8>, Ambiguous> {
        let amount = self.amount.to_string();
        let expires_at = self.expires_at.map(|time| time.to_string());
        let value_of = |field| match field {
            CreateField::MerchantCode => Some(self.merchant_code.as_str()),
            CreateField::OrderId => Some(self.order_id.as_str()),
            CreateField::Amount => Some(amount.as_str()),
            CreateField::Currency => Some(self.currency.code()),
            CreateField::Description => Some(self.description.as_str()),
            CreateField::ReturnUrl => Some(self.return_url.as_str()),
            CreateField::IpnUrl => Some(self.ipn_url.as_str()),
            CreateField::ExpiresAt => expires_at.as_deref(),
        };
        let mut text = Vec::with_capacity(512);
        if let Some(field) = create_signing_text(profile, rule, value_of, &mut text) {
            return Err(Ambiguous(field));
        }
        let mut body = Map::new();
        for field in CreateField::ALL {
            let value = match field {
                CreateField::Amount => Some(Value::from(self.amount.minor())),
                other => value_of(other).map(Value::from),
            };
            if let Some(value) = value {
                body.insert(field.name().to_owned(), value);
            }
        }
        if let (Some(name), Some(wish)) = (&rule.presentation_field, self.wish) {
            let word = match wish {
                Wish::Page => "page",
                Wish::Qr => "qr",
            };
            body.insert(name.clone(), word.into());
        }
        body.insert("signature".to_owned(), profile.output().write(&key.sign(&text)).into());
        Ok(Value::Object(body).to_string().into_bytes())
    }
}

/// A session the partner offers (contract 2.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The partner's transaction.
    pub provider_ref: ProviderRef,
    /// Page or QR.
    pub presentation: Presentation,
    /// The explicit expiry.
    pub expires_at: Time,
}

/// The rule of the contract a complete answer broke; `contract_violation.<name>` to the shop and in the CF fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A redirect instead of an answer.
    Redirect,
    /// Not a JSON object, or one with a key twice.
    NotJson,
    /// No usable providerRef.
    ProviderRef,
    /// Neither redirectUrl nor qrPayload.
    NoPresentation,
    /// Both.
    TwoPresentations,
    /// redirectUrl is no absolute address, or too long.
    RedirectUrl,
    /// redirectUrl is not https.
    RedirectUrlNotHttps,
    /// redirectUrl carries a user name.
    RedirectUrlUserinfo,
    /// redirectUrl names this machine or a private network.
    RedirectUrlPrivate,
    /// qrPayload is no text a QR code can carry.
    QrPayload,
    /// No expiresAt, or none that is RFC 3339 with a zone.
    ExpiresAt,
    /// expiresAt is not in the future.
    ExpiresAtPast,
}

impl Violation {
    /// Every rule.
    pub const ALL: [Violation; 12] = [
        Self::Redirect,
        Self::NotJson,
        Self::ProviderRef,
        Self::NoPresentation,
        Self::TwoPresentations,
        Self::RedirectUrl,
        Self::RedirectUrlNotHttps,
        Self::RedirectUrlUserinfo,
        Self::RedirectUrlPrivate,
        Self::QrPayload,
        Self::ExpiresAt,
        Self::ExpiresAtPast,
    ];

    /// The rule's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Redirect => "redirect",
            Self::NotJson => "not_json",
            Self::ProviderRef => "provider_ref",
            Self::NoPresentation => "no_presentation",
            Self::TwoPresentations => "two_presentations",
            Self::RedirectUrl => "redirect_url",
            Self::RedirectUrlNotHttps => "redirect_url_not_https",
            Self::RedirectUrlUserinfo => "redirect_url_userinfo",
            Self::RedirectUrlPrivate => "redirect_url_private",
            Self::QrPayload => "qr_payload",
            Self::ExpiresAt => "expires_at",
            Self::ExpiresAtPast => "expires_at_past",
        }
    }

    /// `contract_violation.<name>`.
    pub fn code(self) -> String {
        format!("contract_violation.{}", self.name())
    }
}

/// Judges a complete 2xx answer. Errors: the first rule it breaks.
pub fn judge(body: &[u8], reach: Reach, now: Time) -> Result<Offer, Violation> {
    let answer = answer::parse(body).ok_or(Violation::NotJson)?;
    let provider_ref = match &answer.provider_ref {
        Some(Value::String(text)) => {
            ProviderRef::parse(text).map_err(|_| Violation::ProviderRef)?
        }
        _ => return Err(Violation::ProviderRef),
    };
    let presentation = match (&answer.redirect_url, &answer.qr_payload) {
        (None, None) => return Err(Violation::NoPresentation),
        (Some(_), Some(_)) => return Err(Violation::TwoPresentations),
        (Some(Value::String(url)), None) => redirect_url(url, reach)?,
        (Some(_), None) => return Err(Violation::RedirectUrl),
        (None, Some(Value::String(text))) => qr_payload(text)?,
        (None, Some(_)) => return Err(Violation::QrPayload),
    };
    let expires_at = match &answer.expires_at {
        Some(Value::String(text)) => Time::parse(text).map_err(|_| Violation::ExpiresAt)?,
        _ => return Err(Violation::ExpiresAt),
    };
    if expires_at <= now {
        return Err(Violation::ExpiresAtPast);
    }
    Ok(Offer { provider_ref, presentation, expires_at })
}

/// What a QR code shows. Errors: it can't carry it.
pub(crate) fn qr_payload(text: &str) -> Result<Presentation, Violation> {
    let is_carried = (1..=QR_BYTES_MAX).contains(&text.len()) && !text.contains(char::is_control);
    is_carried.then(|| Presentation::QrPayload(text.to_owned())).ok_or(Violation::QrPayload)
}

/// A page a payer may be sent to. Errors: the rule its address breaks.
pub(crate) fn redirect_url(url: &str, reach: Reach) -> Result<Presentation, Violation> {
    if url.len() > URL_BYTES_MAX {
        return Err(Violation::RedirectUrl);
    }
    match reach.check(url) {
        // As the URL standard reads it: what a browser would open, and nothing else, is handed on.
        Ok(url) => Ok(Presentation::RedirectUrl(url.into())),
        Err(UrlProblem::NotAbsolute) => Err(Violation::RedirectUrl),
        Err(UrlProblem::UserInfo) => Err(Violation::RedirectUrlUserinfo),
        Err(UrlProblem::NotHttps) => Err(Violation::RedirectUrlNotHttps),
        Err(UrlProblem::PrivateHost) => Err(Violation::RedirectUrlPrivate),
    }
}

/// The answer's fields; `null` counts as absent, a key twice as no JSON.
mod answer {
    use serde::{Deserialize, Deserializer};
    use serde_json::Value;

    /// serde's derive refuses a known field that is there twice; an array for a struct it would take.
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    pub(super) struct Answer {
        #[serde(default, deserialize_with = "present")]
        pub(super) provider_ref: Option<Value>,
        #[serde(default, deserialize_with = "present")]
        pub(super) redirect_url: Option<Value>,
        #[serde(default, deserialize_with = "present")]
        pub(super) qr_payload: Option<Value>,
        #[serde(default, deserialize_with = "present")]
        pub(super) expires_at: Option<Value>,
    }

    fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
        Ok(Option::<Value>::deserialize(deserializer)?.filter(|value| !value.is_null()))
    }

    pub(super) fn parse(body: &[u8]) -> Option<Answer> {
        let text = std::str::from_utf8(body).ok()?;
        text.trim_ascii_start().starts_with('{').then(|| serde_json::from_str(text).ok()).flatten()
    }
}

#[cfg(test)]
mod tests;
