//! `payfold account list|set`: what is let pass of our accounts at partners, and the values partners gave out for them.
//! Changes the vault; a running system takes it within a second. An account is made by its first key.

use payfold_partners::document::AccountEntry;
use payfold_schemas::ids::{MerchantCode, PartnerCode};
use serde_json::json;

use crate::args::{AccountCommand, AccountSetArgs, Global, OutputArgs};
use crate::error::Fixable;
use crate::keys;
use crate::output::{self, Listing};
use crate::settings::{self, Loaded};
use crate::vault::{self, Instead};

const COLUMNS: [&str; 7] =
    ["partner", "merchant", "enabled", "keys", "allow_sources", "rate_per_s", "constants"];

/// Runs one of its commands.
pub fn run(global: &Global, command: &AccountCommand) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    match command {
        AccountCommand::List { partner, output } => list(&loaded, partner.as_deref(), output),
        AccountCommand::Set(args) => set(&loaded, args),
    }
}

fn list(loaded: &Loaded, partner: Option<&str>, output: &OutputArgs) -> anyhow::Result<()> {
    let document = vault::read(&loaded.settings)?;
    let mut listing = Listing::new(output.output, &COLUMNS);
    let is_asked = |account: &&AccountEntry| partner.is_none_or(|p| account.partner.as_str() == p);
    for account in document.accounts.iter().filter(is_asked) {
        let AccountEntry { partner, merchant_code, enabled, allow_sources, rate_per_s, .. } =
            account;
        let object = json!({
            "partner": partner, "merchantCode": merchant_code, "enabled": enabled,
            "keys": account.keys.len(), "allowSources": allow_sources, "ratePerS": rate_per_s,
            "constants": account.constants,
        });
        let or_none = |text: String| if text.is_empty() { "-".to_owned() } else { text };
        let sources: Vec<String> = allow_sources.iter().map(ToString::to_string).collect();
        let constants: Vec<String> =
            account.constants.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let cells = vec![
            partner.to_string(),
            merchant_code.to_string(),
            if *enabled { "yes" } else { "no" }.to_owned(),
            account.keys.len().to_string(),
            or_none(sources.join(" ")),
            or_none(rate_per_s.map_or(String::new(), |rate| rate.to_string())),
            or_none(constants.join(" ")),
        ];
        listing.row(cells, &object)?;
    }
    listing.print()
}

fn set(loaded: &Loaded, args: &AccountSetArgs) -> anyhow::Result<()> {
    let mut vault = vault::open(&loaded.settings, Instead::ChangePlainFile)?;
    let partner = PartnerCode::parse(&args.partner)?;
    let merchant = MerchantCode::parse(&args.merchant)?;
    if vault.document().account(&partner, &merchant).is_none() {
        return Err(Fixable::error(
            format!("there is no account {partner}/{merchant}"),
            format!("payfold key add {partner} --merchant {merchant} makes it with its first key"),
        ));
    }
    let changed = change(loaded, vault.document_mut().account_mut(&partner, &merchant)?, args)?;
    if changed.is_empty() {
        return Err(Fixable::error(
            format!("nothing of account {partner}/{merchant} is told to change"),
            "--enabled, --disabled, --allow-source, --any-source, --rate-per-s, --any-rate, --constant, --no-constant",
        ));
    }
    keys::check(loaded, vault.document())?;
    vault.save()?;
    output::line(&format!("account {partner}/{merchant}: {}", changed.join(", ")));
    Ok(())
}

/// Gives an account values its partner gave out; tells which. Errors: one is not NAME=VALUE, or its profile has none of
/// that name.
pub fn set_constants(
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
        [] => "its profile has no [constants]; write the name there first".to_owned(),
        known => format!("its profile has: {}", known.join(", ")),
    };
    Fixable::error(format!("partner {partner} has no constant {name}"), fix)
}

/// Changes what is named; tells what.
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
        changed.push(format!("{rate} a second"));
    }
    changed.extend(set_constants(loaded, account, &args.constant)?);
    for name in &args.no_constant {
        account.constants.remove(name).ok_or_else(|| {
            Fixable::error(
                format!("there is no constant {name}"),
                "payfold account list shows them",
            )
        })?;
        changed.push(format!("no {name}"));
    }
    Ok(changed)
}
