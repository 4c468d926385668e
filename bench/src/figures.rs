//! Owns the arithmetic of reports: medians, rates, ratios, and the description of the machine.

use std::time::Duration;

use crate::load::LoadResult;

/// The median; of an even number of figures, the lower one of the two in the middle.
pub fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

/// Cores, operating system and architecture, for the head of a report.
pub fn describe_machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    format!("{cores} cores, {} {}", std::env::consts::OS, std::env::consts::ARCH)
}

/// The most notices a load may have used. Each connection may have taken one that it did not send.
pub fn notices_used(result: &LoadResult, connections: usize) -> usize {
    usize::try_from(result.requests).unwrap_or(usize::MAX).saturating_add(connections)
}

/// The rate per second.
pub fn per_second(count: u64, elapsed: Duration) -> f64 {
    ratio(count, 1) / elapsed.as_secs_f64()
}

/// The ratio of two counts.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
pub fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}
