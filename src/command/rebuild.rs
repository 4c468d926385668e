//! `payfold rebuild`: folds the log anew beside live traffic, compares, switches. What changes something goes through the
//! admin listener of a process that runs the projector; plan and diff read the engines.

mod ask;
mod diff;
mod inspect;
mod plan;
mod status;

use payfold_engines::EngineError;
use payfold_engines::generations::{Generations, Journal};

use crate::args::{Global, RebuildCommand};
use crate::data_dir::DataDir;
use crate::running::AdminClient;
use crate::settings;
use crate::wiring::Engines;

/// Runs one of its commands.
pub fn run(global: &Global, command: &RebuildCommand) -> anyhow::Result<()> {
    match command {
        RebuildCommand::Plan(args) => plan::run(global, args),
        RebuildCommand::Start(args) => ask::start(&client(global)?, args),
        RebuildCommand::Status(args) => status::run(&client(global)?, args),
        RebuildCommand::Pause { why } => ask::pace(&client(global)?, ("pause", None), why),
        RebuildCommand::Resume { throttle, why } => {
            ask::pace(&client(global)?, ("resume", *throttle), why)
        }
        RebuildCommand::Diff(args) => diff::run(global, args),
        RebuildCommand::Switch(args) => ask::switch(&client(global)?, "switch", args),
        RebuildCommand::Rollback(args) => ask::switch(&client(global)?, "rollback", args),
        RebuildCommand::Drop { generation, yes, why } => {
            ask::throw_away(&client(global)?, (*generation, *yes), why)
        }
    }
}

fn client(global: &Global) -> anyhow::Result<AdminClient> {
    let settings = settings::load(global)?.settings;
    AdminClient::find(global, &DataDir::of(&settings))
}

/// Everything decided about the generations of these engines.
async fn journal(engines: &Engines) -> anyhow::Result<Generations> {
    let read: Result<_, EngineError> = Journal::new(engines.base()?.clone()).read().await;
    Ok(read?)
}
