//! `payfold quarantine list|show|release|dismiss|withdraw`: notices with a valid signature that
//! could not be admitted, and people's decisions on them. Commands that change something call the
//! admin listener; listings read the engines, or through the admin listener that `--admin-url`
//! names.

mod decide;
mod filter;
mod list;

use payfold_engines::log::Topic;

use super::block_on::block_on;
use super::raw::RawReader;
use crate::args::{Global, QuarantineCommand, RawArgs};
use crate::reads::Reads;
use crate::settings;

/// Runs one of its commands.
pub(crate) fn run(global: &Global, command: &QuarantineCommand) -> anyhow::Result<()> {
    let loaded = || settings::load(global);
    match command {
        QuarantineCommand::List(args) => {
            block_on(async { list::list(&Reads::open(global, &loaded()?).await?, args).await })
        }
        QuarantineCommand::Show { position, raw: RawArgs { raw: true, reason }, .. } => {
            let reason = reason.as_deref().unwrap_or_default();
            let raw = RawReader::of(global, &loaded()?.settings, reason)?;
            raw.print(Topic::Quarantine.name(), position.parse()?)
        }
        QuarantineCommand::Show { position, output, .. } => block_on(async {
            let position = position.parse()?;
            list::show(&Reads::open(global, &loaded()?).await?, position, output).await
        }),
        QuarantineCommand::Release(args) => decide::release(global, args),
        QuarantineCommand::Dismiss(args) => decide::dismiss(global, args),
        QuarantineCommand::Withdraw(args) => decide::withdraw(global, args),
    }
}
