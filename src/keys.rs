//! Owns the running system's accounts, keys and tokens: opened from the vault, put together with the
//! partners' profiles, and swapped whole when the vault changes. The demo's sandbox account is made here.

mod sandbox;

use std::sync::Arc;

use anyhow::Context;
use arc_swap::ArcSwap;
use payfold_partners::directory::{Account, Directory};
use payfold_partners::document::{AccountEntry, NewKey, TokenEntry, VaultDocument};
use payfold_partners::keys::Channel;
use payfold_partners::profile::Profile;
use payfold_partners::secret::Secret;
use payfold_partners::shops::{ShopAccount, ShopToken, Shops};
use payfold_partners::validity;
use payfold_partners::vault::{Vault, VaultPlace, VaultWatch, random_secret};
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{Author, KeyId, MerchantCode, PartnerCode, ShopName};
use payfold_schemas::time::Time;
use zeroize::Zeroizing;

pub use self::sandbox::SandboxAccounts;
use crate::data_dir::{DataDir, write_private};
use crate::demo::{MERCHANT, PARTNER};
use crate::error::Fixable;
use crate::frozen;
use crate::settings::{Loaded, Origin, Settings};
use crate::vault::{self, Instead};

/// The name of the admin token that lies in the data folder; no vault has it, so that none need be written for it.
pub const LOCAL_ADMIN: &str = "local";

/// Keys of bodies are made for so many months, the present one included.
const BODY_KEY_MONTHS: u32 = 2;

/// Accounts, keys and tokens as they are now.
pub struct Keys {
    directory: Arc<ArcSwap<Directory>>,
    tokens: Arc<ArcSwap<Vec<TokenEntry>>>,
    shops: Arc<ArcSwap<Shops>>,
    sandbox_accounts: SandboxAccounts,
    profiles: Vec<Profile>,
    local: TokenEntry,
    place: VaultPlace,
    watch: VaultWatch,
    /// Whether the vault has a change that could not be taken.
    stale: bool,
}

/// What a look at the vault came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// It is what is in force.
    Same,
    /// A change is in force now.
    Taken,
    /// A change that could not be taken is gone again.
    Undone,
}

impl Keys {
    /// Opens the vault, or makes one, and puts accounts and profiles together. Errors name what to mend.
    pub fn open(
        settings: &Settings,
        data: &DataDir,
        origin: Origin,
        now: Time,
    ) -> anyhow::Result<Self> {
        let mut profiles = profiles(settings)?;
        if origin == Origin::Demo && profiles.is_empty() {
            profiles.extend(crate::demo::profile());
        }
        let local = prepare(settings, data, origin, now)?;
        let (watch, document) = VaultWatch::open(vault::place(settings)?)?;
        let directory = build(&profiles, &document)?;
        let keys = Self {
            directory: Arc::new(ArcSwap::from_pointee(directory)),
            tokens: Arc::new(ArcSwap::from_pointee(tokens(&document, &local))),
            shops: Arc::new(ArcSwap::from_pointee(Shops::of(&document))),
            sandbox_accounts: SandboxAccounts::of(&profiles, &document, now),
            profiles,
            local,
            place: vault::place(settings)?,
            watch,
            stale: false,
        };
        if keys.directory.load().accounts().is_empty() {
            tracing::warn!(
                "no partner account has a key yet, so every notice is refused: payfold key add PARTNER --merchant M"
            );
        }
        warn_of_no_valid_key(&keys.directory.load(), now);
        Ok(keys)
    }

    /// The accounts, for the ingest role; loads what is in force.
    pub fn directory(&self) -> Arc<ArcSwap<Directory>> {
        Arc::clone(&self.directory)
    }

    /// The partners' profiles, as they were at the start.
    pub fn profiles(&self) -> &[Profile] {
        &self.profiles
    }

    /// The admin tokens, as hashes; loads what is in force.
    pub fn tokens(&self) -> Arc<ArcSwap<Vec<TokenEntry>>> {
        Arc::clone(&self.tokens)
    }

    /// The shops, for the checkout role; loads what is in force.
    pub fn shops(&self) -> Arc<ArcSwap<Shops>> {
        Arc::clone(&self.shops)
    }

    /// The accounts of sandbox profiles as they were at the start, for the sandbox role.
    pub fn sandbox_accounts(&self) -> &SandboxAccounts {
        &self.sandbox_accounts
    }

    /// Takes the vault's new content, if it changed. Errors leave the old content in force, and the next look tries
    /// again.
    pub fn look(&mut self) -> anyhow::Result<Look> {
        match self.take_change() {
            Ok(true) => {
                self.stale = false;
                Ok(Look::Taken)
            }
            Ok(false) if self.stale && !self.watch.changed() => {
                self.stale = false;
                Ok(Look::Undone)
            }
            Ok(false) => Ok(Look::Same),
            Err(error) => {
                self.stale = true;
                Err(error)
            }
        }
    }

    /// Makes the keys of bodies of the next month, where an account is sealed and has none. A directory of keys is filled
    /// by somebody else. Errors: the vault's; another process may be at it, and the next look tries again.
    pub fn tend(&self, now: Time) -> anyhow::Result<()> {
        let VaultPlace::File { vault, identity } = &self.place else { return Ok(()) };
        let lacks = |account: &Arc<Account>| account.body_keys().lacks_next(now);
        if !self.directory.load().accounts().iter().any(lacks) {
            return Ok(());
        }
        let mut vault = Vault::open(vault, identity)?;
        let sealed = vault.document_mut().accounts.iter_mut().filter(|one| one.is_sealed(now));
        for account in sealed {
            for id in add_body_keys(account, now)? {
                tracing::info!(
                    partner = account.partner.as_str(),
                    merchant = account.merchant_code.as_str(),
                    key = id.as_str(),
                    "a key for the bytes of a month is made: back the vault up"
                );
            }
        }
        Ok(vault.save()?)
    }

    fn take_change(&mut self) -> anyhow::Result<bool> {
        let Some(mut document) = self.watch.reload_if_changed()? else { return Ok(false) };
        let before = self.directory.load();
        document.keep_places(before.accounts().iter().map(|a| (a.partner(), a.merchant_code())));
        let directory = build(&self.profiles, &document).inspect_err(|_| self.watch.forget())?;
        self.directory.store(Arc::new(directory));
        self.tokens.store(Arc::new(tokens(&document, &self.local)));
        self.shops.store(Arc::new(Shops::of(&document)));
        Ok(true)
    }
}

/// A key that begins later or has ended looks to a partner like a wrong one: every notice is answered 401.
fn warn_of_no_valid_key(directory: &Directory, now: Time) {
    for account in directory.accounts().iter().filter(|account| account.is_enabled()) {
        let keys = account.keys_of(Channel::Ipn).keys();
        if !keys.iter().any(|key| key.is_valid_at(now)) {
            tracing::warn!(
                account = account.name(),
                valid = validity::of_keys(keys.iter()),
                "no key of this account is valid at {now}, so its notices are refused: check the clock"
            );
        }
    }
}

/// The vault's tokens and this folder's own.
fn tokens(document: &VaultDocument, local: &TokenEntry) -> Vec<TokenEntry> {
    let others = document.tokens.iter().filter(|token| token.name != local.name);
    others.chain([local]).cloned().collect()
}

/// The profile of every partner the settings name. Errors: the file's, with its place.
pub fn profiles(settings: &Settings) -> anyhow::Result<Vec<Profile>> {
    let mut profiles = Vec::new();
    for (code, partner) in &settings.partners {
        let code = PartnerCode::parse(code).with_context(|| {
            format!("[partners.{code}]: a partner code is lower-case letters, digits and -")
        })?;
        profiles.push(match Profile::shipped(&partner.profile, &code) {
            Some(shipped) => shipped,
            None => read_profile(&code, &partner.profile)?,
        });
    }
    Ok(profiles)
}

/// The names of the constants that a partner's accounts may have of their own.
pub fn constants_of(loaded: &Loaded, partner: &PartnerCode) -> anyhow::Result<Vec<String>> {
    let profiles = profiles(&loaded.settings)?;
    let profile = profiles.iter().find(|profile| profile.partner() == partner);
    let names = profile.and_then(Profile::scheme).map(payfold_partners::scheme::Scheme::constants);
    Ok(names.into_iter().flatten().map(str::to_owned).collect())
}

fn read_profile(code: &PartnerCode, path: &str) -> anyhow::Result<Profile> {
    let text = std::fs::read_to_string(path).map_err(|error| {
        Fixable::error(
            format!("the profile {path} of partner {code} can't be read: {error}"),
            "write profile = \"default\", or the path of a TOML file",
        )
    })?;
    let profile = Profile::parse(code, &text)
        .with_context(|| format!("{path}, profile of partner {code}"))?;
    frozen::check(std::path::Path::new(path), &profile, &text)?;
    Ok(profile)
}

/// The directory as it would be with this profile in the place of its partner's. Errors: as `check`.
pub fn directory_with(loaded: &Loaded, profile: Profile) -> anyhow::Result<Directory> {
    let mut document = vault::read(&loaded.settings)?;
    document.accounts.retain(|account| account.partner == *profile.partner());
    build(&[profile], &document)
}

/// The accounts of the vault with their profiles, for a command. Errors: everything a start would refuse them for.
pub fn open_directory(loaded: &Loaded) -> anyhow::Result<Directory> {
    open_directory_with(loaded, |profile| profile)
}

/// The same, with each profile as `with` makes it.
pub fn open_directory_with(
    loaded: &Loaded,
    with: impl Fn(Profile) -> Profile,
) -> anyhow::Result<Directory> {
    let document = vault::read(&loaded.settings)?;
    let mut profiles = profiles(&loaded.settings)?;
    if loaded.is_demo() {
        profiles.extend(crate::demo::profile());
    }
    let profiles: Vec<_> = profiles.into_iter().map(with).collect();
    build(&profiles, &document)
}

/// Makes an account's keys of bodies that are missing, for this month and the next; returns their ids.
pub fn add_body_keys(account: &mut AccountEntry, now: Time) -> anyhow::Result<Vec<KeyId>> {
    let mut made = Vec::new();
    for month in account.months_without_key(now, BODY_KEY_MONTHS) {
        made.push(account.add_body_key(month, (now, random_secret()?)));
    }
    Ok(made)
}

/// Whether a running system would take this vault. Errors: everything it would refuse it for.
pub fn check(loaded: &Loaded, document: &VaultDocument) -> anyhow::Result<()> {
    let mut profiles = profiles(&loaded.settings)?;
    if loaded.is_demo() {
        profiles.extend(crate::demo::profile());
    }
    build(&profiles, document).map(drop)
}

/// Puts accounts and profiles together. The demo's account of an earlier run counts only where its partner is
/// configured: its test key is no key of a real system.
fn build(profiles: &[Profile], document: &VaultDocument) -> anyhow::Result<Directory> {
    let mut document = document.clone();
    let known = |partner: &PartnerCode| profiles.iter().any(|profile| profile.partner() == partner);
    document
        .accounts
        .retain(|account| account.partner.as_str() != PARTNER || known(&account.partner));
    Directory::build(profiles.to_vec(), &document).map_err(|problems| {
        let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
        anyhow::anyhow!("accounts and profiles don't fit together:\n  {}", all.join("\n  "))
    })
}

/// Makes the vault, the local admin's token and what the demo needs where they are missing; returns the token's hash.
fn prepare(
    settings: &Settings,
    data: &DataDir,
    origin: Origin,
    now: Time,
) -> anyhow::Result<TokenEntry> {
    // Processes that share the folder may start together: one makes what is missing, the others find it.
    data.create()?;
    let alone = std::fs::File::create(data.file("vault.starting"))
        .and_then(|file| file.lock().map(|()| file))
        .with_context(|| format!("{} can't be written", data.path().display()))?;
    match (vault::place(settings)?, origin) {
        (VaultPlace::Dir(_), Origin::Configured) => {}
        (VaultPlace::Dir(dir), Origin::Demo) => {
            return Err(Fixable::error(
                format!(
                    "vault = \"dir:{}\", and no payfold.toml was found: a demo makes its own keys",
                    dir.display()
                ),
                "name the configuration with --config FILE, or leave the vault out",
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

/// The hash of the data folder's own admin token, which is made if it is missing.
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
    Ok(TokenEntry { name: Author::parse(LOCAL_ADMIN).expect("a fixed name"), sha256 })
}

/// Whether the demo's account at the sandbox partner or its shop had to be made. Errors: the vault is not a demo's.
fn ensure_demo(data: &DataDir, document: &mut VaultDocument, now: Time) -> anyhow::Result<bool> {
    let (partner, merchant_code) = (PartnerCode::parse(PARTNER)?, MerchantCode::parse(MERCHANT)?);
    if document.accounts.iter().any(|account| account.partner != partner) {
        return Err(Fixable::error(
            format!(
                "{} holds accounts of a configured system, and no payfold.toml was found",
                data.vault().display()
            ),
            "name its configuration with --config FILE, or another folder for the demo with --data DIR",
        ));
    }
    let mut changed = false;
    if document.account(&partner, &merchant_code).is_none() {
        // The demo's key is text, so that any tool can sign with the content of the file.
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
    // Both, or a start that was cut off between them would leave a token no vault knows.
    let known = document.shops.iter().any(|shop| shop.name == name);
    if !known || !data.shop_token().exists() {
        let (token, text) = new_shop_token(now)?;
        write_private(&data.shop_token(), text.as_bytes())?;
        document.add_shop_token(&name, &[ShopAccount { partner, merchant_code }], token, 0);
        changed = true;
    }
    Ok(changed)
}

/// A new shop token: what the vault keeps, and the text the shop is told once.
pub fn new_shop_token(now: Time) -> anyhow::Result<(ShopToken, String)> {
    let text = format!("pfs_{}", hex::encode(random_secret()?.expose()));
    let sha256 = Digest::of_bytes(text.as_bytes());
    Ok((ShopToken { sha256, created_at: now, valid_until: None }, text))
}
