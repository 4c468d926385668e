//! Owns what a profile says of the create-payment call (contract 2.1, 2.2, 4.1): which fields are signed in
//! which order, how long the partner may take and how long a payer has. Which address it goes to is a setting.

use std::fmt;

use serde::Deserialize;
use toml::Spanned;

use super::file::{Wrong, within, wrong};
use crate::scheme::create::SchemeCreate;

/// A field of the create-payment request (contract 2.1), the signature left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CreateField {
    /// Our account at the partner.
    MerchantCode,
    /// The platform's order reference, unique per attempt.
    OrderId,
    /// Integer in minor units.
    Amount,
    /// ISO 4217.
    Currency,
    /// Shown to the payer on the hosted page.
    Description,
    /// Where the partner sends the browser afterwards.
    ReturnUrl,
    /// Where the partner sends its notices.
    IpnUrl,
    /// When the shop wants the session to end.
    ExpiresAt,
}

impl CreateField {
    /// Every field, in the order of the contract's table.
    pub const ALL: [CreateField; 8] = [
        Self::MerchantCode,
        Self::OrderId,
        Self::Amount,
        Self::Currency,
        Self::Description,
        Self::ReturnUrl,
        Self::IpnUrl,
        Self::ExpiresAt,
    ];

    /// The name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::MerchantCode => "merchantCode",
            Self::OrderId => "orderId",
            Self::Amount => "amount",
            Self::Currency => "currency",
            Self::Description => "description",
            Self::ReturnUrl => "returnUrl",
            Self::IpnUrl => "ipnUrl",
            Self::ExpiresAt => "expiresAt",
        }
    }
}

impl fmt::Display for CreateField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a payment is created at this partner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateRule {
    /// Behind the partner's address of the settings; starts with `/`.
    pub path: String,
    /// The fields of the signing text, in order.
    pub signed_fields: Vec<CreateField>,
    /// The extra, unsigned field that asks for `page` or `qr`, where the partner has one.
    pub presentation_field: Option<String>,
    /// The whole call, from connecting to the last byte of the answer, ms.
    pub timeout_ms: u64,
    /// Bytes of the answer at most.
    pub answer_bytes_max: usize,
    /// What an order is given beyond the session's expiry, ms.
    pub grace_ms: i64,
    /// How long an order waits while no session is known, ms.
    pub max_session_ms: i64,
}

/// What an order has to know of how it was created, whatever the scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateTerms {
    /// Whether the partner can be asked for a page or a QR code.
    pub asks_presentation: bool,
    /// Whether the partner is told the payer's address, and nothing can be created without it.
    pub needs_payer_ip: bool,
    /// What an order is given beyond the session's expiry, ms.
    pub grace_ms: i64,
    /// How long an order waits while no session is known, ms.
    pub max_session_ms: i64,
}

impl CreateTerms {
    pub(crate) fn of_contract(rule: &CreateRule) -> Self {
        let CreateRule { grace_ms, max_session_ms, .. } = *rule;
        let asks_presentation = rule.presentation_field.is_some();
        Self { asks_presentation, needs_payer_ip: false, grace_ms, max_session_ms }
    }

    pub(crate) fn of_scheme(create: &SchemeCreate) -> Self {
        let SchemeCreate { grace_ms, max_session_ms, .. } = *create;
        let (asks_presentation, needs_payer_ip) = (create.offers_both(), create.needs_payer_ip());
        Self { asks_presentation, needs_payer_ip, grace_ms, max_session_ms }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CreateFile {
    path: Spanned<String>,
    fields: Spanned<Vec<Spanned<CreateField>>>,
    presentation_field: Option<Spanned<String>>,
    timeout_s: Spanned<u64>,
    answer_bytes: Spanned<usize>,
    grace_s: Spanned<i64>,
    max_session_s: Spanned<i64>,
}

/// Without one of these in the signing text somebody on the way could change what is paid for.
const COVERED: [CreateField; 4] =
    [CreateField::MerchantCode, CreateField::OrderId, CreateField::Amount, CreateField::Currency];

pub(super) fn compile(file: &CreateFile) -> Result<CreateRule, Wrong> {
    let path = file.path.get_ref();
    let plain = |c: char| c.is_ascii_graphic() && c != '?' && c != '#';
    if !path.starts_with('/') || !path.chars().all(plain) {
        return wrong(file.path.span(), "create.path must be a path that starts with /");
    }
    let presentation_field = match &file.presentation_field {
        None => None,
        Some(name) if is_extra(name.get_ref()) => Some(name.get_ref().clone()),
        Some(name) => {
            let problem = "create.presentation_field must be a name that the contract does not use";
            return wrong(name.span(), problem);
        }
    };
    Ok(CreateRule {
        path: path.clone(),
        signed_fields: signed_fields(&file.fields)?,
        presentation_field,
        timeout_ms: within("create.timeout_s", &file.timeout_s, 1..=60)? * 1_000,
        answer_bytes_max: within("create.answer_bytes", &file.answer_bytes, 1_024..=1_048_576)?,
        grace_ms: within("create.grace_s", &file.grace_s, 0..=86_400)? * 1_000,
        max_session_ms: within("create.max_session_s", &file.max_session_s, 1..=604_800)? * 1_000,
    })
}

fn is_extra(name: &str) -> bool {
    let known = CreateField::ALL.iter().any(|field| field.name().eq_ignore_ascii_case(name));
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    !known && plain && !name.is_empty() && name != "signature"
}

fn signed_fields(list: &Spanned<Vec<Spanned<CreateField>>>) -> Result<Vec<CreateField>, Wrong> {
    let mut fields = Vec::with_capacity(CreateField::ALL.len());
    for item in list.get_ref() {
        let field = *item.get_ref();
        if fields.contains(&field) {
            return wrong(item.span(), format!("{field} is listed twice; keep one"));
        }
        fields.push(field);
    }
    match COVERED.iter().find(|field| !fields.contains(field)) {
        None => Ok(fields),
        Some(field) => {
            wrong(list.span(), format!("create.fields must name {field}; add it to the list"))
        }
    }
}
