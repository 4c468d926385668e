//! Owns who may take a step that can't be undone, as a command takes it: two people, each with a
//! token of their own. Who can write the vault or the log's files can do the same without the
//! command: the rule is for everybody else, and for what is recorded.

use std::sync::Arc;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_partners::document::VaultDocument;
use payfold_partners::token::{LOCAL_OWNER, Permission, TokenEntry};
use payfold_reconcile::people::People;
use payfold_schemas::ids::Author;
use payfold_schemas::time::Time;
use payfold_views::reader::Reader;

use crate::args::Global;
use crate::data_dir::DataDir;
use crate::error::Fixable;
use crate::output;
use crate::settings::{Loaded, Origin, Settings};
use crate::wiring::Engines;

/// The rules on two people of a system.
pub(crate) fn rules(settings: &Settings, origin: Origin) -> People {
    match origin {
        Origin::Demo => People { second_after_ms: 0, takes_local: true },
        Origin::Configured => People {
            second_after_ms: i64::from(settings.reconciler.second_after_hours) * 3_600 * 1_000,
            takes_local: false,
        },
    }
}

/// The owner of the token that is used. Errors: the token can't be read, or is not in the vault;
/// its role may not take the step.
pub(crate) fn owner(
    global: &Global,
    settings: &Settings,
    document: &VaultDocument,
    permission: Permission,
) -> anyhow::Result<Author> {
    let own = DataDir::of(settings).admin_token();
    let path = global.admin_token_file.as_ref().unwrap_or(&own);
    let refused = |why: String| {
        Fixable::error(
            format!("it is unknown who decides this: {why}"),
            "give the file of your token with --admin-token-file; `payfold token add NAME \
             --role ROLE` makes one",
        )
    };
    let token = std::fs::read_to_string(path)
        .map_err(|error| refused(format!("{} can't be read: {error}", path.display())))?;
    if *path == own {
        return Ok(Author::parse(LOCAL_OWNER)?);
    }
    let known = TokenEntry::find(&document.tokens, token.trim().as_bytes());
    let known = known.ok_or_else(|| refused("the token is not in the vault".to_owned()))?;
    if !permission.is_of(known.role) {
        return Err(Fixable::error(
            format!(
                "{} has the role {}, and this takes one of: {}",
                known.name,
                known.role.as_str(),
                permission.roles()
            ),
            "ask a person with such a role",
        ));
    }
    Ok(known.name.clone())
}

/// What a person has proposed.
pub(crate) struct Proposal {
    /// The person.
    pub author: Author,
    /// The time of it.
    pub at: Time,
    /// The reason that the person gave.
    pub reason: String,
}

/// The proposal of another person that this one agrees to; `None` if this one proposes it first.
/// Errors: this person may not, or has proposed it already; the findings can't be read.
pub(crate) async fn agreed<'p>(
    loaded: &Loaded,
    engines: &Engines,
    person: &Author,
    proposals: &'p [Proposal],
) -> anyhow::Result<Option<&'p Proposal>> {
    let (people, now) = (rules(&loaded.settings, loaded.origin()), SystemClock.now());
    let reader = Reader::new(Arc::clone(&engines.log), Arc::clone(engines.store()?));
    for proposal in proposals.iter().filter(|proposal| proposal.author != *person) {
        let first = &proposal.author;
        match reader.refused_both(&people, [first, person], now).await? {
            None => return Ok(Some(proposal)),
            Some(why) => output::error_line(&format!("{first} has proposed it, but {why}")),
        }
    }
    if let Some(own) = proposals.iter().find(|proposal| proposal.author == *person) {
        return Err(Fixable::error(
            format!("{person} has proposed this at {}: it waits for a second person", own.at),
            "another person runs the same command with their own token (--admin-token-file FILE)",
        ));
    }
    let refused = reader.refused_first(&people, person, now).await?;
    refused.map_or(Ok(None), |refused| Err(refused.into()))
}
