//! `payfold log key add|list|retire`: the record keys in the vault, with which roles prove what
//! they write to the log. Invariants: a key is never removed, because messages with its MAC stay in
//! the log; one is retired only if its role has written with another for some seconds.

use payfold_engines::clock::{Clock, SystemClock};
use payfold_partners::document::VaultDocument;
use payfold_partners::record_key::RecordKeyEntry;
use payfold_partners::vault::random_secret;
use payfold_schemas::record_keys::{RecordBaseline, RecordKeyEnd};
use payfold_schemas::record_mac::{RecordKeyId, Writer};
use payfold_schemas::time::Time;
use serde::Serialize;

use super::vault_entry::VaultEntry;
use crate::args::{OutputArgs, RecordKeyAddArgs, RecordKeyCommand, RecordKeyRetireArgs};
use crate::error::Fixable;
use crate::keys::records;
use crate::listing::{self, Row};
use crate::output;
use crate::settings::Settings;
use crate::vault::{self, Instead};
use crate::wiring;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RecordKeyRow {
    role: Writer,
    key: RecordKeyId,
    valid_from: Time,
    retired_at: Option<Time>,
}

impl Row for RecordKeyRow {
    const COLUMNS: &'static str = "role key validFrom retiredAt";
}

/// How long a role has to have another key before one is retired: processes read the vault each
/// second, and a message is durable some seconds after its MAC was made.
const SETTLED_MS: i64 = 10_000;

/// Runs one of its commands.
pub(super) async fn run(settings: &Settings, command: &RecordKeyCommand) -> anyhow::Result<()> {
    match command {
        RecordKeyCommand::Add(args) => add(settings, args),
        RecordKeyCommand::List { output } => list(settings, output),
        RecordKeyCommand::Retire(args) => retire(settings, args).await,
    }
}

fn add(settings: &Settings, args: &RecordKeyAddArgs) -> anyhow::Result<()> {
    let mut opened = vault::open(settings, Instead::AddRecordKeyFile)?;
    let (secret, writer) = (random_secret()?, args.role);
    let valid_from = SystemClock.now().plus_ms(i64::try_from(args.after.as_millis())?);
    let entry = RecordKeyEntry { writer, secret, valid_from };
    let id = entry.id();
    let document = opened.document_mut();
    if document.record_keys.is_empty() {
        return Err(no_keys());
    }
    document.record_keys.push(entry);
    opened.save()?;
    output::line(&format!(
        "{writer} writes with record key {id} from {valid_from} on. By then every process has to \
         have it: running ones take it from this vault within a second. Back up the vault now."
    ));
    Ok(())
}

fn list(settings: &Settings, output: &OutputArgs) -> anyhow::Result<()> {
    let document = vault::read(settings)?;
    let mut keys: Vec<_> = document.record_keys.iter().collect();
    keys.sort_by_key(|entry| (entry.writer, entry.valid_from));
    let rows = keys.into_iter().map(|entry| {
        let mut ends = document.record_key_ends.iter().filter(|end| end.key == entry.id());
        let (key, retired_at) = (entry.id(), ends.next_back().map(|end| end.at));
        RecordKeyRow { role: entry.writer, key, valid_from: entry.valid_from, retired_at }
    });
    listing::print(output.output, rows)
}

async fn retire(settings: &Settings, args: &RecordKeyRetireArgs) -> anyhow::Result<()> {
    let (place, document) = (vault::place(settings)?, vault::read(settings)?);
    let (key, now) = (args.key.parse()?, SystemClock.now());
    check_next(&document, key, now)?;
    let engines = wiring::open_to_read(settings).await?;
    let RecordBaseline { log, at, through, .. } = records::baseline(&*engines.log, now).await?;
    check_baseline(&document, &log)?;
    let refused = args.refuse.iter().map(|place| place.parse()).collect::<Result<_, _>>()?;
    let end = RecordKeyEnd { key, log, at, through, refused };
    output::line(&format!(
        "Record key {key} is to count for what the log has now, {}, and for no later message, nor \
         in another log. What somebody else wrote with it before counts unless it is named with \
         --refuse: `payfold log verify --signatures` finds notices that no partner signed.",
        records::ends_of(&end.through)
    ));
    let entry = VaultEntry {
        table: "record_key_ends",
        entry: end,
        add_to: "the vault.toml of every process that reads the log, beside earlier ends, and keep \
                 the key's file",
        done: "The key is retired. Running processes take that within a second. Back up the vault \
               now, then run `payfold log verify`: what it names was folded before.",
        is_confirmed: args.yes,
    };
    entry.put(&place, |document, end| {
        check_next(document, key, now)?;
        document.end_record_key(end);
        Ok(())
    })
}

/// Checks that the role of a key has written with another for some seconds. Errors: it has not, and
/// readers would refuse what it wrote; the vault does not have the key.
fn check_next(document: &VaultDocument, key: RecordKeyId, now: Time) -> anyhow::Result<()> {
    let entry = document.record_keys.iter().find(|entry| entry.id() == key).ok_or_else(|| {
        Fixable::error(
            format!("the vault has no record key {key}"),
            "list the keys with payfold log key list",
        )
    })?;
    let (writer, settled) = (entry.writer, now.plus_ms(-SETTLED_MS));
    let keys = document.record_keys();
    if keys.writes_with(writer, settled).is_some_and(|used| used.id() != key) {
        return Ok(());
    }
    Err(Fixable::error(
        format!("{writer} writes with record key {key}, or did some seconds ago"),
        format!(
            "add another, and come back when it has been valid for ten seconds: payfold log key \
             add {writer}; in a directory a file records.{writer}.KEYID with a later valid_from"
        ),
    ))
}

/// Checks that the log has a baseline. Errors: it has none, and what has no MAC at all counts.
fn check_baseline(document: &VaultDocument, log: &str) -> anyhow::Result<()> {
    if document.record_keys().has_baseline_of(log) {
        return Ok(());
    }
    Err(Fixable::error(
        "the log has no baseline, so a message without a MAC counts, and the end of a key would \
         end nothing",
        "set the baseline first: payfold log baseline --yes",
    ))
}

fn no_keys() -> anyhow::Error {
    Fixable::error(
        "the vault has no record keys yet",
        "`payfold log baseline --yes` makes one for each role, on files the first start does",
    )
}
