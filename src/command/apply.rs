//! `payfold topics apply` and `payfold schema apply`: create missing topics and tables, print what
//! differs, alter nothing. Repeating them does no harm. `payfold topics acls` prints what the roles
//! have to be allowed.

use super::block_on::block_on;
use crate::args::{ApplyArgs, Global, SchemaApplyArgs};
use crate::error::Fixable;
use crate::output;
use crate::settings::{self, Settings};
use crate::wiring::cluster_state::{ApplyMode, ApplyStep};
use crate::wiring::{ChosenEngines, DistributedEngines, choose_engines};

/// Creates the topics. Errors: a topic has other settings than required.
pub(crate) fn topics(global: &Global, args: &ApplyArgs) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    let distributed = distributed(&loaded.settings)?;
    let steps = block_on(distributed.apply_topics(&loaded.settings, doing(args)))?;
    let left = print_steps(args, &steps, "all topics exist");
    anyhow::ensure!(
        left == 0,
        "{left} settings of topics differ from the required ones and were left unchanged; alter \
         them by hand (kafka-configs.sh), then run payfold topics apply again"
    );
    Ok(())
}

/// Prints the commands that allow the roles what they do. Errors: all would be one principal; a
/// shell would not read its name as it is.
pub(crate) fn acls(global: &Global, principal: &str) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    let distributed = distributed(&loaded.settings)?;
    if !principal.contains("{role}") || principal.contains(['\'', '\n']) {
        return Err(Fixable::error(
            format!("--principal {principal:?} is not the name of a principal for each role"),
            "write it with {role} for the role and without quotes, such as 'User:payfold-{role}'",
        ));
    }
    output::line(distributed.acls(principal).trim_end());
    Ok(())
}

/// Creates the keyspace and the tables. Errors: a table differs from the required one.
pub(crate) fn schema(global: &Global, args: &SchemaApplyArgs) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    let distributed = distributed(&loaded.settings)?;
    if args.copies_repaired {
        block_on(distributed.note_copies_repaired())?;
    }
    let steps = block_on(distributed.apply_schema(doing(&args.apply)))?;
    let differing = print_steps(&args.apply, &steps, "keyspace and tables exist");
    anyhow::ensure!(
        differing == 0,
        "{differing} tables differ from the required ones, so nothing was changed; alter them by \
         hand, or use another keyspace"
    );
    Ok(())
}

fn doing(args: &ApplyArgs) -> ApplyMode {
    if args.dry_run { ApplyMode::Plan } else { ApplyMode::Apply }
}

fn distributed(settings: &Settings) -> anyhow::Result<Box<DistributedEngines>> {
    match choose_engines(settings)? {
        ChosenEngines::Distributed(distributed) => Ok(distributed),
        ChosenEngines::Embedded(_) => Err(Fixable::error(
            "the engines are SQLite files, which the first run creates",
            "for Kafka and CQL set log = \"kafka://…\" and orders = \"cql://…\" in payfold.toml, \
             or PAYFOLD_LOG and PAYFOLD_ORDERS",
        )),
    }
}

/// Prints the steps. Returns how many a person must do.
fn print_steps(args: &ApplyArgs, steps: &[ApplyStep], done: &str) -> usize {
    let head = if args.dry_run { "would do: " } else { "" };
    steps.iter().for_each(|step| output::line(&format!("{head}{}", step.line)));
    match (steps.is_empty(), args.dry_run) {
        (true, _) => output::line(&format!("nothing to do: {done}")),
        (false, false) => output::line(&format!("done: {done}")),
        (false, true) => {}
    }
    steps.iter().filter(|step| step.left).count()
}
