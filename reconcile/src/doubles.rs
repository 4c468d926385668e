//! Owns the payments and refunds that the records of two days list. A run that began before an item
//! was known has said nothing of it, so it does not count as one of the two.

use payfold_schemas::ids::{OrderKey, ProviderRef};
use payfold_schemas::order::Order;
use payfold_schemas::position::Position;
use payfold_schemas::time::Time;

use super::detected_finding::{DetectedFinding, DoubledFinding};
use super::error::ReconcileError;
use super::ledger::Ledger;
use super::orders::received_at;
use super::spill_file::SpillFile;
use crate::shared::SharedContext;

/// The doubles among these, each with its day, and the differences of the others. Errors: the disk;
/// a halt.
pub(crate) async fn settle(
    shared: &SharedContext,
    ledger: &Ledger,
    doubled: SpillFile<DoubledFinding>,
    (doubles, found): (&mut SpillFile<(String, DetectedFinding)>, &mut SpillFile<DetectedFinding>),
) -> Result<(), ReconcileError> {
    for one in doubled.values() {
        let one = one.map_err(ReconcileError::scratch_disk)?;
        let written = match was_known(shared, ledger, &one).await? {
            true => doubles.push(&(one.day, one.found)),
            false => one.otherwise.iter().try_for_each(|otherwise| found.push(otherwise)),
        };
        written.map_err(ReconcileError::scratch_disk)?;
    }
    Ok(())
}

/// Whether the item was known when the run began that has not missed it.
async fn was_known(
    shared: &SharedContext,
    ledger: &Ledger,
    one: &DoubledFinding,
) -> Result<bool, ReconcileError> {
    let Some(day) = &one.inferred_from else { return Ok(true) };
    let identity = &one.found.identity;
    let named = identity.order().zip(identity.provider_ref.as_ref());
    let run = ledger.run_of(&(identity.partner.clone(), day.clone()));
    let Some(((order, provider_ref), run)) = named.zip(run) else { return Ok(true) };
    let known_since =
        known_since(shared, order, |order| positions(one, order, provider_ref)).await?;
    Ok(known_since.is_none_or(|since| since <= run.started_at))
}

/// When the first of these records was received.
async fn known_since(
    shared: &SharedContext,
    key: OrderKey,
    positions: impl Fn(&Order) -> Vec<Position>,
) -> Result<Option<Time>, ReconcileError> {
    let row = shared.storage.load(&[key]).await?.pop().flatten();
    let mut since: Option<Time> = None;
    for position in row.iter().flat_map(positions) {
        let at = received_at(shared, position).await?;
        since = [since, at].into_iter().flatten().min();
    }
    Ok(since)
}

/// The positions of the records that state an item.
fn positions(one: &DoubledFinding, order: &Order, provider_ref: &ProviderRef) -> Vec<Position> {
    let is_it = |of: &ProviderRef, status, amount, currency| {
        let stated = (status, amount, Some(currency));
        of == provider_ref && stated == (one.status, one.amount, one.found.currency)
    };
    let notices = order.facts.ipns.iter().filter(|known| {
        let ipn = &known.content;
        is_it(&ipn.provider_ref, ipn.status, ipn.money.amount, ipn.money.currency)
    });
    let answers = order.facts.query_answers.iter().filter(|known| {
        let answer = &known.content;
        is_it(&answer.provider_ref, answer.status, answer.amount, answer.currency)
    });
    let notices = notices.map(|known| known.position);
    notices.chain(answers.map(|known| known.position)).collect()
}
