//! `payfold tail`: prints a topic's messages as they arrive. The bytes of notices are never
//! printed, only their number.

use std::time::Duration;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::walk;
use payfold_engines::log::walk::Walk;
use payfold_engines::log::{Delivered, EventLog, Topic};
use payfold_kit::search;

use super::block_on::block_on;
use super::message::ShownMessage;
use crate::args::{Global, OutputFormat, TailArgs, TopicName};
use crate::error::Fixable;
use crate::{output, settings, wiring};

const PAGE: usize = 500;
const POLL: Duration = Duration::from_millis(200);

/// Prints messages until the command is stopped, or with `--no-follow` until the end of the topic.
pub(crate) fn run(global: &Global, args: &TailArgs) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    let topic = match args.topic {
        TopicName::Intake => Topic::Intake,
        TopicName::Orders => Topic::Orders,
        TopicName::Findings => Topic::Findings,
        TopicName::Quarantine => Topic::Quarantine,
    };
    if matches!(args.output.output, OutputFormat::Csv) {
        return Err(Fixable::error(
            "tail has no CSV output, because messages have different members",
            "use --output table, jsonl or json",
        ));
    }
    block_on(async {
        let engines = wiring::open_to_read(&loaded.settings).await?;
        follow(&*engines.log, topic, args).await
    })
}

async fn follow(log: &dyn EventLog, topic: Topic, args: &TailArgs) -> anyhow::Result<()> {
    let places = match (&args.after, &args.since) {
        (Some(position), _) => walk::places_to_follow_after(log, topic, position.parse()?).await?,
        (None, Some(age)) => {
            let age_ms = i64::try_from(humantime::parse_duration(age)?.as_millis())?;
            search::positions_before(log, topic, SystemClock.now().plus_ms(-age_ms)).await?
        }
        (None, None) => walk::places_after(log, topic, None).await?,
    };
    let mut walk = Walk::from(log, topic, places);
    loop {
        let Some(page) = walk.next(PAGE).await? else {
            if args.no_follow {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
            continue;
        };
        for message in &page {
            let of_partner = args
                .partner
                .as_ref()
                .is_none_or(|partner| message.key.split('/').next() == Some(partner.as_str()));
            if of_partner {
                print(message, args.output.output)?;
            }
        }
    }
}

fn print(message: &Delivered, format: OutputFormat) -> anyhow::Result<()> {
    let shown = ShownMessage::of(message)?;
    match format {
        OutputFormat::Json => output::object(OutputFormat::Json, &shown),
        OutputFormat::Jsonl | OutputFormat::Csv => output::object(OutputFormat::Jsonl, &shown),
        OutputFormat::Table => {
            output::line(&shown.line());
            Ok(())
        }
    }
}
