//! `payfold quarantine list|show|release|dismiss|withdraw`: notices with a valid signature that
//! could not be admitted, and people's decisions on them. Commands that change something call the
//! admin listener.

mod decide;
mod list;
mod pick;
mod reading;

use payfold_engines::log::Topic;

use self::reading::reading;
use super::raw::RawReader;
use crate::args::{Global, QuarantineCommand, RawArgs};
use crate::settings;

/// Runs one of its commands.
pub(crate) fn run(global: &Global, command: &QuarantineCommand) -> anyhow::Result<()> {
    match command {
        QuarantineCommand::List(args) => {
            reading(global, async |engines| list::list(engines, args).await)
        }
        QuarantineCommand::Show { position, raw: RawArgs { raw: true, reason }, .. } => {
            let reason = reason.as_deref().unwrap_or_default();
            let raw = RawReader::of(global, &settings::load(global)?.settings, reason)?;
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
