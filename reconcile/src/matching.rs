//! Owns the matching of all groups: a group with both sides is compared where it is read; for a
//! group without an order, the order is looked up by its key first. Memory is a few pages.

use std::collections::BTreeMap;
use std::path::Path;

use futures_util::future::try_join_all;
use payfold_engines::orders::Scan;
use payfold_schemas::finding::BookLine;
use payfold_schemas::ids::{MerchantCode, OrderId, OrderKey, ProviderRef};
use payfold_schemas::order::Order;
use payfold_schemas::order_money::OrderMoney;
use tokio::sync::mpsc;

use super::blocking::run_blocking;
use super::comparer::{GroupComparer, MatchKey, RunTally};
use super::error::ReconcileError;
use super::external_sort::{LANES, SortedLane};
use super::flags::OrderFlags;
use super::join::{GroupJoin, RecordGroup};
use super::orders::{self, date_refunds};
use super::ours::OurOrder;
use crate::shared::SharedContext;

/// Groups that may wait for the look-up of their order.
const WAITING_MAX: usize = 1_024;
/// Groups with orders that one look-up reads.
const LOOKUP_PAGE: usize = 256;
/// Refs that are looked up for one unknown order, at most.
const REFS_OF_ORDER_MAX: usize = 64;
/// Orders that are looked up for one ref, at most.
const ORDERS_OF_REF_MAX: usize = 8;

/// Compares all groups of both sides. Errors: the temporary files; a halt.
pub(crate) async fn compare_all(
    shared: &SharedContext,
    comparer: &GroupComparer,
    (ours, lines): ([SortedLane<OurOrder>; LANES], [SortedLane<BookLine>; LANES]),
    folder: &Path,
) -> Result<RunTally, ReconcileError> {
    let (sender, mut receiver) = mpsc::channel(WAITING_MAX);
    let lane = |(ours, lines): (SortedLane<OurOrder>, SortedLane<BookLine>)| {
        let (comparer, sender, tally) =
            (comparer.clone(), sender.clone(), RunTally::in_folder(folder));
        run_blocking(move || compare_pairs(&comparer, GroupJoin::new(ours, lines), &sender, tally))
    };
    let lanes: Vec<_> = ours.into_iter().zip(lines).map(lane).collect();
    drop(sender);
    let rest = async {
        let (mut tally, mut groups) =
            (RunTally::in_folder(folder), Vec::with_capacity(LOOKUP_PAGE));
        while receiver.recv_many(&mut groups, LOOKUP_PAGE).await > 0 {
            compare_looked_up(shared, comparer, &mut groups, &mut tally).await?;
        }
        Ok(tally)
    };
    let paired = async { try_join_all(lanes).await.map_err(ReconcileError::scratch_disk) };
    let (paired, mut tally) = tokio::try_join!(paired, rest)?;
    paired.into_iter().for_each(|of_lane| tally.merge(of_lane));
    Ok(tally)
}

/// Compares the groups that have an order, and sends the others on for look-up.
fn compare_pairs(
    comparer: &GroupComparer,
    join: GroupJoin,
    others: &mpsc::Sender<RecordGroup>,
    mut tally: RunTally,
) -> std::io::Result<RunTally> {
    for group in join {
        let mut group = group?;
        sort_named_first(&mut group);
        tally.crowded += group.left_out;
        match group.ours.as_slice() {
            [] => {
                // Sending fails only if the receiver has failed, and then its error ends the run.
                let _ = others.blocking_send(group);
            }
            [ours, rest @ ..] => {
                comparer.compare_group(&mut tally, group.hash, Some(ours), &group.lines)?;
                // Several orders have this ref: the lines are compared with the first order only.
                // A ref that two have by confirmed notices is reported by the orders themselves
                // (`shared_with`).
                for other in rest {
                    comparer.compare_group(&mut tally, group.hash, Some(other), &[])?;
                }
            }
        }
    }
    Ok(tally)
}

/// Puts an order that the lines name before the other orders with the ref, then one with a payment
/// that counts: anybody can name a ref. The result does not depend on the sequence that the sort
/// gives.
fn sort_named_first(group: &mut RecordGroup) {
    let RecordGroup { ours, lines, .. } = group;
    if ours.len() < 2 {
        return;
    }
    let is_named =
        |order: &OurOrder| lines.iter().any(|line| line.order_id.as_ref() == Some(&order.order_id));
    ours.sort_by_cached_key(|order| {
        (!is_named(order), !order.has_moved_money(), order.order_id.clone())
    });
}

/// Looks up the orders of these groups and compares them. Such an order was created before the
/// window, has no notice or answer, or does not exist.
async fn compare_looked_up(
    shared: &SharedContext,
    comparer: &GroupComparer,
    groups: &mut Vec<RecordGroup>,
    tally: &mut RunTally,
) -> Result<(), ReconcileError> {
    match comparer.by {
        MatchKey::Order => {
            let mut keys = Vec::with_capacity(groups.len());
            for group in groups.iter() {
                let named =
                    group.lines.first().and_then(|line| Some((line, line.order_id.clone()?)));
                keys.extend(named.map(|(line, order_id)| OrderKey {
                    partner: comparer.partner.clone(),
                    merchant_code: line.merchant_code.clone(),
                    order_id,
                }));
            }
            let rows = shared.storage.load(&keys).await?;
            for (group, row) in groups.drain(..).zip(rows) {
                let mut ours = match row {
                    Some(row) => Some(take_order(shared, comparer, row, tally).await?),
                    None => None,
                };
                date_refunds_of(shared, comparer, ours.as_mut()).await?;
                let other_orders = match &ours {
                    Some(_) => BTreeMap::new(),
                    None => find_orders_with_refs(shared, comparer, &group.lines).await?,
                };
                let sides = (ours.as_ref(), &other_orders);
                comparer
                    .compare_looked_up(tally, group, sides)
                    .map_err(ReconcileError::scratch_disk)?;
            }
        }
        MatchKey::Ref => {
            for group in groups.drain(..) {
                let mut ours = find_order_by_ref(shared, comparer, &group.lines, tally).await?;
                date_refunds_of(shared, comparer, ours.as_mut()).await?;
                let sides = (ours.as_ref(), &BTreeMap::new());
                comparer
                    .compare_looked_up(tally, group, sides)
                    .map_err(ReconcileError::scratch_disk)?;
            }
        }
    }
    Ok(())
}

/// Prepares an order that was looked up, and adds its flags to the tally.
async fn take_order(
    shared: &SharedContext,
    comparer: &GroupComparer,
    row: Order,
    tally: &mut RunTally,
) -> Result<OurOrder, ReconcileError> {
    let money = OrderMoney::from(row);
    let flags = OrderFlags::of(&money);
    let ours = OurOrder::of(money);
    if let Some(flags) = flags {
        let dated = orders::date_flags(shared, &comparer.rules, flags, ours.clone()).await?;
        tally.flagged.push(&dated, &comparer.rules)?;
    }
    Ok(ours)
}

/// Dates the refunds of an order, if the records list refunds.
async fn date_refunds_of(
    shared: &SharedContext,
    comparer: &GroupComparer,
    ours: Option<&mut OurOrder>,
) -> Result<(), ReconcileError> {
    match ours.filter(|_| comparer.rules.lists.refunds) {
        Some(ours) => date_refunds(shared, ours).await,
        None => Ok(()),
    }
}

/// The order that has the ref of these lines, reduced to that ref.
async fn find_order_by_ref(
    shared: &SharedContext,
    comparer: &GroupComparer,
    lines: &[BookLine],
    tally: &mut RunTally,
) -> Result<Option<OurOrder>, ReconcileError> {
    let named =
        lines.first().and_then(|line| Some((&line.merchant_code, line.provider_ref.as_ref()?)));
    let keys = keys_of_ref(shared, comparer, named).await?;
    let rows = shared.storage.load(&keys).await?;
    let mut found = Vec::with_capacity(rows.len());
    for row in rows.into_iter().flatten() {
        found.push(take_order(shared, comparer, row, tally).await?);
    }
    let provider_ref = lines.first().and_then(|line| line.provider_ref.as_ref());
    Ok(found
        .into_iter()
        .map(|order| {
            let of_ref = order.refs.iter().filter(|r| Some(&r.provider_ref) == provider_ref);
            OurOrder { refs: of_ref.cloned().collect(), ..order }
        })
        .max_by_key(|order| (order.has_moved_money(), order.refs.len())))
}

/// For lines that name no known order: the orders that have their refs, by ref.
async fn find_orders_with_refs(
    shared: &SharedContext,
    comparer: &GroupComparer,
    lines: &[BookLine],
) -> Result<BTreeMap<ProviderRef, OrderId>, ReconcileError> {
    let mut refs: Vec<&ProviderRef> =
        lines.iter().filter_map(|line| line.provider_ref.as_ref()).collect();
    refs.sort_unstable();
    refs.dedup();
    let mut found = BTreeMap::new();
    for provider_ref in refs.into_iter().take(REFS_OF_ORDER_MAX) {
        let named = lines.first().map(|line| (&line.merchant_code, provider_ref));
        let keys = keys_of_ref(shared, comparer, named).await?;
        found.extend(keys.into_iter().next().map(|key| (provider_ref.clone(), key.order_id)));
    }
    Ok(found)
}

/// The keys of the orders that have a ref.
async fn keys_of_ref(
    shared: &SharedContext,
    comparer: &GroupComparer,
    named: Option<(&MerchantCode, &ProviderRef)>,
) -> Result<Vec<OrderKey>, ReconcileError> {
    let Some((merchant_code, provider_ref)) = named else { return Ok(Vec::new()) };
    let (partner, merchant_code) = (comparer.partner.clone(), merchant_code.clone());
    let scan = Scan::ProviderRef(partner, merchant_code, provider_ref.clone());
    let ask = || shared.storage.store.scan(scan.clone(), None, ORDERS_OF_REF_MAX);
    let page = shared.storage.ask("look up a ref", ask).await?;
    Ok(page.entries.into_iter().map(|(key, _)| key).collect())
}
