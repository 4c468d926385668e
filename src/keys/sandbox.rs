//! Owns which accounts the sandbox partner plays for: it signs with our own key, which has to be valid now.

use payfold_partners::document::{AccountEntry, VaultDocument};
use payfold_partners::keys::Channel;
use payfold_partners::profile::Profile;
use payfold_partners::validity;
use payfold_sandbox::SandboxAccount;
use payfold_schemas::time::Time;

use crate::error::Fixable;

/// The accounts of sandbox profiles as they were at the start.
#[derive(Clone)]
pub struct SandboxAccounts {
    /// Those with a key that is valid, with the profile of each.
    ready: Vec<(Profile, SandboxAccount)>,
    /// Those without one: which, and when their keys are valid.
    waiting: Vec<String>,
    at: Time,
}

impl SandboxAccounts {
    /// The accounts of a vault that profiles of stage sandbox and the contract's scheme name.
    pub fn of(profiles: &[Profile], document: &VaultDocument, now: Time) -> Self {
        let mut found = Self { ready: Vec::new(), waiting: Vec::new(), at: now };
        for entry in document.accounts.iter().filter(|entry| entry.enabled) {
            let profile = profiles.iter().find(|profile| *profile.partner() == entry.partner);
            let plays = |profile: &&Profile| {
                profile.allows_private_addresses() && profile.scheme().is_none()
            };
            if let Some(profile) = profile.filter(plays) {
                found.add(profile, entry);
            }
        }
        found
    }

    fn add(&mut self, profile: &Profile, entry: &AccountEntry) {
        let ipn = || entry.keys.iter().filter(|key| key.channel == Channel::Ipn);
        match ipn().rev().find(|key| key.counts_at(self.at)) {
            Some(key) => {
                let (merchant_code, key) = (entry.merchant_code.clone(), key.secret.clone());
                self.ready.push((profile.clone(), SandboxAccount { merchant_code, key }));
            }
            None if ipn().next().is_some() => {
                let (name, keys) = (entry.name(), validity::of_entries(ipn()));
                let at = self.at;
                self.waiting.push(format!("no key of {name} is valid at {at} (it has {keys})"));
            }
            None => {}
        }
    }

    /// One partner's profile and its accounts. Errors: there is no account, or none with a valid key.
    pub fn of_one_partner(&self) -> anyhow::Result<(Profile, Vec<SandboxAccount>)> {
        let Some((profile, _)) = self.ready.first() else { return Err(self.no_account()) };
        let of_partner =
            self.ready.iter().filter(|(other, _)| other.partner() == profile.partner());
        Ok((profile.clone(), of_partner.map(|(_, account)| account.clone()).collect()))
    }

    fn no_account(&self) -> anyhow::Error {
        if self.waiting.is_empty() {
            return Fixable::error(
                "the sandbox role has nobody to play for: no account has a sandbox profile",
                "put profile = \"sandbox\" under a partner in payfold.toml and give it a key, or run without the role",
            );
        }
        Fixable::error(
            format!("the sandbox role can't sign: {}", self.waiting.join("; ")),
            "check the clock (timedatectl); if it is right, payfold key add PARTNER, or run without the role",
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
    fn a_clock_before_the_keys_is_named_with_both_times() {
        let error = accounts(Time::from_unix_ms(0)).of_one_partner().err().unwrap().to_string();
        let (now, from) = (Time::from_unix_ms(0), Time::from_unix_ms(86_400_000));
        let said =
            format!("no key of sandbox/DEMO is valid at {now} (it has sandbox-1 from {from})");
        assert!(error.contains(&said) && error.contains("check the clock"), "{error}");
        assert!(!error.contains("nobody"), "{error}");
        let (profile, accounts) = accounts(from).of_one_partner().unwrap();
        assert_eq!((profile.partner().as_str(), accounts.len()), ("sandbox", 1));
    }

    #[test]
    fn without_a_sandbox_account_the_role_has_nobody_to_play_for() {
        let none = SandboxAccounts::of(&[], &VaultDocument::default(), Time::from_unix_ms(0));
        assert!(none.of_one_partner().err().unwrap().to_string().contains("nobody to play for"));
    }
}
