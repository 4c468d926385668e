//! `payfold rebuild diff --order|--merchant`: folds some orders in memory by the rules of this
//! program, and compares the result with their rows. It creates no tables and changes nothing.

use std::collections::BTreeMap;

use payfold_engines::log::Topic;
use payfold_engines::log::walk::Walk;
use payfold_projector::fold;
use payfold_projector::rebuild::difference::compare_orders;
use payfold_schemas::ids::OrderKey;
use payfold_schemas::order::Order;
use payfold_schemas::position::Position;
use payfold_schemas::record::{FactRecord, IntakeRecord};

use super::difference_report::DifferenceReport;
use crate::args::DiffArgs;
use crate::error::Fixable;
use crate::wiring::Engines;

const PAGE: usize = 5_000;

/// Folds and compares. An order that a running system changes meanwhile is left out of the
/// comparison.
pub(crate) async fn run(
    engines: &Engines,
    args: &DiffArgs,
    report: &mut DifferenceReport<'_>,
) -> anyhow::Result<()> {
    let prefix = match (&args.order, &args.merchant) {
        (Some(order), _) => OrderKey::parse(order)?.to_string(),
        (None, Some(merchant)) if merchant.split('/').count() == 2 => format!("{merchant}/"),
        _ => {
            return Err(Fixable::error(
                "--merchant needs a partner and a merchant code",
                "write it as PARTNER/MERCHANT",
            ));
        }
    };
    let whole = args.order.is_some();
    let orders =
        folded(engines, |key| if whole { key == prefix } else { key.starts_with(&prefix) }).await?;
    for (key, new) in orders {
        report.compared += 1;
        match engines.store()?.load(vec![key]).await?.pop().flatten() {
            Some(live) if live.position == new.position => {
                if let Some(difference) = compare_orders(&live, &new) {
                    report.add(&difference, None)?;
                }
            }
            Some(_) | None => {}
        }
    }
    if report.compared == 0 {
        return Err(Fixable::error(
            "the log has no fact of these orders",
            "check the spelling; payfold order list lists orders",
        ));
    }
    Ok(())
}

/// Folds the orders with the wanted keys.
async fn folded(
    engines: &Engines,
    wanted: impl Fn(&str) -> bool,
) -> anyhow::Result<BTreeMap<OrderKey, Order>> {
    let mut orders = BTreeMap::new();
    let mut walk = Walk::to_the_end(&*engines.log, Topic::Intake).await?;
    while let Some(page) = walk.next(PAGE).await? {
        for message in page.iter().filter(|message| wanted(&message.key)) {
            match message.intake_record() {
                Ok(IntakeRecord::Fact(record)) => fold_into(&mut orders, &record, message.position),
                Ok(
                    IntakeRecord::Switch(_)
                    | IntakeRecord::Parked(_)
                    | IntakeRecord::ParkingProposed(_),
                ) => {}
                Err(error) if error.is_newer() => return Err(error.into()),
                // The projector does not fold a damaged record, either: it is parked, or the
                // projector has stopped there with an error.
                Err(_) => {}
            }
        }
    }
    Ok(orders)
}

fn fold_into(orders: &mut BTreeMap<OrderKey, Order>, record: &FactRecord, position: Position) {
    let order = orders.entry(record.order.clone()).or_insert_with(|| Order {
        key: record.order.clone(),
        version: 0,
        first_seen: record.received_at,
        position,
        summary: fold::summarize(&Default::default()),
        facts: Default::default(),
    });
    let effect = fold::apply(&mut order.facts, &record.fact, position);
    order.version += u64::from(effect.is_change());
    order.position = position;
    order.summary = fold::summarize(&order.facts);
}
