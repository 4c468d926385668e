//! Owns the result of a verification: counts and differences.

use payfold_engines::EngineError;
use payfold_engines::log::{Delivered, EventLog};
use payfold_kit::parked::ParkedRecords;
use payfold_schemas::record::RecordError;
use serde::Serialize;

/// A difference between a stored value and the folded one.
#[derive(Serialize)]
pub struct StoredDifference {
    /// The order's key; `-` for a difference that belongs to no order.
    pub order: String,
    /// The field that differs.
    pub field: String,
    /// The stored value.
    pub stored: String,
    /// The expected value.
    pub folded: String,
}

/// The result of a verification.
#[derive(Default)]
pub struct Verification {
    /// Records that were read.
    pub records: u64,
    /// Orders that were compared.
    pub orders: u64,
    /// Events that were compared.
    pub events: u64,
    /// Damaged records that a person has parked.
    pub parked: u64,
    /// Events that retention has removed from `orders`.
    pub removed: u64,
    /// Events of epochs that are not judged.
    pub of_earlier_rules: u64,
    pub(crate) left_out: ParkedRecords,
    /// The differences.
    pub differences: Vec<StoredDifference>,
}

impl Verification {
    /// Adds a difference.
    pub(crate) fn differs(
        &mut self,
        order: &impl ToString,
        field: &str,
        stored: &impl ToString,
        folded: &impl ToString,
    ) {
        self.differences.push(StoredDifference {
            order: order.to_string(),
            field: field.to_owned(),
            stored: stored.to_string(),
            folded: folded.to_string(),
        });
    }

    /// Adds an unreadable record as a difference, or counts it if a person has parked it.
    pub(crate) async fn add_unreadable(
        &mut self,
        log: &dyn EventLog,
        message: &Delivered,
        error: &RecordError,
    ) -> Result<(), EngineError> {
        if self.left_out.contain(log, message).await? {
            self.parked += 1;
        } else {
            self.differs(&message.key, "record", &message.position, error);
        }
        Ok(())
    }
}
