//! `payfold quarantine list|show`: signed notices that could not be admitted, with the verdict of their time.

use payfold_engines::log::Topic;
use payfold_schemas::record::{Parts, Position, QuarantineRecord, Record};

use super::{block_on, tail};
use crate::args::{Global, OutputArgs, PageArgs, QuarantineCommand};
use crate::error::Fixable;
use crate::output::{self, Listing};
use crate::walk::Walk;
use crate::wiring::Engines;
use crate::{search, settings, walk};

const COLUMNS: [&str; 7] =
    ["position", "received", "account", "code", "detail", "bytes", "request_id"];
const PAGE: usize = 500;

/// Runs one of its commands.
pub fn run(global: &Global, command: &QuarantineCommand) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    block_on(async {
        let engines = Engines::open_to_read(&loaded.settings).await?;
        answer(&engines, command).await
    })
}

async fn answer(engines: &Engines, command: &QuarantineCommand) -> anyhow::Result<()> {
    match command {
        QuarantineCommand::List { partner, page, output } => {
            list(engines, partner.as_deref(), page, output).await
        }
        QuarantineCommand::Show { position, raw, output } => {
            let position = position.parse()?;
            let (message, record) = at(engines, position).await?;
            if *raw {
                return Ok(output::raw(&record.raw)?);
            }
            output::object(output.output, &tail::show(&message)?)
        }
    }
}

async fn at(
    engines: &Engines,
    position: Position,
) -> anyhow::Result<(payfold_engines::log::Delivered, Record)> {
    let message =
        search::message_at(&*engines.log, Topic::Quarantine, position).await?.ok_or_else(|| {
            Fixable::error(
                format!("there is nothing at {position} in quarantine"),
                "payfold quarantine list",
            )
        })?;
    let record = Record::decode(&message.value)?;
    Ok((message, record))
}

async fn list(
    engines: &Engines,
    partner: Option<&str>,
    page: &PageArgs,
    output: &OutputArgs,
) -> anyhow::Result<()> {
    let mut listing = Listing::new(output.output, &COLUMNS);
    let mut after: Option<Position> = page.after.as_deref().map(str::parse).transpose()?;
    let mut rows = 0;
    let places = walk::places_after(&*engines.log, Topic::Quarantine, after).await?;
    let mut walk = Walk::from(&*engines.log, Topic::Quarantine, places);
    'pages: while let Some(messages) = walk.next(PAGE).await? {
        for message in &messages {
            if rows == page.limit {
                output::error_line(&format!("more: --after {}", after.unwrap_or_default()));
                break 'pages;
            }
            after = Some(message.position);
            let record = Record::decode(&message.value)?;
            let Parts::Quarantine(quarantined) = &record.parts else { continue };
            if partner.is_none_or(|partner| quarantined.account.split('/').next() == Some(partner))
            {
                listing.row(
                    cells(message.position, quarantined, record.raw.len()),
                    &tail::show(message)?,
                )?;
                rows += 1;
            }
        }
    }
    listing.print()
}

fn cells(position: Position, record: &QuarantineRecord, bytes: usize) -> Vec<String> {
    vec![
        position.to_string(),
        output::time(record.received_at),
        record.account.clone(),
        record.code.clone(),
        record.detail.clone(),
        bytes.to_string(),
        record.request_id.to_string(),
    ]
}
