//! Dispatches the commands. Exit codes: 0 success, 1 failure, 2 wrong usage, 3 differences found,
//! or damaged data.

pub(crate) mod account;
pub(crate) mod apply;
pub(crate) mod bench;
mod block_on;
pub(crate) mod check;
pub(crate) mod contracts;
pub(crate) mod demo;
pub(crate) mod init;
pub(crate) mod key;
pub(crate) mod log;
pub(crate) mod order;
mod pages;
pub(crate) mod partner;
pub(crate) mod quarantine;
mod raw;
mod reach;
pub(crate) mod rebuild;
pub(crate) mod reconcile;
mod retention;
mod return_keys;
pub(crate) mod run;
pub(crate) mod shop;
pub(crate) mod stuck;
pub(crate) mod tail;
pub(crate) mod token;
pub(crate) mod trace;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::args::{Arguments, Command, SchemaCommand, TopicsCommand};
use crate::error::{DifferencesFound, corrupt_fix, is_difference};
use crate::{output, privacy};

/// Parses the arguments, runs the command and prints its error.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match dispatch(arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.is::<DifferencesFound>() => ExitCode::from(3),
        Err(error) => {
            output::error_line(&format!("error: {error:#}"));
            if let Some(fix) = corrupt_fix(&error) {
                output::error_line(&format!("  fix: {fix}"));
            }
            if is_difference(&error) { ExitCode::from(3) } else { ExitCode::FAILURE }
        }
    }
}

fn dispatch(arguments: Arguments) -> anyhow::Result<()> {
    let global = &arguments.global;
    // `run` has a setting for it, and what a bench measures may be profiled.
    if !matches!(arguments.command, Command::Run(_) | Command::Bench(_))
        && let Err(error) = privacy::keep_memory_private()
    {
        output::error_line(&format!(
            "warning: core files of this command can't be forbidden, and they would hold keys: \
             {error}"
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
        Command::Topics(TopicsCommand::Apply(args)) => apply::topics(global, &args),
        Command::Topics(TopicsCommand::Acls { principal }) => apply::acls(global, &principal),
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
