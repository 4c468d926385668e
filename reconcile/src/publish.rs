//! Owns the appends to the `findings` topic, and the two waits before anything is compared: for the
//! projector and for the ledger.

use payfold_engines::log::{Message, Topic};
use payfold_kit::{Halt, Storage, Watermark};
use payfold_schemas::event::EventAttributes;
use payfold_schemas::finding::{FINDING_CHANGED_TYPE, FindingChanged};
use payfold_schemas::time::Time;
use serde::Serialize;

use super::error::ReconcileError;
use super::ledger::Ledger;
use super::setup::{ReconcileSetup, RunProgress};
use super::spill_file::SpillFile;
use crate::shared::SharedContext;

/// Findings that one append writes.
const APPEND_MAX: usize = 500;
/// A projector further behind than this is logged, ms.
const BEHIND_MS: i64 = 2_000;

/// Waits until the projector has folded everything appended before `begun`; logs a warning once if
/// it is far behind.
pub(super) async fn wait_until_folded(
    shared: &SharedContext,
    setup: &ReconcileSetup,
    begun: Time,
) -> Result<(), ReconcileError> {
    let mut warned = false;
    loop {
        let watermark = Watermark::measure(&shared.storage).await?;
        if watermark.is_past(begun) {
            return Ok(());
        }
        let low = watermark.low();
        let behind_ms = shared.storage.clock.now().unix_ms() - low.unix_ms().max(0);
        let behind_s = u64::try_from(behind_ms / 1_000).unwrap_or(0);
        setup.show_progress(RunProgress {
            stage: "waiting for the projector, seconds behind",
            done: behind_s,
        });
        if behind_ms > BEHIND_MS && !warned {
            warned = true;
            tracing::warn!(
                behind_s,
                "the projector is behind: the comparison with a partner's records waits until it \
                 has caught up"
            );
        }
        shared.storage.pause(std::time::Duration::from_millis(50)).await?;
    }
}

/// Folds the `findings` topic into the ledger up to its present end; retries while the log fails.
/// Errors: a halt.
pub(super) async fn catch_up(shared: &SharedContext, ledger: &mut Ledger) -> Result<(), Halt> {
    let mut outage = shared.storage.outage("read the findings");
    loop {
        match ledger.catch_up(&*shared.storage.log).await {
            Ok(()) => {
                outage.over();
                return Ok(());
            }
            Err(error) => outage.wait(error).await?,
        }
    }
}

/// Publishes the changes of a run, page by page.
pub(super) async fn publish_spilled(
    shared: &SharedContext,
    changes: SpillFile<FindingChanged>,
    at: Time,
) -> Result<(), ReconcileError> {
    let mut page = Vec::with_capacity(APPEND_MAX);
    for change in changes.values() {
        page.push(finding_event(&change.map_err(ReconcileError::scratch_disk)?, at));
        if page.len() == APPEND_MAX {
            append(&shared.storage, std::mem::take(&mut page)).await?;
        }
    }
    if page.is_empty() {
        return Ok(());
    }
    Ok(append(&shared.storage, page).await?)
}

/// Publishes changes and reads them back into the ledger.
pub(super) async fn publish_findings(
    shared: &SharedContext,
    ledger: &mut Ledger,
    changes: Vec<FindingChanged>,
    at: Time,
) -> Result<(), ReconcileError> {
    if changes.is_empty() {
        return Ok(());
    }
    for chunk in changes.chunks(APPEND_MAX) {
        append(&shared.storage, chunk.iter().map(|change| finding_event(change, at)).collect())
            .await?;
    }
    // The ledger takes the changes from the topic, not from here: another process may have appended
    // a change of the same finding first, and the first event counts.
    Ok(catch_up(shared, ledger).await?)
}

pub(super) async fn append(storage: &Storage, messages: Vec<Message>) -> Result<(), Halt> {
    let ask = || storage.log.append_all(Topic::Findings, messages.clone());
    storage.ask("append findings", ask).await?;
    Ok(())
}

pub(super) fn finding_event(change: &FindingChanged, at: Time) -> Message {
    let account = change.merchant_code.as_ref().map(|code| format!("/{code}"));
    let order = change.order_id.as_ref().map(|order| format!("/{order}"));
    let key = [Some(change.partner.to_string()), account, order];
    let key = key.into_iter().flatten().collect();
    let (id, kind) = (change.event_id(), FINDING_CHANGED_TYPE);
    message(key, EventAttributes { id, kind, time: at }, change)
}

/// A message of the topic: an event's attributes and its data as JSON.
pub(super) fn message(key: String, attributes: EventAttributes, data: &impl Serialize) -> Message {
    let value = serde_json::to_vec(data).expect("an event serializes to JSON");
    Message { key, event: Some(attributes), value, mac: None }
}
