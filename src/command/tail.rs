//! `payfold tail`: prints a topic's messages as they arrive. The bytes of notices are never
//! printed, only their number.

use std::time::Duration;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::Topic;
use payfold_views::messages::{ListMessages, MessagePage, MessageRow};

use super::block_on::block_on;
use crate::args::{Global, OutputFormat, TailArgs, TopicName};
use crate::error::Fixable;
use crate::reads::Reads;
use crate::{output, settings};

/// How often the topic is looked at for more messages.
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
    block_on(async { follow(&Reads::open(global, &loaded).await?, topic, args).await })
}

async fn follow(reads: &Reads<'_>, topic: Topic, args: &TailArgs) -> anyhow::Result<()> {
    let since = match &args.since {
        Some(age) => {
            let age_ms = i64::try_from(humantime::parse_duration(age)?.as_millis())?;
            Some(SystemClock.now().plus_ms(-age_ms))
        }
        None => None,
    };
    let (partner, after) = (args.partner.clone(), args.after.clone());
    let mut asked = ListMessages { partner, since, after, limit: None };
    loop {
        let MessagePage { messages, next, has_more } = reads.messages(topic, &asked).await?;
        messages.iter().try_for_each(|message| print(message, args.output.output))?;
        asked.after = Some(next);
        if !has_more {
            if args.no_follow {
                return Ok(());
            }
            tokio::time::sleep(POLL).await;
        }
    }
}

fn print(message: &MessageRow, format: OutputFormat) -> anyhow::Result<()> {
    match format {
        OutputFormat::Json => output::object(OutputFormat::Json, &message.message),
        OutputFormat::Jsonl | OutputFormat::Csv => {
            output::object(OutputFormat::Jsonl, &message.message)
        }
        OutputFormat::Table => {
            output::line(&message.line);
            Ok(())
        }
    }
}
