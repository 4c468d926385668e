//! `payfold log stats`: the extent of each partition of each topic, and the lag of the fold.

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::{Extent, Topic};
use payfold_kit::search;
use payfold_schemas::position::Position;
use payfold_schemas::time::Time;
use payfold_verify::through::{Through, folded};
use serde::Serialize;

use crate::args::OutputArgs;
use crate::listing::{Listing, Row};
use crate::wiring::Engines;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PartitionRow {
    topic: &'static str,
    #[serde(flatten)]
    extent: Extent,
    /// Lag of the fold in seconds; for `intake` only, and if a record that waits can be read.
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
                Topic::Intake => lag_s(engines, &folded, extent.end()).await?,
                Topic::Orders | Topic::Findings | Topic::Quarantine => None,
            };
            listing.row(&PartitionRow { topic: topic.name(), extent, lag_s })?;
        }
    }
    listing.print()
}

/// How long the oldest record that is not folded has waited, in seconds; as the metric
/// `payfold_projector_lag_seconds` says.
async fn lag_s(engines: &Engines, folded: &Through, last: Position) -> anyhow::Result<Option<f64>> {
    let through = folded.offset(last.partition);
    if through >= last.offset {
        return Ok(Some(0.0));
    }
    let oldest = search::oldest_received(&*engines.log, Position { offset: through, ..last });
    Ok(oldest.await?.map(|oldest| seconds(SystemClock.now(), oldest)))
}

#[expect(
    clippy::as_conversions,
    reason = "a lag for people; precision beyond the millisecond is no use"
)]
fn seconds(now: Time, oldest: Time) -> f64 {
    now.nanos_since(oldest).max(0) as f64 / 1e9
}
