//! `payfold account list|set`: switches and limits of our accounts at partners, and the constants
//! that partners gave out for them. Changes the vault; a running system applies a change within a
//! second. The first key of an account creates it.

use std::collections::BTreeMap;

use ipnet::IpNet;
use payfold_api::accounts::{ACCOUNTS, AccountInForce};
use payfold_api::call::Nothing;
use payfold_partners::document::AccountEntry;
use payfold_schemas::ids::{MerchantCode, PartnerCode};
use serde::Serialize;

use crate::admin_client::AdminClient;
use crate::args::{AccountCommand, AccountSetArgs, Global, OutputArgs};
use crate::data_dir::DataDir;
use crate::error::Fixable;
use crate::listing::{self, Row};
use crate::settings::{self, Loaded};
use crate::vault::{self, Instead};
use crate::{keys, output};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AccountRow {
    partner: PartnerCode,
    merchant_code: MerchantCode,
    enabled: bool,
    keys: usize,
    allow_sources: Vec<String>,
    rate_per_s: Option<u32>,
    /// Those in the vault; `None` of a running system.
    constants: Option<BTreeMap<String, String>>,
}

impl From<&AccountEntry> for AccountRow {
    fn from(account: &AccountEntry) -> Self {
        Self {
            partner: account.partner.clone(),
            merchant_code: account.merchant_code.clone(),
            enabled: account.enabled,
            keys: account.keys.len(),
            allow_sources: account.allow_sources.iter().map(IpNet::to_string).collect(),
            rate_per_s: account.rate_per_s,
            constants: Some(account.constants.clone()),
        }
    }
}

impl From<AccountInForce> for AccountRow {
    fn from(account: AccountInForce) -> Self {
        Self {
            partner: account.partner,
            merchant_code: account.merchant_code,
            enabled: account.enabled,
            keys: account.keys.len(),
            allow_sources: account.allow_sources,
            rate_per_s: account.rate_per_s,
            constants: None,
        }
    }
}

impl Row for AccountRow {
    const COLUMNS: &'static str =
        "partner merchant:merchantCode enabled keys allow_sources rate_per_s constants";
}

/// Runs one of its commands.
pub(crate) fn run(global: &Global, command: &AccountCommand) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    match command {
        AccountCommand::List { partner, output } => {
            list(global, &loaded, partner.as_deref(), output)
        }
        AccountCommand::Set(args) => set(&loaded, args),
    }
}

/// Prints the accounts of a running system, if its address is given, or else those in the vault.
fn list(
    global: &Global,
    loaded: &Loaded,
    partner: Option<&str>,
    output: &OutputArgs,
) -> anyhow::Result<()> {
    let mut rows: Vec<_> = match global.admin_url {
        Some(_) => {
            let client = AdminClient::find(global, &DataDir::of(&loaded.settings))?;
            let accounts = client.call(&ACCOUNTS, &[], &Nothing {})?.accounts;
            accounts.into_iter().map(AccountRow::from).collect()
        }
        None => vault::read(&loaded.settings)?.accounts.iter().map(AccountRow::from).collect(),
    };
    rows.retain(|account| partner.is_none_or(|partner| account.partner.as_str() == partner));
    listing::print(output.output, rows)
}

fn set(loaded: &Loaded, args: &AccountSetArgs) -> anyhow::Result<()> {
    // A vault of key files can't be changed by commands; the error says what to do instead.
    let mut vault = vault::open(&loaded.settings, Instead::ChangePlainFile)?;
    let partner = PartnerCode::parse(&args.partner)?;
    let merchant = MerchantCode::parse(&args.merchant)?;
    if vault.document().account(&partner, &merchant).is_none() {
        return Err(Fixable::error(
            format!("account {partner}/{merchant} does not exist"),
            format!(
                "create it with its first key: payfold key add {partner} --merchant {merchant}"
            ),
        ));
    }
    let changed = change(loaded, vault.document_mut().account_mut(&partner, &merchant)?, args)?;
    if changed.is_empty() {
        return Err(Fixable::error(
            format!("no change of account {partner}/{merchant} is given"),
            "give one of --enabled, --disabled, --allow-source, --any-source, --rate-per-s, \
             --any-rate, --constant, --no-constant",
        ));
    }
    keys::check(loaded, vault.document())?;
    vault.save()?;
    output::line(&format!("account {partner}/{merchant}: {}", changed.join(", ")));
    Ok(())
}

/// Sets constants of an account. Returns a text for each. Errors: a constant is not NAME=VALUE, the
/// profile has none of that name, the name or value is not allowed, or the profiles can't be read.
pub(crate) fn set_constants(
    loaded: &Loaded,
    account: &mut AccountEntry,
    constants: &[String],
) -> anyhow::Result<Vec<String>> {
    if constants.is_empty() {
        return Ok(Vec::new());
    }
    let known = keys::constants_of(loaded, &account.partner)?;
    let set = |constant: &String| {
        let (name, value) = constant.split_once('=').ok_or_else(|| {
            Fixable::error(format!("--constant {constant} has no value"), "write it NAME=VALUE")
        })?;
        if !known.iter().any(|known| known == name) {
            return Err(no_such_constant(&account.partner, name, &known));
        }
        account.set_constant(name, value)?;
        Ok(format!("{name} = {value}"))
    };
    constants.iter().map(set).collect()
}

fn no_such_constant(partner: &PartnerCode, name: &str, known: &[String]) -> anyhow::Error {
    let fix = match known {
        [] => "its profile has no [constants]; add the name there first".to_owned(),
        known => format!("its profile has: {}", known.join(", ")),
    };
    Fixable::error(format!("partner {partner} has no constant {name}"), fix)
}

/// Applies the given changes. Returns a text for each.
fn change(
    loaded: &Loaded,
    account: &mut AccountEntry,
    args: &AccountSetArgs,
) -> anyhow::Result<Vec<String>> {
    let mut changed = Vec::new();
    if args.enabled || args.disabled {
        account.enabled = args.enabled;
        changed.push(if args.enabled { "enabled" } else { "disabled" }.to_owned());
    }
    if args.any_source || !args.allow_source.is_empty() {
        account.allow_sources.clone_from(&args.allow_source);
        let sources: Vec<String> = args.allow_source.iter().map(ToString::to_string).collect();
        changed.push(match args.any_source {
            true => "notices from anywhere".to_owned(),
            false => format!("notices from {}", sources.join(" ")),
        });
    }
    if args.any_rate || args.rate_per_s.is_some() {
        account.rate_per_s = args.rate_per_s;
        let rate = args.rate_per_s.map_or("any number".to_owned(), |rate| rate.to_string());
        changed.push(format!("{rate} notices a second"));
    }
    changed.extend(set_constants(loaded, account, &args.constant)?);
    for name in &args.no_constant {
        account.constants.remove(name).ok_or_else(|| {
            Fixable::error(
                format!("the account has no constant {name}"),
                "list its constants with payfold account list",
            )
        })?;
        changed.push(format!("no {name}"));
    }
    Ok(changed)
}
