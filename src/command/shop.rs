//! `payfold shop`: who may call the shop listener, with which token, for which accounts. Changes the vault; a
//! running system takes it up by itself. A token is shown once and kept as a hash.

use anyhow::Context;
use payfold_engines::clock::{Clock, SystemClock};
use payfold_partners::document::VaultDocument;
use payfold_partners::shops::ShopAccount;
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{MerchantCode, PartnerCode, ShopName};
use payfold_schemas::time::Time;
use serde_json::json;

use crate::args::{Global, OutputArgs, ShopAddArgs, ShopCommand};
use crate::error::Fixable;
use crate::output::{self, Listing};
use crate::settings::Settings;
use crate::vault::{self, Instead};
use crate::{keys, settings};

const COLUMNS: [&str; 5] = ["shop", "account", "token", "created_at", "valid_until"];

/// Runs one of its commands.
pub fn run(global: &Global, command: &ShopCommand) -> anyhow::Result<()> {
    let settings = settings::load(global)?.settings;
    match command {
        ShopCommand::Add(args) => add(&settings, args),
        ShopCommand::List { output } => list(&settings, output),
        ShopCommand::Retire { name, at } => retire(&settings, name, at.as_deref()),
    }
}

fn add(settings: &Settings, args: &ShopAddArgs) -> anyhow::Result<()> {
    let (now, name) = (SystemClock.now(), ShopName::parse(&args.name)?);
    let mut vault = vault::open_or_create(settings, Instead::ChangePlainFile)?;
    let accounts = args
        .account
        .iter()
        .map(|account| account_of(vault.document(), account))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let known = vault.document().shops.iter().any(|shop| shop.name == name);
    if !known && accounts.is_empty() {
        return Err(Fixable::error(
            format!("shop {name} is new and would see nothing"),
            "name what it may use with --account PARTNER/MERCHANT, once for each",
        ));
    }
    let overlap = humantime::parse_duration(&args.overlap).context("--overlap")?;
    let (token, text) = keys::new_shop_token(now)?;
    let overlap_ms = i64::try_from(overlap.as_millis())?;
    vault.document_mut().add_shop_token(&name, &accounts, token, overlap_ms);
    vault.save()?;
    if known {
        output::line(&format!("shop {name}: its earlier tokens count for {} more", args.overlap));
    }
    output::line(&format!("token of shop {name}, shown this once: {text}"));
    Ok(())
}

fn account_of(document: &VaultDocument, text: &str) -> anyhow::Result<ShopAccount> {
    let (partner, merchant) = text.split_once('/').ok_or_else(|| {
        Fixable::error(
            format!("--account {text} names no account"),
            "write it PARTNER/MERCHANT, such as acme/SHOP-1",
        )
    })?;
    let (partner, merchant_code) = (PartnerCode::parse(partner)?, MerchantCode::parse(merchant)?);
    if document.account(&partner, &merchant_code).is_none() {
        return Err(Fixable::error(
            format!("there is no account {partner}/{merchant_code}"),
            format!("payfold key add {partner} --merchant {merchant_code}"),
        ));
    }
    Ok(ShopAccount { partner, merchant_code })
}

fn list(settings: &Settings, output: &OutputArgs) -> anyhow::Result<()> {
    let document = vault::read(settings)?;
    let mut listing = Listing::new(output.output, &COLUMNS);
    for shop in &document.shops {
        let accounts: Vec<_> = shop.accounts.iter().map(ToString::to_string).collect();
        for token in &shop.tokens {
            let object = json!({
                "shop": shop.name, "accounts": accounts, "token": short(token.sha256),
                "createdAt": token.created_at, "validUntil": token.valid_until,
            });
            let cells = vec![
                shop.name.to_string(),
                accounts.join(" "),
                short(token.sha256),
                output::time(token.created_at),
                token.valid_until.map_or("-".to_owned(), output::time),
            ];
            listing.row(cells, &object)?;
        }
    }
    listing.print()
}

/// Enough of a token's hash to tell it from the others.
fn short(sha256: Digest) -> String {
    sha256.to_string().chars().take(12).collect()
}

fn retire(settings: &Settings, name: &str, at: Option<&str>) -> anyhow::Result<()> {
    let name = ShopName::parse(name)?;
    let at = at.map_or(Ok(SystemClock.now()), Time::parse).context("--at")?;
    let mut vault = vault::open(settings, Instead::ChangePlainFile)?;
    vault.document_mut().retire_shop(&name, at).ok_or_else(|| {
        Fixable::error(format!("there is no shop {name}"), "payfold shop list shows them")
    })?;
    vault.save()?;
    output::line(&format!("shop {name}: no token counts from {at} on"));
    Ok(())
}
