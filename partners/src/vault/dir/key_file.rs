//! Owns one key file: its name has the account and the channel of the key, and its content is the
//! secret. Pure. Invariant: no reported problem quotes the content.

use std::fmt::Display;

use payfold_schemas::ids::{KeyId, MerchantCode, PartnerCode};
use payfold_schemas::time::Time;
use toml::{Table, Value};
use zeroize::Zeroizing;

use crate::document::{KeyEntry, SERIAL_CHARS_MAX, is_printable};
use crate::keys::Channel;
use crate::secret::SECRET_BYTES_LEAST;
use crate::secret::{PEM, Secret};
use crate::vault::dir::problem::BadFile;

const NAME: &str = "PARTNER.MERCHANT.CHANNEL.KEYID";
const SECRET: &str = "write the secret as text:…, hex:… or base64:…, whichever the partner means";
const ITEMS: &str = "secret, valid_from, valid_until, serial, merchant_code and key_id";

/// A key, with its account.
#[derive(Debug)]
pub(super) struct VaultKeyFile {
    pub(super) name: String,
    pub(super) partner: PartnerCode,
    pub(super) merchant_code: MerchantCode,
    pub(super) key: KeyEntry,
    /// Whether the file has a `valid_from`. A key without one is valid from 1970 on.
    pub(super) has_beginning: bool,
}

/// Parses a key file. Its content is the secret alone (`text:…`, `hex:…`, `base64:…` or PEM, also
/// over several lines), or TOML with `secret` and the times. Errors: all problems of the file.
pub(super) fn parse(name: &str, bytes: &[u8]) -> Result<VaultKeyFile, Vec<String>> {
    let mut problems = FileProblems::default();
    let names = problems.ok_or_push(name_parts(name));
    let items = problems.ok_or_push(key_items(bytes));
    let (Some(names), Some(mut items)) = (names, items) else { return Err(problems.0) };

    let from = problems.ok_or_push(items.time("valid_from")).flatten();
    let until = problems.ok_or_push(items.time("valid_until")).flatten();
    let serial = problems.ok_or_push(items.serial()).flatten();
    let merchant = problems.ok_or_push(items.text("merchant_code")).flatten();
    let key_id = problems.ok_or_push(items.text("key_id")).flatten();
    problems.ok_or_push(items.check_rest(ITEMS));
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
    problems.ok_or_push(key.key(SECRET_BYTES_LEAST).map_err(|error| BadFile(error.to_string())));
    let (name, has_beginning) = (name.to_owned(), from.is_some());
    let file = VaultKeyFile { name, partner, merchant_code, key, has_beginning };
    if problems.0.is_empty() { Ok(file) } else { Err(problems.0) }
}

/// All problems of one file.
#[derive(Default)]
pub(super) struct FileProblems(pub(super) Vec<String>);

impl FileProblems {
    pub(super) fn ok_or_push<T>(&mut self, read: Result<T, BadFile>) -> Option<T> {
        read.map_err(|BadFile(problem)| self.0.push(problem)).ok()
    }

    fn usable<T, E: Display>(&mut self, what: &str, read: Result<T, E>) -> Option<T> {
        self.ok_or_push(read.map_err(|error| BadFile(format!("{what} can't be used: {error}"))))
    }
}

struct KeyFileName<'n> {
    partner: &'n str,
    merchant: &'n str,
    channel: Channel,
    key_id: &'n str,
}

/// Splits the name of a key file. Merchant codes and key ids may contain dots, so the name of the
/// channel marks the border between them.
fn name_parts(name: &str) -> Result<KeyFileName<'_>, BadFile> {
    let channels = Channel::ALL.map(Channel::name).join(", ");
    let no_key = || {
        BadFile(format!(
            "its name is not that of a key, which is {NAME}, such as acme.SHOP.ipn.2026-a \
             (channels: {channels}); rename or remove it"
        ))
    };
    let (partner, rest) = name.split_once('.').ok_or_else(no_key)?;
    let mut found = Vec::new();
    for (at, _) in rest.match_indices('.') {
        let Some((channel, key_id)) = rest[at + 1..].split_once('.') else { continue };
        let Some(channel) = Channel::from_name(channel) else { continue };
        if at > 0 && !key_id.is_empty() {
            found.push(KeyFileName { partner, merchant: &rest[..at], channel, key_id });
        }
    }
    match (found.pop(), found.is_empty()) {
        (Some(parts), true) => Ok(parts),
        (None, _) => Err(no_key()),
        (Some(_), false) => BadFile::err(
            "its name can be read in two ways, because it has a channel's name twice; give it \
             another name, and write merchant_code or key_id into the file",
        ),
    }
}

/// The content of a file. An item that was read is removed from `table`.
pub(super) struct KeyItems {
    pub(super) secret: Secret,
    table: Table,
}

impl KeyItems {
    fn text(&mut self, item: &str) -> Result<Option<String>, BadFile> {
        match self.table.remove(item) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(Value::Datetime(time)) => Ok(Some(time.to_string())),
            Some(_) => BadFile::err(format!("its {item} is not a text; put it into quotes")),
        }
    }

    pub(super) fn time(&mut self, item: &str) -> Result<Option<Time>, BadFile> {
        let Some(text) = self.text(item)? else { return Ok(None) };
        Time::parse(&text)
            .map(Some)
            .map_err(|error| BadFile(format!("its {item} can't be used: {error}")))
    }

    fn serial(&mut self) -> Result<Option<String>, BadFile> {
        let serial = self.text("serial")?;
        if serial.as_deref().is_none_or(|text| is_printable(text, SERIAL_CHARS_MAX)) {
            return Ok(serial);
        }
        BadFile::err(format!(
            "its serial is not up to {SERIAL_CHARS_MAX} printable ASCII characters"
        ))
    }

    /// Checks that every item was read. `known` names all that there may be.
    pub(super) fn check_rest(&self, known: &str) -> Result<(), BadFile> {
        match self.table.is_empty() {
            true => Ok(()),
            false => BadFile::err(format!("it has other items than {known}; remove them")),
        }
    }
}

/// Reads the content of a file. Errors: it is not understood.
pub(super) fn key_items(bytes: &[u8]) -> Result<KeyItems, BadFile> {
    let text =
        std::str::from_utf8(bytes).map_err(|_| BadFile(format!("it is not text; {SECRET}")))?;
    let alone = text.trim_end_matches(['\r', '\n']);
    if alone.trim().is_empty() {
        return BadFile::err(format!("it is empty; {SECRET}"));
    }
    if ["text:", "hex:", "base64:", PEM].iter().any(|encoding| alone.starts_with(encoding)) {
        return Ok(KeyItems { secret: read_secret(alone)?, table: Table::new() });
    }
    let mut table: Table = toml::from_str(text).map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        // The parser's own message would quote the line, which may be the secret.
        BadFile(format!("line {line} is not understood; {SECRET}, alone or as secret = \"text:…\""))
    })?;
    let Some(Value::String(written)) = table.remove("secret") else {
        return BadFile::err(format!("it has no secret = \"…\"; {SECRET}"));
    };
    let secret = read_secret(&Zeroizing::new(written))?;
    Ok(KeyItems { secret, table })
}

fn read_secret(text: &str) -> Result<Secret, BadFile> {
    Secret::parse(text).map_err(|_| BadFile(format!("its secret can't be read; {SECRET}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: &str = "text:hush, a secret of 24 bytes or more";

    fn problems(name: &str, content: &str) -> Vec<String> {
        parse(name, content.as_bytes()).map_or_else(|problems| problems, |_| Vec::new())
    }

    #[test]
    fn a_name_has_account_channel_and_key_id() {
        for (name, expected) in [
            ("acme.SHOP.ipn.a", "acme/SHOP ipn a"),
            ("acme-2.SHOP.1.return.2026.b", "acme-2/SHOP.1 return 2026.b"),
            ("acme.ipn.create.x_1", "acme/ipn create x_1"),
            ("acme.SHOP.unwrap.k", "acme/SHOP unwrap k"),
        ] {
            let file = parse(name, LONG.as_bytes()).unwrap();
            let VaultKeyFile { partner, merchant_code, key, has_beginning, .. } = file;
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
            assert!(problems(name, LONG)[0].contains("its name is not that of a key"), "{name}");
        }
        assert!(problems("acme.SHOP.ipn.ipn.a", LONG)[0].contains("two ways"));
        assert!(problems("ACME.SHOP.ipn.a", LONG)[0].contains("its name's partner can't be used"));
    }

    #[test]
    fn a_file_may_have_the_times_of_its_key() {
        let content = "secret = 'base64:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz'\n\
            valid_from = 2026-01-31T10:00:00Z\nvalid_until = \"2026-02-01T00:00:00+07:00\"\n\
            serial = \"7\"\nmerchant_code = \"SHOP:1\"\nkey_id = \"a:b\"\n";
        let VaultKeyFile { merchant_code, key, has_beginning, .. } =
            parse("acme.S.ipn.a", content.as_bytes()).unwrap();
        assert_eq!((merchant_code.as_str(), key.id.as_str()), ("SHOP:1", "a:b"));
        assert_eq!(key.secret.expose(), b"012345678901234567890123");
        assert_eq!(key.valid_from, Time::parse("2026-01-31T10:00:00Z").unwrap());
        assert_eq!(key.valid_until, Some(Time::parse("2026-01-31T17:00:00Z").unwrap()));
        assert_eq!((key.serial.as_deref(), has_beginning), (Some("7"), true));
    }

    #[test]
    fn a_secret_of_several_lines_is_read_unchanged() {
        let pem = "text:-----BEGIN KEY-----\nAAAAAAAAAAAAAAAAAAAA\n-----END KEY-----\n";
        let file = parse("acme.S.ipn.a", pem.as_bytes()).unwrap();
        assert_eq!(file.key.secret.expose(), pem[5..].trim_end().as_bytes());
    }

    #[test]
    fn all_problems_are_reported_without_the_content() {
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
                "secret = 'text:hush'\nhush = 1\nserial = 'é'\nvalid_from = 2026-01-31\n\
                 valid_until = 7",
                vec![
                    "valid_from can't",
                    "valid_until is not a text",
                    "serial is not",
                    "has other items than",
                    "4 bytes",
                ],
            ),
            (
                "secret = 'text:hush hush hush hush hush'\nvalid_from = 2026-01-31T00:00:00Z\n\
                 valid_until = 2026-01-30T00:00:00Z",
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
