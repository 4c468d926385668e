//! `payfold token`: tokens of people who may change things on the admin listener. Changes the
//! vault; a running system applies a change within a second. A token is shown once and stored as a
//! hash; its name is recorded as the author of each change.

use payfold_api::call::Nothing;
use payfold_api::reads::TOKENS;
use payfold_partners::token::{LOCAL_OWNER, TokenEntry};
use payfold_partners::vault::random_secret;
use payfold_reconcile::person_action::PersonAction;
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::Author;
use payfold_schemas::token::TokenRole;
use payfold_views::actions::{ACTIONS_MAX, ActionPage, ListActions};
use serde::Serialize;
use zeroize::Zeroizing;

use super::block_on::block_on;
use super::pages;
use crate::admin_client::AdminClient;
use crate::args::{Global, OutputArgs, PageArgs, TokenCommand};
use crate::data_dir::DataDir;
use crate::error::Fixable;
use crate::listing::{self, Listing, Row};
use crate::reads::Reads;
use crate::settings::{Loaded, Settings};
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
    let loaded = settings::load(global)?;
    match command {
        TokenCommand::Add { name, role } => add(&loaded.settings, name, (*role).into()),
        TokenCommand::List { output } => match global.admin_url {
            Some(_) => list_remote(global, &loaded, output),
            None => list(&loaded.settings, output),
        },
        TokenCommand::Log { by, page, output } => block_on(async {
            let author = by.as_deref().map(Author::parse).transpose()?;
            let reads = Reads::open(global, &loaded).await?;
            log(&reads, author, page, output).await
        }),
        TokenCommand::Retire { name } => retire(&loaded.settings, name),
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

/// Lists the tokens of a running system, with when each was recorded and what it was used for last.
fn list_remote(global: &Global, loaded: &Loaded, output: &OutputArgs) -> anyhow::Result<()> {
    let client = AdminClient::find(global, &DataDir::of(&loaded.settings))?;
    listing::print(output.output, client.call(&TOKENS, &[], &Nothing {})?.tokens)
}

/// Prints what people did page by page, up to the limit.
async fn log(
    reads: &Reads<'_>,
    author: Option<Author>,
    page: &PageArgs,
    output: &OutputArgs,
) -> anyhow::Result<()> {
    let mut listing = Listing::of::<PersonAction>(output.output);
    let read = async |limit, before| {
        let asked = ListActions { author: author.clone(), limit: Some(limit), before };
        let ActionPage { actions, next } = reads.actions(&asked).await?;
        Ok((actions, next))
    };
    let mut is_empty = true;
    let take = |rows: Vec<PersonAction>| {
        is_empty &= rows.is_empty();
        rows.iter().try_for_each(|row| listing.row(row))
    };
    pages::read(page, ACTIONS_MAX, read, take).await?;
    let is_whole = page.after.is_none() && page.limit > 0;
    if let (true, Some(author)) = (is_empty && is_whole, &author) {
        output::error_line(&format!("nothing is recorded that {author} did; names are exact"));
    }
    listing.print()
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
