//! Owns which damaged records people have parked, for a command that reads all of the log.
//! Invariant: the log is read for it once, when the first damaged record is met.

use payfold_engines::EngineError;
use payfold_engines::log::{Delivered, EventLog, parked};
use payfold_schemas::parked::Parked;

/// What people have parked; none while nobody had to look.
#[derive(Default)]
pub struct LeftOut(Option<Vec<Parked>>);

impl LeftOut {
    /// Whether this record is among it.
    pub async fn has(
        &mut self,
        log: &dyn EventLog,
        message: &Delivered,
    ) -> Result<bool, EngineError> {
        if self.0.is_none() {
            self.0 = Some(parked::all(log).await?);
        }
        Ok(self.0.iter().flatten().any(|word| word.is_of(message.position, &message.value)))
    }
}
