//! Owns the explanation of one notice of the contract's scheme: what each field held, the text each key would sign, and
//! which change would have made the signature match: another key, order, separator, spelling, or slots left out.

use payfold_schemas::time::Time;

use crate::directory::{Account, Directory};
use crate::keys::Key;
use crate::mac::Output;
use crate::notice::{Notice, ScalarKind};
use crate::profile::{Field, Profile};
use crate::scheme::{Attempt, Explanation, Place};
use crate::signing::signing_text;

/// Separators that gateways use.
const SEPARATORS: [&str; 7] = ["|", "&", "", ",", ":", ";", "+"];

impl Directory {
    /// Explains a notice to a partner with the contract's scheme, as it would be judged at `now`. `None` if the
    /// partner is not known or has a scheme of its own.
    pub fn explain_contract(&self, partner: &str, body: &[u8], now: Time) -> Option<Explanation> {
        let profile = self.profile(partner)?;
        if profile.scheme().is_some() {
            return None;
        }
        let notice = match Notice::parse(body, self.limits(Some(partner))) {
            Ok(notice) => notice,
            Err(rejection) => {
                let place = rejection.detail().unwrap_or_default();
                let verdict =
                    format!("{rejection}: the body can't be parsed {place}").trim().to_owned();
                return Some(Explanation { verdict, ..Explanation::default() });
            }
        };
        let merchant = notice.signing_value(Field::MerchantCode).unwrap_or_default();
        let named = self.of_partner(partner).iter().filter(|account| {
            merchant.trim().is_empty() || account.merchant_code().as_str() == merchant
        });
        let mut explanation = Explanation { places: places(&notice), ..Explanation::default() };
        for account in named {
            for key in account.keys().keys() {
                explanation.attempts.push(attempt((account, key), &notice, now));
            }
        }
        explanation.verdict = match self.verify(Some(partner), body, now) {
            Ok(verified) => format!("signed with key {}", verified.key_id()),
            Err(_) => unsigned(&explanation, &notice, profile),
        };
        Some(explanation)
    }
}

fn unsigned(explanation: &Explanation, notice: &Notice<'_>, profile: &Profile) -> String {
    let why = if explanation.attempts.is_empty() {
        "no enabled account of this partner has this merchantCode and a key".to_owned()
    } else if let Some(field) = profile.signed_fields().iter().find(|f| notice.is_composite(**f)) {
        format!("{field} is an object or an array, which can't be signed")
    } else if notice.signing_value(Field::Signature).is_none() {
        "there is no signature".to_owned()
    } else if let Some(attempt) = explanation.attempts.iter().find(|attempt| attempt.matches) {
        format!("key {} does not count now", attempt.key)
    } else {
        "no key of the account has made this signature".to_owned()
    };
    format!("unauthenticated: {why}")
}

fn places(notice: &Notice<'_>) -> Vec<Place> {
    let place = |field: Field| {
        let (kind, value) = match notice.field(field) {
            None if notice.is_composite(field) => ("object or array", String::new()),
            None => ("absent", String::new()),
            Some(scalar) => {
                let kind = match scalar.kind {
                    ScalarKind::String => "string",
                    ScalarKind::Number => "number",
                    ScalarKind::Bool => "bool",
                    ScalarKind::Null => "null",
                };
                (kind, scalar.text.to_owned())
            }
        };
        Place { token: field.name().to_owned(), kind, value }
    };
    Field::ALL.into_iter().map(place).collect()
}

fn attempt((account, key): (&Account, &Key), notice: &Notice<'_>, now: Time) -> Attempt {
    let profile = account.profile();
    let mut text = Vec::new();
    signing_text(profile, |field| notice.signing_value(field), &mut text);
    let received = notice.signing_value(Field::Signature).unwrap_or_default();
    let expected = profile.output().write(&key.mac().sign(&text));
    let matches = expected == received;
    let state = match key.is_valid_at(now) {
        true => "",
        false if now < key.valid_from() => " (not valid yet)",
        false => " (no longer valid)",
    };
    Attempt {
        account: format!("{}/{}", account.partner(), account.merchant_code()),
        sign: "contract".to_owned(),
        key: format!("{}{state}", key.id()),
        text: String::from_utf8_lossy(&text).into_owned(),
        would_match: if matches { Vec::new() } else { variants(profile, key, notice, received) },
        expected: Some(expected),
        received: vec![received.to_owned()],
        matches,
    }
}

/// The usual mistakes, each tried, the plainest first.
fn variants(profile: &Profile, key: &Key, notice: &Notice<'_>, received: &str) -> Vec<String> {
    let mut found = Vec::new();
    let received_bytes = [Output::HexLower, Output::HexUpper]
        .into_iter()
        .find_map(|output| Some((output, output.read(received)?)));
    let Some((output, claimed)) = received_bytes else {
        found.push("nothing: the signature is not 64 hex digits of one case".to_owned());
        return found;
    };
    let own = profile.separator() as char;
    for (order, fields) in orders(profile) {
        for separator in SEPARATORS {
            for slots in ["", "absent fields left out instead of empty"] {
                let values = fields.iter().map(|field| notice.signing_value(*field));
                let values: Vec<&str> = match slots {
                    "" => values.map(Option::unwrap_or_default).collect(),
                    _ => values.flatten().collect(),
                };
                let text = values.join(separator);
                if key.mac().verifies(text.as_bytes(), &claimed) {
                    let mut change: Vec<String> = Vec::new();
                    change.extend(Some(order.clone()).filter(|order| !order.is_empty()));
                    if separator != own.to_string() {
                        change.push(format!("separator = {separator:?}"));
                    }
                    change.extend(Some(slots.to_owned()).filter(|slots| !slots.is_empty()));
                    if output != profile.output() {
                        change.push("the other letter case".to_owned());
                    }
                    found.push(change.join(", "));
                }
            }
        }
    }
    found.sort_by_key(String::len);
    found.truncate(3);
    found
}

/// Orders of the signed fields that are mixed up for each other.
fn orders(profile: &Profile) -> Vec<(String, Vec<Field>)> {
    let own = profile.signed_fields().to_vec();
    let mut by_name = own.clone();
    by_name.sort_by_key(|field| field.name());
    let mut by_lower = own.clone();
    by_lower.sort_by_key(|field| field.name().to_lowercase());
    let reversed = own.iter().rev().copied().collect();
    let mut orders = vec![
        (String::new(), own.clone()),
        ("fields in the order of their names".to_owned(), by_name),
        ("fields in the order of their names, case ignored".to_owned(), by_lower),
        ("fields in the opposite order".to_owned(), reversed),
        ("fields in the order of the contract's table".to_owned(), Field::ALL[..9].to_vec()),
    ];
    for (a, first) in own.iter().enumerate() {
        for (b, second) in own.iter().enumerate().skip(a + 1) {
            let mut swapped = own.clone();
            swapped.swap(a, b);
            orders.push((format!("{first} and {second} the other way round"), swapped));
        }
    }
    for (at, field) in own.iter().enumerate() {
        let mut without = own.clone();
        without.remove(at);
        orders.push((format!("without {field}"), without));
    }
    orders
}

#[cfg(test)]
mod tests {
    use payfold_schemas::ids::{KeyId, MerchantCode, PartnerCode};

    use super::*;
    use crate::document::{AccountEntry, NewKey, VaultDocument};
    use crate::keys::Channel;
    use crate::mac::MacKey;
    use crate::secret::Secret;

    const NOW: Time = Time::from_unix_ms(1_769_853_600_000);
    const OLD: &str = "an old test key that is worth nothing";
    const NEW: &str = "a new test key that is worth nothing";

    fn directory() -> Directory {
        let partner = PartnerCode::parse("acme").unwrap();
        let mut account = AccountEntry::new(partner.clone(), MerchantCode::parse("SHOP").unwrap());
        for (id, secret, from) in
            [("old", OLD, NOW.plus_ms(-9_000)), ("new", NEW, NOW.plus_ms(-1_000))]
        {
            let key = NewKey {
                id: KeyId::parse(id).unwrap(),
                channel: Channel::Ipn,
                secret: Secret::from_bytes(secret.as_bytes().to_vec()),
                valid_from: from,
                overlap_ms: 0,
                created_at: NOW,
            };
            account.add_key(key).unwrap();
        }
        let vault = VaultDocument { accounts: vec![account], ..VaultDocument::default() };
        Directory::build(vec![Profile::default_for(&partner)], &vault).unwrap()
    }

    fn body(signature: &str) -> String {
        format!(
            r#"{{"merchantCode":"SHOP","orderId":"o","providerRef":"r","status":"FAILED","amount":1,"currency":"VND","timestamp":"t","signature":"{signature}"}}"#
        )
    }

    fn signed(secret: &str, text: &str) -> String {
        Output::HexLower.write(&MacKey::new(secret.as_bytes()).sign(text.as_bytes()))
    }

    #[test]
    fn what_would_have_matched_is_told() {
        let good = "SHOP|o|r|FAILED|1|VND||t|";
        let explained = |signature: &str| {
            let explanation =
                directory().explain_contract("acme", body(signature).as_bytes(), NOW).unwrap();
            let matched = explanation.attempts.iter().flat_map(|attempt| &attempt.would_match);
            (explanation.verdict.clone(), matched.cloned().collect::<Vec<_>>().join("; "))
        };
        assert_eq!(explained(&signed(NEW, good)).0, "signed with key new");
        let old = explained(&signed(OLD, good)).0;
        assert_eq!(old, "unauthenticated: key old (no longer valid) does not count now");
        for (text, expected) in [
            ("SHOP&o&r&FAILED&1&VND&&t&", "separator = \"&\""),
            ("SHOP|o|r|FAILED|1|VND|t", "absent fields left out instead of empty"),
            ("SHOP|r|o|FAILED|1|VND||t|", "orderId and providerRef the other way round"),
            ("SHOP|o|r|FAILED|1|VND||t", "without nonce"),
            ("1|VND|SHOP||o||r|FAILED|t", "fields in the order of their names"),
        ] {
            let (verdict, matched) = explained(&signed(NEW, text));
            assert_eq!(verdict, "unauthenticated: no key of the account has made this signature");
            assert!(matched.contains(expected), "{text}: {matched}");
        }
        let upper = signed(NEW, good).to_uppercase();
        assert!(explained(&upper).1.contains("the other letter case"));
        assert!(explained("zz").1.contains("not 64 hex digits"));
        assert!(explained(&signed(NEW, "else")).1.is_empty());
    }
}
