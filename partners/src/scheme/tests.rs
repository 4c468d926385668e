//! Notices of many kinds of schemes, signed here with the crypto libraries and verified by a
//! directory.

mod accounts;
pub(super) mod attacks;
mod bytes;
mod claims;
mod coverage;
mod fast_path;
mod hints;
mod kinds;
mod mistakes;
mod names;
mod public_keys;

use std::collections::BTreeMap;

use hmac::{Hmac, Mac};
use payfold_schemas::ids::{KeyId, MerchantCode, PartnerCode};
use payfold_schemas::time::Time;
use sha2::{Sha256, Sha512};

use crate::directory::Directory;
use crate::document::{AccountEntry, KeyEntry, VaultDocument};
use crate::keys::Channel;
use crate::notice_content::NoticeContent;
use crate::profile::Profile;
use crate::scheme::request::NoticeRequest;
use crate::secret::Secret;
use crate::verified::VerifiedNotice;

pub(crate) const NOW: Time = Time::from_unix_ms(1_769_853_600_000);
pub(crate) const SECRET: &str = "a test key that is worth nothing at all";

/// The beginning of every profile in these tests.
pub(crate) const HEAD: &str = "
version = 1
stage = \"draft\"
";

/// The end of most profiles in these tests.
pub(crate) const TAIL: &str = "
[limits]
body_bytes = 16384
depth = 8
keys = 64

[[event]]
when = [{ value = \"{f.state}\", is = \"paid\" }]
outcome = \"SUCCESS\"
[[event]]
when = [{ value = \"{f.state}\", one_of = [\"ping\"] }]
outcome = \"ignore\"
[[event]]
outcome = \"refuse\"

[time]
kind = \"none\"
";

pub(crate) fn partner() -> PartnerCode {
    PartnerCode::parse("acme").unwrap()
}

pub(crate) fn key(id: &str, channel: Channel, secret: &[u8]) -> KeyEntry {
    KeyEntry {
        id: KeyId::parse(id).unwrap(),
        channel,
        serial: None,
        secret: Secret::from_bytes(secret.to_vec()),
        valid_from: Time::from_unix_ms(0),
        valid_until: None,
        created_at: Time::from_unix_ms(0),
    }
}

/// acme/SHOP with these keys, under this profile.
pub(super) fn directory_of(profile: &str, keys: Vec<KeyEntry>) -> Directory {
    let profile = Profile::parse(&partner(), profile).unwrap_or_else(|error| panic!("{error}"));
    let mut account = AccountEntry::new(partner(), MerchantCode::parse("SHOP").unwrap());
    account.keys = keys;
    account.constants = BTreeMap::from([("app".to_owned(), "A-7".to_owned())]);
    let vault = VaultDocument { accounts: vec![account], ..VaultDocument::default() };
    Directory::build(vec![profile], &vault).unwrap_or_else(|problems| panic!("{problems:?}"))
}

pub(super) fn directory(profile: &str) -> Directory {
    directory_of(profile, vec![key("k", Channel::Ipn, SECRET.as_bytes())])
}

pub(crate) fn post<'r>(
    body: &'r (impl AsRef<[u8]> + ?Sized),
    headers: &[(&'r str, &'r str)],
) -> NoticeRequest<'r> {
    NoticeRequest {
        method: "POST",
        base_url: "https://pay.example.com",
        path: "/api/payment/ipn/acme",
        query: "",
        headers: headers.to_vec(),
        body: body.as_ref(),
    }
}

pub(super) fn sha256(text: &(impl AsRef<[u8]> + ?Sized)) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(text.as_ref());
    hex::encode(mac.finalize().into_bytes())
}

pub(super) fn sha512(text: &str) -> String {
    let mut mac = Hmac::<Sha512>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(text.as_bytes());
    hex::encode(mac.finalize().into_bytes())
}

/// The judgement of a request: `order status amount currency ref`, `ignored`, `kept`, `fault: …` or
/// the rejection's code; for an array, all of them.
pub(super) fn verdict(directory: &Directory, request: &NoticeRequest<'_>) -> String {
    match directory.verify_scheme("acme", request, NOW) {
        Ok(verified) => verified.notices.iter().map(said).collect::<Vec<_>>().join("; "),
        Err(rejection) => rejection.to_string(),
    }
}

fn said(notice: &VerifiedNotice) -> String {
    match notice.content() {
        Ok(NoticeContent::Ignored) => "ignored".to_owned(),
        Ok(NoticeContent::NoOrder) => "kept".to_owned(),
        Ok(NoticeContent::Event(mapped)) => format!(
            "{} {} {} {} {}{}{}",
            mapped.order_id,
            mapped.status,
            mapped.money.amount.minor(),
            mapped.money.currency.code(),
            mapped.provider_ref,
            if mapped.policy.unconfirmed { " unconfirmed" } else { "" },
            if mapped.policy.refund_so_far { " so far" } else { "" },
        ),
        Err(fault) => format!("fault: {fault}"),
    }
}
