//! `payfold log stats`: how far each partition of each topic reaches, and how far behind the fold is.

use payfold_engines::log::Topic;
use payfold_schemas::record::Position;
use payfold_schemas::time::Time;
use serde_json::json;

use super::Through;
use crate::args::OutputArgs;
use crate::output::Listing;
use crate::search;
use crate::wiring::Engines;

/// Records beside the one that is asked for: as many may be damaged.
const NEAR: u64 = 16;
const STATS: [&str; 6] = ["topic", "partition", "first", "last", "bytes", "lag_s"];

/// Prints a row for each partition of each topic.
pub async fn print(engines: &Engines, output: &OutputArgs) -> anyhow::Result<()> {
    let mut listing = Listing::new(output.output, &STATS);
    let folded = super::folded(engines).await?;
    for topic in Topic::ALL {
        for extent in engines.log.extent(topic).await? {
            let lag_s = match topic {
                Topic::Intake => Some(lag_s(engines, &folded, extent.end()).await?),
                Topic::Orders | Topic::Findings | Topic::Quarantine => None,
            };
            let cells = vec![
                topic.name().to_owned(),
                extent.partition.to_string(),
                extent.first.to_string(),
                extent.last.to_string(),
                extent.bytes.map_or_else(String::new, |bytes| bytes.to_string()),
                lag_s.map_or(String::new(), |lag| format!("{lag:.1}")),
            ];
            let object = json!({
                "topic": topic.name(), "partition": extent.partition, "first": extent.first,
                "last": extent.last, "bytes": extent.bytes, "lagS": lag_s,
            });
            listing.row(cells, &object)?;
        }
    }
    listing.print()
}

/// Seconds of receipt between the last folded record and the last record.
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

/// When the readable ones of the next records were received: a damaged one may be the very record that is waited for.
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
