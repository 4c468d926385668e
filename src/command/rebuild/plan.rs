//! `payfold rebuild plan`: what a rebuild would read and write, how long it would take, what would come of it.

use payfold_engines::log::Topic;
use payfold_engines::log::epoch::current;
use payfold_projector::rebuild::desk::in_the_making;
use serde_json::json;

use super::journal;
use crate::args::{Form, Global, PlanArgs};
use crate::command::block_on;
use crate::wiring::Engines;
use crate::{output, settings};

/// Rows a second that a switch compares.
const ROWS_PER_S: u64 = 250_000;

pub fn run(global: &Global, args: &PlanArgs) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    block_on(async {
        let engines = Engines::open_to_read(&loaded.settings).await?;
        let known = journal(&engines).await?;
        let extents = engines.log.extent(Topic::Intake).await?;
        let facts: u64 = extents.iter().map(|extent| extent.last).sum();
        let footprint = engines.store()?.footprint().await?;
        let seconds = facts.div_ceil(u64::from(args.rate.max(1)));
        let held_s = footprint.orders.map(|orders| orders.div_ceil(ROWS_PER_S));
        let (told, making) = (known.told(), in_the_making(&known));
        let possible = current(&extents).len() == extents.len() && making.is_none();
        if args.output.output != Form::Table {
            return output::object(
                args.output.output,
                &json!({
                    "told": told, "inTheMaking": making, "next": known.next_tables(), "facts": facts,
                    "orders": footprint.orders, "bytes": footprint.bytes,
                    "assumedFactsPerS": args.rate, "seconds": seconds, "heldSeconds": held_s,
                    "possible": possible,
                }),
            );
        }
        let count = |count: Option<u64>| count.map_or("unknown".to_owned(), |n| n.to_string());
        output::line(&format!(
            "told        generation {} under number {}",
            told.tables, told.number
        ));
        output::line(&format!("facts       {facts} to fold, from the beginning of the log"));
        output::line(&format!("orders      {}", count(footprint.orders)));
        output::line(&format!(
            "disk        {} bytes, as the present tables take",
            count(footprint.bytes)
        ));
        output::line(&format!(
            "time        {seconds} s at {} facts/s (an assumption: --rate)",
            args.rate
        ));
        output::line(&format!(
            "switch      order events wait about {} s while both are compared; notices are taken all the while",
            count(held_s)
        ));
        output::line(&match (making, possible) {
            (Some(tables), _) => format!("next        generation {tables} is in the making already: payfold rebuild status"),
            (None, true) => format!("next        payfold rebuild start --reason … makes generation {}; nothing of it is told before a switch", known.next_tables()),
            (None, false) => "next        not possible: intake has grown into a new epoch (docs/operations.md, \"Rebuild\")".to_owned(),
        });
        Ok(())
    })
}
