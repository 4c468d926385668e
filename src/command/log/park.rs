//! `payfold log park`: leaves a damaged record out of every fold, on a person's word, which becomes a fact of the log.
//! Invariants: only what this program can't read because it is damaged is parked; the word names the very bytes; without
//! `--yes` nothing is written.

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::generations::MARKER_KEY;
use payfold_engines::log::{Delivered, EventLog, Topic, parked};
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::Author;
use payfold_schemas::parked::Parked;
use payfold_schemas::record::{Position, RecordError, decode_intake};
use prometheus::Registry;

use crate::args::ParkArgs;
use crate::error::Fixable;
use crate::output;
use crate::search;
use crate::settings::Settings;
use crate::wiring::{Engines, Need, explain};

/// Tells what would be left out; with `--yes` leaves it out. Errors: there is no such record, or it can be read; somebody runs
/// on the files.
pub async fn run(settings: &Settings, args: &ParkArgs) -> anyhow::Result<()> {
    let position: Position = args.position.parse()?;
    let author = Author::parse(&args.by)?;
    let engines = if args.yes {
        let opened = Engines::open(settings, &Registry::new(), Need::Both).await?;
        opened.expect("both engines are needed")
    } else {
        Engines::open_to_read(settings).await?
    };
    let log = &*engines.log;
    let (record, error) = damaged(log, position).await?;
    if let Some(known) = parked::find(log, &record).await.map_err(explain)? {
        let Parked { author, reason, at, .. } = known;
        output::line(&format!(
            "record {position} is parked already, by {author} at {at}: {reason}"
        ));
        return Ok(());
    }
    tell(&engines, &record, &error).await?;
    if !args.yes {
        output::line(
            "Nothing was done. With --yes it is left out for good, here and in every rebuild.",
        );
        return Ok(());
    }
    let (digest, reason) = (Digest::of_bytes(&record.value), args.reason.clone());
    let (request_id, at) = (SystemClock.request_id(), SystemClock.now());
    let word = Parked { parked: position, digest, author, reason, request_id, at };
    log.append_marker(Topic::Intake, parked::marker(&word)).await.map_err(explain)?;
    log.close().await.map_err(explain)?;
    output::line(
        "It is parked. Start the projector and the reconciler again: they go on behind it. The order it was about is without \
         this fact; the partner's own records will tell which (payfold reconcile).",
    );
    Ok(())
}

/// The record, and what is wrong with it. Errors: there is none; it can be read; a newer program wrote it.
async fn damaged(
    log: &dyn EventLog,
    position: Position,
) -> anyhow::Result<(Delivered, RecordError)> {
    let record = search::message_at(log, Topic::Intake, position).await.map_err(explain)?;
    let record = record.ok_or_else(|| {
        Fixable::error(
            format!("intake has no record {position}"),
            "`payfold log stats` shows the first and last of each partition",
        )
    })?;
    match decode_intake(&record.value) {
        Ok(_) => Err(Fixable::error(
            format!("record {position} of intake can be read: it is whole"),
            "only a damaged record is parked; the projector's ERROR line, and `payfold log verify`, name it",
        )),
        Err(error) if error.is_newer() => Err(Fixable::error(
            format!("record {position} of intake is not damaged: {error}"),
            "run the program that wrote it, or a later one; docs/operations.md, \"Upgrading\"",
        )),
        Err(_) if record.key == MARKER_KEY => Err(Fixable::error(
            format!("record {position} of intake is a marker of payfold itself, about no order"),
            "restore it from a backup: without it a generation would never be told, or a damaged record be left out, in \
             its partition",
        )),
        Err(error) => Ok((record, error)),
    }
}

/// What is known of it.
async fn tell(engines: &Engines, record: &Delivered, error: &RecordError) -> anyhow::Result<()> {
    let Delivered { position, key, value, .. } = record;
    let digest = Digest::of_bytes(value);
    output::line(&format!("record {position} of intake: {error}"));
    output::line(&format!("  key     {key}"));
    output::line(&format!("  bytes   {}, digest {digest}", value.len()));
    let before = Position { offset: position.offset.saturating_sub(1), ..*position };
    let after = Position { offset: position.offset.saturating_add(1), ..*position };
    for (beside, place) in [("before", before), ("after", after)] {
        let message = search::message_at(&*engines.log, Topic::Intake, place).await?;
        let at = message.as_ref().map(search::received_at).transpose()?.flatten();
        let at = at.map_or("not known".to_owned(), output::time);
        output::line(&format!("  {beside:<6}  {place}, received {at}"));
    }
    let progress = engines.store()?.progress().await?;
    let folded = progress.into_iter().flat_map(|progress| progress.folded);
    let through = folded.map(|one| one.position).find(|one| one.partition == position.partition);
    let is_folded = through.is_some_and(|through| through.offset >= position.offset);
    output::line(if is_folded {
        "  folded  yes, before it was damaged: its order has it until the log is folded anew, and `log verify` differs until \
         then. A backup of the log has it"
    } else {
        "  folded  no: its order does not have it"
    });
    Ok(())
}
