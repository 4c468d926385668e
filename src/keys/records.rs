//! Owns the record keys of a running system: with them its roles prove what they wrote to the log.
//! A system on files gets them at its first start, with a baseline for what its log has by then. At
//! scale `payfold log baseline` makes both, because processes learn keys one after the other.

use std::sync::Arc;

use arc_swap::ArcSwap;
use payfold_engines::log::{Authenticity, EventLog, Extent, Topic};
use payfold_kit::search;
use payfold_partners::document::VaultDocument;
use payfold_partners::record_key::RecordKeyEntry;
use payfold_partners::vault::{Vault, VaultError, VaultPlace, random_secret};
use payfold_schemas::record_keys::{RecordBaseline, RecordKeys, TopicPosition};
use payfold_schemas::record_mac::{NotAuthentic, Writer};
use payfold_schemas::time::Time;

use crate::error::Fixable;
use crate::roles::Roles;
use crate::wiring::Need;

/// The record keys in force; the pointee is swapped when the vault changes.
pub(crate) type RecordKeysInForce = Arc<ArcSwap<RecordKeys>>;

/// Creates the record keys of a vault that has none, with a baseline of the log; the vault has
/// changed then. For a log that no other process writes. Creates nothing if the vault is a
/// directory. Errors: the vault's; log and vault don't fit.
pub(crate) async fn create_missing(
    place: &VaultPlace,
    keys: &RecordKeys,
    log: &dyn EventLog,
    now: Time,
) -> anyhow::Result<()> {
    check_fit(keys, log).await?;
    let VaultPlace::File { vault, identity } = place else { return Ok(()) };
    if !keys.is_empty() {
        return Ok(());
    }
    let baseline = baseline(log, now).await?;
    let mut opened = Vault::open(vault, identity)?;
    let document = opened.document_mut();
    add_keys(document, now)?;
    document.add_record_baseline(baseline.clone());
    if let Err(error) = opened.save() {
        tracing::warn!(
            %error,
            "the vault can't be written, so it gets no record keys, and what another program \
             writes to the log counts like a role's: run `payfold log baseline --yes`, twice, \
             where the vault can be written"
        );
        return Ok(());
    }
    if !baseline.through.is_empty() {
        tracing::info!(
            through = ends_of(&baseline.through),
            "created the keys with which roles prove what they write to the log; back up the vault \
             now. From here on a message that none of them wrote stops its reader"
        );
    }
    Ok(())
}

/// Checks that the vault is not older than the log, nor the log from before there were keys.
/// Errors: it is, and what it has would be believed or refused as a whole.
async fn check_fit(keys: &RecordKeys, log: &dyn EventLog) -> anyhow::Result<()> {
    let mut newest = Vec::new();
    for topic in Topic::ALL {
        newest.extend(search::newest_messages(log, topic).await?);
    }
    let is = |wanted: fn(&Authenticity) -> bool| newest.iter().any(|one| wanted(&one.authenticity));
    if keys.is_empty() && is(|one| matches!(one, Authenticity::Unchecked(Some(_)))) {
        return Err(Fixable::error(
            "the messages of the log have MACs, and the vault has no record keys: it is older than \
             the log, or another one",
            "restore the newest vault; if it is lost, prove the notices (payfold log verify \
             --signatures), then run `payfold log baseline --yes` twice: all that the log holds \
             now counts then",
        ));
    }
    let is_new_to_vault = !keys.has_baseline_of(&hex::encode(log.id()));
    let is_unproved = is(|one| matches!(one, Authenticity::Refused(NotAuthentic::NoMac)));
    if keys.has_baseline() && is_new_to_vault && is_unproved {
        return Err(Fixable::error(
            "the vault has record keys, and the messages of this log have no MACs: it is from \
             before there were keys, or another system's",
            "if it is this system's log, run `payfold log baseline --yes`: all that it holds now \
             counts then",
        ));
    }
    Ok(())
}

/// Adds a key for each role. Errors: the system has no random bytes.
pub(crate) fn add_keys(document: &mut VaultDocument, valid_from: Time) -> Result<(), VaultError> {
    for writer in Writer::ALL {
        let secret = random_secret()?;
        document.record_keys.push(RecordKeyEntry { writer, secret, valid_from });
    }
    Ok(())
}

/// The present end of every partition that has messages.
pub(crate) async fn baseline(log: &dyn EventLog, at: Time) -> anyhow::Result<RecordBaseline> {
    let mut through = Vec::new();
    for topic in Topic::ALL {
        let extents = log.extent(topic).await?;
        let ends = extents.iter().filter(|extent| extent.last > 0).map(Extent::end);
        through.extend(
            ends.map(|position| TopicPosition { topic: topic.name().to_owned(), position }),
        );
    }
    Ok(RecordBaseline { log: hex::encode(log.id()), at, through, refused: Vec::new() })
}

/// The ends of partitions, for people.
pub(crate) fn ends_of(through: &[TopicPosition]) -> String {
    let through: Vec<String> = through.iter().map(ToString::to_string).collect();
    if through.is_empty() { "nothing".to_owned() } else { through.join(", ") }
}

/// Checks that these roles have keys, if there is a baseline. Errors: a role has none, so that what
/// it writes would be refused.
pub(crate) fn check_writers(roles: Roles, keys: &RecordKeys) -> anyhow::Result<()> {
    let writers = [
        (roles.ingest, Writer::Ingest),
        (roles.checkout, Writer::Checkout),
        (roles.projector, Writer::Projector),
        (roles.reconciler, Writer::Reconciler),
        (roles.need() == Need::Both, Writer::Operator),
    ];
    let lacking = writers.iter().filter(|(is_needed, writer)| *is_needed && keys.lacks(*writer));
    match lacking.map(|(_, writer)| writer).next() {
        Some(writer) if keys.has_baseline() => Err(Fixable::error(
            format!(
                "the vault has a baseline and no record key of {writer}, so what this process \
                 writes would be refused by every reader"
            ),
            format!(
                "put the file records.{writer}.KEYID of the other processes into its vault \
                 (docs/how-to/rotate-keys.md, \"Record keys\")"
            ),
        )),
        Some(_) | None => Ok(()),
    }
}

/// Says what a system at scale lacks until every message needs a MAC.
pub(crate) fn warn_if_unproved(keys: &RecordKeys) {
    if keys.is_empty() {
        tracing::warn!(
            "the vault has no record keys, so what another program writes to the log counts like a \
             role's: run `payfold log baseline`, which says how to make them"
        );
    } else if !keys.has_baseline() {
        tracing::warn!(
            "messages of the log without a MAC still count: once every process has the record \
             keys, run `payfold log baseline`"
        );
    }
}
