//! `payfold topics apply` and `payfold schema apply`: make what the distributed engines need and is not there, print
//! what differs, alter nothing. Doing it again does no harm.

use payfold_engines::log::kafka::topics::{self, TopicStep};
use payfold_engines::orders::cql::schema::{self, State, Step};

use super::block_on;
use crate::args::{ApplyArgs, Global, SchemaApplyArgs};
use crate::error::Fixable;
use crate::output;
use crate::settings::{self, Settings};
use crate::wiring::{Chosen, Distributed, chosen, explain, topics_wanted};

/// Makes the topics.
pub fn topics(global: &Global, args: &ApplyArgs) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    let distributed = distributed(&loaded.settings)?;
    let wanted = topics_wanted(&loaded.settings);
    let steps = block_on(async {
        let steps = match args.dry_run {
            true => topics::plan(&distributed.kafka, &wanted).await,
            false => topics::apply(&distributed.kafka, &wanted).await,
        };
        steps.map_err(explain)
    })?;
    let left = steps.iter().filter(|step| matches!(step, TopicStep::Leave(_))).count();
    tell(args, &steps.iter().map(ToString::to_string).collect::<Vec<_>>(), "the topics are there");
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
    let cql = distributed.cql()?;
    if args.copies_repaired {
        block_on(async { schema::change_copies(cql).await.map_err(explain) })?;
    }
    let args = &args.apply;
    let steps = block_on(async {
        let steps = match args.dry_run {
            true => schema::plan(cql).await,
            false => schema::apply(cql).await,
        };
        steps.map_err(explain)
    })?;
    let open = |step: &&Step| step.state != State::Present;
    let lines: Vec<String> = steps.iter().filter(open).map(ToString::to_string).collect();
    tell(args, &lines, "keyspace and tables are there");
    let differing = steps.iter().filter(|step| matches!(step.state, State::Differs(_))).count();
    anyhow::ensure!(
        differing == 0,
        "{differing} tables are not as they must be; nothing was changed"
    );
    Ok(())
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

fn tell(args: &ApplyArgs, lines: &[String], done: &str) {
    let head = if args.dry_run { "would do: " } else { "" };
    lines.iter().for_each(|line| output::line(&format!("{head}{line}")));
    match (lines.is_empty(), args.dry_run) {
        (true, _) => output::line(&format!("nothing to do: {done}")),
        (false, false) => output::line(&format!("done: {done}")),
        (false, true) => {}
    }
}
