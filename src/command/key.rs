//! `payfold key add|list|retire|rotate-identity`: keys of partner accounts in the vault, and the
//! vault's identity. A running system applies a change within a second, without a restart. Secrets
//! are read from a file or standard input, never from an argument, which other users of the machine
//! could see.

mod list;

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use payfold_engines::clock::{Clock, SystemClock};
use payfold_partners::document::{AccountEntry, DocumentError, KeyEntry, NewKey, VaultDocument};
use payfold_partners::keys::{Channel, KeyError};
use payfold_partners::secret::Secret;
use payfold_partners::vault::{RotatedIdentity, random_secret, rotate_identity};
use payfold_schemas::ids::{KeyId, MerchantCode, PartnerCode};
use payfold_schemas::time::Time;
use zeroize::Zeroizing;

use super::account::set_constants;
use crate::args::{Global, KeyAddArgs, KeyCommand, KeyRetireArgs};
use crate::error::Fixable;
use crate::settings::{self, Loaded};
use crate::vault::{self, Instead};
use crate::{demo, keys, output};

/// Runs one of its commands.
pub(crate) fn run(global: &Global, command: &KeyCommand) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    match command {
        KeyCommand::Add(args) => add(&loaded, args),
        KeyCommand::List { partner, output } => {
            list::run(global, &loaded, partner.as_deref(), output)
        }
        KeyCommand::RotateIdentity => rotate(&loaded),
        KeyCommand::Retire(args) => retire(&loaded, args),
    }
}

fn retire(loaded: &Loaded, args: &KeyRetireArgs) -> anyhow::Result<()> {
    let now = SystemClock.now();
    let at = args.at.as_deref().map_or(Ok(now), Time::parse).context("--at")?;
    let key_id = KeyId::parse(&args.key_id)?;
    let partner = PartnerCode::parse(&args.partner)?;
    let mut vault = vault::open(&loaded.settings, Instead::EndKeyFile)?;
    let merchant = merchant_of(vault.document(), &partner, args.merchant.as_deref())?;
    let account = vault.document_mut().account_mut(&partner, &merchant)?;
    let before = account.key(&key_id)?.clone();
    let end = account.retire_key(&key_id, at)?;
    let covered = account.covered_until(before.channel, end.max(now));
    let gap = covered.filter(|from| before.ends().is_none_or(|until| *from < until));
    if let Some(from) = gap.filter(|_| !args.last) {
        return Err(last_key(account, &before, from));
    }
    keys::check(loaded, vault.document())?;
    vault.save()?;
    output::line(&format!("key {key_id} of {partner}/{merchant} ends at {end}"));
    Ok(())
}

/// The error that no key of a channel would be valid from a time on.
fn last_key(account: &AccountEntry, key: &KeyEntry, from: Time) -> anyhow::Error {
    let AccountEntry { partner, merchant_code, .. } = account;
    let KeyEntry { id, channel, .. } = key;
    let means = match channel {
        Channel::Ipn => "its notices would get 401",
        Channel::Return => "every payer would come back as unverified",
        Channel::Create | Channel::Sign | Channel::Tls => "no call to the partner could be made",
        Channel::Unwrap => "its notices could not be decrypted",
        Channel::Body => "its notices would be stored unsealed",
    };
    Fixable::error(
        format!(
            "without {id} no key of channel {} of {partner}/{merchant_code} is valid from {from} \
             on, so {means}",
            channel.name()
        ),
        match channel {
            Channel::Body => format!(
                "end sealing with payfold retention stop --account {partner}/{merchant_code}, or \
                 retire it with --last"
            ),
            _ => format!(
                "add the next key first: payfold key add {partner} --merchant {merchant_code} \
                 --channel {} --secret-file FILE; if it has leaked, retire it at once with --last",
                channel.name()
            ),
        },
    )
}

fn add(loaded: &Loaded, args: &KeyAddArgs) -> anyhow::Result<()> {
    let partner = PartnerCode::parse(&args.partner)?;
    check_configured(loaded, &partner)?;
    let now = SystemClock.now();
    let mut vault = vault::open_or_create(&loaded.settings, Instead::AddKeyFile)?;
    let merchant = merchant_of(vault.document(), &partner, args.merchant.as_deref())?;
    let channel = Channel::from(args.channel);
    let (secret, generated) = match &args.secret_file {
        Some(path) => (read_secret(path)?, None),
        None => {
            let text = generate(channel)?;
            (Secret::from_bytes(text.as_bytes().to_vec()), Some(text))
        }
    };
    let id = match &args.key_id {
        Some(id) => KeyId::parse(id)?,
        None => KeyId::parse(&format!("k-{}", now.unix_ms())).expect("digits make an id"),
    };
    let overlap = parse_overlap(&args.overlap)?;
    let valid_from =
        args.valid_from.as_deref().map_or(Ok(now), Time::parse).context("--valid-from")?;
    let key = NewKey {
        id: id.clone(),
        channel,
        secret,
        valid_from,
        overlap_ms: i64::try_from(overlap.as_millis())?,
        created_at: now,
    };
    if vault.document().account(&partner, &merchant).is_none() {
        vault.document_mut().add_account(AccountEntry::new(partner.clone(), merchant.clone()))?;
    }
    let account = vault.document_mut().account_mut(&partner, &merchant)?;
    check_overlap(loaded, account, &key)?;
    let effects = effects(account, &key, &args.overlap);
    match (account.add_key(key), &args.secret_file) {
        (Err(error), Some(path)) if is_of_secret(&error) => {
            return Err(error).with_context(|| format!("the secret in {}", path.display()));
        }
        (added, _) => added?,
    }
    set_constants(loaded, account, &args.constant)?;
    if let Some(serial) = &args.serial {
        account.set_serial(&id, serial)?;
    }
    keys::check(loaded, vault.document())?;
    vault.save()?;
    effects.iter().for_each(|effect| output::line(effect));
    if let Some(text) = generated {
        output::line(&format!("its secret, shown only now: {}", *text));
    }
    Ok(())
}

/// Makes a secret. The partner gets it as text, and its text is what signs.
fn generate(channel: Channel) -> anyhow::Result<Zeroizing<String>> {
    if matches!(channel, Channel::Sign | Channel::Tls) {
        return Err(Fixable::error(
            format!("a key of channel {} can't be generated here", channel.name()),
            "give its PEM with --secret-file; docs/reference/profiles.md, \"signatures and \
             certificates of ours\"",
        ));
    }
    Ok(Zeroizing::new(hex::encode(random_secret()?.expose())))
}

/// How long earlier keys or tokens stay valid beside a new one.
pub(super) fn parse_overlap(text: &str) -> anyhow::Result<Duration> {
    humantime::parse_duration(text).map_err(|_| {
        Fixable::error(
            format!("--overlap {text} is not a length of time"),
            "write it with its unit, such as 72h or 3days",
        )
    })
}

/// What a new key does to an account, in sentences.
fn effects(account: &AccountEntry, new: &NewKey, overlap: &str) -> Vec<String> {
    let AccountEntry { partner, merchant_code, .. } = account;
    let NewKey { id, valid_from, .. } = new;
    let mut effects =
        vec![format!("key {id} of {partner}/{merchant_code} is valid from {valid_from}")];
    if !account.keys_cut_by(new).is_empty() {
        effects[0] += &format!("; earlier keys stay valid for {overlap} more");
    }
    if account.keys.is_empty() {
        effects.push(format!(
            "{partner}/{merchant_code} is a new account; if the code is wrong: payfold account set \
             {partner} {merchant_code} --disabled"
        ));
    }
    let end = new.created_at.plus_ms(new.overlap_ms);
    let later = account.keys_after(new).into_iter().map(|key| {
        format!(
            "key {key} begins after it and stays, and {id} stays valid beside it; if {id} is to \
             replace it: payfold key retire {partner} --merchant {merchant_code} {key} --at {end}"
        )
    });
    effects.extend(later);
    effects
}

/// Whether the secret itself can't be used.
fn is_of_secret(error: &DocumentError) -> bool {
    let DocumentError::Key(error) = error else { return false };
    !matches!(error, KeyError::Duplicate { .. } | KeyError::TooMany { .. })
}

/// Refuses an overlap shorter than the partner's retry horizon. A notice is signed once and may be
/// sent again until then, so its key must stay valid.
fn check_overlap(loaded: &Loaded, account: &AccountEntry, new: &NewKey) -> anyhow::Result<()> {
    let of_notices = matches!(new.channel, Channel::Ipn | Channel::Unwrap);
    let profiles = keys::profiles(&loaded.settings)?;
    let profile = profiles.iter().find(|profile| *profile.partner() == account.partner);
    let horizon_ms = profile.map_or(0, |profile| profile.retry_horizon_ms());
    let cut = account.keys_cut_by(new);
    let Some(old) = cut.first().filter(|_| of_notices && new.overlap_ms < horizon_ms) else {
        return Ok(());
    };
    let horizon_ms = u64::try_from(horizon_ms).unwrap_or_default();
    let horizon = humantime::format_duration(std::time::Duration::from_millis(horizon_ms));
    Err(Fixable::error(
        format!(
            "partner {} sends notices again for {horizon}, signed with the old key, but key {old} \
             would end before that",
            account.partner
        ),
        format!(
            "give --overlap \"{horizon}\" or longer; if the old key has leaked, then also run \
             payfold key retire {} {old}",
            account.partner
        ),
    ))
}

/// Encrypts the vault to a new identity.
fn rotate(loaded: &Loaded) -> anyhow::Result<()> {
    let (vault, identity) = vault::files(&loaded.settings, Instead::NoIdentity)?;
    let RotatedIdentity { old, new } = rotate_identity(&vault, &identity)?;
    output::line(&format!("{} now opens with a new identity: {new}", vault.display()));
    output::line(&format!(
        "back up the identity {} in another place than the vault: without it the vault can't be \
         opened",
        identity.display()
    ));
    output::line(&format!(
        "earlier backups of the vault open only with the earlier identity ({}): keep it with them, \
         or make new backups and destroy both",
        old.join(" ")
    ));
    Ok(())
}

/// Refuses a partner without a profile. A running system would refuse the whole vault for a key of
/// such a partner.
fn check_configured(loaded: &Loaded, partner: &PartnerCode) -> anyhow::Result<()> {
    let of_demo = loaded.is_demo() && partner.as_str() == demo::PARTNER;
    if of_demo || loaded.settings.partners.contains_key(partner.as_str()) {
        return Ok(());
    }
    let demo = loaded.is_demo().then_some(demo::PARTNER);
    let known = loaded.settings.partners.keys().map(String::as_str).chain(demo);
    let known = known.collect::<Vec<_>>().join(", ");
    let known = if known.is_empty() { known } else { format!(" (there are: {known})") };
    Err(Fixable::error(
        format!("partner {partner} has no profile{known}"),
        format!(
            "correct the name; for a new partner: payfold partner new {partner}, add \
             [partners.{partner}] to payfold.toml, restart the running system"
        ),
    ))
}

fn merchant_of(
    document: &VaultDocument,
    partner: &PartnerCode,
    named: Option<&str>,
) -> anyhow::Result<MerchantCode> {
    if let Some(named) = named {
        return Ok(MerchantCode::parse(named)?);
    }
    let of_partner = || document.accounts.iter().filter(|account| account.partner == *partner);
    let enabled: Vec<_> = of_partner().filter(|account| account.enabled).collect();
    let accounts = if enabled.is_empty() { of_partner().collect() } else { enabled };
    match accounts.as_slice() {
        [only] => Ok(only.merchant_code.clone()),
        [] => Err(Fixable::error(
            format!("partner {partner} has no account yet"),
            "name a new account with --merchant CODE; payfold key list shows those that exist",
        )),
        _ => Err(Fixable::error(
            format!("partner {partner} has several accounts"),
            "choose one with --merchant CODE",
        )),
    }
}

fn read_secret(path: &Path) -> anyhow::Result<Secret> {
    let mut text = String::new();
    if path.as_os_str() == "-" {
        std::io::stdin().read_to_string(&mut text).context("the secret on standard input")?;
    } else {
        text = std::fs::read_to_string(path)
            .with_context(|| format!("the secret file {}", path.display()))?;
    }
    Secret::parse(text.trim_end_matches(['\r', '\n']))
        .with_context(|| format!("in {}", path.display()))
}
