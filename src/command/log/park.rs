//! `payfold log park`: leaves a damaged record out of every fold. One person proposes it and
//! another decides it, and both become records of the log. Invariants: only a damaged record is
//! parked, not one that a newer program wrote; the decision names the digest of its bytes; without
//! `--yes` nothing is written.

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::{Authenticity, Delivered, EventLog, Topic};
use payfold_kit::parked;
use payfold_kit::search;
use payfold_partners::token::Permission;
use payfold_schemas::digest::Digest;
use payfold_schemas::parked::Parked;
use payfold_schemas::position::Position;
use payfold_schemas::record::{MARKER_KEY, RecordError};
use payfold_schemas::record_mac::NotAuthentic;
use payfold_verify::through::folded;
use payfold_views::listing::moment;
use prometheus::Registry;

use crate::args::{Global, ParkArgs};
use crate::error::Fixable;
use crate::output;
use crate::settings::Loaded;
use crate::two_people::Step;
use crate::vault;
use crate::wiring::explain::explain;
use crate::wiring::{self, Engines, Need};

/// What is printed once a record is parked.
const PARKED: &str = "The record is parked. Start the projector and the reconciler again; they \
    continue after it. Its order lacks this fact; compare the day with the partner's records to \
    find the difference (payfold reconcile run).";
/// What is printed to the first person.
const PROPOSED: &str = "Proposed. The record is parked once another person runs the same command \
    with their own token.";

/// Shows the record; with `--yes` proposes to park it, or parks it if another person has proposed
/// that. Errors: the record does not exist or can be read; the person may not; a process runs on
/// the files.
pub(crate) async fn run(global: &Global, loaded: &Loaded, args: &ParkArgs) -> anyhow::Result<()> {
    let (settings, position) = (&loaded.settings, args.position.parse::<Position>()?);
    let engines = if args.yes {
        let opened = wiring::open(settings, &Registry::new(), Need::Both).await?;
        opened.expect("both engines are needed")
    } else {
        wiring::open_to_read(settings).await?
    };
    let log = &*engines.log;
    let (record, error) = damaged(log, position).await?;
    if let Some(known) = parked::find_marker(log, &record).await.map_err(explain)? {
        let (people, at, reason) = (known.people(), known.at, known.reason);
        output::line(&format!(
            "record {position} is parked already, by {people} at {at}: {reason}"
        ));
        return Ok(());
    }
    print_record(&engines, &record, &error).await?;
    let proposals = parked::find_proposals(log, &record).await.map_err(explain)?;
    for Parked { author, at, reason, .. } in &proposals {
        output::line(&format!("  parking it was proposed by {author} at {at}: {reason}"));
    }
    if !args.yes {
        output::line(
            "Nothing was changed. With --yes you propose to leave the record out for good, here \
             and in every rebuild; another person's --yes then does it.",
        );
        return Ok(());
    }
    // A marker without a MAC would stop every partition.
    let document = vault::read(settings)?;
    let step = Step::of(global, loaded, &document, Permission::Release)?;
    let agreed = step.agreed(&engines, &proposals, |it| (&it.author, it.at)).await?;
    let mut marker = Parked {
        parked: position,
        digest: Digest::of_bytes(&record.value),
        author: step.person,
        reason: args.reason.clone(),
        request_id: SystemClock.request_id(),
        at: SystemClock.now(),
        seconded_by: None,
        second_reason: None,
    };
    let (message, done) = match agreed {
        Some(Parked { author, reason, .. }) => {
            marker.seconded_by = Some(std::mem::replace(&mut marker.author, author.clone()));
            marker.second_reason = Some(std::mem::replace(&mut marker.reason, reason.clone()));
            (parked::marker_message(&marker), PARKED)
        }
        None => (parked::proposal_message(&marker), PROPOSED),
    };
    log.append_marker(Topic::Intake, message).await.map_err(explain)?;
    log.close().await.map_err(explain)?;
    output::line(done);
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
                "restore the log from a backup: without the marker its partition could miss a \
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
