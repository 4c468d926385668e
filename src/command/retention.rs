//! `payfold retention start|stop|list|erase`: sealing the bytes of notices with a key for each account and month, and
//! destroying a month of them. Changes the vault only: no record is touched, so chain, fold and state stay what they are.
//! Invariants: the key that seals now and those of months to come are not destroyed; what is destroyed leaves its name,
//! and who did it.

mod covered;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_partners::document::{AccountEntry, KeyEntry, VaultDocument};
use payfold_partners::keys::Channel;
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{Author, KeyId};
use payfold_schemas::month::Month;
use payfold_schemas::time::Time;
use serde_json::json;

use self::covered::Covered;
use super::block_on;
use crate::args::{Global, OutputArgs, RetentionAccounts, RetentionCommand, RetentionEraseArgs};
use crate::data_dir::DataDir;
use crate::error::Fixable;
use crate::keys::{self, LOCAL_ADMIN};
use crate::output::{self, Listing};
use crate::settings::{self, Loaded, Settings};
use crate::vault::{self, Instead};
use crate::wiring::Engines;

const COLUMNS: [&str; 7] = ["account", "key", "from", "state", "erased_at", "author", "reason"];

/// Runs one of its commands.
pub fn run(global: &Global, command: &RetentionCommand) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    match command {
        RetentionCommand::Start(accounts) => start(&loaded, accounts),
        RetentionCommand::Stop(accounts) => stop(&loaded, accounts),
        RetentionCommand::List { output } => list(&loaded.settings, output),
        RetentionCommand::Erase(args) => erase(global, &loaded, args),
    }
}

/// Which of the accounts are meant. Errors: one that is not there.
fn places(document: &VaultDocument, asked: &RetentionAccounts) -> anyhow::Result<Vec<usize>> {
    if asked.all {
        return Ok((0..document.accounts.len()).collect());
    }
    asked.account.iter().map(|account| place(document, account)).collect()
}

fn place(document: &VaultDocument, account: &str) -> anyhow::Result<usize> {
    document.accounts.iter().position(|entry| entry.name() == account).ok_or_else(|| {
        Fixable::error(
            format!("there is no account {account} in the vault"),
            "write it as partner/merchantCode; `payfold account list` shows them",
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
            [] => output::line(&format!("{account} is sealed already")),
            made => {
                let made: Vec<_> = made.iter().map(KeyId::as_str).collect();
                output::line(&format!("{account} is sealed from now on: {}", made.join(" ")));
            }
        }
    }
    keys::check(loaded, vault.document())?;
    vault.save()?;
    output::line(
        "back the vault up now: what is sealed can't be read without it. Backups of it keep erased keys: give them an end",
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
        output::line(&format!("{} is stored in the clear from now on", entry.name()));
    }
    vault.save()?;
    Ok(())
}

/// Where a key of bodies stands in its account.
fn state(entry: &AccountEntry, key: &KeyEntry, now: Time) -> &'static str {
    let seals =
        entry.keys.iter().filter(|other| other.channel == Channel::Body && other.counts_at(now));
    if now < key.valid_from {
        "next"
    } else if seals.max_by_key(|other| other.valid_from).is_some_and(|last| last.id == key.id) {
        "seals"
    } else {
        "sealed"
    }
}

fn list(settings: &Settings, output: &OutputArgs) -> anyhow::Result<()> {
    let (document, now) = (vault::read(settings)?, SystemClock.now());
    let mut listing = Listing::new(output.output, &COLUMNS);
    for entry in &document.accounts {
        let account = entry.name();
        for gone in &entry.erased {
            let (from, at) = (output::time(gone.valid_from), output::time(gone.at));
            let (author, reason) = (gone.author.to_string(), gone.reason.clone());
            let cells = [&account, gone.key_id.as_str(), &from, "erased", &at, &author, &reason];
            let object = json!({
                "account": account, "key": gone.key_id, "from": gone.valid_from, "state": "erased",
                "erasedAt": gone.at, "author": gone.author, "reason": gone.reason,
            });
            listing.row(cells.map(|cell| cell.to_string()).to_vec(), &object)?;
        }
        for key in entry.keys.iter().filter(|key| key.channel == Channel::Body) {
            let state = state(entry, key, now);
            let from = output::time(key.valid_from);
            let cells = [&account, key.id.as_str(), &from, state, "", "", ""];
            let object = json!({
                "account": account, "key": key.id, "from": key.valid_from, "state": state,
                "erasedAt": null, "author": null, "reason": null,
            });
            listing.row(cells.map(|cell| cell.to_string()).to_vec(), &object)?;
        }
    }
    listing.print()
}

fn erase(global: &Global, loaded: &Loaded, args: &RetentionEraseArgs) -> anyhow::Result<()> {
    let (now, month) = (SystemClock.now(), args.month.parse::<Month>()?);
    let document = vault::read(&loaded.settings)?;
    let entry = &document.accounts[place(&document, &args.account)?];
    let ids = erasable(entry, month, now)?;
    let covered = block_on(async {
        let engines = Engines::open_to_read(&loaded.settings).await?;
        Covered::count(&engines, (&args.account, &ids), &args.output).await
    })?;
    covered.print((&args.account, month, &ids), &args.output)?;
    if !args.yes {
        output::error_line("nothing was erased: --yes does it, and nobody can take it back");
        return Ok(());
    }
    let author = author(global, &loaded.settings, &document)?;
    let reason = args.reason.as_deref().unwrap_or_default().trim();
    if reason.is_empty() {
        return Err(Fixable::error("an erasure has a reason", "say it with --reason"));
    }
    let mut vault = vault::open(&loaded.settings, Instead::EndKeyFile)?;
    let (partner, merchant) = (entry.partner.clone(), entry.merchant_code.clone());
    for id in &ids {
        let account = vault.document_mut().account_mut(&partner, &merchant)?;
        account.erase_body_key(id, (now, author.clone(), reason.to_owned()))?;
    }
    vault.save()?;
    output::error_line(
        "erased. A running system forgets the key within two seconds; copies of the vault from before still have it: \
         destroy them, or rotate the identity and destroy the old one (docs/operations.md, \"Retention and erasure\")",
    );
    Ok(())
}

/// The keys of a month that is over. Errors: there are none; one of them still seals.
fn erasable(entry: &AccountEntry, month: Month, now: Time) -> anyhow::Result<Vec<KeyId>> {
    let ids: Vec<KeyId> = entry.body_keys_of(month).map(|key| key.id.clone()).collect();
    if ids.is_empty() {
        return Err(Fixable::error(
            format!("no key of {} began in {month}", entry.name()),
            "`payfold retention list` shows its months; what came before its first key is in the clear, and is only gone \
             with the log",
        ));
    }
    let seals = entry.body_keys_of(month).find(|key| state(entry, key, now) == "seals");
    if let Some(key) = seals.filter(|_| entry.is_sealed(now)) {
        return Err(Fixable::error(
            format!("key {} of {month} is the one that seals now", key.id),
            "wait until its month is over and the next key seals; `payfold retention start` makes one that is missing",
        ));
    }
    if month >= Month::of(now) {
        return Err(Fixable::error(format!("{month} is not over"), "name a month that is"));
    }
    Ok(ids)
}

/// Whose token is used. Errors: nobody's.
fn author(
    global: &Global,
    settings: &Settings,
    document: &VaultDocument,
) -> anyhow::Result<Author> {
    let own = DataDir::of(settings).admin_token();
    let path = global.admin_token_file.as_ref().unwrap_or(&own);
    let refused = |why: String| {
        Fixable::error(
            format!("nobody is known to erase: {why}"),
            "name the file of your own token with --admin-token-file; `payfold token add NAME` makes one",
        )
    };
    let token = std::fs::read_to_string(path)
        .map_err(|error| refused(format!("{} can't be read: {error}", path.display())))?;
    if *path == own {
        return Ok(Author::parse(LOCAL_ADMIN)?);
    }
    let sha256 = Digest::of_bytes(token.trim().as_bytes());
    let known = document.tokens.iter().find(|token| token.sha256 == sha256);
    let known = known.ok_or_else(|| refused("the vault does not know this token".to_owned()))?;
    Ok(known.name.clone())
}
