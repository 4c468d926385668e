//! Owns the judgement of a browser return (contract 4.3): is this query signed by a partner of ours? It says no
//! more than which order it names; nothing that could settle one comes out of here.

use std::borrow::Cow;

use payfold_schemas::ids::OrderId;
use payfold_schemas::time::Time;

use crate::directory::Directory;
use crate::keys::Channel;
use crate::mac::SIGNATURE_BYTES;
use crate::profile::Field;
use crate::signing::signing_text;

/// A query longer than this is not looked at.
const QUERY_BYTES_MAX: usize = 8_192;
/// Nor one with more parameters.
const PARAMETERS_MAX: usize = 64;

/// The parameters of a query that the contract knows, each at most once.
struct Parameters<'q>([Option<Cow<'q, str>>; Field::COUNT]);

impl<'q> Parameters<'q> {
    /// `None` for what is too long, not UTF-8, or names a parameter twice.
    fn parse(query: &'q str) -> Option<Self> {
        if query.len() > QUERY_BYTES_MAX || query.split('&').count() > PARAMETERS_MAX {
            return None;
        }
        let mut found = Self(Default::default());
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            // What was no UTF-8 has become this character.
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

    /// An empty parameter is an empty slot, as an absent one is.
    fn value(&self, field: Field) -> Option<&str> {
        self.0[field.index()].as_deref().filter(|value| !value.is_empty())
    }
}

impl Directory {
    /// The order a signed return query names; `None` for anything that no partner of ours has signed. No clock
    /// window: a payer may come back late, and nothing is settled by it.
    pub fn verify_return(&self, query: &str, now: Time) -> Option<OrderId> {
        let parameters = Parameters::parse(query)?;
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
            let signer = keys.signer(&text, &claimed, now, &mut 0);
            (signer.is_some() && ambiguous.is_none()).then(|| order_id.clone())
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

    /// An account with a key for notices, and these more.
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

    /// The fields of a return, signed; the order of parameters is not the order of signing.
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
        let genuine = query(SECRET);
        assert_eq!(order(&one, &genuine).as_deref(), Some("ord-1"));
        assert_eq!(order(&one, &format!("{genuine}&utm=x&nonce=")).as_deref(), Some("ord-1"));
        // A year later, too.
        let later = NOW.plus_ms(31_536_000_000);
        assert!(one.verify_return(&genuine, later).is_some());
        // Where the partner has a key of its own for returns, the notices' key is worth nothing here.
        assert_eq!(order(&two, &genuine), None);
        assert_eq!(order(&two, &query(RETURN_SECRET)).as_deref(), Some("ord-1"));
    }

    #[test]
    fn an_altered_return_names_nothing() {
        let (directory, genuine) = (directory(&[]), query(SECRET));
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
            assert!(genuine.contains(from), "{from} in {genuine}");
            assert_eq!(order(&directory, &genuine.replacen(from, to, 1)), None, "{from} {to}");
        }
        assert_eq!(order(&directory, &format!("{genuine}&orderId=ord-1")), None);
        assert_eq!(order(&directory, &format!("{genuine}&%6frderId=ord-2")), None);
        assert_eq!(order(&directory, &format!("{genuine}&nonce=%ff")), None);
        assert_eq!(order(&directory, &format!("{genuine}&x={}", "a".repeat(9_000))), None);
        assert_eq!(order(&directory, &format!("{genuine}{}", "&x=1".repeat(64))), None);
        for query in ["", "&&&", "=", "signature=", "orderId=ord-1&merchantCode=SHOP"] {
            assert_eq!(order(&directory, query), None);
        }
    }
}
