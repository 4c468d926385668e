//! Owns one key file: its name says whose key it is, its content is the secret. Pure.
//! Invariant: no problem it tells of quotes the content.

use std::fmt::Display;

use payfold_schemas::ids::{KeyId, MerchantCode, PartnerCode};
use payfold_schemas::time::Time;
use toml::{Table, Value};
use zeroize::Zeroizing;

use crate::document::{KeyEntry, SERIAL_CHARS_MAX, is_printable};
use crate::keys::{Channel, SECRET_BYTES_LEAST};
use crate::secret::{PEM, Secret};

const NAME: &str = "PARTNER.MERCHANT.CHANNEL.KEYID";
const SECRET: &str = "write the secret as text:…, hex:… or base64:…, whichever the partner means";
const ITEMS: &str = "secret, valid_from, valid_until, serial, merchant_code and key_id";

/// A key and whose it is.
#[derive(Debug)]
pub(super) struct KeyFile {
    pub(super) name: String,
    pub(super) partner: PartnerCode,
    pub(super) merchant_code: MerchantCode,
    pub(super) key: KeyEntry,
    /// Whether it says from when it counts; one that doesn't has always counted.
    pub(super) has_beginning: bool,
}

/// Reads a key file. Its content is the secret alone (`text:…`, `hex:…`, `base64:…`, PEM, also over several lines), or TOML
/// with `secret` and the times. Errors: everything that is wrong with it.
pub(super) fn parse(name: &str, bytes: &[u8]) -> Result<KeyFile, Vec<String>> {
    let mut problems = Problems::default();
    let names = problems.kept(name_parts(name));
    let items = problems.kept(items(bytes));
    let (Some(names), Some(mut items)) = (names, items) else { return Err(problems.0) };

    let from = problems.kept(items.time("valid_from")).flatten();
    let until = problems.kept(items.time("valid_until")).flatten();
    let serial = problems.kept(items.serial()).flatten();
    let merchant = problems.kept(items.text("merchant_code")).flatten();
    let key_id = problems.kept(items.text("key_id")).flatten();
    problems.kept(items.nothing_more());
    let merchant = merchant.as_deref().unwrap_or(names.merchant);
    let key_id = key_id.as_deref().unwrap_or(names.key_id);
    let partner = problems.usable("its name's partner", PartnerCode::parse(names.partner));
    let merchant_code = problems.usable("its account", MerchantCode::parse(merchant));
    let id = problems.usable("its key's id", KeyId::parse(key_id));
    let (Some(partner), Some(merchant_code), Some(id)) = (partner, merchant_code, id) else {
        return Err(problems.0);
    };
    let valid_from = from.unwrap_or(Time::from_unix_ms(0));
    let key = KeyEntry {
        id,
        channel: names.channel,
        secret: items.secret,
        valid_from,
        valid_until: until,
        serial,
        created_at: valid_from,
    };
    problems.kept(key.key(SECRET_BYTES_LEAST).map_err(|error| error.to_string()));
    let (name, has_beginning) = (name.to_owned(), from.is_some());
    let file = KeyFile { name, partner, merchant_code, key, has_beginning };
    if problems.0.is_empty() { Ok(file) } else { Err(problems.0) }
}

/// Everything that is wrong with a file.
#[derive(Default)]
struct Problems(Vec<String>);

impl Problems {
    fn kept<T>(&mut self, read: Result<T, String>) -> Option<T> {
        read.map_err(|problem| self.0.push(problem)).ok()
    }

    fn usable<T, E: Display>(&mut self, what: &str, read: Result<T, E>) -> Option<T> {
        self.kept(read.map_err(|error| format!("{what} can't be used: {error}")))
    }
}

struct NameParts<'n> {
    partner: &'n str,
    merchant: &'n str,
    channel: Channel,
    key_id: &'n str,
}

/// Merchant codes and key ids may hold dots, so the channel's name is looked for.
fn name_parts(name: &str) -> Result<NameParts<'_>, String> {
    let channels = Channel::ALL.map(Channel::name).join(", ");
    let no_key = || {
        format!(
            "its name is no key's, which is {NAME}, such as acme.SHOP.ipn.2026-a (channels: {channels}); rename it or take it out"
        )
    };
    let (partner, rest) = name.split_once('.').ok_or_else(no_key)?;
    let mut found = Vec::new();
    for (at, _) in rest.match_indices('.') {
        let Some((word, key_id)) = rest[at + 1..].split_once('.') else { continue };
        let Some(channel) = Channel::from_name(word) else { continue };
        if at > 0 && !key_id.is_empty() {
            found.push(NameParts { partner, merchant: &rest[..at], channel, key_id });
        }
    }
    match (found.pop(), found.is_empty()) {
        (Some(parts), true) => Ok(parts),
        (None, _) => Err(no_key()),
        (Some(_), false) => Err(
            "its name can be read in two ways, for a channel's name stands in it twice; name it otherwise, and say \
             merchant_code or key_id in it"
                .to_owned(),
        ),
    }
}

/// What a file says; what has been asked for is no more in it.
struct Items {
    secret: Secret,
    table: Table,
}

impl Items {
    fn text(&mut self, item: &str) -> Result<Option<String>, String> {
        match self.table.remove(item) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(Value::Datetime(time)) => Ok(Some(time.to_string())),
            Some(_) => Err(format!("its {item} is no text; put it into quotes")),
        }
    }

    fn time(&mut self, item: &str) -> Result<Option<Time>, String> {
        let Some(text) = self.text(item)? else { return Ok(None) };
        Time::parse(&text).map(Some).map_err(|error| format!("its {item} can't be used: {error}"))
    }

    fn serial(&mut self) -> Result<Option<String>, String> {
        let serial = self.text("serial")?;
        if serial.as_deref().is_none_or(|text| is_printable(text, SERIAL_CHARS_MAX)) {
            return Ok(serial);
        }
        Err(format!("its serial is not up to {SERIAL_CHARS_MAX} printable ASCII characters"))
    }

    fn nothing_more(&self) -> Result<(), String> {
        match self.table.is_empty() {
            true => Ok(()),
            false => Err(format!("it says more than {ITEMS}; take the rest out")),
        }
    }
}

fn items(bytes: &[u8]) -> Result<Items, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| format!("it is not text; {SECRET}"))?;
    let alone = text.trim_end_matches(['\r', '\n']);
    if alone.trim().is_empty() {
        return Err(format!("it is empty; {SECRET}"));
    }
    if ["text:", "hex:", "base64:", PEM].iter().any(|encoding| alone.starts_with(encoding)) {
        return Ok(Items { secret: read_secret(alone)?, table: Table::new() });
    }
    let mut table: Table = toml::from_str(text).map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        // The parser's own message would quote the line.
        format!("line {line} is not understood; {SECRET}, alone or as secret = \"text:…\"")
    })?;
    let Some(Value::String(written)) = table.remove("secret") else {
        return Err(format!("it has no secret = \"…\"; {SECRET}"));
    };
    let secret = read_secret(&Zeroizing::new(written))?;
    Ok(Items { secret, table })
}

fn read_secret(text: &str) -> Result<Secret, String> {
    Secret::parse(text).map_err(|_| format!("its secret can't be read; {SECRET}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "text:hush, a secret of 24 bytes or more";

    fn problems(name: &str, content: &str) -> Vec<String> {
        parse(name, content.as_bytes()).map_or_else(|problems| problems, |_| Vec::new())
    }

    #[test]
    fn a_name_says_whose_key_it_is() {
        for (name, expected) in [
            ("acme.SHOP.ipn.a", "acme/SHOP ipn a"),
            ("acme-2.SHOP.1.return.2026.b", "acme-2/SHOP.1 return 2026.b"),
            ("acme.ipn.create.x_1", "acme/ipn create x_1"),
            ("acme.SHOP.unwrap.k", "acme/SHOP unwrap k"),
        ] {
            let file = parse(name, LONG.as_bytes()).unwrap();
            let KeyFile { partner, merchant_code, key, has_beginning, .. } = file;
            let got = format!("{partner}/{merchant_code} {} {}", key.channel.name(), key.id);
            assert_eq!(got, expected);
            assert_eq!(
                (has_beginning, key.valid_from, key.valid_until),
                (false, Time::from_unix_ms(0), None)
            );
            assert_eq!(key.secret.expose(), &LONG.as_bytes()[5..]);
        }
        for name in [
            "README",
            "acme",
            "acme.SHOP",
            "acme.SHOP.ipn",
            "acme.SHOP.ipn.",
            "acme..ipn.a",
            "acme.SHOP.pin.a",
        ] {
            assert!(problems(name, LONG)[0].contains("its name is no key's"), "{name}");
        }
        assert!(problems("acme.SHOP.ipn.ipn.a", LONG)[0].contains("two ways"));
        assert!(problems("ACME.SHOP.ipn.a", LONG)[0].contains("its name's partner can't be used"));
    }

    #[test]
    fn a_file_may_say_from_when_to_when() {
        let content = "secret = 'base64:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz'\n\
             valid_from = 2026-01-31T10:00:00Z\nvalid_until = \"2026-02-01T00:00:00+07:00\"\n\
             serial = \"7\"\nmerchant_code = \"SHOP:1\"\nkey_id = \"a:b\"\n";
        let KeyFile { merchant_code, key, has_beginning, .. } =
            parse("acme.S.ipn.a", content.as_bytes()).unwrap();
        assert_eq!((merchant_code.as_str(), key.id.as_str()), ("SHOP:1", "a:b"));
        assert_eq!(key.secret.expose(), b"012345678901234567890123");
        assert_eq!(key.valid_from, Time::parse("2026-01-31T10:00:00Z").unwrap());
        assert_eq!(key.valid_until, Some(Time::parse("2026-01-31T17:00:00Z").unwrap()));
        assert_eq!((key.serial.as_deref(), has_beginning), (Some("7"), true));
    }

    #[test]
    fn a_secret_of_several_lines_is_taken_as_it_is() {
        let pem = "text:-----BEGIN KEY-----\nAAAAAAAAAAAAAAAAAAAA\n-----END KEY-----\n";
        let file = parse("acme.S.ipn.a", pem.as_bytes()).unwrap();
        assert_eq!(file.key.secret.expose(), pem[5..].trim_end().as_bytes());
    }

    #[test]
    fn everything_wrong_is_told_and_nothing_of_the_content() {
        for (content, expected) in [
            ("", vec!["it is empty"]),
            ("\n\n", vec!["it is empty"]),
            ("hush", vec!["line 1 is not understood"]),
            ("# a\nhush = ", vec!["line 2 is not understood"]),
            ("hex:hush", vec!["its secret can't be read"]),
            ("secret = 'hush'", vec!["its secret can't be read"]),
            ("secret = 12", vec!["it has no secret"]),
            ("valid_from = 'hush'", vec!["it has no secret"]),
            ("text:hush", vec!["has 4 bytes, 16 or more are needed"]),
            (
                "secret = 'text:hush'\nhush = 1\nserial = 'é'\nvalid_from = 2026-01-31\nvalid_until = 7",
                vec![
                    "valid_from can't",
                    "valid_until is no text",
                    "serial is not",
                    "says more than",
                    "4 bytes",
                ],
            ),
            (
                "secret = 'text:hush hush hush hush hush'\nvalid_from = 2026-01-31T00:00:00Z\nvalid_until = 2026-01-30T00:00:00Z",
                vec!["valid until before it is valid from"],
            ),
        ] {
            let got = problems("acme.SHOP.ipn.a", content);
            assert_eq!(got.len(), expected.len(), "{content}: {got:?}");
            for (got, expected) in got.iter().zip(expected) {
                assert!(got.contains(expected) && !got.contains("hush"), "{content}: {got}");
            }
        }
        let both = problems("README", "hush");
        assert_eq!(both.len(), 2, "{both:?}");
        assert!(parse("acme.SHOP.ipn.a", b"\xff").unwrap_err()[0].contains("not text"));
    }

    #[test]
    fn debug_shows_no_secret() {
        let file = parse("acme.SHOP.ipn.a", LONG.as_bytes()).unwrap();
        assert!(!format!("{file:?}").contains("hush"));
    }
}
