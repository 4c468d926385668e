//! `payfold quarantine list|show`: quarantined notices with people's decisions on them.

use std::ops::ControlFlow;

use payfold_engines::log::Topic;
use payfold_kit::search;
use payfold_reconcile::ledger::Ledger;
use payfold_schemas::digest::Digest;
use payfold_schemas::position::Position;
use payfold_schemas::release::NoticeDecided;
use serde::Serialize;
use serde_json::{Value, json};

use super::pick::{self, NoticeFilter, QuarantinedNotice};
use super::reading::in_words;
use crate::args::{OutputArgs, OutputFormat, QuarantineListArgs};
use crate::command::ledger::read_ledger;
use crate::command::message::ShownMessage;
use crate::error::Fixable;
use crate::listing::{Listing, Row};
use crate::output;
use crate::wiring::Engines;

/// A quarantined notice, with its decision or the decision that waits for a second person.
#[derive(Serialize)]
struct QuarantineRow<'a> {
    #[serde(flatten)]
    message: ShownMessage,
    evidence: Digest,
    decision: Option<&'a NoticeDecided>,
    #[serde(skip)]
    picked: &'a QuarantinedNotice,
}

impl Row for QuarantineRow<'_> {
    const COLUMNS: &'static str =
        "position received:receivedAt account code detail bytes request_id decided";

    fn shown(&self, column: &str, _format: OutputFormat) -> Option<Value> {
        Some(match column {
            "bytes" => self.picked.raw_bytes.into(),
            "decided" => json!(self.decision.map(in_words)),
            _ => return None,
        })
    }
}

/// A quarantined notice, with every decision on it.
#[derive(Serialize)]
struct ShownNotice<'a> {
    #[serde(flatten)]
    message: ShownMessage,
    evidence: Digest,
    decisions: Vec<&'a NoticeDecided>,
}

/// Prints quarantined notices, oldest first.
pub(crate) async fn list(engines: &Engines, args: &QuarantineListArgs) -> anyhow::Result<()> {
    let ledger = read_ledger(&*engines.log).await?;
    let filter = NoticeFilter::of(&args.notices)?;
    let mut listing = Listing::of::<QuarantineRow<'_>>(args.output.output);
    let after: Option<Position> = args.page.after.as_deref().map(str::parse).transpose()?;
    let (mut rows, mut last) = (0, after);
    pick::each(engines, &filter, after, |picked| {
        let position = picked.message.position;
        if args.open && ledger.decided_notice(position, picked.evidence).is_some() {
            return Ok(ControlFlow::Continue(()));
        }
        if rows == args.page.limit {
            output::error_line(&format!("more: --after {}", last.unwrap_or_default()));
            return Ok(ControlFlow::Break(()));
        }
        listing.row(&QuarantineRow {
            message: ShownMessage::of(&picked.message)?,
            evidence: picked.evidence,
            decision: of_notice(&ledger, position, picked.evidence),
            picked: &picked,
        })?;
        (rows, last) = (rows + 1, Some(position));
        Ok(ControlFlow::Continue(()))
    })
    .await?;
    listing.print()
}

/// The decision on a notice, or the one that waits for a second person.
fn of_notice(ledger: &Ledger, position: Position, evidence: Digest) -> Option<&NoticeDecided> {
    let decided = ledger.decided_notice(position, evidence);
    decided.or_else(|| ledger.waiting_notice(position, evidence))
}

/// Prints one notice with every decision on it.
pub(crate) async fn show(
    engines: &Engines,
    position: Position,
    output: &OutputArgs,
) -> anyhow::Result<()> {
    let message = at(engines, position).await?;
    let evidence = Digest::of_bytes(&message.value);
    let ledger = read_ledger(&*engines.log).await?;
    let decisions = ledger.decisions_on_notice(position, evidence).collect();
    let shown = ShownNotice { message: ShownMessage::of(&message)?, evidence, decisions };
    output::object(output.output, &shown)
}

async fn at(
    engines: &Engines,
    position: Position,
) -> anyhow::Result<payfold_engines::log::Delivered> {
    search::message_at(&*engines.log, Topic::Quarantine, position).await?.ok_or_else(|| {
        Fixable::error(
            format!("quarantine has no notice at {position}"),
            "list the notices with payfold quarantine list",
        )
    })
}
