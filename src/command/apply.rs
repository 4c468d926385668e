//! `payfold topics apply` and `payfold schema apply`: make what the distributed engines need and is not there, print
//! what differs, alter nothing. Doing it again does no harm.

use super::block_on;
use crate::args::{ApplyArgs, Global, SchemaApplyArgs};
use crate::error::Fixable;
use crate::output;
use crate::settings::{self, Settings};
use crate::wiring::asked::{Doing, Step};
use crate::wiring::{Chosen, Distributed, chosen};

/// Makes the topics.
pub fn topics(global: &Global, args: &ApplyArgs) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    let distributed = distributed(&loaded.settings)?;
    let steps = block_on(distributed.apply_topics(&loaded.settings, doing(args)))?;
    let left = tell(args, &steps, "the topics are there");
    anyhow::ensure!(
        left == 0,
        "{left} settings are not as they must be, and only a person may alter a topic"
    );
    Ok(())
}

/// Makes the keyspace and the tables.
pub fn schema(global: &Global, args: &SchemaApplyArgs) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    let distributed = distributed(&loaded.settings)?;
    if args.copies_repaired {
        block_on(distributed.note_copies_repaired())?;
    }
    let steps = block_on(distributed.apply_schema(doing(&args.apply)))?;
    let differing = tell(&args.apply, &steps, "keyspace and tables are there");
    anyhow::ensure!(
        differing == 0,
        "{differing} tables are not as they must be; nothing was changed"
    );
    Ok(())
}

fn doing(args: &ApplyArgs) -> Doing {
    if args.dry_run { Doing::Tell } else { Doing::Make }
}

fn distributed(settings: &Settings) -> anyhow::Result<Box<Distributed>> {
    match chosen(settings)? {
        Chosen::Distributed(distributed) => Ok(distributed),
        Chosen::Embedded(_) => Err(Fixable::error(
            "the engines are SQLite files, which make themselves at the first run",
            "name log = \"kafka://…\" and orders = \"cql://…\", in payfold.toml or as PAYFOLD_LOG and PAYFOLD_ORDERS",
        )),
    }
}

/// Prints the steps; how many are left to a person.
fn tell(args: &ApplyArgs, steps: &[Step], done: &str) -> usize {
    let head = if args.dry_run { "would do: " } else { "" };
    steps.iter().for_each(|step| output::line(&format!("{head}{}", step.line)));
    match (steps.is_empty(), args.dry_run) {
        (true, _) => output::line(&format!("nothing to do: {done}")),
        (false, false) => output::line(&format!("done: {done}")),
        (false, true) => {}
    }
    steps.iter().filter(|step| step.left).count()
}
