//! Owns the reading of IPNs and returns. Signatures are verified by the same code as in service.
//! The content is recorded as parsed values, with the faults of form that are found here; `judge`
//! checks the values. Signatures are not recorded.

use payfold_partners::directory::Directory;
use payfold_partners::notice::{Scalar, ScalarKind};
use payfold_partners::profile::{Field, NonceRule, Profile, TimeKind};
use payfold_partners::verify::{RejectCode, VerifiedIpn};
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::ipn::Status;
use payfold_schemas::time::Time;
use url::form_urlencoded;

use super::observations::{IpnReading, ReceivedReturn, SignedIpn};

/// The most parameters of a return that are recorded.
const PARAMETERS_MAX: usize = 64;

/// Reads an IPN. Verifies its signature as ingest does.
pub(super) fn read_ipn(
    directory: &Directory,
    partner: &PartnerCode,
    body: &[u8],
    now: Time,
) -> IpnReading {
    match directory.verify(Some(partner.as_str()), body, now) {
        Ok(verified) => IpnReading::Signed(read_content(&verified)),
        Err(rejection) if rejection.code() == RejectCode::Unauthenticated => {
            IpnReading::Unsigned(unsigned_text(body, "merchantCode"))
        }
        Err(rejection) => IpnReading::Unread(rejection.code().as_str()),
    }
}

/// A text field of a body as claimed (the account or the order), whether or not its signature is
/// valid.
pub(super) fn unsigned_text(body: &[u8], name: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_slice(body).ok()?;
    value.get(name)?.as_str().map(str::to_owned)
}

fn read_content(verified: &VerifiedIpn<'_>) -> SignedIpn {
    let profile = verified.profile();
    let mut problems = Vec::new();
    let mut text = |field| read_text(verified.field(field), field, &mut problems);
    let [order_id, provider_ref, status, currency] =
        [Field::OrderId, Field::ProviderRef, Field::Status, Field::Currency].map(&mut text);
    let status = (Status::ALL.into_iter()).find(|known| known.as_str() == status);
    if status.is_none() {
        problems.push("status is not one of the contract".to_owned());
    }
    let amount = verified.field(Field::Amount);
    let digits = amount.filter(|amount| amount.kind == ScalarKind::Number);
    let amount = digits.and_then(|digits| digits.text.parse().ok());
    if amount.is_none() {
        problems.push("amount is not a JSON integer".to_owned());
    }
    let paid_at = read_time(verified, Field::PaidAt, &mut problems);
    let timestamp = read_time(verified, Field::Timestamp, &mut problems);
    let time = match profile.time().field {
        Some(Field::PaidAt) => paid_at,
        Some(_) => timestamp,
        None => None,
    };
    if profile.time().kind != TimeKind::None && time.is_none() {
        problems.push("the profile's time is missing".to_owned());
    }
    if profile.nonce() == NonceRule::Required && verified.field(Field::Nonce).is_none() {
        problems.push("nonce is missing".to_owned());
    }
    if let Some(field) = verified.separator_in_signed_value() {
        problems.push(format!("{field} has the separator of the signing text"));
    }
    SignedIpn { order_id, provider_ref, status, amount, currency, paid_at, time, problems }
}

fn read_text(scalar: Option<Scalar<'_>>, field: Field, problems: &mut Vec<String>) -> String {
    match scalar {
        Some(scalar) if scalar.kind == ScalarKind::String && !scalar.text.trim().is_empty() => {
            scalar.text.to_owned()
        }
        Some(_) => {
            problems.push(format!("{field} is not a text"));
            String::new()
        }
        None => {
            problems.push(format!("{field} is missing"));
            String::new()
        }
    }
}

/// Reads an optional time. A value that is not an RFC 3339 text with a zone is a fault.
fn read_time(verified: &VerifiedIpn<'_>, field: Field, problems: &mut Vec<String>) -> Option<Time> {
    let scalar = verified.field(field)?;
    let parsed = (scalar.kind == ScalarKind::String).then(|| Time::parse(scalar.text).ok());
    let parsed = parsed.flatten();
    if parsed.is_none() {
        problems.push(format!("{field} is not an RFC 3339 time with a zone"));
    }
    parsed
}

/// Reads a return. Verifies its signature as the browser return does.
pub(super) fn read_return(directory: &Directory, query: &str, now: Time) -> ReceivedReturn {
    let parameters = form_urlencoded::parse(query.as_bytes())
        .filter(|(name, _)| name != Field::Signature.name())
        .take(PARAMETERS_MAX)
        .map(|(name, value)| (name.into_owned(), value.into_owned()));
    let signed_for = directory.verify_return(query, now).map(|order| order.to_string());
    ReceivedReturn { at: now, signed_for, parameters: parameters.collect() }
}

/// The HTTP status of a refusal; `None` if the IPN is admitted. An approximation of admission in
/// service: signature, form and time window only.
pub(super) fn refusal_status(reading: &IpnReading, profile: &Profile, now: Time) -> Option<u16> {
    let ipn = match reading {
        IpnReading::Unread(_) => return Some(400),
        IpnReading::Unsigned(_) => return Some(401),
        IpnReading::Signed(ipn) => ipn,
    };
    let success_without_paid_at = ipn.status == Some(Status::Success) && ipn.paid_at.is_none();
    if success_without_paid_at || !ipn.problems.is_empty() {
        return Some(400);
    }
    let rule = profile.time();
    if rule.kind == TimeKind::None {
        return None;
    }
    let in_window = ipn.time.is_some_and(|time| rule.judge(time, now).is_ok());
    (!in_window).then_some(403)
}
