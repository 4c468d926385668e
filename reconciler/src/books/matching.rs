//! Owns the comparing of all groups: those with both sides where they are sorted, those without an order once it was
//! looked for by its key. Memory is a few pages.

use std::collections::BTreeMap;
use std::path::Path;

use futures_util::future::try_join_all;
use payfold_engines::orders::Scan;
use payfold_schemas::finding::BookLine;
use payfold_schemas::ids::{MerchantCode, OrderId, OrderKey, ProviderRef};
use payfold_schemas::order::{Order, OrderMoney};
use tokio::sync::mpsc;

use super::flags::OrderFlags;
use super::join::{Group, Join};
use super::judge::{By, Judge, Tally};
use super::orders::{self, date_refunds};
use super::ours::OurOrder;
use super::spool::{LANES, Sorted};
use super::{BooksError, blocking};
use crate::run::Shared;

/// Groups that wait to be looked for.
const WAITING: usize = 1_024;
/// Orders that are looked for at once.
const AT_ONCE: usize = 256;
/// Refs of one order that is not known which are looked for.
const OF_ORDER_MAX: usize = 64;
/// Orders of one ref that are looked at.
const OF_REF_MAX: usize = 8;

/// Compares all. Errors: the disk of the sorted files; the role is to end.
pub(crate) async fn all(
    shared: &Shared,
    judge: &Judge,
    (ours, lines): ([Sorted<OurOrder>; LANES], [Sorted<BookLine>; LANES]),
    folder: &Path,
) -> Result<Tally, BooksError> {
    let (sender, mut receiver) = mpsc::channel(WAITING);
    let lane = |(ours, lines): (Sorted<OurOrder>, Sorted<BookLine>)| {
        let (judge, sender, tally) = (judge.clone(), sender.clone(), Tally::in_folder(folder));
        blocking(move || pairs(&judge, Join::of(ours, lines), &sender, tally))
    };
    let lanes: Vec<_> = ours.into_iter().zip(lines).map(lane).collect();
    drop(sender);
    let rest = async {
        let (mut tally, mut groups) = (Tally::in_folder(folder), Vec::with_capacity(AT_ONCE));
        while receiver.recv_many(&mut groups, AT_ONCE).await > 0 {
            look_for(shared, judge, &mut groups, &mut tally).await?;
        }
        Ok(tally)
    };
    let pairs = async { try_join_all(lanes).await.map_err(BooksError::scratch) };
    let (pairs, mut tally) = tokio::try_join!(pairs, rest)?;
    pairs.into_iter().for_each(|of_lane| tally.merge(of_lane));
    Ok(tally)
}

/// Groups that have an order; the others are sent on.
fn pairs(
    judge: &Judge,
    join: Join,
    others: &mpsc::Sender<Group>,
    mut tally: Tally,
) -> std::io::Result<Tally> {
    for group in join {
        let mut group = group?;
        first_named(&mut group);
        tally.crowded += group.left_out;
        match group.ours.as_slice() {
            [] => {
                // Nobody takes it if the role is to end, and then nobody asks for the tally.
                let _ = others.blocking_send(group);
            }
            [ours, rest @ ..] => {
                judge.judge(&mut tally, group.hash, Some(ours), &group.lines)?;
                // A ref that several orders have: the lines are held against the first, K tells of the rest.
                for other in rest {
                    judge.judge(&mut tally, group.hash, Some(other), &[])?;
                }
            }
        }
    }
    Ok(tally)
}

/// Of several orders with one ref that first which the lines name; in an order that does not depend on the sorting.
fn first_named(group: &mut Group) {
    let Group { ours, lines, .. } = group;
    if ours.len() < 2 {
        return;
    }
    let is_named =
        |order: &OurOrder| lines.iter().any(|line| line.order_id.as_ref() == Some(&order.order_id));
    ours.sort_by_cached_key(|order| (!is_named(order), order.order_id.clone()));
}

/// Orders that were created too long ago to be read with the others, or that nothing was said of, or that don't exist.
async fn look_for(
    shared: &Shared,
    judge: &Judge,
    groups: &mut Vec<Group>,
    tally: &mut Tally,
) -> Result<(), BooksError> {
    match judge.by {
        By::Order => {
            let mut keys = Vec::with_capacity(groups.len());
            for group in groups.iter() {
                let named =
                    group.lines.first().and_then(|line| Some((line, line.order_id.clone()?)));
                keys.extend(named.map(|(line, order_id)| OrderKey {
                    partner: judge.partner.clone(),
                    merchant_code: line.merchant_code.clone(),
                    order_id,
                }));
            }
            let rows = shared.load(&keys).await?;
            for (group, row) in groups.drain(..).zip(rows) {
                let mut ours = match row {
                    Some(row) => Some(ours(shared, judge, row, tally).await?),
                    None => None,
                };
                dated(shared, judge, ours.as_mut()).await?;
                let elsewhere = match &ours {
                    Some(_) => BTreeMap::new(),
                    None => under_other_orders(shared, judge, &group.lines).await?,
                };
                let sides = (ours.as_ref(), &elsewhere);
                judge.judge_found(tally, group, sides).map_err(BooksError::scratch)?;
            }
        }
        By::Ref => {
            for group in groups.drain(..) {
                let mut ours = by_ref(shared, judge, &group.lines, tally).await?;
                dated(shared, judge, ours.as_mut()).await?;
                let sides = (ours.as_ref(), &BTreeMap::new());
                judge.judge_found(tally, group, sides).map_err(BooksError::scratch)?;
            }
        }
    }
    Ok(())
}

/// An order that was looked for; its flags go to the tally.
async fn ours(
    shared: &Shared,
    judge: &Judge,
    row: Order,
    tally: &mut Tally,
) -> Result<OurOrder, BooksError> {
    let money = OrderMoney::from(row);
    let flags = OrderFlags::of(&money);
    let ours = OurOrder::of(money);
    if let Some(flags) = flags {
        let dated = orders::date_flags(shared, &judge.rules, flags, ours.clone()).await?;
        tally.flagged.push(&dated, &judge.rules).map_err(BooksError::scratch)?;
    }
    Ok(ours)
}

async fn dated(
    shared: &Shared,
    judge: &Judge,
    ours: Option<&mut OurOrder>,
) -> Result<(), BooksError> {
    match ours.filter(|_| judge.rules.lists.refunds) {
        Some(ours) => date_refunds(shared, ours).await,
        None => Ok(()),
    }
}

async fn by_ref(
    shared: &Shared,
    judge: &Judge,
    lines: &[BookLine],
    tally: &mut Tally,
) -> Result<Option<OurOrder>, BooksError> {
    let named =
        lines.first().and_then(|line| Some((&line.merchant_code, line.provider_ref.as_ref()?)));
    let keys = keys_of_ref(shared, judge, named).await?;
    let rows = shared.load(&keys).await?;
    let mut found = Vec::with_capacity(rows.len());
    for row in rows.into_iter().flatten() {
        found.push(ours(shared, judge, row, tally).await?);
    }
    let provider_ref = lines.first().and_then(|line| line.provider_ref.as_ref());
    Ok(found
        .into_iter()
        .map(|order| {
            let of_ref = order.refs.iter().filter(|r| Some(&r.provider_ref) == provider_ref);
            OurOrder { refs: of_ref.cloned().collect(), ..order }
        })
        .max_by_key(|order| order.refs.len()))
}

/// The orders of ours that have the refs of lines whose own order is not known, by ref.
async fn under_other_orders(
    shared: &Shared,
    judge: &Judge,
    lines: &[BookLine],
) -> Result<BTreeMap<ProviderRef, OrderId>, BooksError> {
    let mut refs: Vec<&ProviderRef> =
        lines.iter().filter_map(|line| line.provider_ref.as_ref()).collect();
    refs.sort_unstable();
    refs.dedup();
    let mut found = BTreeMap::new();
    for provider_ref in refs.into_iter().take(OF_ORDER_MAX) {
        let named = lines.first().map(|line| (&line.merchant_code, provider_ref));
        let keys = keys_of_ref(shared, judge, named).await?;
        found.extend(keys.into_iter().next().map(|key| (provider_ref.clone(), key.order_id)));
    }
    Ok(found)
}

async fn keys_of_ref(
    shared: &Shared,
    judge: &Judge,
    named: Option<(&MerchantCode, &ProviderRef)>,
) -> Result<Vec<OrderKey>, BooksError> {
    let Some((merchant_code, provider_ref)) = named else { return Ok(Vec::new()) };
    let (partner, merchant_code) = (judge.partner.clone(), merchant_code.clone());
    let scan = Scan::ProviderRef(partner, merchant_code, provider_ref.clone());
    let ask = || shared.store.scan(scan.clone(), None, OF_REF_MAX);
    let page = shared.ask("look up a ref", ask).await?;
    Ok(page.entries.into_iter().map(|(key, _)| key).collect())
}
