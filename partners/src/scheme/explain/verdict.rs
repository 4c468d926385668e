//! Owns the words for what became of a request: refused before anybody looked at a signature, signed and by whom not, or
//! what it comes to.

use payfold_schemas::time::Time;

use super::Attempt;
use crate::directory::Directory;
use crate::profile::Profile;
use crate::scheme::claims::{CLAIMS_MAX, are_too_many};
use crate::scheme::map::Said;
use crate::scheme::reading::Reading;
use crate::scheme::request::Request;
use crate::scheme::verify::VerifiedNotice;
use crate::scheme::{ITEM, Scheme};
use crate::verify::RejectCode;

/// What becomes of a request at `now`; `why` is what is told where nobody known has signed it.
pub(super) fn verdict(
    directory: &Directory,
    profile: &Profile,
    (partner, request, now): (&str, &Request<'_>, Time),
    why: &str,
) -> String {
    let Some(scheme) = profile.scheme() else { return why.to_owned() };
    if let Some(refused) = not_read(scheme, request) {
        return refused.to_owned();
    }
    match directory.verify_scheme(partner, request, now) {
        Ok(notices) => {
            let mut said: Vec<_> = notices.iter().map(|notice| said_of(notice, now)).collect();
            let refused = items_of(scheme, profile, request).saturating_sub(notices.len());
            if refused > 0 {
                said.push(format!("{refused} of its items are refused: nobody known signed them"));
            }
            said.join("; ")
        }
        Err(rejection) if rejection.code() != RejectCode::Unauthenticated => {
            let place = rejection.detail().unwrap_or_default();
            format!("{rejection}: it can't be parsed: {place}").trim_end_matches(": ").to_owned()
        }
        Err(_) => format!("unauthenticated: {why}"),
    }
}

/// What is refused before anybody looks at a signature.
fn not_read(scheme: &Scheme, request: &Request<'_>) -> Option<&'static str> {
    let content_type = request.header_values("content-type").next();
    if !scheme.takes_method(request.method) {
        return Some("405: notices of this partner come by another method (notice.methods)");
    }
    let is_read = content_type.is_none() || scheme.takes_content_type(content_type);
    (!is_read)
        .then_some("415: notices of this partner have another content type (notice.content_types)")
}

fn items_of(scheme: &Scheme, profile: &Profile, request: &Request<'_>) -> usize {
    let reading = Reading::new(scheme, request, profile.limits()).ok();
    let is_read = scheme.items.as_ref().is_some_and(|rule| rule.of.0 <= ITEM);
    reading.filter(|_| is_read).and_then(|reading| reading.items().ok()).unwrap_or(0)
}

/// What a notice that is taken comes to.
fn said_of(notice: &VerifiedNotice, now: Time) -> String {
    let signed =
        if notice.is_unsigned() { "not signed, which the profile takes" } else { "signed" };
    let mapped = match notice.said() {
        Ok(Said::Ignored) => return format!("{signed}: acknowledged and left alone"),
        Ok(Said::Kept) => return format!("{signed}: acknowledged and kept in quarantine"),
        Err(fault) => return format!("{signed}, but not admissible: {fault}"),
        Ok(Said::Event(mapped)) => mapped,
    };
    let outside = mapped.timestamp.and_then(|time| notice.profile().time().judge(time, now).err());
    if let Some(outside) = outside {
        return format!("{signed}, but stale: {outside}");
    }
    format!(
        "{signed}: {} of order {}, ref {}, {} {}{}",
        mapped.status,
        mapped.order_id,
        mapped.provider_ref,
        mapped.money.amount.minor(),
        mapped.money.currency.code(),
        if mapped.policy.unconfirmed { ", to be confirmed by a query" } else { "" },
    )
}

/// Why a notice is nobody's that names a merchant without an account.
pub(super) fn no_account(partner: &str, merchant: &str) -> String {
    if merchant.is_empty() {
        return "the notice names no merchant where map.merchant looks".to_owned();
    }
    format!(
        "the notice names the merchant {merchant:?}, and no enabled account of {partner} has that code; if it is yours, add \
         it with `payfold key add {partner} --merchant …`"
    )
}

pub(super) fn unsigned(attempts: &[Attempt], not_for: Option<String>) -> String {
    if let Some(why) = not_for {
        return why;
    }
    if let Some(attempt) = attempts.iter().find(|attempt| are_too_many(&attempt.received)) {
        return format!(
            "the request has more than {CLAIMS_MAX} signatures where [[sign]] {} looks, and none of them is compared; a \
             partner sends one for each key it signs with",
            attempt.sign
        );
    }
    match attempts.iter().find(|attempt| attempt.matches) {
        Some(attempt) => format!("key {} does not count now", attempt.key),
        None if attempts.is_empty() => "the account has no key".to_owned(),
        None => "no key of the account has made this signature".to_owned(),
    }
}
