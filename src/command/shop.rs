//! `payfold shop`: shops that may call the shop listener, their accounts and tokens. Changes the
//! vault; a running system applies a change within a second. A token is shown once and stored as a
//! hash.

use anyhow::Context;
use payfold_engines::clock::{Clock, SystemClock};
use payfold_partners::document::VaultDocument;
use payfold_partners::shops::ShopAccount;
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{MerchantCode, PartnerCode, ShopName};
use payfold_schemas::time::Time;
use serde::Serialize;

use super::key::parse_overlap;
use crate::args::{Global, OutputArgs, ShopAddArgs, ShopCommand};
use crate::error::Fixable;
use crate::listing::{self, Row};
use crate::settings::Settings;
use crate::vault::{self, Instead};
use crate::{keys, output, settings};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TokenRow<'a> {
    shop: &'a ShopName,
    accounts: Vec<String>,
    token: String,
    created_at: Time,
    valid_until: Option<Time>,
}

impl Row for TokenRow<'_> {
    const COLUMNS: &'static str = "shop account:accounts token created_at valid_until";
}

/// Runs one of its commands.
pub(crate) fn run(global: &Global, command: &ShopCommand) -> anyhow::Result<()> {
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
            format!("shop {name} is new and has no account"),
            "give the accounts it may use with --account PARTNER/MERCHANT, repeated for several",
        ));
    }
    let overlap = parse_overlap(&args.overlap)?;
    let (token, text) = keys::new_shop_token(now)?;
    let overlap_ms = i64::try_from(overlap.as_millis())?;
    vault.document_mut().add_shop_token(&name, &accounts, token, overlap_ms);
    vault.save()?;
    if known {
        output::line(&format!("shop {name}: earlier tokens stay valid for {} more", args.overlap));
    }
    output::line(&format!("token of shop {name}, shown only now: {text}"));
    Ok(())
}

fn account_of(document: &VaultDocument, text: &str) -> anyhow::Result<ShopAccount> {
    let (partner, merchant) = text.split_once('/').ok_or_else(|| {
        Fixable::error(
            format!("--account {text} is not an account"),
            "write it as PARTNER/MERCHANT, such as acme/SHOP-1",
        )
    })?;
    let (partner, merchant_code) = (PartnerCode::parse(partner)?, MerchantCode::parse(merchant)?);
    if document.account(&partner, &merchant_code).is_none() {
        return Err(Fixable::error(
            format!("account {partner}/{merchant_code} does not exist"),
            format!(
                "create it with its first key: payfold key add {partner} --merchant {merchant_code}"
            ),
        ));
    }
    Ok(ShopAccount { partner, merchant_code })
}

fn list(settings: &Settings, output: &OutputArgs) -> anyhow::Result<()> {
    let document = vault::read(settings)?;
    let tokens = document.shops.iter().flat_map(|shop| {
        shop.tokens.iter().map(|token| TokenRow {
            shop: &shop.name,
            accounts: shop.accounts.iter().map(ToString::to_string).collect(),
            token: short(token.sha256),
            created_at: token.created_at,
            valid_until: token.valid_until,
        })
    });
    listing::print(output.output, tokens)
}

/// The first digits of a token's hash, to distinguish tokens.
fn short(sha256: Digest) -> String {
    sha256.to_string().chars().take(12).collect()
}

fn retire(settings: &Settings, name: &str, at: Option<&str>) -> anyhow::Result<()> {
    let name = ShopName::parse(name)?;
    let at = at.map_or(Ok(SystemClock.now()), Time::parse).context("--at")?;
    let mut vault = vault::open(settings, Instead::ChangePlainFile)?;
    vault.document_mut().retire_shop(&name, at).ok_or_else(|| {
        Fixable::error(
            format!("shop {name} does not exist"),
            "list the shops with payfold shop list",
        )
    })?;
    vault.save()?;
    output::line(&format!("shop {name}: all tokens end at {at}"));
    Ok(())
}
