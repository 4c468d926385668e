//! Owns the reading of what a partner sends: signatures are judged by the same code that judges them in service, and
//! what a notice says is kept as it was said, with every fault of its fields named. No byte of a signature is kept.

use payfold_partners::directory::Directory;
use payfold_partners::notice::{Scalar, ScalarKind};
use payfold_partners::profile::{Field, NonceRule, Profile, TimeKind};
use payfold_partners::verify::{RejectCode, VerifiedIpn};
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::ipn::Status;
use payfold_schemas::time::Time;
use url::form_urlencoded;

use super::seen::{Reading, Return, Told};

/// Parameters of a return that are kept.
const PARAMETERS_MAX: usize = 64;

/// Reads an IPN as ingest would.
pub(super) fn ipn(directory: &Directory, partner: &PartnerCode, body: &[u8], now: Time) -> Reading {
    match directory.verify(Some(partner.as_str()), body, now) {
        Ok(verified) => Reading::Signed(told(&verified)),
        Err(rejection) if rejection.code() == RejectCode::Unauthenticated => {
            Reading::Unsigned(text_of(body, "merchantCode"))
        }
        Err(rejection) => Reading::Unread(rejection.code().as_str()),
    }
}

/// A text field of a body nobody has signed: to say whose it claims to be, or which order it is about.
pub(super) fn text_of(body: &[u8], name: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_slice(body).ok()?;
    value.get(name)?.as_str().map(str::to_owned)
}

fn told(verified: &VerifiedIpn<'_>) -> Told {
    let profile = verified.profile();
    let mut problems = Vec::new();
    let mut text = |field| string(verified.field(field), field, &mut problems);
    let [order_id, provider_ref, status, currency] =
        [Field::OrderId, Field::ProviderRef, Field::Status, Field::Currency].map(&mut text);
    let status = (Status::ALL.into_iter()).find(|known| known.as_str() == status);
    if status.is_none() {
        problems.push("status is none of the contract's".to_owned());
    }
    let amount = verified.field(Field::Amount);
    let digits = amount.filter(|amount| amount.kind == ScalarKind::Number);
    let amount = digits.and_then(|digits| digits.text.parse().ok());
    if amount.is_none() {
        problems.push("amount is no JSON integer".to_owned());
    }
    let paid_at = time(verified, Field::PaidAt, &mut problems);
    let stamped = time(verified, Field::Timestamp, &mut problems);
    let time = match profile.time().field {
        Some(Field::PaidAt) => paid_at,
        Some(_) => stamped,
        None => None,
    };
    if profile.time().kind != TimeKind::None && time.is_none() {
        problems.push("the profile's time is missing".to_owned());
    }
    if profile.nonce() == NonceRule::Required && verified.field(Field::Nonce).is_none() {
        problems.push("nonce is missing".to_owned());
    }
    if let Some(field) = verified.separator_in_signed_value() {
        problems.push(format!("{field} holds the separator of the signing text"));
    }
    Told { order_id, provider_ref, status, amount, currency, paid_at, time, problems }
}

fn string(scalar: Option<Scalar<'_>>, field: Field, problems: &mut Vec<String>) -> String {
    match scalar {
        Some(scalar) if scalar.kind == ScalarKind::String && !scalar.text.trim().is_empty() => {
            scalar.text.to_owned()
        }
        Some(_) => {
            problems.push(format!("{field} is no text"));
            String::new()
        }
        None => {
            problems.push(format!("{field} is missing"));
            String::new()
        }
    }
}

/// An optional time; one that is no RFC 3339 text with a zone is a fault.
fn time(verified: &VerifiedIpn<'_>, field: Field, problems: &mut Vec<String>) -> Option<Time> {
    let scalar = verified.field(field)?;
    let parsed = (scalar.kind == ScalarKind::String).then(|| Time::parse(scalar.text).ok());
    let parsed = parsed.flatten();
    if parsed.is_none() {
        problems.push(format!("{field} is no RFC 3339 time with a zone"));
    }
    parsed
}

/// Reads a return as the return address does.
pub(super) fn browser_return(directory: &Directory, query: &str, now: Time) -> Return {
    let parameters = form_urlencoded::parse(query.as_bytes())
        .filter(|(name, _)| name != Field::Signature.name())
        .take(PARAMETERS_MAX)
        .map(|(name, value)| (name.into_owned(), value.into_owned()));
    let signed_for = directory.verify_return(query, now).map(|order| order.to_string());
    Return { at: now, signed_for, parameters: parameters.collect() }
}

/// Whether an IPN would be admitted in service: what the receiver answers it by. A status, or `None` if it is.
pub(super) fn refusal(reading: &Reading, profile: &Profile, now: Time) -> Option<u16> {
    let told = match reading {
        Reading::Unread(_) => return Some(400),
        Reading::Unsigned(_) => return Some(401),
        Reading::Signed(told) => told,
    };
    let unpaid = told.status == Some(Status::Success) && told.paid_at.is_none();
    if unpaid || !told.problems.is_empty() {
        return Some(400);
    }
    let rule = profile.time();
    let behind_ms_max = match rule.kind {
        TimeKind::Delivery => rule.skew_ms,
        TimeKind::Event => rule.max_age_ms.unwrap_or(i64::MAX / 4),
        TimeKind::None => return None,
    };
    let in_window = told.time.is_some_and(|time| {
        now <= time.plus_ms(behind_ms_max) && time <= now.plus_ms(rule.skew_ms)
    });
    (!in_window).then_some(403)
}
