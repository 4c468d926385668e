//! `payfold log stats`: the extent of each partition of each topic, and the lag of the fold.

use payfold_engines::log::{Extent, Topic};
use payfold_kit::search;
use payfold_schemas::position::Position;
use payfold_schemas::time::Time;
use payfold_verify::through::{Through, folded};
use serde::Serialize;

use crate::args::OutputArgs;
use crate::listing::{Listing, Row};
use crate::wiring::Engines;

/// Records that are read to find a readable one: so many in a row may be damaged.
const NEAR: u64 = 16;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PartitionRow {
    topic: &'static str,
    #[serde(flatten)]
    extent: Extent,
    /// Lag of the fold in seconds; for `intake` only.
    lag_s: Option<f64>,
}

impl Row for PartitionRow {
    const COLUMNS: &'static str = "topic partition first last bytes lag_s";
}

/// Prints a row for each partition of each topic.
pub(crate) async fn print(engines: &Engines, output: &OutputArgs) -> anyhow::Result<()> {
    let mut listing = Listing::of::<PartitionRow>(output.output);
    let folded = folded(&**engines.store()?).await?;
    for topic in Topic::ALL {
        for extent in engines.log.extent(topic).await? {
            let lag_s = match topic {
                Topic::Intake => Some(lag_s(engines, &folded, extent.end()).await?),
                Topic::Orders | Topic::Findings | Topic::Quarantine => None,
            };
            listing.row(&PartitionRow { topic: topic.name(), extent, lag_s })?;
        }
    }
    listing.print()
}

/// Seconds between the receipt of the last folded record and of the last record.
async fn lag_s(engines: &Engines, folded: &Through, last: Position) -> anyhow::Result<f64> {
    let through = folded.offset(last.partition);
    if through >= last.offset {
        return Ok(0.0);
    }
    let before = Position { offset: last.offset.saturating_sub(NEAR), ..last };
    let newest = received(engines, before).await?.pop();
    let oldest = received(engines, Position { offset: through, ..last }).await?.into_iter().next();
    Ok(match (newest, oldest) {
        (Some(newest), Some(oldest)) => seconds(newest, oldest),
        _ => 0.0,
    })
}

/// The receipt times of the next records, without damaged records, which have no readable time.
async fn received(engines: &Engines, after: Position) -> anyhow::Result<Vec<Time>> {
    let near = usize::try_from(NEAR)?;
    let page = engines.log.read_after(Topic::Intake, after, near).await?;
    let mut received = Vec::with_capacity(page.len());
    for message in &page {
        received.extend(search::received_at(message)?);
    }
    Ok(received)
}

#[expect(
    clippy::as_conversions,
    reason = "a lag for people; precision beyond the millisecond is no use"
)]
fn seconds(newest: Time, oldest: Time) -> f64 {
    newest.nanos_since(oldest) as f64 / 1e9
}
