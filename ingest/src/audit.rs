//! Owns the audit of stored notices: whether a partner signed each notice, even years ago, and
//! whether its record says what was signed. Pure. Invariants: a notice is audited with the recorded
//! key and the recorded profile only, also for disabled accounts. A notice that can't be audited is
//! never reported as verified.

use std::collections::HashMap;

use payfold_partners::directory::Directory;
use payfold_partners::document::{AccountEntry, VaultDocument};
use payfold_partners::keys::Channel;
use payfold_partners::profile::Profile;
use payfold_partners::sealing::{BodyKeys, SealError, UnsealedBody};
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{KeyId, OrderKey, PartnerCode};
use payfold_schemas::ipn::Ipn;
use payfold_schemas::notice_source::NoticeSource;
use payfold_schemas::sealed::Delivery;
use payfold_schemas::time::Time;

use crate::admit::{self, Admission};
use crate::reverify::{self, RecordedNotice};

/// A notice as the log stores it.
#[derive(Clone, Copy, Debug)]
pub struct StoredNotice<'a> {
    /// The account: `partner/merchantCode`.
    pub account: &'a str,
    /// Profile, key and request.
    pub source: &'a NoticeSource,
    /// The body, as received or sealed.
    pub raw: &'a [u8],
    /// The body key that sealed `raw`; `None` if it is in the clear.
    pub raw_key_id: Option<&'a KeyId>,
    /// The request that the sealed bytes are bound to.
    pub delivery: Delivery<'a>,
    /// When the request arrived.
    pub received_at: Time,
    /// The recorded order and content, if the notice is a fact.
    pub recorded: Option<(&'a OrderKey, &'a Ipn)>,
}

/// The result of auditing one notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuditOutcome {
    /// The recorded key signed these bytes, and they say what is recorded.
    Verified,
    /// The partner's scheme signs nothing; the bytes say what is recorded.
    Unsigned,
    /// Not audited: the recorded key is not in the vault.
    NoKey,
    /// Not audited: no available profile has the recorded digest.
    NoProfile,
    /// Not audited: the bytes were erased.
    Erased(KeyId),
    /// Not audited: the key that sealed the bytes is not in the vault.
    NoBodyKey(KeyId),
    /// Not audited: today's vault and the profile do not fit together.
    Unusable(String),
    /// The record is not what the partner signed.
    Fails(AuditFailure),
}

/// Why a stored notice differs from what was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuditFailure {
    /// The bytes were changed, or the account's constants or `public_url` were.
    #[error(
        "the recorded key did not sign it: its bytes, the account's constants or the setting \
         public_url have changed since"
    )]
    NotSigned,
    /// The body key does not open the sealed bytes.
    #[error("its sealed bytes are not what was stored")]
    NotOpened,
    /// The key's validity or the recorded time was changed.
    #[error("the recorded key signed it, but is not valid at the recorded time of receipt")]
    KeyNotValid,
    /// The recorded order or content differs from the signed bytes.
    #[error("what is recorded of it is not what was signed")]
    ContentDiffers,
}

/// What a cached directory is for: account, key and profile digest.
type DirectoryKey = (String, KeyId, Digest);

/// Audits stored notices one by one. Caches the directories it builds.
pub struct Auditor {
    profiles: HashMap<Digest, String>,
    vault: VaultDocument,
    base_url: String,
    directories: HashMap<DirectoryKey, Result<[Directory; 2], AuditOutcome>>,
    body_keys: HashMap<String, BodyKeys>,
}

impl Auditor {
    /// `profiles`: the texts of all available profiles by digest. `base_url`: the setting
    /// `public_url`.
    pub fn new(profiles: HashMap<Digest, String>, vault: VaultDocument, base_url: String) -> Self {
        let keys = |entry: &AccountEntry| (entry.name(), BodyKeys::of(entry));
        let body_keys = vault.accounts.iter().map(keys).collect();
        Self { profiles, vault, base_url, directories: HashMap::new(), body_keys }
    }

    /// Audits one notice.
    pub fn audit_notice(&mut self, stored: StoredNotice<'_>) -> AuditOutcome {
        let StoredNotice { account, source, received_at, .. } = stored;
        let UnsealedBody { request, raw } = match self.unseal(&stored) {
            Ok(opened) => opened,
            Err(outcome) => return outcome,
        };
        let key = (account.to_owned(), source.key_id.clone(), source.profile.digest);
        if !self.directories.contains_key(&key) {
            let built = self.build_directories(account, source);
            self.directories.insert(key.clone(), built);
        }
        let [as_valid, always_valid] = match &self.directories[&key] {
            Ok(directories) => directories,
            Err(outcome) => return outcome.clone(),
        };
        let recorded = RecordedNotice { source, request: &request, raw: &raw, received_at };
        let verify = |directory| {
            let verified = reverify::reverify_notice(directory, &self.base_url, recorded);
            // A key that was not valid yet makes no fact, unless people have released the notice.
            let may_be_early = stored.recorded.is_none() || source.released.is_some();
            let verified = verified.filter(|one| may_be_early || one.key_begins().is_none());
            verified.filter(|notice| reverify::is_signed_by(notice, account, &source.key_id))
        };
        let Some(verified) = verify(as_valid) else {
            let other_validity = verify(always_valid).is_some();
            return AuditOutcome::Fails(if other_validity {
                AuditFailure::KeyNotValid
            } else {
                AuditFailure::NotSigned
            });
        };
        let same_sign =
            source.request.sign.is_none() || verified.sign() == source.request.sign.as_deref();
        // Older versions admitted currencies without minor units. Today's rules refuse them, so the
        // content can't be compared.
        let currency = stored.recorded.map(|(_, ipn)| ipn.money.currency);
        if let Some(code) = currency.filter(|code| !code.has_minor_units()) {
            return AuditOutcome::Unusable(format!(
                "the recorded key signed it, but its content can't be compared: {code} has no \
                 minor units and is no longer admitted"
            ));
        }
        let same = same_sign
            && stored.recorded.is_none_or(|(order, ipn)| {
                match admit::admit_at_any_time(&verified) {
                    Ok(Admission::Admitted(read)) => read.order == *order && read.ipn == *ipn,
                    Ok(Admission::Ignored | Admission::NoOrder) | Err(_) => false,
                }
            });
        match (same, verified.is_unsigned()) {
            (false, _) => AuditOutcome::Fails(AuditFailure::ContentDiffers),
            (true, true) => AuditOutcome::Unsigned,
            (true, false) => AuditOutcome::Verified,
        }
    }

    fn unseal(&self, stored: &StoredNotice<'_>) -> Result<UnsealedBody, AuditOutcome> {
        let none = BodyKeys::default();
        let keys = self.body_keys.get(stored.account).unwrap_or(&none);
        let request = (stored.delivery, &stored.source.request);
        keys.open_body(request, (stored.raw_key_id, stored.raw)).map_err(|error| match error {
            SealError::Erased { id, .. } => AuditOutcome::Erased(id),
            SealError::NoKey(id) => AuditOutcome::NoBodyKey(id),
            SealError::NotOpened(_) => AuditOutcome::Fails(AuditFailure::NotOpened),
            SealError::Content(error) => AuditOutcome::Unusable(error.to_string()),
        })
    }

    /// Builds two directories with the recorded key alone: one with the key's real validity, one
    /// with unlimited validity. The second distinguishes a wrong signature from a wrong time.
    fn build_directories(
        &self,
        account: &str,
        source: &NoticeSource,
    ) -> Result<[Directory; 2], AuditOutcome> {
        let entry = self.vault.accounts.iter().find(|entry| entry.name() == account);
        let entry = entry.ok_or(AuditOutcome::NoKey)?;
        let profile = self.parse_profile(&entry.partner, source)?;
        let with_key = with_key_alone(entry, &source.key_id);
        let has_ipn_key = with_key.keys.iter().any(|key| key.channel == Channel::Ipn);
        let takes_unsigned = profile.scheme().takes_unsigned();
        if !has_ipn_key && !takes_unsigned {
            return Err(AuditOutcome::NoKey);
        }
        let mut always = with_key.clone();
        for key in always.keys.iter_mut().filter(|key| key.channel == Channel::Ipn) {
            (key.valid_from, key.valid_until) = (Time::from_unix_nanos(i64::MIN), None);
        }
        Ok([build_directory(&profile, with_key)?, build_directory(&profile, always)?])
    }

    fn parse_profile(
        &self,
        partner: &PartnerCode,
        source: &NoticeSource,
    ) -> Result<Profile, AuditOutcome> {
        let text = self.profiles.get(&source.profile.digest).ok_or(AuditOutcome::NoProfile)?;
        Profile::parse_recorded(partner, text)
            .map_err(|error| AuditOutcome::Unusable(error.to_string()))
    }
}

/// The account, enabled, with no IPN key but this one.
fn with_key_alone(entry: &AccountEntry, key_id: &KeyId) -> AccountEntry {
    let mut alone = AccountEntry { enabled: true, ..entry.clone() };
    alone.keys.retain(|key| match key.channel {
        Channel::Ipn => key.id == *key_id,
        Channel::Unwrap => true,
        Channel::Create | Channel::Return | Channel::Body | Channel::Sign | Channel::Tls => false,
    });
    alone
}

fn build_directory(profile: &Profile, entry: AccountEntry) -> Result<Directory, AuditOutcome> {
    let vault = VaultDocument { accounts: vec![entry], ..VaultDocument::default() };
    Directory::build(vec![profile.clone()], &vault).map_err(|problems| {
        let all: Vec<_> = problems.iter().map(ToString::to_string).collect();
        AuditOutcome::Unusable(all.join("; "))
    })
}

#[cfg(test)]
mod tests;
