//! Owns the compiled `[records.map]`, and the statuses of its events.

use payfold_schemas::ipn::Status;

use crate::records::time_format::RowTimeFormat;
use crate::scheme::rules::{EventOutcome, EventRule, MapRule};
use crate::scheme::template::Template;

/// The compiled `[records.map]`.
pub(crate) struct RecordsMapping {
    pub(crate) map: MapRule,
    pub(crate) at: Option<Template>,
    pub(crate) at_format: Option<RowTimeFormat>,
    pub(crate) paid_at_format: Option<RowTimeFormat>,
    pub(crate) point: char,
    pub(crate) group: Option<char>,
}

pub(crate) fn statuses(events: &[EventRule]) -> impl Iterator<Item = Status> {
    events.iter().filter_map(|event| match event.outcome {
        EventOutcome::Status(status) => Some(status),
        EventOutcome::Ignore | EventOutcome::NoOrder | EventOutcome::Refuse => None,
    })
}
