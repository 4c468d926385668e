//! Owns the audit of stored notices: whether each is what a partner signed, years later, and whether what is recorded of
//! it is what was signed. Pure. Invariants: a notice is judged with the key and under the profile that are recorded, those
//! of switched-off accounts too, and with no other; what can't be judged is never taken for verified.

use std::collections::HashMap;

use payfold_partners::directory::Directory;
use payfold_partners::document::{AccountEntry, VaultDocument};
use payfold_partners::keys::Channel;
use payfold_partners::profile::Profile;
use payfold_partners::scheme::Scheme;
use payfold_partners::sealing::{BodyKeys, Opened, SealError};
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{KeyId, OrderKey, PartnerCode};
use payfold_schemas::ipn::Ipn;
use payfold_schemas::record::NoticeSource;
use payfold_schemas::sealed::Delivery;
use payfold_schemas::time::Time;

use crate::admit::Judged;
use crate::again::{self, Kept};

/// A notice as it is stored.
#[derive(Clone, Copy, Debug)]
pub struct Stored<'a> {
    /// Whose it is: `partner/merchantCode`.
    pub account: &'a str,
    /// Profile, key and request.
    pub source: &'a NoticeSource,
    /// The body as it came, or sealed.
    pub raw: &'a [u8],
    /// The key it is sealed with.
    pub raw_key_id: Option<&'a KeyId>,
    /// What it is bound to then.
    pub delivery: Delivery<'a>,
    /// When it came.
    pub received_at: Time,
    /// What is recorded of it, if it is a fact.
    pub says: Option<(&'a OrderKey, &'a Ipn)>,
}

/// What the audit makes of a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The recorded key signed these very bytes, and they say what is recorded.
    Verified,
    /// Its partner's scheme signs nothing; it says what is recorded.
    Unsigned,
    /// Not judged: the key is not in the vault.
    NoKey,
    /// Not judged: no profile of the recorded digest is at hand.
    NoProfile,
    /// Not judged: its bytes were erased.
    Erased(KeyId),
    /// Not judged: the key its bytes are sealed with is not in the vault.
    NoBodyKey(KeyId),
    /// Not judged: key and profile don't fit together as the vault is today.
    Unusable(String),
    /// It is not what was signed.
    Fails(Failure),
}

/// Why a stored notice can't be what came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The bytes are others, or what the account has is.
    #[error(
        "the recorded key did not sign it: its bytes, or the account's constants or our public_url, are not what they were"
    )]
    NotSigned,
    /// The key of its month does not open it.
    #[error("its sealed bytes are not what was stored")]
    NotOpened,
    /// The key's validity was changed since, or the time is not the true one.
    #[error("the recorded key signed it, and does not count at the time it is said to have come")]
    KeyNotValid,
    /// The parts of the record are others.
    #[error("what is recorded of it is not what was signed")]
    SaysOther,
}

/// One key of one account under one profile.
type Judge = (String, KeyId, Digest);

/// Judges stored notices, one after the other.
pub struct Auditor {
    profiles: HashMap<Digest, String>,
    vault: VaultDocument,
    base_url: String,
    directories: HashMap<Judge, Result<[Directory; 2], Outcome>>,
    body_keys: HashMap<String, BodyKeys>,
}

impl Auditor {
    /// With the texts of all profiles at hand, by digest, and our address as partners know it.
    pub fn new(profiles: HashMap<Digest, String>, vault: VaultDocument, base_url: String) -> Self {
        let keys = |entry: &AccountEntry| (entry.name(), BodyKeys::of(entry));
        let body_keys = vault.accounts.iter().map(keys).collect();
        Self { profiles, vault, base_url, directories: HashMap::new(), body_keys }
    }

    /// Judges one.
    pub fn judge(&mut self, stored: Stored<'_>) -> Outcome {
        let Stored { account, source, received_at, .. } = stored;
        let Opened { request, raw } = match self.opened(&stored) {
            Ok(opened) => opened,
            Err(outcome) => return outcome,
        };
        let judge = (account.to_owned(), source.key_id.clone(), source.profile.digest);
        if !self.directories.contains_key(&judge) {
            let made = self.directories(account, source);
            self.directories.insert(judge.clone(), made);
        }
        let [as_it_was, at_any_time] = match &self.directories[&judge] {
            Ok(directories) => directories,
            Err(outcome) => return outcome.clone(),
        };
        let kept = Kept { source, request: &request, raw: &raw, received_at };
        let verify = |directory| {
            let again = again::verify(directory, &self.base_url, kept);
            again.filter(|again| again.is_of(account, &source.key_id))
        };
        let Some(again) = verify(as_it_was) else {
            let late = verify(at_any_time).is_some();
            return Outcome::Fails(if late { Failure::KeyNotValid } else { Failure::NotSigned });
        };
        let same_sign = source.request.sign.is_none()
            || again.source(&source.request).request.sign == source.request.sign;
        // Older programs admitted such currencies: what such a notice says is not read anew.
        let currency = stored.says.map(|(_, ipn)| ipn.money.currency);
        if let Some(code) = currency.filter(|code| !code.has_minor_units()) {
            return Outcome::Unusable(format!(
                "the recorded key signed it, but what it says is not judged: {code} has no minor units and is no longer admitted"
            ));
        }
        let same = same_sign
            && stored.says.is_none_or(|(order, ipn)| match again.shape() {
                Ok(Judged::Admitted(read)) => read.order == *order && read.ipn == *ipn,
                Ok(Judged::Ignored | Judged::Kept) | Err(_) => false,
            });
        match (same, again.is_unsigned()) {
            (false, _) => Outcome::Fails(Failure::SaysOther),
            (true, true) => Outcome::Unsigned,
            (true, false) => Outcome::Verified,
        }
    }

    fn opened(&self, stored: &Stored<'_>) -> Result<Opened, Outcome> {
        let none = BodyKeys::default();
        let keys = self.body_keys.get(stored.account).unwrap_or(&none);
        let request = (stored.delivery, &stored.source.request);
        keys.opened(request, (stored.raw_key_id, stored.raw)).map_err(|error| match error {
            SealError::Erased { id, .. } => Outcome::Erased(id),
            SealError::NoKey(id) => Outcome::NoBodyKey(id),
            SealError::NotOpened(_) => Outcome::Fails(Failure::NotOpened),
            SealError::Content(error) => Outcome::Unusable(error.to_string()),
        })
    }

    /// What a notice is judged by: the recorded key alone, as it counts, and as if it always had.
    fn directories(&self, account: &str, source: &NoticeSource) -> Result<[Directory; 2], Outcome> {
        let entry = self.vault.accounts.iter().find(|entry| entry.name() == account);
        let entry = entry.ok_or(Outcome::NoKey)?;
        let profile = self.profile(&entry.partner, source)?;
        let with_key = with_key_alone(entry, &source.key_id);
        let is_there = with_key.keys.iter().any(|key| key.channel == Channel::Ipn);
        let takes_unsigned = profile.scheme().is_some_and(Scheme::takes_unsigned);
        if !is_there && !takes_unsigned {
            return Err(Outcome::NoKey);
        }
        let mut always = with_key.clone();
        for key in always.keys.iter_mut().filter(|key| key.channel == Channel::Ipn) {
            (key.valid_from, key.valid_until) = (Time::from_unix_nanos(i64::MIN), None);
        }
        Ok([directory(&profile, with_key)?, directory(&profile, always)?])
    }

    fn profile(&self, partner: &PartnerCode, source: &NoticeSource) -> Result<Profile, Outcome> {
        let text = self.profiles.get(&source.profile.digest).ok_or(Outcome::NoProfile)?;
        Profile::parse_recorded(partner, text).map_err(|error| Outcome::Unusable(error.to_string()))
    }
}

/// The account, switched on, with this key of notices and no other.
fn with_key_alone(entry: &AccountEntry, key_id: &KeyId) -> AccountEntry {
    let mut alone = AccountEntry { enabled: true, ..entry.clone() };
    alone.keys.retain(|key| match key.channel {
        Channel::Ipn => key.id == *key_id,
        Channel::Unwrap => true,
        Channel::Create | Channel::Return | Channel::Body | Channel::Sign | Channel::Tls => false,
    });
    alone
}

fn directory(profile: &Profile, entry: AccountEntry) -> Result<Directory, Outcome> {
    let vault = VaultDocument { accounts: vec![entry], ..VaultDocument::default() };
    Directory::build(vec![profile.clone()], &vault).map_err(|problems| {
        let all: Vec<_> = problems.iter().map(ToString::to_string).collect();
        Outcome::Unusable(all.join("; "))
    })
}

#[cfg(test)]
mod tests;
