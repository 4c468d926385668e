//! Owns the verdict on a notice: a `VerifiedIpn`, which only `Directory::verify` can construct, or a `Rejection`.
//! A body nobody signed gets a 400 code for what can't be parsed and `unauthenticated` for all else:
//! unknown merchant, disabled merchant, unknown partner, wrong key, bad spelling of a signature, all
//! one answer, after the same work.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use payfold_schemas::ids::KeyId;
use payfold_schemas::time::Time;

use crate::directory::{Account, Directory};
use crate::keys::Key;
use crate::mac::{MacKey, SIGNATURE_BYTES};
use crate::notice::{Notice, Scalar};
use crate::profile::{Field, Profile};
use crate::signing::signing_text;

/// The stable code of a refusal, as it stands in the problem document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectCode {
    /// Nothing, or nothing but blanks.
    EmptyBody,
    /// Not UTF-8, or half a surrogate pair somewhere.
    InvalidEncoding,
    /// Not JSON.
    MalformedJson,
    /// JSON, but no object.
    NotAnObject,
    /// A key twice, or twice but for its case.
    DuplicateField,
    /// Too deep or too many keys.
    TooComplex,
    /// Nobody known has signed this.
    Unauthenticated,
}

impl RejectCode {
    /// The code on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EmptyBody => "empty_body",
            Self::InvalidEncoding => "invalid_encoding",
            Self::MalformedJson => "malformed_json",
            Self::NotAnObject => "not_an_object",
            Self::DuplicateField => "duplicate_field",
            Self::TooComplex => "too_complex",
            Self::Unauthenticated => "unauthenticated",
        }
    }
}

impl fmt::Display for RejectCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A refusal: its code, and for those who may see it where in the body. Never the body, never a secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}")]
pub struct Rejection {
    code: RejectCode,
    detail: Option<Cow<'static, str>>,
}

impl Rejection {
    pub(crate) const fn new(code: RejectCode) -> Self {
        Self { code, detail: None }
    }

    pub(crate) fn with_detail(self, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }

    /// Why.
    pub fn code(&self) -> RejectCode {
        self.code
    }

    /// Where; always `None` for `unauthenticated`.
    pub fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }
}

/// A notice that a key of a known account has signed. Its shape is not judged yet.
#[derive(Debug)]
pub struct VerifiedIpn<'a> {
    account: Arc<Account>,
    key: usize,
    signature: [u8; SIGNATURE_BYTES],
    notice: Notice<'a>,
    ambiguous: Option<Field>,
}

impl VerifiedIpn<'_> {
    /// Whose it is.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// How this partner does it.
    pub fn profile(&self) -> &Arc<Profile> {
        self.account.profile()
    }

    /// The key that signed it.
    pub fn key_id(&self) -> &KeyId {
        Key::id(&self.account.keys().keys()[self.key])
    }

    /// The signature, which stands for all that is signed.
    pub fn signature(&self) -> &[u8; SIGNATURE_BYTES] {
        &self.signature
    }

    /// A field's value as it came; `None` if it is missing or `null`. What is signed is never an object
    /// or an array.
    pub fn field(&self, field: Field) -> Option<Scalar<'_>> {
        self.notice.present(field)
    }

    /// How many keys at the top the contract doesn't know.
    pub fn unknown_fields(&self) -> u32 {
        self.notice.unknown_fields()
    }

    /// The first signed field that holds the separator: then even a valid signature proves nothing.
    pub fn separator_in_signed_value(&self) -> Option<Field> {
        self.ambiguous
    }
}

impl Directory {
    /// Who signed this body, if anybody known did. `route_partner` is the partner named in the path, or
    /// `None` on the shared route. Errors: a `Rejection` that says nothing of who is known.
    pub fn verify<'a>(
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
            let claim = Claim::read(account.profile(), &notice, &mut text);
            let signer = account.keys().signer(&text, &claim.signature, now, &mut tried);
            if let (Some(key), true) = (signer, claim.is_well_formed) {
                let account = Arc::clone(account);
                let Claim { signature, ambiguous, .. } = claim;
                return Ok(VerifiedIpn { account, key, signature, notice, ambiguous });
            }
        }
        if candidates.accounts.is_empty() {
            Claim::read(self.default_profile(), &notice, &mut text);
        }
        spend(self.nobodys_key(), &text, candidates.hmacs_min.saturating_sub(tried));
        Err(Rejection::new(RejectCode::Unauthenticated))
    }
}

/// What a notice claims under one profile.
struct Claim {
    signature: [u8; SIGNATURE_BYTES],
    /// Whether the signature has the profile's spelling and every signed field has a text. If not, the
    /// work is done all the same.
    is_well_formed: bool,
    ambiguous: Option<Field>,
}

impl Claim {
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

/// Does so many HMACs and forgets what they say.
fn spend(key: &MacKey, text: &[u8], hmacs: usize) {
    for _ in 0..hmacs {
        std::hint::black_box(key.verifies(text, &[0; SIGNATURE_BYTES]));
    }
}

#[cfg(test)]
mod tests {
    use payfold_schemas::ids::{MerchantCode, PartnerCode};
    use payfold_schemas::record::ProfileStamp;

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

    /// An account whose key `id` has the secret of that name, valid from a minute ago.
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

    /// acme/SHOP with key a, acme/SHOP-2 with key a2, bolt/SHOP with key b, acme/GONE disabled with key g.
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

    /// The fields of an IPN as JSON source texts, to be changed before they are signed.
    type Fields = Vec<(Field, String)>;

    fn fields(merchant: &str) -> Fields {
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
    fn signed(fields: &Fields, key: &str) -> Vec<u8> {
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
    fn a_signed_notice_is_found_and_read() {
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

    /// Fields with one value put in the place of another; an empty one leaves the field out.
    fn with(mut fields: Fields, field: Field, source: &str) -> Fields {
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

    /// Route (- is the shared one), merchantCode as JSON, signing key => partner and key, or the code.
    const ROUTES: &str = r#"
        -      "SHOP"    a   => acme/a
        -      "SHOP"    b   => bolt/b
        -      "SHOP-2"  a2  => acme/a2
        acme   "SHOP"    a   => acme/a
        acme   "SHOP"    b   => unauthenticated
        bolt   "SHOP"    a   => unauthenticated
        bolt   "SHOP-2"  a2  => unauthenticated
        nobody "SHOP"    a   => unauthenticated
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
        nobody -         a   => unauthenticated
    "#;

    #[test]
    fn a_notice_is_from_who_signed_it_or_from_nobody() {
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
    fn any_field_altered_alone_is_refused() {
        let directory = directory();
        let genuine = String::from_utf8(signed(&fields("SHOP"), "a")).unwrap();
        for (field, source) in fields("SHOP") {
            let from = format!("\"{field}\":{source}");
            assert!(genuine.contains(&from));
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
                let body = genuine.replace(&from, &format!("\"{field}\":{to}"));
                assert_eq!(code(&directory, None, body.as_bytes()), "unauthenticated", "{body}");
            }
            let body = genuine.replace(&format!("{from},"), "");
            assert_eq!(code(&directory, None, body.as_bytes()), "unauthenticated", "{body}");
        }
    }

    #[test]
    fn a_signature_has_the_profiles_spelling() {
        let directory = directory();
        let genuine = String::from_utf8(signed(&fields("SHOP"), "a")).unwrap();
        let (before, signature) = genuine.split_once("\"signature\":").unwrap();
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
    fn what_is_signed_is_verified_whatever_its_shape() {
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
        // An object in an empty slot leaves the signing text as it was signed.
        let absent = signed(&with(fields("SHOP"), Field::Nonce, ""), "a");
        let mut composite = String::from_utf8(absent).unwrap();
        composite.insert_str(1, "\"nonce\":{},");
        assert_eq!(code(&directory, None, composite.as_bytes()), "unauthenticated");
        let body = signed(&with(fields("SHOP"), Field::PaidAt, "null"), "a");
        assert_eq!(directory.verify(None, &body, NOW).unwrap().field(Field::PaidAt), None);
    }

    #[test]
    fn a_separator_in_a_signed_value_is_told() {
        let body = signed(&with(fields("SHOP"), Field::ProviderRef, "\"a|b\""), "a");
        let directory = directory();
        let ipn = directory.verify(None, &body, NOW).unwrap();
        assert_eq!(ipn.separator_in_signed_value(), Some(Field::ProviderRef));
    }

    #[test]
    fn an_old_key_counts_in_its_overlap() {
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
    fn what_can_t_be_parsed_has_its_code_on_every_route() {
        let directory = directory();
        for (body, expected) in [("", "empty_body"), ("[]", "not_an_object")] {
            for route in [None, Some("acme"), Some("nobody")] {
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
