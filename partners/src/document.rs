//! Owns the content of the vault: our accounts with their keys, and the hashes of the admin tokens. Pure.
//! A key is never removed: a signature must be checkable years later. Retiring gives it an end.

use ipnet::IpNet;
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{Author, KeyId, MerchantCode, PartnerCode};
use payfold_schemas::time::Time;
use serde::{Deserialize, Serialize};

use crate::keys::{Channel, Key, KeyError, KeySet};
use crate::secret::Secret;

/// The version of the document this program writes.
pub const DOCUMENT_VERSION: u32 = 1;

/// What the vault holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VaultDocument {
    /// `DOCUMENT_VERSION`.
    pub version: u32,
    /// Our accounts; their places are stable, new ones come last.
    #[serde(default)]
    pub accounts: Vec<AccountEntry>,
    /// Who may use the admin listener.
    #[serde(default)]
    pub tokens: Vec<TokenEntry>,
}

/// One of our accounts at a partner.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountEntry {
    /// Which partner.
    pub partner: PartnerCode,
    /// Which account there.
    pub merchant_code: MerchantCode,
    /// A disabled account is as unknown as one that isn't there.
    pub enabled: bool,
    /// Where its notices may come from; empty = from anywhere.
    #[serde(default)]
    pub allow_sources: Vec<IpNet>,
    /// How many signed notices a second it may send; absent = no limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_per_s: Option<u32>,
    /// Its keys, the oldest first.
    #[serde(default)]
    pub keys: Vec<KeyEntry>,
}

/// One key of an account.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyEntry {
    /// Its name.
    pub id: KeyId,
    /// What it signs.
    pub channel: Channel,
    /// The shared secret.
    pub secret: Secret,
    /// From when it counts.
    pub valid_from: Time,
    /// Until when it counts; absent = until retired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_until: Option<Time>,
    /// When it was added.
    pub created_at: Time,
}

/// One admin token; the token itself is not kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenEntry {
    /// Whose: the author of what is done with it.
    pub name: Author,
    /// The SHA-256 of the token.
    pub sha256: Digest,
}

/// A key to add.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// Its name.
    pub id: KeyId,
    /// The shared secret.
    pub secret: Secret,
    /// From when it counts.
    pub valid_from: Time,
    /// How long the keys it replaces still count after that, in ms.
    pub overlap_ms: i64,
    /// The time of adding.
    pub created_at: Time,
}

/// Why the document can't be changed that way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// No such account.
    #[error("no account {partner}/{merchant_code} in the vault; add it first")]
    UnknownAccount {
        /// Which partner.
        partner: PartnerCode,
        /// Which account there.
        merchant_code: MerchantCode,
    },
    /// There is one already.
    #[error("account {partner}/{merchant_code} is in the vault already")]
    KnownAccount {
        /// Which partner.
        partner: PartnerCode,
        /// Which account there.
        merchant_code: MerchantCode,
    },
    /// No such key.
    #[error("no key {id} in this account; list its keys to see their ids")]
    UnknownKey {
        /// Which key.
        id: KeyId,
    },
    /// A token of this name.
    #[error("a token named {name} is in the vault already; choose another name")]
    KnownToken {
        /// Whose.
        name: Author,
    },
    /// An overlap before its beginning.
    #[error("an overlap can't be negative; give 0 to end the old keys at once")]
    Overlap,
    /// The key, or the keys together, can't be used.
    #[error(transparent)]
    Key(#[from] KeyError),
}

impl Default for VaultDocument {
    fn default() -> Self {
        Self { version: DOCUMENT_VERSION, accounts: Vec::new(), tokens: Vec::new() }
    }
}

impl AccountEntry {
    /// An enabled account without keys, open to any source.
    pub fn new(partner: PartnerCode, merchant_code: MerchantCode) -> Self {
        Self {
            partner,
            merchant_code,
            enabled: true,
            allow_sources: Vec::new(),
            rate_per_s: None,
            keys: Vec::new(),
        }
    }

    /// Its keys of the IPN channel, ready to verify with. Errors: the first `KeyError`.
    pub fn key_set(&self) -> Result<KeySet, KeyError> {
        let of_channel = self.keys.iter().filter(|key| key.channel == Channel::Ipn);
        KeySet::new(of_channel.map(KeyEntry::key).collect::<Result<_, _>>()?)
    }

    /// Adds a key; from its beginning on, those of its channel that still count have the overlap left.
    /// On an error nothing has changed. Errors: `Key`, `Overlap`.
    pub fn add_key(&mut self, new: NewKey) -> Result<(), DocumentError> {
        if new.overlap_ms < 0 {
            return Err(DocumentError::Overlap);
        }
        let end = new.valid_from.plus_ms(new.overlap_ms);
        let mut changed = self.clone();
        for key in changed.keys.iter_mut().filter(|key| key.channel == Channel::Ipn) {
            key.end_at(end);
        }
        changed.keys.push(KeyEntry {
            id: new.id,
            channel: Channel::Ipn,
            secret: new.secret,
            valid_from: new.valid_from,
            valid_until: None,
            created_at: new.created_at,
        });
        changed.key_set()?;
        *self = changed;
        Ok(())
    }

    /// Ends a key at `at`; an earlier end stays. Errors: `UnknownKey`.
    pub fn retire_key(&mut self, id: &KeyId, at: Time) -> Result<(), DocumentError> {
        let key = self.keys.iter_mut().find(|key| key.id == *id);
        key.ok_or_else(|| DocumentError::UnknownKey { id: id.clone() })?.end_at(at);
        Ok(())
    }
}

impl KeyEntry {
    fn key(&self) -> Result<Key, KeyError> {
        Key::new(self.id.clone(), &self.secret, self.valid_from, self.valid_until)
    }

    /// Ends it at `at`, never later than before and never before it begins.
    fn end_at(&mut self, at: Time) {
        let end = self.valid_until.map_or(at, |until| until.min(at));
        self.valid_until = Some(end.max(self.valid_from));
    }
}

impl VaultDocument {
    /// One account.
    pub fn account(&self, partner: &PartnerCode, merchant: &MerchantCode) -> Option<&AccountEntry> {
        self.accounts.iter().find(|a| a.partner == *partner && a.merchant_code == *merchant)
    }

    /// One account, to change it. Errors: `UnknownAccount`.
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

    /// Adds the hash of an admin token. Errors: `KnownToken`.
    pub fn add_token(&mut self, token: TokenEntry) -> Result<(), DocumentError> {
        if self.tokens.iter().any(|other| other.name == token.name) {
            return Err(DocumentError::KnownToken { name: token.name });
        }
        self.tokens.push(token);
        Ok(())
    }

    /// Whose token this is. The tokens' hashes are compared, so timing tells nothing of a token.
    pub fn author(&self, token: &[u8]) -> Option<&Author> {
        let sha256 = Digest::of_bytes(token);
        self.tokens.iter().find(|known| known.sha256 == sha256).map(|known| &known.name)
    }
}
