//! Owns the verification of a browser return (contract 4.3): whether a partner has signed the query
//! string. The result is the order that the query names, and nothing that could settle it.

use std::borrow::Cow;

use payfold_schemas::ids::OrderId;
use payfold_schemas::time::Time;

use crate::directory::Directory;
use crate::field::Field;
use crate::keys::Channel;
use crate::mac::SIGNATURE_BYTES;
use crate::signing::signing_text;

/// The longest accepted query string, in bytes.
const QUERY_BYTES_MAX: usize = 8_192;
/// The most accepted parameters.
const PARAMETERS_MAX: usize = 64;

/// The parameters of a return that the contract knows, each at most once.
struct ReturnParameters<'q>([Option<Cow<'q, str>>; Field::COUNT]);

impl<'q> ReturnParameters<'q> {
    /// `None` if the query is too long, is not UTF-8, or names a parameter twice.
    fn parse(query: &'q str) -> Option<Self> {
        if query.len() > QUERY_BYTES_MAX || query.split('&').count() > PARAMETERS_MAX {
            return None;
        }
        let mut found = Self(Default::default());
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            // The parser has replaced bytes that are not UTF-8 by this character.
            if value.contains(char::REPLACEMENT_CHARACTER) {
                return None;
            }
            let known = Field::ALL.into_iter().find(|f| f.name().eq_ignore_ascii_case(&name));
            let Some(field) = known else { continue };
            if field.name() != name || found.0[field.index()].replace(value).is_some() {
                return None;
            }
        }
        Some(found)
    }

    /// A parameter's value. An empty parameter is signed as an absent one is.
    fn value(&self, field: Field) -> Option<&str> {
        self.0[field.index()].as_deref().filter(|value| !value.is_empty())
    }
}

impl Directory {
    /// The order that a signed return names. `None` if no key of a known partner has signed the
    /// query. The return's time is not checked: a payer may come back late, and a return settles no
    /// payment.
    pub fn verify_return(&self, query: &str, now: Time) -> Option<OrderId> {
        let parameters = ReturnParameters::parse(query)?;
        let merchant = parameters.value(Field::MerchantCode)?;
        let order_id = OrderId::parse(parameters.value(Field::OrderId)?).ok()?;
        let mut text = Vec::with_capacity(query.len());
        self.named(merchant).iter().find_map(|account| {
            let profile = account.profile();
            text.clear();
            let ambiguous = signing_text(profile, |field| parameters.value(field), &mut text);
            let claimed: [u8; SIGNATURE_BYTES] =
                profile.output().read(parameters.value(Field::Signature)?)?;
            let keys = account.keys_of(Channel::Return);
            let is_signed = keys.has_signed(&text, &claimed, now) && ambiguous.is_none();
            is_signed.then(|| order_id.clone())
        })
    }
}

#[cfg(test)]
mod tests {
    use payfold_schemas::ids::{KeyId, MerchantCode, PartnerCode};

    use super::*;
    use crate::document::{AccountEntry, NewKey, VaultDocument};
    use crate::mac::MacKey;
    use crate::profile::Profile;
    use crate::secret::Secret;

    const NOW: Time = Time::from_unix_ms(1_769_853_600_000);
    const SECRET: &[u8] = b"a test key, worth nothing at all";
    const RETURN_SECRET: &[u8] = b"another test key, worth nothing too";

    /// A directory of one account with a key for notices, and these additional keys.
    fn directory(more: &[(&str, Channel, &[u8])]) -> Directory {
        let partner = PartnerCode::parse("acme").unwrap();
        let merchant = MerchantCode::parse("SHOP").unwrap();
        let mut account = AccountEntry::new(partner.clone(), merchant);
        let mut add = |id: &str, channel, secret: &[u8]| {
            let secret = Secret::from_bytes(secret.to_vec());
            let (valid_from, created_at) = (NOW.plus_ms(-1), NOW);
            let id = KeyId::parse(id).unwrap();
            let key = NewKey { id, channel, secret, valid_from, overlap_ms: 0, created_at };
            account.add_key(key).unwrap();
        };
        add("i", Channel::Ipn, SECRET);
        for (id, channel, secret) in more {
            add(id, *channel, secret);
        }
        let vault = VaultDocument { accounts: vec![account], ..VaultDocument::default() };
        Directory::build(vec![Profile::default_for(&partner)], &vault).unwrap()
    }

    /// A signed return. Its parameters are not in the order of the signing text.
    fn query(secret: &[u8]) -> String {
        let profile = Profile::default_for(&PartnerCode::parse("acme").unwrap());
        let value = |field| match field {
            Field::MerchantCode => Some("SHOP"),
            Field::OrderId => Some("ord-1"),
            Field::ProviderRef => Some("tx 1+2"),
            Field::Status => Some("SUCCESS"),
            Field::Amount => Some("150000"),
            Field::Currency => Some("VND"),
            Field::PaidAt | Field::Timestamp => Some("2026-01-31T10:00:00+07:00"),
            Field::Nonce | Field::Signature => None,
        };
        let signature = crate::signing::sign(&profile, &MacKey::new(secret), value);
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        for field in Field::ALL.into_iter().rev() {
            if let Some(text) = value(field) {
                query.append_pair(field.name(), text);
            }
        }
        query.append_pair("signature", &signature);
        query.finish()
    }

    fn order(directory: &Directory, query: &str) -> Option<String> {
        directory.verify_return(query, NOW).map(|order| order.to_string())
    }

    #[test]
    fn a_signed_return_names_its_order() {
        let (one, two) = (directory(&[]), directory(&[("r", Channel::Return, RETURN_SECRET)]));
        let authentic = query(SECRET);
        assert_eq!(order(&one, &authentic).as_deref(), Some("ord-1"));
        assert_eq!(order(&one, &format!("{authentic}&utm=x&nonce=")).as_deref(), Some("ord-1"));
        // It is accepted a year later, too.
        let later = NOW.plus_ms(31_536_000_000);
        assert!(one.verify_return(&authentic, later).is_some());
        // An account with a key for returns no longer accepts returns signed with its notices' key.
        assert_eq!(order(&two, &authentic), None);
        assert_eq!(order(&two, &query(RETURN_SECRET)).as_deref(), Some("ord-1"));
    }

    #[test]
    fn an_altered_return_names_nothing() {
        let (directory, authentic) = (directory(&[]), query(SECRET));
        for (from, to) in [
            ("SUCCESS", "FAILED"),
            ("ord-1", "ord-2"),
            ("150000", "15000"),
            ("SHOP", "SHOP2"),
            ("tx+1%2B2", "tx+1+2"),
            ("currency=VND&", ""),
            ("currency=", "Currency="),
            ("signature=", "signature=0"),
        ] {
            assert!(authentic.contains(from), "{from} in {authentic}");
            assert_eq!(order(&directory, &authentic.replacen(from, to, 1)), None, "{from} {to}");
        }
        assert_eq!(order(&directory, &format!("{authentic}&orderId=ord-1")), None);
        assert_eq!(order(&directory, &format!("{authentic}&%6frderId=ord-2")), None);
        assert_eq!(order(&directory, &format!("{authentic}&nonce=%ff")), None);
        assert_eq!(order(&directory, &format!("{authentic}&x={}", "a".repeat(9_000))), None);
        assert_eq!(order(&directory, &format!("{authentic}{}", "&x=1".repeat(64))), None);
        for query in ["", "&&&", "=", "signature=", "orderId=ord-1&merchantCode=SHOP"] {
            assert_eq!(order(&directory, query), None);
        }
    }
}
