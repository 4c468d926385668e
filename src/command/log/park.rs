//! `payfold log park`: leaves a damaged record out of every fold. A person decides it, and the
//! decision becomes a record of the log. Invariants: only a damaged record is parked, not one that
//! a newer program wrote; the decision names the digest of its bytes; without `--yes` nothing is
//! written.

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::{Authenticity, Delivered, EventLog, Topic};
use payfold_kit::parked;
use payfold_kit::search;
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::Author;
use payfold_schemas::parked::Parked;
use payfold_schemas::position::Position;
use payfold_schemas::record::{MARKER_KEY, RecordError};
use payfold_schemas::record_mac::NotAuthentic;
use payfold_verify::through::folded;
use payfold_views::listing::moment;
use prometheus::Registry;

use crate::args::ParkArgs;
use crate::error::Fixable;
use crate::output;
use crate::settings::Settings;
use crate::vault;
use crate::wiring::explain::explain;
use crate::wiring::{self, Engines, Need};

/// Shows the record; with `--yes` parks it. Errors: the record does not exist or can be read; a
/// process runs on the files.
pub(crate) async fn run(settings: &Settings, args: &ParkArgs) -> anyhow::Result<()> {
    let position: Position = args.position.parse()?;
    let author = Author::parse(&args.by)?;
    let engines = if args.yes {
        // A marker without a MAC would stop every partition.
        vault::read(settings)?;
        let opened = wiring::open(settings, &Registry::new(), Need::Both).await?;
        opened.expect("both engines are needed")
    } else {
        wiring::open_to_read(settings).await?
    };
    let log = &*engines.log;
    let (record, error) = damaged(log, position).await?;
    if let Some(known) = parked::find_marker(log, &record).await.map_err(explain)? {
        let Parked { author, reason, at, .. } = known;
        output::line(&format!(
            "record {position} is parked already, by {author} at {at}: {reason}"
        ));
        return Ok(());
    }
    print_record(&engines, &record, &error).await?;
    if !args.yes {
        output::line(
            "Nothing was changed. With --yes the record is left out for good, here and in every \
             rebuild.",
        );
        return Ok(());
    }
    let (digest, reason) = (Digest::of_bytes(&record.value), args.reason.clone());
    let (request_id, at) = (SystemClock.request_id(), SystemClock.now());
    let decision = Parked { parked: position, digest, author, reason, request_id, at };
    log.append_marker(Topic::Intake, parked::marker_message(&decision)).await.map_err(explain)?;
    log.close().await.map_err(explain)?;
    output::line(
        "The record is parked. Start the projector and the reconciler again; they continue after \
         it. Its order lacks this fact; compare the day with the partner's records to find the \
         difference (payfold reconcile run).",
    );
    Ok(())
}

/// The record, and why it can't be read. Errors: it does not exist; it can be read; a newer program
/// wrote it; it is a marker.
async fn damaged(
    log: &dyn EventLog,
    position: Position,
) -> anyhow::Result<(Delivered, RecordError)> {
    let record = search::message_at(log, Topic::Intake, position).await.map_err(explain)?;
    let record = record.ok_or_else(|| {
        Fixable::error(
            format!("intake has no record {position}"),
            "see the first and last position of each partition with `payfold log stats`",
        )
    })?;
    match record.intake_record() {
        Ok(_) => Err(Fixable::error(
            format!(
                "record {position} of intake is not damaged, and only a damaged record can be \
                 parked"
            ),
            "give the position that the projector's ERROR line and `payfold log verify` name",
        )),
        Err(error) if error.is_newer() => Err(Fixable::error(
            format!("record {position} of intake is not damaged: {error}"),
            "run the version of payfold that wrote it, or a later one; \
             docs/how-to/upgrade.md, \"Upgrading\"",
        )),
        Err(error) if record.key == MARKER_KEY && !is_foreign(&record, &error) => {
            Err(Fixable::error(
                format!(
                    "record {position} of intake is a marker of payfold and belongs to no order, \
                     so it can't be parked"
                ),
                "restore the log from a backup: without the marker its partition would miss a \
                 switch of builds, or a parked record",
            ))
        }
        Err(error) => Ok((record, error)),
    }
}

/// Whether no role of this system ever wrote it, not even with other bytes.
fn is_foreign(record: &Delivered, error: &RecordError) -> bool {
    match (record.authenticity, error) {
        (Authenticity::Refused(problem), _) => !matches!(problem, NotAuthentic::Changed(_)),
        (_, RecordError::NotAuthentic(_)) => true,
        _ => false,
    }
}

/// Prints what is known of a damaged record.
async fn print_record(
    engines: &Engines,
    record: &Delivered,
    error: &RecordError,
) -> anyhow::Result<()> {
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
        let at = at.map_or("at an unknown time".to_owned(), moment);
        output::line(&format!("  {beside:<6}  {place}, received {at}"));
    }
    let is_folded = folded(&**engines.store()?).await?.has(*position);
    output::line(if is_folded {
        "  folded  yes, before it was damaged: its order keeps the fact until the log is folded \
         again, and `log verify` differs until then. A backup of the log still has the record"
    } else {
        "  folded  no: its order lacks the fact"
    });
    Ok(())
}
