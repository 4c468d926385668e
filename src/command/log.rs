//! `payfold log stats|verify|park|baseline|key|accept-lost-claims|backup|restore`: extents of the
//! topics, verification of the log and of the orders folded from it, and copies of both.

mod anchor;
mod backup;
mod baseline;
mod key;
mod lost_claims;
mod manifest;
mod park;
mod profiles;
mod restore;
mod stats;
mod vault_entry;
mod verify;

use payfold_verify::FIRST_EPOCH;

use super::block_on::block_on;
use crate::args::{Global, LogCommand, OutputArgs, OutputFormat};
use crate::{settings, wiring};

/// Runs one of its commands.
pub(crate) fn run(global: &Global, command: &LogCommand) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    let settings = &loaded.settings;
    block_on(async {
        let engines = async || wiring::open_to_read(settings).await;
        match command {
            LogCommand::Stats { output } => stats::print(&engines().await?, output).await,
            LogCommand::Verify(args) => verify::run(&engines().await?, &loaded, args).await,
            LogCommand::Park(args) => park::run(global, &loaded, args).await,
            LogCommand::Baseline(args) => baseline::run(settings, args).await,
            LogCommand::Key(command) => key::run(settings, command).await,
            LogCommand::AcceptLostClaims(args) => lost_claims::run(settings, args).await,
            LogCommand::Backup { to, no_verify } => {
                let copy = backup::run(settings, to).await?;
                let output = OutputArgs { output: OutputFormat::Table };
                if *no_verify { Ok(()) } else { verify::orders(&copy, FIRST_EPOCH, &output).await }
            }
            LogCommand::Restore { from, claims, above } => {
                restore::run(settings, from, (claims.as_deref(), *above)).await
            }
        }
    })
}
