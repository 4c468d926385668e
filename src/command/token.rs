//! `payfold token`: tokens of people who may change things on the admin listener. Changes the
//! vault; a running system applies a change within a second. A token is shown once and stored as a
//! hash; its name is recorded as the author of each change.

use payfold_partners::token::{LOCAL_OWNER, TokenEntry};
use payfold_partners::vault::random_secret;
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::Author;
use payfold_schemas::token::TokenRole;
use serde::Serialize;
use zeroize::Zeroizing;

use crate::args::{Global, OutputArgs, TokenCommand};
use crate::error::Fixable;
use crate::listing::{self, Row};
use crate::settings::Settings;
use crate::vault::{self, Instead};
use crate::{output, settings};

#[derive(Serialize)]
struct AdminTokenRow<'a> {
    name: &'a Author,
    role: TokenRole,
    token: String,
}

impl Row for AdminTokenRow<'_> {
    const COLUMNS: &'static str = "name role token";
}

/// Runs one of its commands.
pub(crate) fn run(global: &Global, command: &TokenCommand) -> anyhow::Result<()> {
    let settings = settings::load(global)?.settings;
    match command {
        TokenCommand::Add { name, role } => add(&settings, name, (*role).into()),
        TokenCommand::List { output } => list(&settings, output),
        TokenCommand::Retire { name } => retire(&settings, name),
    }
}

fn add(settings: &Settings, name: &str, role: TokenRole) -> anyhow::Result<()> {
    let name = Author::parse(name)?;
    if name.as_str() == LOCAL_OWNER {
        return Err(Fixable::error(
            format!("{name} is reserved for the token of the data folder"),
            "use the name of the person who gets the token",
        ));
    }
    let mut vault = vault::open_or_create(settings, Instead::ChangePlainFile)?;
    let token = Zeroizing::new(hex::encode(random_secret()?.expose()));
    let sha256 = Digest::of_bytes(token.as_bytes());
    vault.document_mut().add_token(TokenEntry { name: name.clone(), sha256, role })?;
    vault.save()?;
    output::error_line(&format!(
        "token of {name}, role {}, shown only now; store it in a file and pass it with \
         --admin-token-file FILE",
        role.as_str()
    ));
    output::line(&token);
    Ok(())
}

fn list(settings: &Settings, output: &OutputArgs) -> anyhow::Result<()> {
    let vault = vault::open(settings, Instead::ChangePlainFile)?;
    let rows = vault.document().tokens.iter().map(|entry| AdminTokenRow {
        name: &entry.name,
        role: entry.role,
        token: entry.sha256.to_string().chars().take(12).collect(),
    });
    listing::print(output.output, rows)
}

fn retire(settings: &Settings, name: &str) -> anyhow::Result<()> {
    let mut vault = vault::open(settings, Instead::ChangePlainFile)?;
    if !vault.document_mut().retire_token(name) {
        return Err(Fixable::error(
            format!("{name} has no token"),
            "list the names with payfold token list",
        ));
    }
    vault.save()?;
    output::line(&format!("removed the token of {name}"));
    Ok(())
}
