//! `payfold retention start|stop|list|erase`: seals the bytes of notices with a key for each
//! account and month, and destroys the key of a month if two people want it. Only the vault
//! changes: no record is touched, so hash chain, fold and state stay the same. Invariants: the key
//! that seals now and keys of later months are never destroyed; an erased key leaves its id, both
//! people and the reason.

mod covered;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_partners::document::{
    AccountEntry, ErasureAgreement, ErasureProposal, KeyEntry, VaultDocument,
};
use payfold_partners::keys::Channel;
use payfold_partners::token::Permission;
use payfold_schemas::ids::{Author, KeyId};
use payfold_schemas::month::Month;
use payfold_schemas::time::Time;
use serde::Serialize;

use self::covered::{ErasableKeys, SealedCounts};
use super::block_on::block_on;
use crate::args::{Global, OutputArgs, RetentionAccounts, RetentionCommand, RetentionEraseArgs};
use crate::error::Fixable;
use crate::keys;
use crate::listing::{self, Row};
use crate::output;
use crate::settings::{self, Loaded, Settings};
use crate::two_people::Step;
use crate::vault::{self, Instead};
use crate::wiring::{self, Engines};

/// What is printed once a month is erased.
const ERASED: &str = "erased. A running system forgets the key within two seconds. Earlier copies \
    of the vault still have it: destroy them, or rotate the identity and destroy the old one \
    (docs/how-to/erase.md)";
/// What is printed to the first person.
const PROPOSED: &str = "proposed; nothing was erased yet. It is erased once another person runs \
    the same command with their own token; --withdraw takes it back";

/// A key that seals bodies, or the record of its erasure.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BodyKeyRow<'a> {
    account: String,
    key: &'a KeyId,
    from: Time,
    state: &'static str,
    /// Who has proposed to erase it.
    proposed_by: String,
    erased_at: Option<Time>,
    author: Option<&'a Author>,
    seconded_by: Option<&'a Author>,
    reason: Option<&'a str>,
}

impl Row for BodyKeyRow<'_> {
    const COLUMNS: &'static str =
        "account key from state proposed_by erased_at author seconded_by reason";
}

/// Runs one of its commands.
pub(crate) fn run(global: &Global, command: &RetentionCommand) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    match command {
        RetentionCommand::Start(accounts) => start(&loaded, accounts),
        RetentionCommand::Stop(accounts) => stop(&loaded, accounts),
        RetentionCommand::List { output } => list(&loaded.settings, output),
        RetentionCommand::Erase(args) => erase(global, &loaded, args),
    }
}

/// The indexes of the given accounts in the vault. Errors: an account does not exist.
fn places(document: &VaultDocument, asked: &RetentionAccounts) -> anyhow::Result<Vec<usize>> {
    if asked.all {
        return Ok((0..document.accounts.len()).collect());
    }
    asked.account.iter().map(|account| place(document, account)).collect()
}

fn place(document: &VaultDocument, account: &str) -> anyhow::Result<usize> {
    document.accounts.iter().position(|entry| entry.name() == account).ok_or_else(|| {
        Fixable::error(
            format!("account {account} does not exist in the vault"),
            "write it as PARTNER/MERCHANT; list the accounts with `payfold account list`",
        )
    })
}

fn start(loaded: &Loaded, asked: &RetentionAccounts) -> anyhow::Result<()> {
    let now = SystemClock.now();
    let mut vault = vault::open(&loaded.settings, Instead::AddBodyKeyFile)?;
    for place in places(vault.document(), asked)? {
        let entry = &mut vault.document_mut().accounts[place];
        let made = keys::add_body_keys(entry, now)?;
        let account = entry.name();
        match made.as_slice() {
            [] => output::line(&format!("notices of {account} are sealed already")),
            made => {
                let made: Vec<_> = made.iter().map(KeyId::as_str).collect();
                output::line(&format!(
                    "notices of {account} are sealed from now on: {}",
                    made.join(" ")
                ));
            }
        }
    }
    keys::check(loaded, vault.document())?;
    vault.save()?;
    output::line(
        "back up the vault now: sealed bytes can't be read without it. Backups of the vault keep \
         erased keys: delete old ones in time",
    );
    Ok(())
}

fn stop(loaded: &Loaded, asked: &RetentionAccounts) -> anyhow::Result<()> {
    let now = SystemClock.now();
    let mut vault = vault::open(&loaded.settings, Instead::EndKeyFile)?;
    for place in places(vault.document(), asked)? {
        let entry = &mut vault.document_mut().accounts[place];
        let of_bodies = entry.keys.iter().filter(|key| key.channel == Channel::Body);
        let ids: Vec<KeyId> = of_bodies.map(|key| key.id.clone()).collect();
        for id in ids {
            entry.retire_key(&id, now)?;
        }
        output::line(&format!("notices of {} are stored unsealed from now on", entry.name()));
    }
    vault.save()?;
    Ok(())
}

/// The state of a key of bodies: `next` (not begun), `seals` (in use) or `sealed` (it only opens).
fn state(entry: &AccountEntry, key: &KeyEntry, now: Time) -> &'static str {
    let seals =
        entry.keys.iter().filter(|other| other.channel == Channel::Body && other.is_valid_at(now));
    if now < key.valid_from && key.is_valid_after(now) {
        "next"
    } else if seals.max_by_key(|other| other.valid_from).is_some_and(|last| last.id == key.id) {
        "seals"
    } else {
        "sealed"
    }
}

fn list(settings: &Settings, output: &OutputArgs) -> anyhow::Result<()> {
    let (document, now) = (vault::read(settings)?, SystemClock.now());
    let rows = document.accounts.iter().flat_map(|entry| {
        let erased = entry.erased.iter().map(|gone| BodyKeyRow {
            account: entry.name(),
            key: &gone.key_id,
            from: gone.valid_from,
            state: "erased",
            proposed_by: String::new(),
            erased_at: Some(gone.at),
            author: Some(&gone.author),
            seconded_by: gone.seconded_by.as_ref(),
            reason: Some(&gone.reason),
        });
        let of_bodies = entry.keys.iter().filter(|key| key.channel == Channel::Body);
        erased.chain(of_bodies.map(move |key| {
            let proposals = proposals(entry, Month::of(key.valid_from));
            let names: Vec<_> = proposals.map(|it| it.author.as_str()).collect();
            BodyKeyRow {
                account: entry.name(),
                key: &key.id,
                from: key.valid_from,
                state: state(entry, key, now),
                proposed_by: names.join(", "),
                erased_at: None,
                author: None,
                seconded_by: None,
                reason: None,
            }
        }))
    });
    listing::print(output.output, rows)
}

fn erase(global: &Global, loaded: &Loaded, args: &RetentionEraseArgs) -> anyhow::Result<()> {
    let month = args.month.parse::<Month>()?;
    if args.withdraw {
        return withdraw(global, loaded, (&args.account, month));
    }
    let document = vault::read(&loaded.settings)?;
    let entry = &document.accounts[place(&document, &args.account)?];
    let ids = erasable(entry, month, SystemClock.now())?;
    let erasable = ErasableKeys { account: &args.account, month, keys: &ids };
    block_on(async {
        let engines = wiring::open_to_read(&loaded.settings).await?;
        let covered = SealedCounts::count(&engines, &erasable, &args.output).await?;
        covered.print(&erasable, &args.output)?;
        for ErasureProposal { author, at, reason, .. } in proposals(entry, month) {
            output::error_line(&format!("{author} proposed to erase it at {at}: {reason}"));
        }
        if !args.yes {
            output::error_line(
                "nothing was erased; with --yes you propose to erase it, and another person's \
                 --yes then does it, which can't be undone",
            );
            return Ok(());
        }
        erase_or_propose(global, loaded, &engines, (args, &erasable)).await
    })
}

/// The proposals to erase a month.
fn proposals(entry: &AccountEntry, month: Month) -> impl Iterator<Item = &ErasureProposal> {
    entry.erasure_proposals.iter().filter(move |proposal| proposal.month == month)
}

/// Erases what another person has proposed to, or proposes it. The vault is read anew, because the
/// count takes long on a large log. Errors: the keys have changed since.
async fn erase_or_propose(
    global: &Global,
    loaded: &Loaded,
    engines: &Engines,
    (args, counted): (&RetentionEraseArgs, &ErasableKeys<'_>),
) -> anyhow::Result<()> {
    let reason = args.reason.as_deref().unwrap_or_default().trim();
    if reason.is_empty() {
        return Err(Fixable::error("an erasure needs a reason", "give it with --reason"));
    }
    let mut vault = vault::open(&loaded.settings, Instead::EndKeyFile)?;
    let (month, at) = (counted.month, SystemClock.now());
    let place = place(vault.document(), counted.account)?;
    let entry = &vault.document().accounts[place];
    if erasable(entry, month, at)? != counted.keys {
        return Err(Fixable::error(
            format!("the keys of {} have changed during the count", entry.name()),
            "run the command once more",
        ));
    }
    let step = Step::of(global, loaded, vault.document(), Permission::Erase)?;
    let proposals: Vec<_> = proposals(entry, month).cloned().collect();
    let agreed = step.agreed(engines, &proposals, |it| (&it.author, it.at)).await?;
    let author = step.person;
    let reason = reason.to_owned();
    let account = &mut vault.document_mut().accounts[place];
    let done = match agreed {
        Some(proposal) => {
            account.erase_bodies(proposal, &ErasureAgreement { author, at, reason });
            ERASED
        }
        None => {
            account.propose_erasure(ErasureProposal { month, at, author, reason });
            PROPOSED
        }
    };
    vault.save()?;
    output::error_line(done);
    Ok(())
}

/// Withdraws a person's own proposal to erase the month.
fn withdraw(
    global: &Global,
    loaded: &Loaded,
    (account, month): (&str, Month),
) -> anyhow::Result<()> {
    let mut vault = vault::open(&loaded.settings, Instead::EndKeyFile)?;
    let person = Step::of(global, loaded, vault.document(), Permission::Erase)?.person;
    let place = place(vault.document(), account)?;
    if !vault.document_mut().accounts[place].withdraw_erasure(month, &person) {
        return Err(Fixable::error(
            format!("{person} has not proposed to erase {month} of {account}"),
            "see `payfold retention list`; a proposal is withdrawn with the token that made it",
        ));
    }
    vault.save()?;
    output::line("withdrawn");
    Ok(())
}

/// The ids of the keys of a past month. Errors: the month has no key, is not over, or its key still
/// seals.
fn erasable(entry: &AccountEntry, month: Month, now: Time) -> anyhow::Result<Vec<KeyId>> {
    let ids: Vec<KeyId> = entry.body_keys_of(month).map(|key| key.id.clone()).collect();
    if ids.is_empty() {
        return Err(Fixable::error(
            format!("no key of {} began in {month}", entry.name()),
            "list its months with `payfold retention list`; what came while no key sealed stays \
             readable",
        ));
    }
    let seals = entry.body_keys_of(month).find(|key| state(entry, key, now) == "seals");
    if let Some(key) = seals.filter(|_| entry.is_sealed(now)) {
        return Err(Fixable::error(
            format!("key {} of {month} still seals notices", key.id),
            "wait until the month is over and the next key seals; if `payfold retention list` \
             shows none, `payfold retention start` creates it",
        ));
    }
    if month >= Month::of(now) {
        return Err(Fixable::error(format!("{month} is not over"), "give a past month"));
    }
    Ok(ids)
}
