//! Listing and showing quarantined notices, with what people said of them.

use std::ops::ControlFlow;

use payfold_engines::log::Topic;
use payfold_reconciler::books::ledger::Ledger;
use payfold_schemas::digest::Digest;
use payfold_schemas::record::Position;
use payfold_schemas::release::NoticeDecided;
use serde_json::{Value, json};

use super::in_words;
use super::pick::{self, Filter, Picked};
use crate::args::{OutputArgs, QuarantineListArgs};
use crate::command::tail;
use crate::error::Fixable;
use crate::output::{self, Listing};
use crate::search;
use crate::wiring::Engines;

const COLUMNS: [&str; 8] =
    ["position", "received", "account", "code", "detail", "bytes", "request_id", "decided"];

/// What was said on findings, flags and notices.
pub async fn ledger(engines: &Engines) -> anyhow::Result<Ledger> {
    let mut ledger = Ledger::in_memory()?;
    ledger.catch_up(&*engines.log).await?;
    Ok(ledger)
}

/// Rows, oldest first.
pub async fn list(engines: &Engines, args: &QuarantineListArgs) -> anyhow::Result<()> {
    let ledger = ledger(engines).await?;
    let filter = Filter::of(&args.notices)?;
    let mut listing = Listing::new(args.output.output, &COLUMNS);
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
        let said = of_notice(&ledger, position, picked.evidence);
        let mut shown = tail::show(&picked.message)?;
        shown["evidence"] = picked.evidence.to_string().into();
        shown["decision"] = said.map_or(Value::Null, |said| json!(said));
        listing.row(cells(&picked, said), &shown)?;
        (rows, last) = (rows + 1, Some(position));
        Ok(ControlFlow::Continue(()))
    })
    .await?;
    listing.print()
}

/// What stands: the decision, or the word that waits.
fn of_notice(ledger: &Ledger, position: Position, evidence: Digest) -> Option<&NoticeDecided> {
    let decided = ledger.decided_notice(position, evidence);
    decided.or_else(|| ledger.waiting_notice(position, evidence))
}

fn cells(picked: &Picked, said: Option<&NoticeDecided>) -> Vec<String> {
    let record = &picked.record;
    vec![
        picked.message.position.to_string(),
        output::time(record.received_at),
        record.account.clone(),
        record.code.clone(),
        record.detail.clone(),
        picked.raw_bytes.to_string(),
        record.request_id.to_string(),
        said.map_or_else(|| "-".to_owned(), in_words),
    ]
}

/// One notice, and every word on it.
pub async fn show(
    engines: &Engines,
    position: Position,
    output: &OutputArgs,
) -> anyhow::Result<()> {
    let message = at(engines, position).await?;
    let evidence = Digest::of_bytes(&message.value);
    let mut shown = tail::show(&message)?;
    let ledger = ledger(engines).await?;
    let words: Vec<_> = ledger.words_on_notice(position, evidence).collect();
    shown["evidence"] = evidence.to_string().into();
    shown["decisions"] = json!(words);
    output::object(output.output, &shown)
}

async fn at(
    engines: &Engines,
    position: Position,
) -> anyhow::Result<payfold_engines::log::Delivered> {
    search::message_at(&*engines.log, Topic::Quarantine, position).await?.ok_or_else(|| {
        Fixable::error(
            format!("there is nothing at {position} in quarantine"),
            "payfold quarantine list",
        )
    })
}
