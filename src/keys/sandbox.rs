//! Owns the accounts that the sandbox partner plays. It signs with our own keys of the account,
//! of which one for notices must be valid.

use payfold_partners::document::{AccountEntry, VaultDocument};
use payfold_partners::keys::Channel;
use payfold_partners::profile::Profile;
use payfold_partners::validity;
use payfold_schemas::time::Time;

use crate::error::Fixable;

/// The accounts with sandbox profiles, as read at the start.
#[derive(Clone)]
pub(crate) struct SandboxAccounts {
    /// Accounts with a valid key, and the profile of each.
    ready: Vec<(Profile, AccountEntry)>,
    /// Accounts without a valid key: a sentence for each, with the validity of its keys.
    waiting: Vec<String>,
    at: Time,
}

impl SandboxAccounts {
    /// The enabled accounts of a vault that have a profile of the stage sandbox.
    pub(crate) fn of(profiles: &[Profile], document: &VaultDocument, now: Time) -> Self {
        let mut found = Self { ready: Vec::new(), waiting: Vec::new(), at: now };
        for entry in document.accounts.iter().filter(|entry| entry.enabled) {
            let profile = profiles.iter().find(|profile| *profile.partner() == entry.partner);
            if let Some(profile) = profile.filter(|profile| profile.allows_private_addresses()) {
                found.add(profile, entry);
            }
        }
        found
    }

    fn add(&mut self, profile: &Profile, entry: &AccountEntry) {
        let ipn = || entry.keys.iter().filter(|key| key.channel == Channel::Ipn);
        match ipn().find(|key| key.is_valid_at(self.at)) {
            Some(_) => self.ready.push((profile.clone(), entry.clone())),
            None if ipn().next().is_some() => {
                let (name, keys) = (entry.name(), validity::of_entries(ipn()));
                let at = self.at;
                self.waiting.push(format!("no key of {name} is valid at {at} (it has {keys})"));
            }
            None => {}
        }
    }

    /// The profile and the accounts of the first such partner, one of the contract before others.
    /// Errors: there is no account, or none has a valid key.
    pub(crate) fn of_one_partner(&self) -> anyhow::Result<(Profile, Vec<AccountEntry>)> {
        let mut of_contract = self.ready.iter().filter(|(one, _)| one.is_default_scheme());
        let first = of_contract.next().or(self.ready.first());
        let Some((profile, _)) = first else { return Err(self.no_account()) };
        let of_partner =
            self.ready.iter().filter(|(other, _)| other.partner() == profile.partner());
        Ok((profile.clone(), of_partner.map(|(_, account)| account.clone()).collect()))
    }

    fn no_account(&self) -> anyhow::Error {
        if self.waiting.is_empty() {
            return Fixable::error(
                "the sandbox role has no account to play: no account has a sandbox profile",
                "set profile = \"sandbox\" for a partner in payfold.toml and add a key, or run \
                    without the role",
            );
        }
        Fixable::error(
            format!("the sandbox role can't sign notices: {}", self.waiting.join("; ")),
            "payfold key add PARTNER, or run without the role; if a key should be valid, check the \
                clock (timedatectl)",
        )
    }
}

#[cfg(test)]
mod tests {
    use payfold_partners::document::NewKey;
    use payfold_partners::secret::Secret;
    use payfold_schemas::ids::{KeyId, MerchantCode, PartnerCode};

    use super::*;

    fn accounts(now: Time) -> SandboxAccounts {
        let partner = PartnerCode::parse("sandbox").unwrap();
        let mut account = AccountEntry::new(partner.clone(), MerchantCode::parse("DEMO").unwrap());
        let key = NewKey {
            id: KeyId::parse("sandbox-1").unwrap(),
            channel: Channel::Ipn,
            secret: Secret::from_bytes(b"a secret of enough bytes".to_vec()),
            valid_from: Time::from_unix_ms(86_400_000),
            overlap_ms: 0,
            created_at: Time::from_unix_ms(86_400_000),
        };
        account.add_key(key).unwrap();
        let mut document = VaultDocument::default();
        document.add_account(account).unwrap();
        SandboxAccounts::of(&[Profile::sandbox_for(&partner)], &document, now)
    }

    #[test]
    fn a_clock_before_the_keys_is_reported_with_both_times() {
        let error = accounts(Time::from_unix_ms(0)).of_one_partner().err().unwrap().to_string();
        let (now, from) = (Time::from_unix_ms(0), Time::from_unix_ms(86_400_000));
        let said =
            format!("no key of sandbox/DEMO is valid at {now} (it has sandbox-1 from {from})");
        assert!(error.contains(&said) && error.contains("check the clock"), "{error}");
        assert!(!error.contains("no account to play"), "{error}");
        let (profile, accounts) = accounts(from).of_one_partner().unwrap();
        assert_eq!((profile.partner().as_str(), accounts.len()), ("sandbox", 1));
    }

    #[test]
    fn without_a_sandbox_account_the_role_is_refused() {
        let none = SandboxAccounts::of(&[], &VaultDocument::default(), Time::from_unix_ms(0));
        assert!(none.of_one_partner().err().unwrap().to_string().contains("no account to play"));
    }
}
