//! Owns the accounts, keys and tokens of a running system: reads them from the vault, combines them
//! with the partners' profiles, and swaps them as a whole when the vault changes. Also creates the
//! demo's sandbox account.

mod profile_files;
pub(crate) mod records;
mod sandbox;

use std::sync::Arc;

use anyhow::Context;
use arc_swap::ArcSwap;
use payfold_partners::directory::{Account, Directory};
use payfold_partners::document::{AccountEntry, NewKey, VaultDocument};
use payfold_partners::keys::Channel;
use payfold_partners::profile::Profile;
use payfold_partners::secret::Secret;
use payfold_partners::shops::{ShopAccount, ShopToken, Shops};
use payfold_partners::token::{LOCAL_OWNER, TokenEntry};
use payfold_partners::validity;
use payfold_partners::vault::{Vault, VaultPlace, VaultWatch, random_secret};
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{Author, KeyId, MerchantCode, PartnerCode, ShopName};
use payfold_schemas::time::Time;
use payfold_schemas::token::TokenRole;
use zeroize::Zeroizing;

pub(crate) use self::profile_files::{constants_of, profiles, profiles_in_force};
use self::records::RecordKeysInForce;
pub(crate) use self::sandbox::SandboxAccounts;
use crate::data_dir::{DataDir, write_private};
use crate::demo::{MERCHANT, PARTNER};
use crate::error::Fixable;
use crate::settings::{Loaded, Origin, Settings};
use crate::vault::{self, Instead};

/// The number of months for which keys of bodies are created ahead, the current one included.
const BODY_KEY_MONTHS: u32 = 2;

/// The accounts, keys and tokens in force.
pub(crate) struct Keys {
    directory: Arc<ArcSwap<Directory>>,
    tokens: Arc<ArcSwap<Vec<TokenEntry>>>,
    shops: Arc<ArcSwap<Shops>>,
    record_keys: RecordKeysInForce,
    sandbox_accounts: SandboxAccounts,
    profiles: Vec<Profile>,
    local: TokenEntry,
    place: VaultPlace,
    watch: VaultWatch,
    /// Whether the vault has a change that could not be applied.
    stale: bool,
}

/// What a check of the vault found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VaultChange {
    /// Nothing changed.
    Unchanged,
    /// A change was applied.
    Applied,
    /// The vault is again what is in force: a person took back a change that could not be applied.
    Reverted,
}

impl Keys {
    /// Opens the vault, or creates one, and combines accounts and profiles. Errors name what to
    /// correct. The record keys become those in force of `record_keys`.
    pub(crate) fn open(
        settings: &Settings,
        data: &DataDir,
        record_keys: RecordKeysInForce,
        (origin, now): (Origin, Time),
    ) -> anyhow::Result<Self> {
        let profiles = profiles_in_force(settings, origin)?;
        let local = prepare(settings, data, origin, now)?;
        let (watch, document) = VaultWatch::open(vault::place(settings)?)?;
        let directory = build(&profiles, &document)?;
        record_keys.store(Arc::new(document.record_keys()));
        Ok(Self {
            directory: Arc::new(ArcSwap::from_pointee(directory)),
            tokens: Arc::new(ArcSwap::from_pointee(tokens(&document, &local))),
            shops: Arc::new(ArcSwap::from_pointee(Shops::of(&document))),
            record_keys,
            sandbox_accounts: SandboxAccounts::of(&profiles, &document, now),
            profiles,
            local,
            place: vault::place(settings)?,
            watch,
            stale: false,
        })
    }

    /// Warns of accounts with no key that counts now: of every process that takes notices.
    pub(crate) fn warn_of_refused_notices(&self, now: Time) {
        let directory = self.directory.load();
        if directory.accounts().is_empty() {
            tracing::warn!(
                "no partner account has a key yet, so every notice is refused; add the one that \
                    the partner signs with: payfold key add PARTNER --merchant M --secret-file FILE"
            );
        }
        warn_of_no_valid_key(&directory, now);
    }

    /// The accounts in force; the pointee is swapped when the vault changes.
    pub(crate) fn directory(&self) -> Arc<ArcSwap<Directory>> {
        Arc::clone(&self.directory)
    }

    /// The partners' profiles as read at the start.
    pub(crate) fn profiles(&self) -> &[Profile] {
        &self.profiles
    }

    /// The hashes of the admin tokens in force; the pointee is swapped when the vault changes.
    pub(crate) fn tokens(&self) -> Arc<ArcSwap<Vec<TokenEntry>>> {
        Arc::clone(&self.tokens)
    }

    /// The shops in force; the pointee is swapped when the vault changes.
    pub(crate) fn shops(&self) -> Arc<ArcSwap<Shops>> {
        Arc::clone(&self.shops)
    }

    /// The accounts with sandbox profiles as read at the start, for the sandbox role.
    pub(crate) fn sandbox_accounts(&self) -> &SandboxAccounts {
        &self.sandbox_accounts
    }

    /// Applies the vault's content if it changed. After an error the old content stays in force,
    /// and the next check tries again.
    pub(crate) fn apply_change(&mut self) -> anyhow::Result<VaultChange> {
        match self.reload_if_changed() {
            Ok(true) => {
                self.stale = false;
                Ok(VaultChange::Applied)
            }
            Ok(false) if self.stale && !self.watch.changed() => {
                self.stale = false;
                Ok(VaultChange::Reverted)
            }
            Ok(false) => Ok(VaultChange::Unchanged),
            Err(error) => {
                self.stale = true;
                Err(error)
            }
        }
    }

    /// Creates the next month's key of bodies for each sealed account that lacks one. Does nothing
    /// if the vault is a directory, which its operator fills. Errors: the vault's; another process
    /// may be writing it, and the next check tries again.
    pub(crate) fn add_next_body_keys(&self, now: Time) -> anyhow::Result<()> {
        let VaultPlace::File { vault, identity } = &self.place else { return Ok(()) };
        let lacks = |account: &Arc<Account>| account.body_keys().lacks_next(now);
        if !self.directory.load().accounts().iter().any(lacks) {
            return Ok(());
        }
        let mut vault = Vault::open(vault, identity)?;
        let mut made = Vec::new();
        for account in vault.document_mut().accounts.iter_mut().filter(|one| one.is_sealed(now)) {
            let ids = add_body_keys(account, now)?;
            made.extend(ids.into_iter().map(|id| (account.name(), id)));
        }
        // The vault may be newer than the accounts in force, and have them already.
        if made.is_empty() {
            return Ok(());
        }
        vault.save()?;
        for (account, id) in made {
            tracing::info!(
                account,
                key = id.as_str(),
                "created the key that seals the notices of a month; back up the vault now"
            );
        }
        Ok(())
    }

    fn reload_if_changed(&mut self) -> anyhow::Result<bool> {
        let Some(mut document) = self.watch.reload_if_changed()? else { return Ok(false) };
        let before = self.directory.load();
        document.keep_indexes(before.accounts().iter().map(|a| (a.partner(), a.merchant_code())));
        let directory = build(&self.profiles, &document).inspect_err(|_| self.watch.forget())?;
        self.directory.store(Arc::new(directory));
        self.tokens.store(Arc::new(tokens(&document, &self.local)));
        self.shops.store(Arc::new(Shops::of(&document)));
        self.record_keys.store(Arc::new(document.record_keys()));
        Ok(true)
    }
}

/// Warns of accounts without a valid key. Their partner gets 401 for every notice, as for a wrong
/// key, or 503 if the key that has signed is not valid yet, so they don't see the cause.
fn warn_of_no_valid_key(directory: &Directory, now: Time) {
    for account in directory.accounts().iter().filter(|account| account.is_enabled()) {
        let keys = account.keys_of(Channel::Ipn).keys();
        if !keys.iter().any(|key| key.is_valid_at(now)) {
            tracing::warn!(
                account = account.name(),
                valid = validity::of_keys(keys.iter()),
                "no key of this account is valid at {now}, so its notices are refused: add a key \
                    with the partner's secret (payfold key add, or a file of the vault's \
                    folder); if one should be valid, check the clock (timedatectl)"
            );
        }
    }
}

/// The tokens of the vault and of the data folder.
fn tokens(document: &VaultDocument, local: &TokenEntry) -> Vec<TokenEntry> {
    let others = document.tokens.iter().filter(|token| token.name != local.name);
    others.chain([local]).cloned().collect()
}

/// Builds a directory of one partner's accounts with this profile instead of the configured one.
/// Errors: as `check`.
pub(crate) fn directory_with(loaded: &Loaded, profile: Profile) -> anyhow::Result<Directory> {
    let mut document = vault::read(&loaded.settings)?;
    document.accounts.retain(|account| account.partner == *profile.partner());
    build(&[profile], &document)
}

/// Builds the directory for a command, with each profile changed by `with`. Errors: whatever would
/// make a start fail.
pub(crate) fn open_directory_with(
    loaded: &Loaded,
    with: impl Fn(Profile) -> Profile,
) -> anyhow::Result<Directory> {
    let document = vault::read(&loaded.settings)?;
    let profiles = profiles_in_force(&loaded.settings, loaded.origin())?;
    let profiles: Vec<_> = profiles.into_iter().map(with).collect();
    build(&profiles, &document)
}

/// Adds an account's missing keys of bodies for this month and the next. Returns the ids of the
/// added keys.
pub(crate) fn add_body_keys(account: &mut AccountEntry, now: Time) -> anyhow::Result<Vec<KeyId>> {
    let mut made = Vec::new();
    for month in account.months_without_key(now, BODY_KEY_MONTHS) {
        made.push(account.add_body_key(month, (now, random_secret()?)));
    }
    Ok(made)
}

/// Checks that a running system would accept this vault. Errors: whatever would make it refuse the
/// vault.
pub(crate) fn check(loaded: &Loaded, document: &VaultDocument) -> anyhow::Result<()> {
    let profiles = profiles_in_force(&loaded.settings, loaded.origin())?;
    build(&profiles, document).map(drop)
}

/// Combines accounts and profiles. An account of an earlier demo is left out unless its partner is
/// configured, because its test key must not open a real system.
fn build(profiles: &[Profile], document: &VaultDocument) -> anyhow::Result<Directory> {
    let mut document = document.clone();
    let known = |partner: &PartnerCode| profiles.iter().any(|profile| profile.partner() == partner);
    document
        .accounts
        .retain(|account| account.partner.as_str() != PARTNER || known(&account.partner));
    Directory::build(profiles.to_vec(), &document).map_err(|problems| {
        let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("accounts and profiles don't match:\n  {}", all.join("\n  "))
    })
}

/// Creates the vault, the local admin token and the demo's account if they are missing. Returns the
/// token's hash.
fn prepare(
    settings: &Settings,
    data: &DataDir,
    origin: Origin,
    now: Time,
) -> anyhow::Result<TokenEntry> {
    // Processes that share the folder may start together. The lock lets one create what is missing,
    // so that the others find it.
    data.create()?;
    let alone = std::fs::File::create(data.file("vault.starting"))
        .and_then(|file| file.lock().map(|()| file))
        .with_context(|| format!("{} can't be written", data.path().display()))?;
    match (vault::place(settings)?, origin) {
        (VaultPlace::Dir(_), Origin::Configured) => {}
        (VaultPlace::Dir(dir), Origin::Demo) => {
            return Err(Fixable::error(
                format!(
                    "vault = \"dir:{}\", and no payfold.toml was found: a demo creates its own \
                        keys",
                    dir.display()
                ),
                "give the configuration with --config FILE, or unset vault",
            ));
        }
        (VaultPlace::File { .. }, origin) => {
            let mut vault = vault::open_or_create(settings, Instead::AddKeyFile)?;
            if origin == Origin::Demo && ensure_demo(data, vault.document_mut(), now)? {
                vault.save()?;
            }
        }
    }
    let token = local_token(data)?;
    drop(alone);
    Ok(token)
}

/// The hash of the data folder's admin token, which is created if it is missing.
fn local_token(data: &DataDir) -> anyhow::Result<TokenEntry> {
    let path = data.admin_token();
    let known = match path.exists() {
        true => std::fs::read_to_string(&path)
            .with_context(|| format!("{} can't be read", path.display()))?,
        false => String::new(),
    };
    let known = Zeroizing::new(known);
    let sha256 = match known.trim() {
        "" => {
            let token = Zeroizing::new(hex::encode(random_secret()?.expose()));
            write_private(&path, token.as_bytes())?;
            Digest::of_bytes(token.as_bytes())
        }
        token => Digest::of_bytes(token.as_bytes()),
    };
    let name = Author::parse(LOCAL_OWNER).expect("a fixed name");
    Ok(TokenEntry { name, sha256, role: TokenRole::Admin })
}

/// Adds the demo's account at the sandbox partner and its shop to the vault if they are missing.
/// Returns whether the vault changed. Errors: the vault belongs to a configured system.
fn ensure_demo(data: &DataDir, document: &mut VaultDocument, now: Time) -> anyhow::Result<bool> {
    let (partner, merchant_code) = (PartnerCode::parse(PARTNER)?, MerchantCode::parse(MERCHANT)?);
    if document.accounts.iter().any(|account| account.partner != partner) {
        return Err(Fixable::error(
            format!(
                "the vault {} has accounts of a configured system, and no payfold.toml was found",
                data.vault().display()
            ),
            "give its configuration with --config FILE, or another folder for the demo with \
                --data DIR",
        ));
    }
    let mut changed = false;
    if document.account(&partner, &merchant_code).is_none() {
        // The key is text, so that any tool can sign with the content of the file.
        let text = hex::encode(random_secret()?.expose());
        write_private(&data.sandbox_key(), text.as_bytes())?;
        let mut account = AccountEntry::new(partner.clone(), merchant_code.clone());
        account.add_key(NewKey {
            id: KeyId::parse("sandbox-1").expect("a fixed id"),
            channel: Channel::Ipn,
            secret: Secret::from_bytes(text.into_bytes()),
            valid_from: now.plus_ms(-60_000),
            overlap_ms: 0,
            created_at: now,
        })?;
        document.add_account(account)?;
        changed = true;
    }
    let name = ShopName::parse("demo").expect("a fixed name");
    // A start that was killed between the two writes leaves a file with a token that is in no
    // vault.
    let known = document.shops.iter().any(|shop| shop.name == name);
    if !known || !data.shop_token().exists() {
        let (token, text) = new_shop_token(now)?;
        write_private(&data.shop_token(), text.as_bytes())?;
        document.add_shop_token(&name, &[ShopAccount { partner, merchant_code }], token, 0);
        changed = true;
    }
    Ok(changed)
}

/// Makes a shop token: its entry for the vault, and its text, which is shown once.
pub(crate) fn new_shop_token(now: Time) -> anyhow::Result<(ShopToken, String)> {
    let text = format!("pfs_{}", hex::encode(random_secret()?.expose()));
    let sha256 = Digest::of_bytes(text.as_bytes());
    Ok((ShopToken { sha256, created_at: now, valid_until: None }, text))
}
