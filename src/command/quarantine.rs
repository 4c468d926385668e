//! `payfold quarantine list|show|release|dismiss|withdraw`: signed notices that could not be admitted, with the verdict of their
//! time, and what people decide on them. What changes something goes through the admin listener.

mod decide;
mod list;
mod pick;

use payfold_engines::log::Topic;
use payfold_schemas::release::{NoticeDecided, NoticeVerdict};

use super::block_on;
use super::raw::Raw;
use crate::args::{Global, QuarantineCommand, RawArgs};
use crate::settings;
use crate::wiring::Engines;

/// Runs one of its commands.
pub fn run(global: &Global, command: &QuarantineCommand) -> anyhow::Result<()> {
    match command {
        QuarantineCommand::List(args) => {
            reading(global, async |engines| list::list(engines, args).await)
        }
        QuarantineCommand::Show { position, raw: RawArgs { raw: true, reason }, .. } => {
            let reason = reason.as_deref().unwrap_or_default();
            let raw = Raw::of(global, &settings::load(global)?.settings, reason)?;
            raw.print(Topic::Quarantine.name(), position.parse()?)
        }
        QuarantineCommand::Show { position, output, .. } => {
            reading(global, async |engines| list::show(engines, position.parse()?, output).await)
        }
        QuarantineCommand::Release(args) => decide::release(global, args),
        QuarantineCommand::Dismiss(args) => decide::dismiss(global, args),
        QuarantineCommand::Withdraw(args) => decide::withdraw(global, args),
    }
}

/// Does something with the engines, opened to read.
fn reading<T>(
    global: &Global,
    act: impl AsyncFnOnce(&Engines) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let loaded = settings::load(global)?;
    block_on(async {
        let engines = Engines::open_to_read(&loaded.settings).await?;
        act(&engines).await
    })
}

/// What was decided, in few words.
fn in_words(said: &NoticeDecided) -> String {
    let by = match &said.seconded_by {
        Some(second) => format!("{} and {second}", said.author),
        None => said.author.to_string(),
    };
    match (said.decided, said.verdict) {
        (true, NoticeVerdict::Release) => format!("released by {by}"),
        (true, NoticeVerdict::Dismiss) => format!("dismissed by {by}"),
        (false, verdict) => format!("{by} says {}", verdict.as_str()),
    }
}
