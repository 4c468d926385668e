//! Owns the check for one key in two accounts. A signature with such a key does not show
//! which account a notice is for. The signed text must name the account, by a value that is not the
//! same for both. Otherwise a notice for one account could be replayed to the other.

use std::collections::HashMap;
use std::sync::Arc;

use crate::directory::account::Account;
use crate::directory::problem::DirectoryProblem;
use crate::document::{AccountEntry, VaultDocument};
use crate::scheme::crypt::ReadyKey;
use crate::scheme::lint::AccountBinding;
use crate::scheme::message::{ParsedMessage, TemplateContext};
use crate::scheme::request::NoticeRequest;
use crate::scheme::rules::SignRule;
use crate::scheme::template::Template;
use crate::secret::Secret;

/// Finds accounts with the same merchantCode and a common secret: a notice could be from either
/// partner.
pub(super) fn of_one_merchant(vault: &VaultDocument) -> Vec<DirectoryProblem> {
    let mut problems = Vec::new();
    for (place, a) in vault.accounts.iter().enumerate() {
        for b in &vault.accounts[..place] {
            if a.merchant_code == b.merchant_code && has_secret_of(a, b) {
                problems.push(DirectoryProblem(format!(
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

/// One use of a key: by an enabled account, for one `[[sign]]`.
struct KeyUse<'a> {
    account: &'a Account,
    sign: &'a str,
    /// The places by which a notice names the account, with the account's own values. Empty if the
    /// signed text does not name it.
    names: Vec<(&'a Template, Vec<u8>)>,
}

impl KeyUse<'_> {
    /// Whether notices name the two accounts by values that differ. Where they are named at common
    /// places, the values there decide.
    fn is_apart_from(&self, other: &Self) -> bool {
        let pairs = || self.names.iter().flat_map(|a| other.names.iter().map(move |b| (a, b)));
        let is_any_common = pairs().any(|(a, b)| a.0 == b.0);
        pairs().any(|(a, b)| (a.0 == b.0 || !is_any_common) && a.1 != b.1)
    }
}

/// Finds enabled accounts with a common key, where a notice can be for either. Those that
/// `of_one_merchant` finds are left out.
pub(super) fn of_two_accounts(
    accounts: &[Arc<Account>],
    vault: &VaultDocument,
) -> Vec<DirectoryProblem> {
    let entry =
        |account: &Account| vault.accounts.iter().find(|entry| entry.name() == account.name());
    let is_found = |a: &Account, b: &Account| {
        a.merchant_code() == b.merchant_code()
            && entry(a).zip(entry(b)).is_some_and(|(a, b)| has_secret_of(a, b))
    };
    let mut problems: Vec<DirectoryProblem> = Vec::new();
    let mut by_key: HashMap<&[u8], Vec<KeyUse<'_>>> = HashMap::new();
    for account in accounts.iter().filter(|account| account.is_enabled()) {
        for (key, found) in uses(account) {
            let others = by_key.entry(key).or_default();
            let of_another = others.iter().find(|other| {
                let is_same = std::ptr::eq(other.account, found.account);
                !(is_same || other.is_apart_from(&found) || is_found(other.account, found.account))
            });
            // Two accounts get one problem, however many keys they share.
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
    let scheme = account.profile().scheme();
    let keys = account.scheme_keys().keys.iter();
    let of_key = keys.flat_map(|key| key.ready.iter().zip(&scheme.signs));
    let used = of_key.filter_map(|(ready, sign)| {
        let key = match ready.as_ref()? {
            ReadyKey::HmacSha256(_, secret) | ReadyKey::Shared(secret, _) => secret.expose(),
            ReadyKey::Public(key, _) => key.as_slice(),
        };
        Some((key, KeyUse { account, sign: &sign.name, names: names_of(account, sign) }))
    });
    used.collect()
}

fn names_of<'a>(account: &'a Account, sign: &SignRule) -> Vec<(&'a Template, Vec<u8>)> {
    let scheme = account.profile().scheme();
    let (nothing, inputs) = (NoticeRequest::default(), account.template_inputs());
    let message = ParsedMessage::from_document(scheme, &nothing, account.profile().limits(), None);
    let context = TemplateContext::without_key(&message, &inputs);
    let value = |binding: &AccountBinding<'_>| match binding.equals {
        Some(equals) => context.render(equals).unwrap_or_default(),
        None => account.merchant_code().as_str().as_bytes().to_vec(),
    };
    let bindings = scheme.bindings(sign).into_iter();
    bindings.map(|binding| (binding.place, value(&binding))).collect()
}

fn problem(a: &KeyUse<'_>, b: &KeyUse<'_>) -> DirectoryProblem {
    if !a.names.is_empty() && !b.names.is_empty() {
        let both = a.names.iter().filter(|name| b.names.contains(name));
        let places: Vec<_> = both.map(|(place, _)| place.to_string()).collect();
        let places = if places.is_empty() { "its account".to_owned() } else { places.join(", ") };
        return DirectoryProblem(format!(
            "accounts {} and {} have one key, and the same value for {places}: a notice for one \
             is valid for the other; give each account the value that the partner sends for it, \
             or ask the partner for a key for each account",
            a.account.name(),
            b.account.name(),
        ));
    }
    let nameless = if a.names.is_empty() { a } else { b };
    DirectoryProblem(format!(
        "accounts {} and {} have one key, and what [[sign]] {} of {} signs does not say for which \
         account a notice is: a notice for the first could be replayed to the second; map merchant \
         to a place in the signed text, or ask the partner for a key for each account",
        a.account.name(),
        b.account.name(),
        nameless.sign,
        nameless.account.partner()
    ))
}
