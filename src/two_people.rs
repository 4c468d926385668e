//! Owns who may take a step that can't be undone, by a command: two people, each with a token of
//! their own. Such a command works on the vault or on a log at rest, so one person who has those
//! could do the same without it. The rule keeps a single person's mistake from being final, and
//! both names are kept.

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
use crate::settings::{Loaded, Origin, Settings};
use crate::wiring::Engines;
use crate::{demo, output};

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

/// A step that takes two people, as one of them takes it.
pub(crate) struct Step<'s> {
    people: People,
    document: &'s VaultDocument,
    permission: Permission,
    /// Who takes it now.
    pub person: Author,
}

impl<'s> Step<'s> {
    /// A step that the owner of the token takes. Errors: the token can't be read, or is not in the
    /// vault; its role may not take the step; there is no configuration, and this is no demo.
    pub(crate) fn of(
        global: &Global,
        loaded: &Loaded,
        document: &'s VaultDocument,
        permission: Permission,
    ) -> anyhow::Result<Self> {
        let mut accounts = document.accounts.iter();
        if loaded.is_demo() && !accounts.all(|account| account.partner.as_str() == demo::PARTNER) {
            return Err(Fixable::error(
                "there is no configuration file here, and this is not the demo's vault: how many \
                 people it takes is in the configuration",
                "give it with --config FILE, or run the command in its folder",
            ));
        }
        let people = rules(&loaded.settings, loaded.origin());
        let person = owner(global, &loaded.settings, document, permission)?;
        Ok(Self { people, document, permission, person })
    }

    /// The proposal of another person that this one agrees to; `None` if this one proposes it
    /// first. `made` is by whom and when a proposal was made. Errors: this person may not, or has
    /// proposed it already; the findings can't be read.
    pub(crate) async fn agreed<'p, P>(
        &self,
        engines: &Engines,
        proposals: &'p [P],
        made: fn(&P) -> (&Author, Time),
    ) -> anyhow::Result<Option<&'p P>> {
        let (person, now) = (&self.person, SystemClock.now());
        self.people.check_named(person)?;
        let own = proposals.iter().find(|proposal| made(proposal).0 == person);
        let mut others = proposals.iter().filter(|it| made(it).0 != person).peekable();
        if others.peek().is_some() {
            let reader = Reader::new(Arc::clone(&engines.log), Arc::clone(engines.store()?));
            let known = reader.tokens(&self.document.tokens).await?.tokens;
            let check = |person: &Author| {
                let token = known.iter().find(|token| token.name == *person);
                self.people.check_known(person, token.and_then(|token| token.recorded_at), now)
            };
            for proposal in others {
                let (first, _) = made(proposal);
                if !self.permits(first) {
                    output::error_line(&format!(
                        "{first} has proposed it, but has no token any more that may"
                    ));
                } else if let Err(why) = check(first) {
                    output::error_line(&format!("{first} has proposed it, but {why}"));
                } else {
                    check(person)?;
                    return Ok(Some(proposal));
                }
            }
        }
        own.map_or(Ok(None), |own| {
            Err(Fixable::error(
                format!(
                    "{person} has proposed this at {}: it waits for a second person",
                    made(own).1
                ),
                "another person runs the same command with their own token (--admin-token-file \
                 FILE)",
            ))
        })
    }

    /// Whether a person still has a token that may take the step.
    fn permits(&self, person: &Author) -> bool {
        let mut tokens = self.document.tokens.iter().filter(|token| token.name == *person);
        person.as_str() == LOCAL_OWNER || tokens.any(|token| self.permission.is_of(token.role))
    }
}

/// The owner of the token that is used. Errors: the token can't be read, or is not in the vault;
/// its role may not take the step.
fn owner(
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
