//! Owns the document in the vault: our accounts with their keys, the admin tokens and the shops, by
//! the hashes of their tokens. Pure. A key is never removed, so that a signature can be verified
//! years later. Only a body key can be destroyed, and a record of it stays.

mod bodies;
mod erased;
pub(crate) mod error;
mod record_keys;

use std::collections::BTreeMap;

use ipnet::IpNet;
use payfold_schemas::ids::{KeyId, MerchantCode, PartnerCode, account_name};
use payfold_schemas::record_keys::{RecordBaseline, RecordKeyEnd};
use payfold_schemas::time::Time;
use serde::{Deserialize, Serialize};

use crate::identity::ClientCertificate;
use crate::key_window::KeyWindow;
use crate::keys::{Channel, Key, KeyError, KeySet, covered_until};
use crate::record_key::RecordKeyEntry;
use crate::scheme::crypt::certificate_ends_s;
use crate::secret::{SECRET_BYTES_LEAST, Secret};
use crate::shops::entry::ShopEntry;
use crate::token::TokenEntry;

pub use self::error::DocumentError;
pub use crate::document::erased::{ErasedKey, ErasureAgreement, ErasureProposal};

/// The version of the document this program writes.
pub(crate) const DOCUMENT_VERSION: u32 = 1;

/// The document in the vault.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VaultDocument {
    /// `DOCUMENT_VERSION`.
    pub version: u32,
    /// Our accounts. Their indexes are stable; new accounts come last.
    #[serde(default)]
    pub accounts: Vec<AccountEntry>,
    /// The tokens of the admin listener.
    #[serde(default)]
    pub tokens: Vec<TokenEntry>,
    /// The callers of the shop listener.
    #[serde(default)]
    pub shops: Vec<ShopEntry>,
    /// The keys with which roles prove what they wrote.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub record_keys: Vec<RecordKeyEntry>,
    /// Up to where each log has messages from before there were record keys.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub record_baselines: Vec<RecordBaseline>,
    /// The record keys that were ended, in each log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub record_key_ends: Vec<RecordKeyEnd>,
}

/// One of our accounts at a partner.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountEntry {
    /// The partner's code.
    pub partner: PartnerCode,
    /// Our account's code at the partner.
    pub merchant_code: MerchantCode,
    /// Whether its notices are accepted; if not, they are refused like those of an unknown account.
    pub enabled: bool,
    /// The networks that its notices may come from; empty for any.
    #[serde(default)]
    pub allow_sources: Vec<IpNet>,
    /// The most signed notices that it may send in a second; absent if it has no limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<u32>,
    /// Values that the partner assigned to the account, by name, such as the id of an access key.
    /// They are not secret.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub constants: BTreeMap<String, String>,
    /// Its keys, the oldest first.
    #[serde(default)]
    pub keys: Vec<KeyEntry>,
    /// The body keys that were destroyed. The bytes that they sealed can't be read any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub erased: Vec<ErasedKey>,
    /// What one person has proposed to destroy, and no second person has agreed to yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub erasure_proposals: Vec<ErasureProposal>,
}

/// One key of an account.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyEntry {
    /// The key's id.
    pub id: KeyId,
    /// The key's use.
    pub channel: Channel,
    /// The shared secret, or the PEM of a private key.
    pub secret: Secret,
    /// The beginning of its validity, inclusive.
    pub valid_from: Time,
    /// The end of its validity, exclusive; absent until the key is replaced or retired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until: Option<Time>,
    /// The partner's name of the key, if its notices name the key that signed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// When the key was added.
    pub created_at: Time,
}

/// A key to add.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// The key's id.
    pub id: KeyId,
    /// The key's use.
    pub channel: Channel,
    /// The shared secret, or the PEM of a private key.
    pub secret: Secret,
    /// The beginning of its validity.
    pub valid_from: Time,
    /// How long the keys that it replaces stay valid after that, in ms; if it began in the past,
    /// after it is added.
    pub overlap_ms: i64,
    /// When the key is added.
    pub created_at: Time,
}

impl NewKey {
    /// When the keys that it replaces end.
    fn earlier_end(&self) -> Time {
        self.valid_from.max(self.created_at).plus_ms(self.overlap_ms)
    }

    /// Whether it replaces a key: one of its channel that begins no later.
    fn replaces(&self, key: &KeyEntry) -> bool {
        key.channel == self.channel && key.valid_from <= self.valid_from
    }
}

impl Default for VaultDocument {
    fn default() -> Self {
        Self {
            version: DOCUMENT_VERSION,
            accounts: Vec::new(),
            tokens: Vec::new(),
            shops: Vec::new(),
            record_keys: Vec::new(),
            record_baselines: Vec::new(),
            record_key_ends: Vec::new(),
        }
    }
}

impl AccountEntry {
    /// `partner/merchantCode`.
    pub fn name(&self) -> String {
        account_name(&self.partner, &self.merchant_code)
    }

    /// An enabled account without keys, open to any source.
    pub fn new(partner: PartnerCode, merchant_code: MerchantCode) -> Self {
        Self {
            partner,
            merchant_code,
            enabled: true,
            allow_sources: Vec::new(),
            rate_per_s: None,
            constants: BTreeMap::new(),
            keys: Vec::new(),
            erased: Vec::new(),
            erasure_proposals: Vec::new(),
        }
    }

    /// Its keys of one channel, ready to verify and sign. `least` is the shortest accepted secret,
    /// in bytes. Errors: the first `KeyError`.
    pub(crate) fn key_set_of(&self, channel: Channel, least: usize) -> Result<KeySet, KeyError> {
        let of_channel = self.keys.iter().filter(|key| key.channel == channel);
        KeySet::new(of_channel.map(|key| key.key(least)).collect::<Result<_, _>>()?)
    }

    /// Adds a key. The keys of its channel that begin no later than it end after the overlap, or
    /// earlier if they did before; one that begins later stays as it is. Errors: `Key`, `Overlap`;
    /// the account is then unchanged.
    pub fn add_key(&mut self, new: NewKey) -> Result<(), DocumentError> {
        if new.overlap_ms < 0 {
            return Err(DocumentError::Overlap);
        }
        let end = new.earlier_end();
        let mut changed = self.clone();
        for key in changed.keys.iter_mut().filter(|key| new.replaces(key)) {
            key.end_at(end);
        }
        changed.keys.push(KeyEntry {
            id: new.id,
            channel: new.channel,
            secret: new.secret,
            valid_from: new.valid_from,
            valid_until: None,
            serial: None,
            created_at: new.created_at,
        });
        // The profile decides whether a short secret is accepted. It is not known here, so the
        // shortest secret of any scheme is allowed.
        changed.key_set_of(new.channel, SECRET_BYTES_LEAST)?;
        *self = changed;
        Ok(())
    }

    /// Ends a key at `at`; an earlier end stays. Returns its end. Errors: `UnknownKey`.
    pub fn retire_key(&mut self, id: &KeyId, at: Time) -> Result<Time, DocumentError> {
        Ok(self.key_mut(id)?.end_at(at))
    }

    /// Sets the partner's name of a key. Errors: `UnknownKey`, `Serial`.
    pub fn set_serial(&mut self, id: &KeyId, serial: &str) -> Result<(), DocumentError> {
        if !is_printable(serial, SERIAL_CHARS_MAX) {
            return Err(DocumentError::Serial { id: id.clone() });
        }
        self.key_mut(id)?.serial = Some(serial.to_owned());
        Ok(())
    }

    /// The key with this id. Errors: `UnknownKey`.
    pub fn key(&self, id: &KeyId) -> Result<&KeyEntry, DocumentError> {
        let key = self.keys.iter().find(|key| key.id == *id);
        key.ok_or_else(|| DocumentError::UnknownKey { id: id.clone() })
    }

    /// The time until which some key of a channel is valid without a gap, from `now` on: `now`
    /// itself if none is valid now, `None` if one has no end.
    pub fn covered_until(&self, channel: Channel, now: Time) -> Option<Time> {
        covered_until(now, |at| {
            let of_channel = self.keys.iter().filter(|key| key.channel == channel);
            of_channel.filter(|key| key.is_valid_at(at)).map(KeyEntry::ends).collect()
        })
    }

    fn key_mut(&mut self, id: &KeyId) -> Result<&mut KeyEntry, DocumentError> {
        let key = self.keys.iter_mut().find(|key| key.id == *id);
        key.ok_or_else(|| DocumentError::UnknownKey { id: id.clone() })
    }

    /// Sets the value of a constant. Errors: `Constant`.
    pub fn set_constant(&mut self, name: &str, value: &str) -> Result<(), DocumentError> {
        check_constant(name, value)?;
        self.constants.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    /// The keys beside a new key that begin later than it and have not ended.
    pub fn keys_after(&self, new: &NewKey) -> Vec<KeyId> {
        let later = self.keys.iter().filter(|key| {
            let begins_later = key.channel == new.channel && key.valid_from > new.valid_from;
            begins_later && key.is_valid_after(new.created_at)
        });
        later.map(|key| key.id.clone()).collect()
    }

    /// The keys that a new key would end earlier than they end now.
    pub fn keys_cut_by(&self, new: &NewKey) -> Vec<&KeyId> {
        let end = new.earlier_end();
        let cut = self.keys.iter().filter(|key| {
            let lasts = key.valid_until.is_none_or(|until| end < until);
            new.replaces(key) && lasts
        });
        cut.map(|key| &key.id).collect()
    }
}

pub(crate) const SERIAL_CHARS_MAX: usize = 128;

pub(crate) fn is_printable(text: &str, chars_max: usize) -> bool {
    (1..=chars_max).contains(&text.len()) && text.bytes().all(|b| matches!(b, b' '..=b'~'))
}

/// Checks a constant. Errors: `Constant`.
pub(crate) fn check_constant(name: &str, value: &str) -> Result<(), DocumentError> {
    let in_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    let named = (1..=64).contains(&name.len()) && name.bytes().all(in_name);
    if named && is_printable(value, 256) {
        return Ok(());
    }
    Err(DocumentError::Constant { name: name.to_owned() })
}

impl KeyEntry {
    pub(crate) fn key(&self, least: usize) -> Result<Key, KeyError> {
        let certificate = self.certificate_ends().map(|end| end.max(self.valid_from));
        let window = (self.valid_from, self.valid_until.into_iter().chain(certificate).min());
        Key::of_channel((self.channel, least), self.id.clone(), &self.secret, window)
    }

    /// The end of its validity: `valid_until`, or the end of its certificate if that is earlier.
    pub fn ends(&self) -> Option<Time> {
        self.valid_until.into_iter().chain(self.certificate_ends()).min()
    }

    fn certificate_ends(&self) -> Option<Time> {
        match self.channel {
            Channel::Tls => ClientCertificate::read(&self.secret).ok().map(|read| read.ends),
            _ => certificate_ends_s(self.secret.expose())
                .map(|seconds| Time::from_unix_ms(seconds.saturating_mul(1_000))),
        }
    }

    /// Whether the key is valid at `now`.
    pub fn is_valid_at(&self, now: Time) -> bool {
        self.window().is_valid_at(now)
    }

    /// Whether the key is valid at some time from `now` on.
    pub fn is_valid_after(&self, now: Time) -> bool {
        self.window().is_valid_after(now)
    }

    fn window(&self) -> KeyWindow {
        KeyWindow { begins: self.valid_from, ends: self.ends() }
    }

    /// Ends the key at `at`, but never later than before, and never before it begins. Returns its
    /// end.
    fn end_at(&mut self, at: Time) -> Time {
        let end = self.valid_until.map_or(at, |until| until.min(at)).max(self.valid_from);
        self.valid_until = Some(end);
        end
    }
}

impl VaultDocument {
    /// The account with these codes.
    pub fn account(&self, partner: &PartnerCode, merchant: &MerchantCode) -> Option<&AccountEntry> {
        self.accounts.iter().find(|a| a.partner == *partner && a.merchant_code == *merchant)
    }

    /// The account with these codes, to change it. Errors: `UnknownAccount`.
    pub fn account_mut(
        &mut self,
        partner: &PartnerCode,
        merchant: &MerchantCode,
    ) -> Result<&mut AccountEntry, DocumentError> {
        let mut accounts = self.accounts.iter_mut();
        accounts.find(|a| a.partner == *partner && a.merchant_code == *merchant).ok_or_else(|| {
            DocumentError::UnknownAccount {
                partner: partner.clone(),
                merchant_code: merchant.clone(),
            }
        })
    }

    /// Adds an account. Errors: `KnownAccount`.
    pub fn add_account(&mut self, account: AccountEntry) -> Result<(), DocumentError> {
        if self.account(&account.partner, &account.merchant_code).is_some() {
            let AccountEntry { partner, merchant_code, .. } = account;
            return Err(DocumentError::KnownAccount { partner, merchant_code });
        }
        self.accounts.push(account);
        Ok(())
    }

    /// Gives every account of `before` the index that it has there, because rate limits are
    /// kept by index. An account that is gone is replaced by a disabled one without keys. New
    /// accounts come last.
    pub fn keep_indexes<'a>(
        &mut self,
        before: impl Iterator<Item = (&'a PartnerCode, &'a MerchantCode)>,
    ) {
        let mut unplaced = std::mem::take(&mut self.accounts);
        for (partner, merchant) in before {
            let is_it = |a: &AccountEntry| a.partner == *partner && a.merchant_code == *merchant;
            let found = unplaced.iter().position(is_it).map(|index| unplaced.remove(index));
            self.accounts.push(found.unwrap_or_else(|| AccountEntry {
                enabled: false,
                ..AccountEntry::new(partner.clone(), merchant.clone())
            }));
        }
        self.accounts.append(&mut unplaced);
    }

    /// Adds the hash of an admin token. Errors: `KnownToken`.
    pub fn add_token(&mut self, token: TokenEntry) -> Result<(), DocumentError> {
        let is_known =
            |other: &TokenEntry| other.name == token.name || other.sha256 == token.sha256;
        if self.tokens.iter().any(is_known) {
            return Err(DocumentError::KnownToken { name: token.name });
        }
        self.tokens.push(token);
        Ok(())
    }

    /// Removes a token. Returns whether there was one.
    pub fn retire_token(&mut self, name: &str) -> bool {
        let before = self.tokens.len();
        self.tokens.retain(|token| token.name.as_str() != name);
        self.tokens.len() < before
    }
}

#[cfg(test)]
mod tests {
    use payfold_schemas::digest::Digest;
    use payfold_schemas::ids::Author;

    use super::*;
    use payfold_schemas::token::TokenRole;

    fn at(second: i64) -> Time {
        Time::from_unix_ms(second * 1_000)
    }

    fn shop() -> AccountEntry {
        let merchant = MerchantCode::parse("SHOP").unwrap();
        AccountEntry::new(PartnerCode::parse("acme").unwrap(), merchant)
    }

    fn new_key(id: &str, from: i64, overlap_ms: i64) -> NewKey {
        let secret = Secret::from_bytes(format!("hush, the secret of key {id}").into_bytes());
        let id = KeyId::parse(id).unwrap();
        NewKey {
            id,
            channel: Channel::Ipn,
            secret,
            valid_from: at(from),
            overlap_ms,
            created_at: at(0),
        }
    }

    /// `id from-until` of every key, in seconds.
    fn windows(account: &AccountEntry) -> Vec<String> {
        let window = |key: &KeyEntry| {
            let until =
                key.valid_until.map_or(String::new(), |t| (t.unix_ms() / 1_000).to_string());
            format!("{} {}-{until}", key.id, key.valid_from.unix_ms() / 1_000)
        };
        account.keys.iter().map(window).collect()
    }

    #[test]
    fn a_new_key_leaves_the_old_ones_their_overlap() {
        let mut account = shop();
        account.add_key(new_key("a", 10, 0)).unwrap();
        account.add_key(new_key("b", 20, 5_000)).unwrap();
        assert_eq!(windows(&account), ["a 10-25", "b 20-"]);
        account.add_key(new_key("c", 22, 10_000)).unwrap();
        assert_eq!(windows(&account), ["a 10-25", "b 20-32", "c 22-"]);
        // A key that is planned, or in use although it began later, must not end unnoticed.
        account.add_key(new_key("d", 15, 1_000)).unwrap();
        assert_eq!(windows(&account), ["a 10-16", "b 20-32", "c 22-", "d 15-"]);
        let later = |created_at| {
            let ids = account.keys_after(&NewKey { created_at, ..new_key("e", 15, 0) });
            ids.iter().map(|id| id.to_string()).collect::<Vec<_>>()
        };
        assert_eq!((later(at(15)).join(" "), later(at(32)).join(" ")), ("b c".into(), "c".into()));
        account.retire_key(&KeyId::parse("d").unwrap(), at(40)).unwrap();
        account.retire_key(&KeyId::parse("d").unwrap(), at(50)).unwrap();
        assert_eq!(windows(&account)[3], "d 15-40");
    }

    #[test]
    fn a_key_that_began_in_the_past_leaves_the_overlap_from_now_on() {
        let mut account = shop();
        account.add_key(new_key("a", 10, 0)).unwrap();
        let late = NewKey { created_at: at(100), ..new_key("b", 20, 5_000) };
        assert_eq!(account.keys_cut_by(&late).len(), 1);
        account.add_key(late).unwrap();
        assert_eq!(windows(&account), ["a 10-105", "b 20-"]);
    }

    #[test]
    fn a_refused_key_changes_nothing() {
        let mut account = shop();
        account.add_key(new_key("a", 10, 0)).unwrap();
        let short = NewKey { secret: Secret::from_bytes(vec![1; 8]), ..new_key("b", 20, 0) };
        assert!(matches!(
            account.add_key(short),
            Err(DocumentError::Key(KeyError::TooShort { .. }))
        ));
        let twice = account.add_key(new_key("a", 20, 0));
        assert!(matches!(twice, Err(DocumentError::Key(KeyError::Duplicate { .. }))));
        assert_eq!(account.add_key(new_key("b", 20, -1)), Err(DocumentError::Overlap));
        let unknown = KeyId::parse("z").unwrap();
        let error = DocumentError::UnknownKey { id: unknown.clone() };
        assert_eq!(account.retire_key(&unknown, at(1)), Err(error));
        assert_eq!(windows(&account), ["a 10-"]);
    }

    #[test]
    fn constants_and_serials_are_short_printable_texts() {
        let mut account = shop();
        account.add_key(new_key("a", 10, 0)).unwrap();
        for (name, value) in [("app.id", "1"), ("_x", " a=b~"), ("x", &"y".repeat(256))] {
            account.set_constant(name, value).unwrap();
        }
        for (name, value) in [("", "1"), ("a b", "1"), ("x", ""), ("x", "é"), ("x", "a\n")] {
            let error = DocumentError::Constant { name: name.to_owned() };
            assert_eq!(account.set_constant(name, value), Err(error), "{name}={value}");
        }
        assert_eq!(account.constants.len(), 3);
        let a = KeyId::parse("a").unwrap();
        account.set_serial(&a, "01").unwrap();
        let refused = Err(DocumentError::Serial { id: a.clone() });
        assert_eq!(account.set_serial(&a, "\t"), refused);
        assert_eq!(account.keys[0].serial.as_deref(), Some("01"));
    }

    #[test]
    fn a_new_key_ends_the_keys_that_would_be_valid_longer() {
        let mut account = shop();
        let cut = |account: &AccountEntry, channel, from| {
            let ids = account.keys_cut_by(&NewKey { channel, ..new_key("new", from, 5_000) });
            ids.iter().map(|id| id.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(cut(&account, Channel::Ipn, 10), [""; 0]);
        account.add_key(new_key("a", 10, 0)).unwrap();
        assert_eq!(cut(&account, Channel::Ipn, 20), ["a"]);
        assert_eq!(cut(&account, Channel::Create, 20), [""; 0]);
        assert_eq!(cut(&account, Channel::Ipn, 10), ["a"]);
        assert_eq!(cut(&account, Channel::Ipn, 9), [""; 0], "it begins later");
        account.retire_key(&KeyId::parse("a").unwrap(), at(25)).unwrap();
        assert_eq!(cut(&account, Channel::Ipn, 20), [""; 0], "it ends by then anyway");
        assert_eq!(cut(&account, Channel::Ipn, 19), ["a"]);
    }

    #[test]
    fn accounts_and_tokens_are_unique() {
        let mut document = VaultDocument::default();
        document.add_account(shop()).unwrap();
        assert!(matches!(document.add_account(shop()), Err(DocumentError::KnownAccount { .. })));
        let AccountEntry { partner, merchant_code, .. } = shop();
        document.account_mut(&partner, &merchant_code).unwrap().enabled = false;
        assert!(!document.account(&partner, &merchant_code).unwrap().enabled);
        let other = MerchantCode::parse("shop").unwrap();
        let error = DocumentError::UnknownAccount {
            partner: partner.clone(),
            merchant_code: other.clone(),
        };
        assert_eq!(document.account_mut(&partner, &other).unwrap_err(), error);

        let name = Author::parse("ada").unwrap();
        let sha256 = Digest::of_bytes(b"token");
        let token = TokenEntry { name, sha256, role: TokenRole::Viewer };
        document.add_token(token.clone()).unwrap();
        assert!(matches!(document.add_token(token), Err(DocumentError::KnownToken { .. })));
        assert!(TokenEntry::find(&document.tokens, b"token").is_some());
        assert!(TokenEntry::find(&document.tokens, b"Token").is_none());
    }

    #[test]
    fn an_account_keeps_its_index_when_others_come_and_go() {
        let partner = PartnerCode::parse("acme").unwrap();
        let merchants = |names: &[&str]| -> Vec<MerchantCode> {
            names.iter().map(|name| MerchantCode::parse(name).unwrap()).collect()
        };
        let mut document = VaultDocument::default();
        for merchant in merchants(&["A", "B", "D"]) {
            document.add_account(AccountEntry::new(partner.clone(), merchant)).unwrap();
        }
        let before = merchants(&["B", "C"]);
        document.keep_indexes(before.iter().map(|merchant| (&partner, merchant)));
        let places: Vec<_> =
            document.accounts.iter().map(|a| (a.merchant_code.as_str(), a.enabled)).collect();
        assert_eq!(places, [("B", true), ("C", false), ("A", true), ("D", true)]);
    }

    #[test]
    fn it_reads_what_it_writes_and_nothing_else() {
        let mut account = shop();
        account.add_key(new_key("a", 10, 0)).unwrap();
        account.add_key(new_key("b", 20, 5_000)).unwrap();
        account.allow_sources =
            vec!["203.0.113.0/24".parse().unwrap(), "2001:db8::/32".parse().unwrap()];
        account.rate_per_s = Some(50);
        account.set_constant("accessKey", "F8BBA842").unwrap();
        account.set_serial(&KeyId::parse("b").unwrap(), "2").unwrap();
        let mut document = VaultDocument::default();
        document.add_account(account).unwrap();
        let text = toml::to_string(&document).unwrap();
        let read: VaultDocument = toml::from_str(&text).unwrap();
        assert_eq!(toml::to_string(&read).unwrap(), text);
        assert_eq!(read.accounts[0].keys[0].secret.expose(), b"hush, the secret of key a");
        assert!(!format!("{document:?}").contains("hush"));
        assert!(toml::from_str::<VaultDocument>(&format!("rate = 1\n{text}")).is_err());
        assert!(toml::from_str::<VaultDocument>(&text.replace("SHOP", "SH|OP")).is_err());
    }
}
