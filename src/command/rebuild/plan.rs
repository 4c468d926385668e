//! `payfold rebuild plan`: what a rebuild would read and write, how long it would take, and whether
//! it is possible.

use payfold_engines::log::Topic;
use payfold_engines::log::epoch::current;
use payfold_projector::rebuild::service::new_build;
use payfold_schemas::publication::Publication;
use serde::Serialize;

use super::journal::journal;
use crate::args::{Global, OutputFormat, PlanArgs};
use crate::command::block_on::block_on;
use crate::{output, settings, wiring};

/// Assumed rows a second that a switch compares (`payfold bench rebuild` measures it).
const ROWS_PER_S: u64 = 250_000;

/// The plan, as JSON output shows it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RebuildPlan {
    published: Publication,
    new_build: Option<u32>,
    next: u32,
    facts: u64,
    orders: Option<u64>,
    bytes: Option<u64>,
    assumed_facts_per_s: u32,
    seconds: u64,
    held_seconds: Option<u64>,
    possible: bool,
}

pub(crate) fn run(global: &Global, args: &PlanArgs) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    block_on(async {
        let engines = wiring::open_to_read(&loaded.settings).await?;
        let known = journal(&engines).await?;
        let extents = engines.log.extent(Topic::Intake).await?;
        let facts: u64 = extents.iter().map(|extent| extent.last).sum();
        let footprint = engines.store()?.footprint().await?;
        let new_build = new_build(&known);
        let plan = RebuildPlan {
            published: known.published(),
            new_build,
            next: known.next_build(),
            facts,
            orders: footprint.orders,
            bytes: footprint.bytes,
            assumed_facts_per_s: args.rate,
            seconds: facts.div_ceil(u64::from(args.rate.max(1))),
            held_seconds: footprint.orders.map(|orders| orders.div_ceil(ROWS_PER_S)),
            possible: current(&extents).len() == extents.len() && new_build.is_none(),
        };
        if args.output.output != OutputFormat::Table {
            return output::object(args.output.output, &plan);
        }
        plan.print();
        Ok(())
    })
}

impl RebuildPlan {
    /// Prints the plan for people.
    fn print(&self) {
        let Self { published, next, facts, seconds, assumed_facts_per_s: rate, .. } = self;
        let count = |count: Option<u64>| count.map_or("unknown".to_owned(), |n| n.to_string());
        let (orders, bytes) = (count(self.orders), count(self.bytes));
        let (build, epoch, held_s) = (published.build, published.epoch, count(self.held_seconds));
        let next = match (self.new_build, self.possible) {
            (Some(build), _) => {
                format!("build {build} is in progress already: payfold rebuild status")
            }
            (None, true) => format!(
                "payfold rebuild start --reason … makes build {next}; nothing of it is published \
                 before a switch"
            ),
            (None, false) => {
                "not possible: intake has grown into a new epoch (docs/how-to/rebuild.md)"
                    .to_owned()
            }
        };
        output::line(&format!(
            "published   build {build} under epoch {epoch}\n\
             facts       {facts} to fold, from the beginning of the log\n\
             orders      {orders}\n\
             disk        {bytes} bytes, as the current tables take\n\
             time        {seconds} s at {rate} facts/s (an assumption: --rate)\n\
             switch      order events wait about {held_s} s while both builds are compared; \
             notices are received as usual\n\
             next        {next}"
        ));
    }
}
