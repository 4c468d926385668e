//! `payfold rebuild`: folds the log into a new build beside live traffic, compares it, and switches
//! to it. Commands that change something call the admin listener of a process with the projector
//! role; plan and diff read the engines.

mod ask;
mod diff;
mod difference_report;
mod inspect;
mod journal;
mod plan;
mod status;

use crate::admin_client::AdminClient;
use crate::args::{Global, RebuildCommand};
use payfold_api::rebuild::{PAUSE, RESUME, ROLL_BACK, SWITCH};

/// Runs one of its commands.
pub(crate) fn run(global: &Global, command: &RebuildCommand) -> anyhow::Result<()> {
    let client = || AdminClient::find_for_command(global);
    match command {
        RebuildCommand::Plan(args) => plan::run(global, args),
        RebuildCommand::Start(args) => ask::start(&client()?, args),
        RebuildCommand::Status(args) => status::run(&client()?, args),
        RebuildCommand::Pause { why } => ask::pace(&client()?, &PAUSE, None, why),
        RebuildCommand::Resume { throttle, why } => ask::pace(&client()?, &RESUME, *throttle, why),
        RebuildCommand::Diff(args) => diff::run(global, args),
        RebuildCommand::Switch(args) => ask::switch(&client()?, &SWITCH, args),
        RebuildCommand::Rollback(args) => ask::switch(&client()?, &ROLL_BACK, args),
        RebuildCommand::Drop { build, yes, why } => {
            ask::throw_away(&client()?, (*build, *yes), why)
        }
    }
}
