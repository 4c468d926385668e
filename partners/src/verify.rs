//! Owns the verification of a notice of the default scheme: `Directory::verify` returns a
//! `VerifiedIpn`, which nothing else can construct, or a `Rejection`.
//!
//! A body that can't be parsed gets a 400 code. Every other body without a valid signature gets
//! `unauthenticated` after the same number of HMACs: for an unknown merchant, a disabled account,
//! an unknown partner, a wrong key and a malformed signature. Neither the answer nor its time
//! reveals the reason.

use std::sync::Arc;

use payfold_schemas::ids::KeyId;
use payfold_schemas::time::Time;

use crate::directory::Directory;
use crate::directory::account::Account;
use crate::field::Field;
use crate::keys::Key;
use crate::mac::{MacKey, SIGNATURE_BYTES};
use crate::notice::{Notice, Scalar};
use crate::profile::Profile;
use crate::signing::signing_text;

pub use crate::rejection::{RejectCode, Rejection};

/// A notice that a key of a known account has signed. Its content is not checked yet.
#[derive(Debug)]
pub(crate) struct VerifiedIpn<'a> {
    account: Arc<Account>,
    key: usize,
    signature: [u8; SIGNATURE_BYTES],
    notice: Notice<'a>,
    ambiguous: Option<Field>,
}

impl VerifiedIpn<'_> {
    /// The account with the key that signed the notice.
    pub(crate) fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// The partner's profile.
    pub(crate) fn profile(&self) -> &Arc<Profile> {
        self.account.profile()
    }

    /// The key that has signed the notice.
    pub(crate) fn key_id(&self) -> &KeyId {
        Key::id(&self.account.keys().keys()[self.key])
    }

    /// The signature, which identifies the signed content.
    pub(crate) fn signature(&self) -> &[u8; SIGNATURE_BYTES] {
        &self.signature
    }

    /// A field's value as received; `None` if it is missing or `null`. A signed field is never an
    /// object or an array.
    pub(crate) fn field(&self, field: Field) -> Option<Scalar<'_>> {
        self.notice.present(field)
    }

    /// The number of top-level keys that the contract does not define.
    pub(crate) fn unknown_fields(&self) -> u32 {
        self.notice.unknown_fields()
    }

    /// The first signed field that contains the separator. The signing text is then ambiguous, and
    /// even a valid signature proves nothing.
    pub(crate) fn separator_in_signed_value(&self) -> Option<Field> {
        self.ambiguous
    }
}

impl Directory {
    /// Verifies a body. `route_partner` is the partner in the path, or `None` on the shared route.
    /// Errors: a `Rejection`; it does not reveal which accounts exist.
    pub(crate) fn verify<'a>(
        &self,
        route_partner: Option<&str>,
        body: &'a [u8],
        now: Time,
    ) -> Result<VerifiedIpn<'a>, Rejection> {
        let notice = Notice::parse(body, self.limits(route_partner))?;
        let candidates = self.candidates(route_partner, &notice);
        let mut text = Vec::with_capacity(body.len());
        let mut tried = 0;
        for account in candidates.accounts {
            let claim = ClaimedSignature::read(account.profile(), &notice, &mut text);
            let signer = account.keys().signer(&text, &claim.signature, now, &mut tried);
            if let (Some(key), true) = (signer, claim.is_well_formed) {
                let account = Arc::clone(account);
                let ClaimedSignature { signature, ambiguous, .. } = claim;
                return Ok(VerifiedIpn { account, key, signature, notice, ambiguous });
            }
        }
        if candidates.accounts.is_empty() {
            ClaimedSignature::read(self.default_profile(), &notice, &mut text);
        }
        spend_hmacs(self.dummy_key(), &text, candidates.hmacs_min.saturating_sub(tried));
        Err(Rejection::new(RejectCode::Unauthenticated))
    }
}

/// The signature that a notice claims to have, read as one profile writes it.
struct ClaimedSignature {
    signature: [u8; SIGNATURE_BYTES],
    /// Whether the signature has the profile's format and every signed field has a text. If not,
    /// the notice is refused, after as many HMACs as a well-formed signature costs.
    is_well_formed: bool,
    ambiguous: Option<Field>,
}

impl ClaimedSignature {
    fn read(profile: &Profile, notice: &Notice<'_>, text: &mut Vec<u8>) -> Self {
        text.clear();
        let ambiguous = signing_text(profile, |field| notice.signing_value(field), text);
        let written = notice.signing_value(Field::Signature).unwrap_or_default();
        let signature = profile.output().read(written);
        let is_signable = !profile.signed_fields().iter().any(|field| notice.is_composite(*field));
        Self {
            signature: signature.unwrap_or_default(),
            is_well_formed: signature.is_some() && is_signable,
            ambiguous,
        }
    }
}

/// Computes this many HMACs and ignores the results, so that a refusal takes the same time
/// whichever accounts exist.
fn spend_hmacs(key: &MacKey, text: &[u8], hmacs: usize) {
    for _ in 0..hmacs {
        std::hint::black_box(key.verifies(text, &[0; SIGNATURE_BYTES]));
    }
}

#[cfg(test)]
mod tests {
    use payfold_schemas::ids::{MerchantCode, PartnerCode};
    use payfold_schemas::notice_source::ProfileStamp;

    use super::*;
    use crate::document::{AccountEntry, NewKey, VaultDocument};
    use crate::keys::Channel;
    use crate::profile::DEFAULT_PROFILE;
    use crate::secret::Secret;
    use crate::signing::sign;

    const NOW: Time = Time::from_unix_ms(1_769_853_600_000);

    fn secret(name: &str) -> Secret {
        Secret::from_bytes(format!("a secret of 24 bytes at least: {name}").into_bytes())
    }

    fn partner(code: &str) -> PartnerCode {
        PartnerCode::parse(code).unwrap()
    }

    /// An account with one key. The key's id is also the name of its secret. The key is valid
    /// since a minute before `NOW`.
    fn account(partner_code: &str, merchant: &str, key: &str) -> AccountEntry {
        let merchant = MerchantCode::parse(merchant).unwrap();
        let mut account = AccountEntry::new(partner(partner_code), merchant);
        account.add_key(new_key(key, NOW.plus_ms(-60_000), 0)).unwrap();
        account
    }

    fn new_key(id: &str, valid_from: Time, overlap_ms: i64) -> NewKey {
        let id = KeyId::parse(id).unwrap();
        NewKey {
            secret: secret(id.as_str()),
            id,
            channel: Channel::Ipn,
            valid_from,
            overlap_ms,
            created_at: NOW,
        }
    }

    /// acme/SHOP with key a, acme/SHOP-2 with key a2, bolt/SHOP with key b, acme/GONE disabled with
    /// key g.
    fn directory() -> Directory {
        let mut gone = account("acme", "GONE", "g");
        gone.enabled = false;
        let accounts = vec![
            account("acme", "SHOP", "a"),
            gone,
            account("acme", "SHOP-2", "a2"),
            account("bolt", "SHOP", "b"),
        ];
        build(accounts)
    }

    fn build(accounts: Vec<AccountEntry>) -> Directory {
        let profiles = ["acme", "bolt"].map(|code| Profile::default_for(&partner(code)));
        let vault = VaultDocument { accounts, ..VaultDocument::default() };
        Directory::build(profiles.into(), &vault).unwrap()
    }

    /// The fields of an IPN as JSON text, to be changed before they are signed.
    type IpnFields = Vec<(Field, String)>;

    fn fields(merchant: &str) -> IpnFields {
        let source = |field| match field {
            Field::MerchantCode => format!("\"{merchant}\""),
            Field::Amount => "150000".to_owned(),
            Field::Status => "\"SUCCESS\"".to_owned(),
            Field::Currency => "\"VND\"".to_owned(),
            Field::PaidAt | Field::Timestamp => "\"2026-01-31T10:00:00Z\"".to_owned(),
            Field::OrderId | Field::ProviderRef | Field::Nonce | Field::Signature => {
                format!("\"{field}-1\"")
            }
        };
        let signed = Field::ALL.into_iter().filter(|field| *field != Field::Signature);
        signed.map(|field| (field, source(field))).collect()
    }

    /// The body of these fields, signed with the secret of this name.
    fn signed(fields: &IpnFields, key: &str) -> Vec<u8> {
        let value_of = |wanted: Field| {
            let source = &fields.iter().find(|(field, _)| *field == wanted)?.1;
            Some(source.trim_matches('"')).filter(|_| source != "null")
        };
        let profile = Profile::default_for(&partner("acme"));
        let signature = sign(&profile, &MacKey::new(secret(key).expose()), value_of);
        let mut entries: Vec<_> =
            fields.iter().map(|(f, source)| format!("\"{f}\":{source}")).collect();
        entries.push(format!("\"signature\":\"{signature}\""));
        format!("{{{}}}", entries.join(",")).into_bytes()
    }

    #[test]
    fn a_signed_notice_is_verified_and_read() {
        let directory = directory();
        let body = signed(&fields("SHOP"), "b");
        for route in [None, Some("bolt")] {
            let ipn = directory.verify(route, &body, NOW).unwrap();
            assert_eq!(ipn.account().partner().as_str(), "bolt");
            assert_eq!(ipn.account().index(), 3);
            assert_eq!(ipn.key_id().as_str(), "b");
            assert_eq!(ipn.field(Field::Amount).unwrap().text, "150000");
            assert_eq!(ipn.separator_in_signed_value(), None);
            let stamp = ProfileStamp {
                partner: partner("bolt"),
                version: 1,
                digest: payfold_schemas::digest::Digest::of_bytes(DEFAULT_PROFILE.as_bytes()),
            };
            assert_eq!(*ipn.profile().stamp(), stamp);
        }
    }

    /// The fields with another value for one of them; an empty value leaves the field out.
    fn with(mut fields: IpnFields, field: Field, source: &str) -> IpnFields {
        fields.retain(|(other, _)| *other != field || !source.is_empty());
        for (other, value) in &mut fields {
            if *other == field {
                source.clone_into(value);
            }
        }
        fields
    }

    fn code(directory: &Directory, route: Option<&str>, body: &[u8]) -> String {
        match directory.verify(route, body, NOW) {
            Ok(ipn) => format!("{}/{}", ipn.account().partner(), ipn.key_id()),
            Err(rejection) => {
                assert_eq!(rejection.detail(), None);
                rejection.to_string()
            }
        }
    }

    /// Route (`-` is the shared one), merchantCode as JSON, signing key => the partner and key, or
    /// the code of the refusal.
    const ROUTES: &str = r#"
        -      "SHOP"    a   => acme/a
        -      "SHOP"    b   => bolt/b
        -      "SHOP-2"  a2  => acme/a2
        acme   "SHOP"    a   => acme/a
        acme   "SHOP"    b   => unauthenticated
        bolt   "SHOP"    a   => unauthenticated
        bolt   "SHOP-2"  a2  => unauthenticated
        absent "SHOP"    a   => unauthenticated
        ACME   "SHOP"    a   => unauthenticated
        -      "SHOP"    a2  => unauthenticated
        -      "SHOP"    z   => unauthenticated
        -      "shop"    a   => unauthenticated
        -      "NONE"    a   => unauthenticated
        -      "GONE"    g   => unauthenticated
        acme   "GONE"    g   => unauthenticated
        acme   -         g   => unauthenticated
        -      ["SHOP"]  a   => unauthenticated
        -      12        a   => unauthenticated
        acme   -         a2  => acme/a2
        acme   null      a2  => acme/a2
        acme   ""        a2  => acme/a2
        -      -         b   => bolt/b
        -      -         z   => unauthenticated
        bolt   -         a   => unauthenticated
        absent -         a   => unauthenticated
    "#;

    #[test]
    fn a_notice_belongs_to_the_account_with_the_key_that_signed_it() {
        let directory = directory();
        for case in ROUTES.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let [route, merchant, key, _, expected] =
                case.split_whitespace().collect::<Vec<_>>().try_into().unwrap();
            let merchant = if merchant == "-" { "" } else { merchant };
            let body = signed(&with(fields("SHOP"), Field::MerchantCode, merchant), key);
            let route = Some(route).filter(|route| *route != "-");
            assert_eq!(code(&directory, route, &body), expected, "{case}");
        }
        let body = signed(&fields("SHOP"), "a");
        assert_eq!(code(&build(Vec::new()), None, &body), "unauthenticated");
    }

    fn swap_case(text: &str) -> String {
        let swap = |c: char| {
            if c.is_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }
        };
        text.chars().map(swap).collect()
    }

    #[test]
    fn a_notice_with_one_altered_field_is_refused() {
        let directory = directory();
        let authentic = String::from_utf8(signed(&fields("SHOP"), "a")).unwrap();
        for (field, source) in fields("SHOP") {
            let from = format!("\"{field}\":{source}");
            assert!(authentic.contains(&from));
            let text = source.trim_matches('"');
            for to in [
                format!("\"{text}x\""),
                format!("\"{}\"", &text[1..]),
                format!("\" {text}\""),
                format!("\"{}\"", swap_case(text)),
                "null".to_owned(),
                "\"\"".to_owned(),
                "{}".to_owned(),
                format!("[{source}]"),
                "1500000".to_owned(),
                "true".to_owned(),
            ] {
                if to == format!("\"{text}\"") {
                    continue;
                }
                let body = authentic.replace(&from, &format!("\"{field}\":{to}"));
                assert_eq!(code(&directory, None, body.as_bytes()), "unauthenticated", "{body}");
            }
            let body = authentic.replace(&format!("{from},"), "");
            assert_eq!(code(&directory, None, body.as_bytes()), "unauthenticated", "{body}");
        }
    }

    #[test]
    fn a_signature_must_be_in_the_format_of_the_profile() {
        let directory = directory();
        let authentic = String::from_utf8(signed(&fields("SHOP"), "a")).unwrap();
        let (before, signature) = authentic.split_once("\"signature\":").unwrap();
        let signature = signature.trim_end_matches('}');
        let hex = signature.trim_matches('"');
        for spelling in [
            format!("\"{}\"", hex.to_uppercase()),
            format!("\"{}\"", &hex[1..]),
            format!("\"{hex}0\""),
            format!("\" {hex}\""),
            format!("\"{}\"", "0".repeat(64)),
            format!("[{signature}]"),
            "\"\"".to_owned(),
            "null".to_owned(),
            "12".to_owned(),
            "true".to_owned(),
        ] {
            let body = format!("{before}\"signature\":{spelling}}}");
            assert_eq!(code(&directory, None, body.as_bytes()), "unauthenticated", "{body}");
        }
        let body = format!("{}}}", before.trim_end_matches(','));
        assert_eq!(code(&directory, None, body.as_bytes()), "unauthenticated");
        let escaped = format!("\\u00{:02x}{}", hex.as_bytes()[0], &hex[1..]);
        let body = format!("{before}\"signature\":\"{escaped}\"}}");
        assert_eq!(code(&directory, None, body.as_bytes()), "acme/a");
    }

    #[test]
    fn verification_does_not_check_the_content() {
        let directory = directory();
        for (field, source) in [
            (Field::Amount, "1e3"),
            (Field::Amount, "\"150000\""),
            (Field::Status, "true"),
            (Field::OrderId, "null"),
            (Field::OrderId, ""),
            (Field::Nonce, "\"\""),
            (Field::Currency, "\"đ\""),
        ] {
            let body = signed(&with(fields("SHOP"), field, source), "a");
            assert_eq!(code(&directory, None, &body), "acme/a", "{field} {source}");
        }
        // An object is signed as an absent field is, so the signing text stays the same.
        let absent = signed(&with(fields("SHOP"), Field::Nonce, ""), "a");
        let mut composite = String::from_utf8(absent).unwrap();
        composite.insert_str(1, "\"nonce\":{},");
        assert_eq!(code(&directory, None, composite.as_bytes()), "unauthenticated");
        let body = signed(&with(fields("SHOP"), Field::PaidAt, "null"), "a");
        assert_eq!(directory.verify(None, &body, NOW).unwrap().field(Field::PaidAt), None);
    }

    #[test]
    fn a_separator_in_a_signed_value_is_reported() {
        let body = signed(&with(fields("SHOP"), Field::ProviderRef, "\"a|b\""), "a");
        let directory = directory();
        let ipn = directory.verify(None, &body, NOW).unwrap();
        assert_eq!(ipn.separator_in_signed_value(), Some(Field::ProviderRef));
    }

    #[test]
    fn an_old_key_is_valid_during_its_overlap() {
        let mut shop = account("acme", "SHOP", "old");
        shop.add_key(new_key("new", NOW, 5_000)).unwrap();
        let directory = build(vec![shop]);
        let key_at = |key, now| {
            let body = signed(&fields("SHOP"), key);
            directory.verify(None, &body, now).ok().map(|ipn| ipn.key_id().to_string())
        };
        let just_before = |time: Time| Time::from_unix_nanos(time.unix_nanos() - 1);
        assert_eq!(key_at("new", just_before(NOW)), None);
        for (key, now, counts) in [
            ("new", NOW, true),
            ("old", NOW, true),
            ("old", just_before(NOW.plus_ms(5_000)), true),
            ("old", NOW.plus_ms(5_000), false),
        ] {
            assert_eq!(key_at(key, now), counts.then(|| key.to_owned()), "{key} at {now}");
        }
    }

    #[test]
    fn a_body_that_can_t_be_parsed_has_its_code_on_every_route() {
        let directory = directory();
        for (body, expected) in [("", "empty_body"), ("[]", "not_an_object")] {
            for route in [None, Some("acme"), Some("absent")] {
                assert_eq!(code(&directory, route, body.as_bytes()), expected);
            }
        }
        let mut unknown = String::from_utf8(signed(&fields("SHOP"), "a")).unwrap();
        unknown.insert_str(1, "\"extra\":{\"amount\":1},\"note\":null,");
        let ipn = directory.verify(None, unknown.as_bytes(), NOW).unwrap();
        assert_eq!(ipn.unknown_fields(), 2);
        assert_eq!(ipn.field(Field::Amount).unwrap().text, "150000");
    }
}
