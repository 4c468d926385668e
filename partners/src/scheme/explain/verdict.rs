//! Owns the sentence on how a request is judged: refused before its signature was checked, not
//! signed, or accepted with this meaning.

use ipnet::IpNet;
use payfold_schemas::time::Time;

use crate::directory::{Account, Directory};
use crate::notice_content::NoticeContent;
use crate::rejection::RejectCode;
use crate::scheme::compiled::Scheme;
use crate::scheme::explain::attempt::SignatureAttempt;
use crate::scheme::request::NoticeRequest;
use crate::scheme::signature_check::{CLAIMS_MAX, are_too_many};
use crate::verified::{VerifiedNotice, VerifiedRequest};

/// Describes how a request is judged at `now`. `why` is the reason if no known key has signed it.
pub(super) fn describe_verdict(
    directory: &Directory,
    partner: &str,
    request: &NoticeRequest<'_>,
    now: Time,
    why: &str,
) -> String {
    let Some(profile) = directory.profile(partner) else { return why.to_owned() };
    let scheme = profile.scheme();
    if let Some(refused) = why_not_read(scheme, request) {
        return refused.to_owned();
    }
    match directory.authenticate(Some(partner), request, now) {
        Ok(VerifiedRequest { notices, unsigned }) => {
            let mut said: Vec<_> =
                notices.iter().map(|notice| describe_notice(notice, now)).collect();
            let refused = unsigned.ours + unsigned.others;
            if refused > 0 {
                let again = if unsigned.ours > 0 { ", so it is answered 503" } else { "" };
                said.push(format!(
                    "{refused} of its items are not accepted{again}: no known key signed them"
                ));
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

/// Why a request is refused before its signature is checked. `None` if it is not.
fn why_not_read(scheme: &Scheme, request: &NoticeRequest<'_>) -> Option<&'static str> {
    let content_type = request.header_values("content-type").next();
    if !scheme.takes_method(request.method) {
        return Some("405: notices of this partner come by another method (notice.methods)");
    }
    let is_read = content_type.is_none() || scheme.takes_content_type(content_type);
    (!is_read)
        .then_some("415: notices of this partner have another content type (notice.content_types)")
}

/// Describes an authenticated notice, and from where it is refused.
fn describe_notice(notice: &VerifiedNotice, now: Time) -> String {
    let meaning = describe_meaning(notice, now);
    match notice.account().allow_sources() {
        [] => meaning,
        sources => format!("{meaning}; from an address outside {} it gets 403", list(sources)),
    }
}

fn describe_meaning(notice: &VerifiedNotice, now: Time) -> String {
    let signed =
        if notice.is_unsigned() { "not signed, which the profile accepts" } else { "signed" };
    if let Some(begins) = notice.key_begins() {
        return format!(
            "{signed}, but key {} is valid from {begins} only: kept in quarantine, and answered \
             503, so that it comes again",
            notice.key_id()
        );
    }
    let mapped = match notice.content() {
        Ok(NoticeContent::Ignored) => return format!("{signed}: acknowledged and ignored"),
        Ok(NoticeContent::NoOrder) => {
            return format!("{signed}: acknowledged and kept in quarantine");
        }
        Err(fault) => return format!("{signed}, but not admissible: {fault}"),
        Ok(NoticeContent::Event(mapped)) => mapped,
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

fn list(networks: &[IpNet]) -> String {
    networks.iter().map(IpNet::to_string).collect::<Vec<_>>().join(", ")
}

/// Says that the account of a notice is disabled.
pub(super) fn describe_disabled_account(account: &Account) -> String {
    format!(
        "the account {} is disabled and answered like one that does not exist: `payfold account \
         set {} {} --enabled` enables it",
        account.name(),
        account.partner(),
        account.merchant_code()
    )
}

/// Says that the merchant of a notice has no account.
pub(super) fn describe_missing_account(partner: &str, merchant: &str) -> String {
    if merchant.is_empty() {
        return "the notice names no merchant at map.merchant".to_owned();
    }
    format!(
        "the notice names the merchant {merchant:?}, and no account of {partner} has that code; if \
         it is yours, add it with `payfold key add {partner} --merchant …`"
    )
}

pub(super) fn why_unsigned(attempts: &[SignatureAttempt], not_for: Option<String>) -> String {
    if let Some(why) = not_for {
        return why;
    }
    if let Some(attempt) = attempts.iter().find(|attempt| are_too_many(&attempt.received)) {
        return format!(
            "the request has more than {CLAIMS_MAX} signatures where [[sign]] {} reads them, and \
             none is compared; a partner sends one for each key it signs with",
            attempt.sign
        );
    }
    match attempts.iter().find(|attempt| attempt.matches) {
        Some(attempt) => {
            format!("key {} has made this signature, and it is not valid now", attempt.key)
        }
        None if attempts.is_empty() => "the account has no key".to_owned(),
        None if attempts.iter().all(|attempt| !attempt.is_valid) => {
            "no key of the account is valid now, and none has made this signature".to_owned()
        }
        None => "no key of the account has made this signature".to_owned(),
    }
}
