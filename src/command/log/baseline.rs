//! `payfold log baseline`: from the log's present end on, a message needs a MAC by a record key.
//! Invariants: without `--yes` nothing is written; a baseline is set only if there are keys, so
//! that nothing is required that no role can do; what a person has parked never counts.

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::walk::{self, Walk};
use payfold_engines::log::{Authenticity, EventLog, Topic};
use payfold_kit::{parked, search};
use payfold_partners::vault::{Vault, VaultPlace};
use payfold_schemas::record_keys::{RecordBaseline, TopicPosition};
use payfold_schemas::record_mac::NotAuthentic;

use super::vault_entry::VaultEntry;
use crate::args::BaselineArgs;
use crate::error::Fixable;
use crate::keys::records;
use crate::output;
use crate::settings::Settings;
use crate::{vault, wiring};

/// Messages read at once.
const PAGE: usize = 1_000;

/// How many of the messages that would count are listed.
const LISTED_MAX: u64 = 50;

/// Shows the baseline; with `--yes` writes it, or first the keys if there are none. Errors: the
/// vault's; the log can't be read.
pub(crate) async fn run(settings: &Settings, args: &BaselineArgs) -> anyhow::Result<()> {
    let place = vault::place(settings)?;
    let document = vault::read(settings)?;
    if document.record_keys.is_empty() {
        return make_keys(&place, args);
    }
    let engines = wiring::open_to_read(settings).await?;
    let log = &*engines.log;
    let present = records::baseline(log, SystemClock.now()).await?;
    let known = document.record_baselines.into_iter().find(|known| known.log == present.log);
    let baseline =
        next(log, known, RecordBaseline { refused: refused(log, args).await?, ..present });
    let baseline = baseline.await?;
    output::line(&format!("log       {}", baseline.log));
    output::line(&format!("baseline  {}", records::ends_of(&baseline.through)));
    output::line(
        "Messages up to there count without a MAC. Each later one needs a MAC by a record key, so \
         every process that writes has to have the keys now.",
    );
    let entry = VaultEntry {
        table: "record_baselines",
        entry: baseline,
        add_to: "vault.toml in place of an earlier baseline of this log",
        done: "The baseline is in the vault. Running processes take it within a second; start \
               those again that have stopped at a record.",
        is_confirmed: args.yes,
    };
    entry.put(&place, |document, baseline| {
        document.add_record_baseline(baseline);
        Ok(())
    })
}

/// The messages that stay refused: what people have parked, and what is named. Errors: the log's; a
/// name that can't be read.
async fn refused(log: &dyn EventLog, args: &BaselineArgs) -> anyhow::Result<Vec<TopicPosition>> {
    let parked = parked::read_all_markers(log).await?.into_iter().map(|marker| marker.parked);
    let intake = |position| TopicPosition { topic: Topic::Intake.name().to_owned(), position };
    let mut refused: Vec<TopicPosition> = parked.map(intake).collect();
    for named in &args.refuse {
        refused.push(named.parse()?);
    }
    Ok(refused)
}

/// The next baseline; lists what is refused now and would count. Errors: the log's.
async fn next(
    log: &dyn EventLog,
    known: Option<RecordBaseline>,
    mut next: RecordBaseline,
) -> anyhow::Result<RecordBaseline> {
    let Some(known) = known else {
        warn_of_lacking_keys(log).await?;
        return Ok(next);
    };
    next.refused.extend(known.refused);
    output::line(&format!("This log has a baseline of {} already.", known.at));
    let mut count = 0_u64;
    for topic in Topic::ALL {
        let mut places = walk::starts(log, topic).await?;
        for place in &mut places {
            let is_of = |one: &&TopicPosition| {
                (one.topic.as_str(), one.position.partition) == (topic.name(), place.partition)
            };
            let end = known.through.iter().find(is_of).map(|one| one.position);
            *place = end.map_or(*place, |end| end.max(*place));
        }
        let mut walk = Walk::from(log, topic, places);
        while let Some(page) = walk.next(PAGE).await? {
            for message in &page {
                let Authenticity::Refused(problem) = message.authenticity else { continue };
                let (topic, position) = (topic.name().to_owned(), message.position);
                let at = TopicPosition { topic, position };
                if next.refused.contains(&at) || matches!(problem, NotAuthentic::Changed(_)) {
                    continue;
                }
                count += 1;
                if count <= LISTED_MAX {
                    output::line(&format!("  would count: {at}  {}  {problem}", message.key));
                }
            }
        }
    }
    output::line(&format!(
        "{count} messages that are refused now would count. Prove that a role of this system wrote \
         them (payfold log verify --signatures proves notices); park the others, or name them with \
         --refuse."
    ));
    Ok(next)
}

/// Warns of topics that a process may still write without keys.
async fn warn_of_lacking_keys(log: &dyn EventLog) -> anyhow::Result<()> {
    for topic in Topic::ALL {
        let newest = search::newest_messages(log, topic).await?;
        if newest.iter().any(|one| one.authenticity == Authenticity::Unchecked(None)) {
            output::line(&format!(
                "a newest message of {} has no MAC: is there a process that lacks the keys? What \
                 it writes behind the baseline would be refused",
                topic.name()
            ));
        }
    }
    Ok(())
}

/// Makes the record keys in a vault that is a file. Errors: the vault is a directory; the fix says
/// which files to add.
fn make_keys(place: &VaultPlace, args: &BaselineArgs) -> anyhow::Result<()> {
    let VaultPlace::File { vault, identity } = place else {
        return Err(Fixable::error(
            "the vault has no record keys, so no role can make a MAC yet",
            "add a file records.ROLE.1 with hex: and 32 random bytes (openssl rand -hex 32) for \
             each of ingest, checkout, projector, reconciler and operator; once every process has \
             them, run this again (docs/how-to/rotate-keys.md, \"Record keys\")",
        ));
    };
    if !args.yes {
        output::line("The vault has no record keys. With --yes one is created for each role.");
        return Ok(());
    }
    let mut opened = Vault::open(vault, identity)?;
    records::add_keys(opened.document_mut(), SystemClock.now())?;
    opened.save()?;
    output::line(
        "Created a record key for each role. Back up the vault now. Messages without a MAC still \
         count: once every process has the keys, run this again for the baseline.",
    );
    Ok(())
}
