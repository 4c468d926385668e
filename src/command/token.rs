//! `payfold token`: who may change things on the admin listener. Changes the vault; a running system takes it up by
//! itself. A token is shown once and kept as a hash; its name is the author of what is done with it.

use payfold_partners::document::TokenEntry;
use payfold_partners::vault::random_secret;
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::Author;
use serde_json::json;
use zeroize::Zeroizing;

use crate::args::{Global, OutputArgs, TokenCommand};
use crate::error::Fixable;
use crate::output::{self, Listing};
use crate::settings;
use crate::settings::Settings;
use crate::vault::{self, Instead};

const COLUMNS: [&str; 2] = ["name", "token"];

/// Runs one of its commands.
pub fn run(global: &Global, command: &TokenCommand) -> anyhow::Result<()> {
    let settings = settings::load(global)?.settings;
    match command {
        TokenCommand::Add { name } => add(&settings, name),
        TokenCommand::List { output } => list(&settings, output),
        TokenCommand::Retire { name } => retire(&settings, name),
    }
}

fn add(settings: &Settings, name: &str) -> anyhow::Result<()> {
    let name = Author::parse(name)?;
    if name.as_str() == crate::keys::LOCAL_ADMIN {
        return Err(Fixable::error(
            format!("{name} is the name of the data folder's own token"),
            "choose the name of the person who gets this one",
        ));
    }
    let mut vault = vault::open_or_create(settings, Instead::ChangePlainFile)?;
    let token = Zeroizing::new(hex::encode(random_secret()?.expose()));
    let sha256 = Digest::of_bytes(token.as_bytes());
    vault.document_mut().add_token(TokenEntry { name: name.clone(), sha256 })?;
    vault.save()?;
    output::error_line(&format!(
        "token of {name}; it is shown this once. Keep it in a file of its own: --admin-token-file FILE"
    ));
    output::line(&token);
    Ok(())
}

fn list(settings: &Settings, form: &OutputArgs) -> anyhow::Result<()> {
    let vault = vault::open(settings, Instead::ChangePlainFile)?;
    let mut listing = Listing::new(form.output, &COLUMNS);
    for TokenEntry { name, sha256 } in &vault.document().tokens {
        let short: String = sha256.to_string().chars().take(12).collect();
        listing
            .row(vec![name.to_string(), short.clone()], &json!({ "name": name, "token": short }))?;
    }
    listing.print()
}

fn retire(settings: &Settings, name: &str) -> anyhow::Result<()> {
    let mut vault = vault::open(settings, Instead::ChangePlainFile)?;
    if !vault.document_mut().retire_token(name) {
        return Err(Fixable::error(
            format!("there is no token of {name}"),
            "payfold token list shows them",
        ));
    }
    vault.save()?;
    output::line(&format!("the token of {name} counts no longer"));
    Ok(())
}
