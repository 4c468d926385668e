//! Owns the question what one key in two accounts means. A signature then says which partner made it and not for which
//! account, so the signed text has to say it; else a notice for one account could be taken for the other's.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Account, Problem};
use crate::document::{AccountEntry, VaultDocument};
use crate::scheme::crypt::Ready;
use crate::secret::Secret;

/// Two accounts of one merchantCode and one secret: a notice could be taken for either partner's.
pub(super) fn of_one_merchant(vault: &VaultDocument) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (place, a) in vault.accounts.iter().enumerate() {
        for b in &vault.accounts[..place] {
            if a.merchant_code == b.merchant_code && has_secret_of(a, b) {
                problems.push(Problem(format!(
                    "accounts {}/{} and {}/{} share a secret; ask one partner for another",
                    b.partner, b.merchant_code, a.partner, a.merchant_code
                )));
            }
        }
    }
    problems
}

fn has_secret_of(a: &AccountEntry, b: &AccountEntry) -> bool {
    let is_of_b = |secret: &Secret| b.keys.iter().any(|k| k.secret.expose() == secret.expose());
    a.keys.iter().any(|key| is_of_b(&key.secret))
}

/// A key of an enabled account with a custom scheme, for one `[[sign]]`.
struct KeyUse<'a> {
    account: &'a Account,
    sign: &'a str,
    /// Whether what it signs says for which account a notice is.
    says_account: bool,
}

/// Two enabled accounts with one key, where a notice does not say for which of them it is.
pub(super) fn of_two_accounts(accounts: &[Arc<Account>]) -> Vec<Problem> {
    let mut problems: Vec<Problem> = Vec::new();
    let mut by_key: HashMap<&[u8], Vec<KeyUse<'_>>> = HashMap::new();
    for account in accounts.iter().filter(|account| account.is_enabled()) {
        for (key, found) in uses(account) {
            let others = by_key.entry(key).or_default();
            let of_another = others.iter().find(|other| {
                let is_same = std::ptr::eq(other.account, found.account);
                !(is_same || other.says_account && found.says_account)
            });
            // One sentence for two accounts, however many keys they share.
            if let Some(problem) = of_another.map(|other| problem(other, &found))
                && !problems.contains(&problem)
            {
                problems.push(problem);
            }
            others.push(found);
        }
    }
    problems
}

fn uses(account: &Account) -> Vec<(&[u8], KeyUse<'_>)> {
    let Some(scheme) = account.profile().scheme() else { return Vec::new() };
    let keys = account.scheme_keys().keys.iter();
    let of_key = keys.flat_map(|key| key.ready.iter().zip(&scheme.signs));
    let used = of_key.filter_map(|(ready, sign)| {
        let key = match ready.as_ref()? {
            Ready::Shared(secret) => secret.expose(),
            Ready::Public(key) => key.as_slice(),
        };
        let says_account = scheme.says_account(sign);
        Some((key, KeyUse { account, sign: &sign.name, says_account }))
    });
    used.collect()
}

fn problem(a: &KeyUse<'_>, b: &KeyUse<'_>) -> Problem {
    let silent = if a.says_account { b } else { a };
    Problem(format!(
        "accounts {} and {} have one key, and what [[sign]] {} of {} signs does not say for which account a notice is: one \
         for the first could be taken for the second's; map merchant to a place in the signed text, or ask the partner for a \
         key for each account",
        a.account.name(),
        b.account.name(),
        silent.sign,
        silent.account.partner()
    ))
}
