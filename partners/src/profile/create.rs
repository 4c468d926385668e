//! Owns `[create]` of the default scheme (contract 2.1, 2.2, 4.1): the path of the create call, its
//! signed fields in order, its timeout, and the lifetime of its orders. The partner's address is a
//! setting (`api_url`).

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::profile::bounds;
use crate::profile::mistake::{ProfileMistake, within, wrong};
use crate::profile::spanned::Spanned;
use crate::scheme::create::rule::SchemeCreate;

/// A field of the create-payment request (contract 2.1), except the signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum CreateField {
    /// Our account at the partner.
    MerchantCode,
    /// Our order id, unique per attempt.
    OrderId,
    /// The amount, an integer in minor units.
    Amount,
    /// The currency, ISO 4217.
    Currency,
    /// The text that the payer sees on the hosted page.
    Description,
    /// The URL that the partner sends the browser to afterwards.
    ReturnUrl,
    /// The URL that the partner sends its notices to.
    IpnUrl,
    /// The session's end that the shop asks for.
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

/// `[create]` of the default scheme.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreateRule {
    /// The path after `api_url`; starts with `/`.
    pub path: String,
    /// The fields of the signing text, in order.
    pub signed_fields: Vec<CreateField>,
    /// The additional, unsigned field that asks for `page` or `qr`, if the partner has one.
    pub presentation_field: Option<String>,
    /// The longest a whole call may take, from connecting to the last byte of the answer, in ms.
    pub timeout_ms: u64,
    /// The largest accepted answer, in bytes.
    pub answer_bytes_max: usize,
    /// An order expires this long after its session, in ms.
    pub grace_ms: i64,
    /// An order without a known session expires this long after its creation, in ms.
    pub max_session_ms: i64,
}

/// The terms that an order keeps about its create call, in any scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CreateTerms {
    /// Whether the request can ask for a page or a QR code.
    pub asks_presentation: bool,
    /// Whether the request contains the payer's IP address, so that a payment without one can't be
    /// created.
    pub needs_payer_ip: bool,
    /// The longest a whole call may take, in ms.
    pub timeout_ms: u64,
    /// An order expires this long after its session, in ms.
    pub grace_ms: i64,
    /// An order without a known session expires this long after its creation, in ms.
    pub max_session_ms: i64,
}

impl CreateTerms {
    pub(crate) fn of_scheme(create: &SchemeCreate) -> Self {
        let SchemeCreate { timeout_ms, grace_ms, max_session_ms, .. } = *create;
        let (asks_presentation, needs_payer_ip) =
            (create.asks_presentation(), create.needs_payer_ip());
        Self { asks_presentation, needs_payer_ip, timeout_ms, grace_ms, max_session_ms }
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DefaultCreateFile {
    /// The path after api_url.
    path: Spanned<String>,
    /// The fields of the signing text, in order.
    fields: Spanned<Vec<Spanned<CreateField>>>,
    /// The additional, unsigned field that asks for page or qr, if the partner has one.
    presentation_field: Option<Spanned<String>>,
    /// The longest the whole call may take, in seconds. Default: 10.
    #[schemars(range(min = bounds::TIMEOUT_S.min, max = bounds::TIMEOUT_S.max))]
    timeout_s: Spanned<u64>,
    /// The largest accepted answer, in bytes. Default: 65536.
    #[schemars(range(min = bounds::ANSWER_BYTES.min, max = bounds::ANSWER_BYTES.max))]
    answer_bytes: Spanned<usize>,
    /// An order expires this many seconds after its session. Default: 120.
    #[schemars(range(min = bounds::SESSION_GRACE_S.min, max = bounds::SESSION_GRACE_S.max))]
    grace_s: Spanned<i64>,
    /// An order without a known session expires this many seconds after its creation. Default:
    /// 1800.
    #[schemars(range(min = bounds::MAX_SESSION_S.min, max = bounds::MAX_SESSION_S.max))]
    max_session_s: Spanned<i64>,
}

/// The fields that the signing text must have. Another one could be changed on the way without
/// changing the order or the money.
const COVERED: [CreateField; 4] =
    [CreateField::MerchantCode, CreateField::OrderId, CreateField::Amount, CreateField::Currency];

pub(super) fn compile(file: &DefaultCreateFile) -> Result<CreateRule, ProfileMistake> {
    let path = file.path.get_ref();
    let plain = |c: char| c.is_ascii_graphic() && c != '?' && c != '#';
    if !path.starts_with('/') || !path.chars().all(plain) {
        return wrong(file.path.span(), "create.path must be a path that starts with /");
    }
    let presentation_field = match &file.presentation_field {
        None => None,
        Some(name) if is_extra(name.get_ref()) => Some(name.get_ref().clone()),
        Some(name) => {
            let problem =
                "create.presentation_field must be a field name that the contract does not use";
            return wrong(name.span(), problem);
        }
    };
    Ok(CreateRule {
        path: path.clone(),
        signed_fields: signed_fields(&file.fields)?,
        presentation_field,
        timeout_ms: within("create.timeout_s", &file.timeout_s, bounds::TIMEOUT_S)? * 1_000,
        answer_bytes_max: within("create.answer_bytes", &file.answer_bytes, bounds::ANSWER_BYTES)?,
        grace_ms: within("create.grace_s", &file.grace_s, bounds::SESSION_GRACE_S)? * 1_000,
        max_session_ms: within("create.max_session_s", &file.max_session_s, bounds::MAX_SESSION_S)?
            * 1_000,
    })
}

fn is_extra(name: &str) -> bool {
    let known = CreateField::ALL.iter().any(|field| field.name().eq_ignore_ascii_case(name));
    let plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    !known && plain && !name.is_empty() && name != "signature"
}

fn signed_fields(
    list: &Spanned<Vec<Spanned<CreateField>>>,
) -> Result<Vec<CreateField>, ProfileMistake> {
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
