//! `payfold rebuild diff`: compares two builds order by order, with a count for each cause.

use payfold_engines::orders::Cursor;
use payfold_projector::rebuild::build_join::BuildJoin;
use payfold_projector::rebuild::difference::Comparison;
use payfold_projector::rebuild::service::new_build;
use payfold_projector::rebuild::status::load_build_statuses;

use super::difference_report::DifferenceReport;
use super::inspect;
use super::journal::journal;
use crate::args::{DiffArgs, Global};
use crate::command::block_on::block_on;
use crate::error::Fixable;
use crate::settings;
use crate::wiring::explain::explain;
use crate::wiring::{self, Engines};

pub(crate) fn run(global: &Global, args: &DiffArgs) -> anyhow::Result<()> {
    let loaded = settings::load(global)?;
    block_on(async {
        let engines = wiring::open_to_read(&loaded.settings).await?;
        let mut report = DifferenceReport::new(args);
        if args.order.is_some() || args.merchant.is_some() {
            inspect::run(&engines, args, &mut report).await?;
        } else {
            compare(&engines, args, &mut report).await?;
        }
        report.end()
    })
}

/// Compares the published build with another.
async fn compare(
    engines: &Engines,
    args: &DiffArgs,
    report: &mut DifferenceReport<'_>,
) -> anyhow::Result<()> {
    let known = journal(engines).await?;
    let build = args.build.or_else(|| new_build(&known)).ok_or_else(|| {
        Fixable::error(
            "there is no build in progress to compare",
            "start one with payfold rebuild start --reason TEXT, or give an earlier build with \
             --build N",
        )
    })?;
    let base = engines.base()?;
    let all = load_build_statuses(&*engines.log, &**base, &known).await.map_err(explain)?;
    let standing = all.iter().find(|one| one.build == build).ok_or_else(|| {
        Fixable::error(
            format!("build {build} does not exist"),
            "list the builds with payfold rebuild status",
        )
    })?;
    if !standing.is_caught_up() {
        return Err(Fixable::error(
            format!(
                "build {build} is {} records behind, so most orders would differ",
                standing.behind()
            ),
            "wait until payfold rebuild status shows it as ready",
        ));
    }
    let (live, new) = (base.build(known.published().build).await?, base.build(build).await?);
    let comparison = Comparison::new(&*live, &*new);
    let mut join = BuildJoin::new(&*live, &*new, args.page.after.clone().map(Cursor));
    while let Some(pair) = join.next_unequal().await? {
        if let Some(difference) = comparison.compare_pair(&pair).await? {
            report.add(&difference, pair.cursor())?;
        }
    }
    report.compared = join.orders_met();
    Ok(())
}
