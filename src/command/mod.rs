//! The commands, one file each, and what they share: dispatch and exit codes
//! (0 ok, 1 failed, 2 usage, 3 differences found).

pub mod account;
pub mod apply;
pub mod bench;
pub mod check;
pub mod contracts;
pub mod demo;
pub mod init;
pub mod key;
pub mod log;
pub mod order;
pub mod partner;
pub mod quarantine;
mod raw;
mod reach;
pub mod rebuild;
pub mod reconcile;
mod retention;
mod return_keys;
pub mod run;
pub mod shop;
pub mod stuck;
pub mod tail;
pub mod token;
pub mod trace;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::args::{ApplyCommand, Arguments, Command, SchemaCommand};
use crate::error::{DifferencesFound, is_difference};
use crate::{output, privacy};

/// Reads the arguments, runs the command, prints its error.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match dispatch(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<DifferencesFound>() => ExitCode::from(3),
        Err(error) if is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::error_line(&format!("error: {error:#}"));
            if is_difference(&error) { ExitCode::from(3) } else { ExitCode::FAILURE }
        }
    }
}

fn dispatch(arguments: Arguments) -> anyhow::Result<()> {
    let global = &arguments.global;
    if matches!(
        arguments.command,
        Command::Key(_) | Command::Account(_) | Command::Shop(_) | Command::Token(_)
    ) && let Err(error) = privacy::keep_memory_private()
    {
        output::error_line(&format!(
            "warning: core files of this command can't be forbidden: {error}"
        ));
    }
    match arguments.command {
        Command::Run(args) => run::run(global, &args),
        Command::Demo(command) => demo::run(global, &command),
        Command::Check(args) => check::run(global, &args),
        Command::Init => {
            init::run();
            Ok(())
        }
        Command::Order(command) => order::run(global, &command),
        Command::Trace(args) => trace::run(global, &args),
        Command::Tail(args) => tail::run(global, &args),
        Command::Partner(command) => partner::run(global, &command),
        Command::Key(command) => key::run(global, &command),
        Command::Account(command) => account::run(global, &command),
        Command::Shop(command) => shop::run(global, &command),
        Command::Token(command) => token::run(global, &command),
        Command::Reconcile(command) => reconcile::run(global, &command),
        Command::Rebuild(command) => rebuild::run(global, &command),
        Command::Quarantine(command) => quarantine::run(global, &command),
        Command::Log(command) => log::run(global, &command),
        Command::Retention(command) => retention::run(global, &command),
        Command::Topics(ApplyCommand::Apply(args)) => apply::topics(global, &args),
        Command::Schema(SchemaCommand::Apply(args)) => apply::schema(global, &args),
        Command::Schema(SchemaCommand::Events(args)) => contracts::events(&args),
        Command::Schema(SchemaCommand::Asyncapi) => contracts::asyncapi(),
        Command::Bench(command) => bench::run(global, &command),
        Command::Completions { shell } => {
            clap_complete::generate(
                shell,
                &mut Arguments::command(),
                "payfold",
                &mut std::io::stdout(),
            );
            Ok(())
        }
        Command::Man { dir } => {
            std::fs::create_dir_all(&dir)?;
            clap_mangen::generate_to(Arguments::command(), &dir)?;
            output::line(&format!("wrote man pages to {}", dir.display()));
            Ok(())
        }
    }
}

/// Whether the reader of our output went away (`payfold tail | head`): not an error.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Runs a command's future on a small runtime of its own.
fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(future)
}
