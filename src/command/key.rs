//! `payfold key add|list|retire`: keys of partner accounts in the vault. A running system takes a change
//! within a second, without a restart. Secrets come from a file or standard input, never from an argument.

use std::collections::HashMap;
use std::io::Read;
use std::path::Path;

use anyhow::Context;
use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::Topic;
use payfold_partners::document::{AccountEntry, NewKey, VaultDocument};
use payfold_partners::secret::Secret;
use payfold_partners::vault::{Vault, random_secret};
use payfold_schemas::ids::{KeyId, MerchantCode, PartnerCode};
use payfold_schemas::record::{Parts, Record};
use payfold_schemas::time::Time;
use serde_json::json;

use super::block_on;
use crate::args::{Global, KeyAddArgs, KeyCommand, OutputArgs};
use crate::data_dir::DataDir;
use crate::error::Fixable;
use crate::output::{self, Listing};
use crate::settings::{self, Loaded};
use crate::walk::Walk;
use crate::wiring::Engines;
use crate::{demo, keys, search};

const COLUMNS: [&str; 8] = [
    "partner",
    "merchant",
    "key_id",
    "channel",
    "valid_from",
    "valid_until",
    "last_used",
    "uses_24h",
];
const DAY_MS: i64 = 24 * 3_600 * 1_000;
const PAGE: usize = 5_000;

/// Runs one of its commands.
pub fn run(global: &Global, command: &KeyCommand) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    let data = DataDir::of(&loaded.settings);
    match command {
        KeyCommand::Add(args) => add(&loaded, &data, args),
        KeyCommand::List { partner, output } => list(&loaded, &data, partner.as_deref(), output),
        KeyCommand::Retire { partner, key_id, merchant, at } => {
            let at = at.as_deref().map_or(Ok(SystemClock.now()), Time::parse)?;
            let key_id = KeyId::parse(key_id)?;
            let mut vault = Vault::open(&data.vault(), &data.identity())?;
            let partner = PartnerCode::parse(partner)?;
            let merchant = merchant_of(vault.document(), &partner, merchant.as_deref())?;
            vault.document_mut().account_mut(&partner, &merchant)?.retire_key(&key_id, at)?;
            keys::check(&loaded, vault.document())?;
            vault.save()?;
            output::line(&format!("key {key_id} of {partner}/{merchant} ends at {at}"));
            Ok(())
        }
    }
}

fn add(loaded: &Loaded, data: &DataDir, args: &KeyAddArgs) -> anyhow::Result<()> {
    let partner = PartnerCode::parse(&args.partner)?;
    check_configured(loaded, &partner)?;
    let now = SystemClock.now();
    let mut vault = keys::open_or_create(data)?;
    let merchant = merchant_of(vault.document(), &partner, args.merchant.as_deref())?;
    let (secret, generated) = match &args.secret_file {
        Some(path) => (read_secret(path)?, None),
        None => {
            let text = hex::encode(random_secret()?.expose());
            (Secret::from_bytes(text.clone().into_bytes()), Some(text))
        }
    };
    let id = match &args.key_id {
        Some(id) => KeyId::parse(id)?,
        None => KeyId::parse(&format!("k-{}", now.unix_ms())).expect("digits make an id"),
    };
    let overlap = humantime::parse_duration(&args.overlap).context("--overlap")?;
    let valid_from =
        args.valid_from.as_deref().map_or(Ok(now), Time::parse).context("--valid-from")?;
    let key = NewKey {
        id: id.clone(),
        channel: args.channel.into(),
        secret,
        valid_from,
        overlap_ms: i64::try_from(overlap.as_millis())?,
        created_at: now,
    };
    if vault.document().account(&partner, &merchant).is_none() {
        vault.document_mut().add_account(AccountEntry::new(partner.clone(), merchant.clone()))?;
    }
    vault.document_mut().account_mut(&partner, &merchant)?.add_key(key)?;
    keys::check(loaded, vault.document())?;
    vault.save()?;
    output::line(&format!(
        "key {id} of {partner}/{merchant} counts from {valid_from}; earlier keys for {} more",
        args.overlap
    ));
    if let Some(text) = generated {
        output::line(&format!("its secret, shown this once: {text}"));
    }
    Ok(())
}

/// A key of a partner without a profile would make the running system refuse the whole vault.
fn check_configured(loaded: &Loaded, partner: &PartnerCode) -> anyhow::Result<()> {
    let of_demo = loaded.is_demo() && partner.as_str() == demo::PARTNER;
    if of_demo || loaded.settings.partners.contains_key(partner.as_str()) {
        return Ok(());
    }
    Err(Fixable::error(
        format!("partner {partner} has no profile"),
        format!(
            "put [partners.{partner}] with profile = \"default\" into payfold.toml, and restart what runs"
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
    let mut accounts = document.accounts.iter().filter(|account| account.partner == *partner);
    match (accounts.next(), accounts.next()) {
        (Some(only), None) => Ok(only.merchant_code.clone()),
        (None, _) => Err(Fixable::error(
            format!("partner {partner} has no account yet"),
            "name it with --merchant CODE",
        )),
        (Some(_), Some(_)) => Err(Fixable::error(
            format!("partner {partner} has several accounts"),
            "name one with --merchant CODE",
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

struct Uses {
    last: Time,
    count: u64,
}

fn list(
    loaded: &Loaded,
    data: &DataDir,
    partner: Option<&str>,
    output: &OutputArgs,
) -> anyhow::Result<()> {
    let vault = Vault::open(&data.vault(), &data.identity())?;
    let uses = block_on(async {
        match Engines::open_to_read(&loaded.settings).await {
            Ok(engines) => uses_of_a_day(&engines).await,
            Err(_) => Ok(HashMap::new()),
        }
    })?;
    let mut listing = Listing::new(output.output, &COLUMNS);
    let accounts = vault.document().accounts.iter();
    for account in
        accounts.filter(|account| partner.is_none_or(|partner| account.partner.as_str() == partner))
    {
        for key in &account.keys {
            let used = uses.get(&(account.partner.clone(), key.id.clone()));
            let last_used = used.map(|uses| uses.last);
            let count = used.map_or(0, |uses| uses.count);
            let object = json!({
                "partner": account.partner, "merchantCode": account.merchant_code, "keyId": key.id,
                "channel": key.channel, "validFrom": key.valid_from, "validUntil": key.valid_until,
                "lastUsed": last_used, "uses24h": count, "enabled": account.enabled,
            });
            let or_none = |time: Option<Time>| time.map_or("-".to_owned(), output::time);
            let cells = vec![
                account.partner.to_string(),
                account.merchant_code.to_string(),
                key.id.to_string(),
                key.channel.name().to_owned(),
                output::time(key.valid_from),
                or_none(key.valid_until),
                or_none(last_used),
                count.to_string(),
            ];
            listing.row(cells, &object)?;
        }
    }
    listing.print()
}

/// How often each key signed what the log took in the last day, and when last.
async fn uses_of_a_day(engines: &Engines) -> anyhow::Result<HashMap<(PartnerCode, KeyId), Uses>> {
    let since = SystemClock.now().plus_ms(-DAY_MS);
    let mut uses = HashMap::new();
    let places = search::before_time(&*engines.log, Topic::Intake, since).await?;
    let mut walk = Walk::from(&*engines.log, Topic::Intake, places);
    while let Some(page) = walk.next(PAGE).await? {
        for message in &page {
            let Parts::Fact(fact) = Record::decode(&message.value)?.parts else { continue };
            let Some(source) = fact.source.filter(|_| fact.received_at >= since) else { continue };
            let key = (fact.order.partner, source.key_id);
            let entry = uses.entry(key).or_insert(Uses { last: fact.received_at, count: 0 });
            entry.count += 1;
            entry.last = entry.last.max(fact.received_at);
        }
    }
    Ok(uses)
}
