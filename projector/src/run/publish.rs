//! Owns the third stage: makes a batch's events durable, in log order, before the batch is
//! committed. A failed append may have stored some of the events. All of them are appended again,
//! and subscribers drop the events they have seen.

use payfold_engines::log::Topic;
use tokio::sync::mpsc;

use super::error::Halt;
use super::folding::FoldedBatch;
use super::shared::Shared;

/// Publishes until there is no more input.
pub(super) async fn run(
    shared: &Shared,
    mut folded: mpsc::Receiver<FoldedBatch>,
    to_commit: mpsc::Sender<FoldedBatch>,
) -> Result<(), Halt> {
    while let Some(mut batch) = folded.recv().await {
        let events = std::mem::take(&mut batch.changes.events);
        if !events.is_empty() {
            let expected = events.len();
            let received = batch.changes.received.len();
            assert_eq!(received, expected, "an event is published with its time of receipt");
            let mut outage = shared.outage("publish order.changed");
            let positions = loop {
                match shared.log.append_all(Topic::Orders, events.clone()).await {
                    Ok(positions) => break positions,
                    Err(error) => {
                        shared.metrics().publish_failed();
                        outage.wait(error).await?;
                    }
                }
            };
            outage.over();
            assert_eq!(positions.len(), expected, "every event has its position");
            shared.metrics().events_published(&batch.changes.received);
        }
        if to_commit.send(batch).await.is_err() {
            return Ok(());
        }
    }
    Ok(())
}
