//! Owns the assembly of key files and `vault.toml` into one document, and the checks between them.
//! Pure.

use std::collections::BTreeMap;

use payfold_schemas::ids::{MerchantCode, PartnerCode};

use super::key_file::VaultKeyFile;
use super::plain::{PlainAccount, PlainFile};
use crate::document::{AccountEntry, KeyEntry, VaultDocument, check_constant};
use crate::keys::Channel;
use crate::secret::SECRET_BYTES_LEAST;
use crate::token::LOCAL_OWNER;
use crate::vault::dir::problem::{FileProblem, PLAIN_FILE};

type AccountKey = (PartnerCode, MerchantCode);

/// Assembles a document: accounts in the order of their names, keys in the order of their age. Also
/// returns all problems between files; the document is valid only if there are none.
pub(super) fn assemble(
    files: Vec<VaultKeyFile>,
    plain: Option<PlainFile>,
) -> (VaultDocument, Vec<FileProblem>) {
    let mut problems = Vec::new();
    let plain = plain.unwrap_or_default();
    let mut settings = settings(plain.accounts, &mut problems);
    let mut by_account: BTreeMap<AccountKey, Vec<VaultKeyFile>> = BTreeMap::new();
    for file in files {
        let account = (file.partner.clone(), file.merchant_code.clone());
        by_account.entry(account).or_default().push(file);
    }
    let mut document = VaultDocument::default();
    for (account, mut files) in by_account {
        files.sort_by(|a, b| (a.key.valid_from, &a.name).cmp(&(b.key.valid_from, &b.name)));
        problems.extend(key_conflicts(&files));
        let settings = settings.remove(&account);
        document.accounts.push(entry(account, settings, files));
    }
    for (partner, merchant) in settings.keys() {
        problems.push(in_plain(format!(
            "account {partner}/{merchant} has no key file that can be used; if one is listed here, \
             mend it, else name one {partner}.{merchant}.ipn.KEYID or remove the account"
        )));
    }
    for token in plain.tokens {
        if token.name.as_str() == LOCAL_OWNER {
            let problem = "the token name local is reserved for each process's own token; choose \
                another name";
            problems.push(in_plain(problem.to_owned()));
        } else if let Err(error) = document.add_token(token) {
            problems.push(in_plain(error.to_string()));
        }
    }
    for shop in &plain.shops {
        for account in &shop.accounts {
            if document.account(&account.partner, &account.merchant_code).is_none() {
                problems.push(in_plain(format!(
                    "shop {} lists account {account}, which has no key file that can be used; if \
                     one is listed here, mend it, else correct the account's name or remove it",
                    shop.name
                )));
            }
        }
    }
    document.shops = plain.shops;
    document.record_baselines = plain.record_baselines;
    document.record_key_ends = plain.record_key_ends;
    (document, problems)
}

fn in_plain(problem: String) -> FileProblem {
    FileProblem { file: PLAIN_FILE.to_owned(), problem }
}

fn settings(
    accounts: Vec<PlainAccount>,
    problems: &mut Vec<FileProblem>,
) -> BTreeMap<AccountKey, PlainAccount> {
    let mut by_name = BTreeMap::new();
    for account in accounts {
        for (name, value) in &account.constants {
            if let Err(error) = check_constant(name, value) {
                let PlainAccount { partner, merchant_code, .. } = &account;
                problems.push(in_plain(format!("account {partner}/{merchant_code}: {error}")));
            }
        }
        let named = (account.partner.clone(), account.merchant_code.clone());
        if let Some(PlainAccount { partner, merchant_code, .. }) = by_name.insert(named, account) {
            problems.push(in_plain(format!(
                "account {partner}/{merchant_code} is listed twice; keep one"
            )));
        }
    }
    by_name
}

fn entry(
    (partner, merchant): AccountKey,
    plain: Option<PlainAccount>,
    files: Vec<VaultKeyFile>,
) -> AccountEntry {
    let mut entry = AccountEntry::new(partner, merchant);
    if let Some(plain) = plain {
        entry.enabled = plain.enabled;
        entry.allow_sources = plain.allow_sources;
        entry.rate_per_s = plain.rate_per_s;
        entry.constants = plain.constants;
    }
    entry.keys = files.into_iter().map(|file| file.key).collect();
    entry
}

/// Finds the problems between the keys of one account.
fn key_conflicts(files: &[VaultKeyFile]) -> Vec<FileProblem> {
    let mut problems = Vec::new();
    for channel in Channel::ALL {
        let of_channel: Vec<_> = files.iter().filter(|file| file.key.channel == channel).collect();
        // The newer of two keys signs, and uses of the older one are reported. So at most one key
        // of a channel may lack a beginning.
        let mut ageless = of_channel.iter().filter(|file| !file.has_beginning);
        if let Some(first) = ageless.next() {
            problems.extend(ageless.map(|file| FileProblem {
                file: file.name.clone(),
                problem: format!(
                    "neither it nor {} has a valid_from; add valid_from to the newer one",
                    first.name
                ),
            }));
        }
        let keys: Vec<KeyEntry> = of_channel.iter().map(|file| file.key.clone()).collect();
        let Some(last) = of_channel.last() else { continue };
        let mut account = AccountEntry::new(last.partner.clone(), last.merchant_code.clone());
        account.keys = keys;
        // Body keys all stay valid, one for each month, so the bound on valid keys does not apply.
        if channel != Channel::Body
            && let Err(error) = account.key_set_of(channel, SECRET_BYTES_LEAST)
        {
            problems.push(FileProblem { file: last.name.clone(), problem: error.to_string() });
        }
    }
    problems
}
