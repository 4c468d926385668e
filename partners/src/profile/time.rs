//! Owns the check of a notice's time against our clock (contract 7.1). Pure; `now` is passed in.

use payfold_schemas::time::Time;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::field::Field;

/// The meaning of a notice's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TimeKind {
    /// When this delivery was sent. A retry has a new time.
    Delivery,
    /// When the event happened. A retry has the same time.
    Event,
    /// Notices have no time.
    None,
}

/// How a notice's time is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRule {
    /// The meaning of the time.
    pub kind: TimeKind,
    /// The field that contains it; `None` for kind `none`.
    pub field: Option<Field>,
    /// How far the time may be ahead of our clock, and for `delivery` also behind it, in ms.
    pub skew_ms: i64,
    /// For `event`: how old the time may be, in ms.
    pub max_age_ms: Option<i64>,
}

/// A notice's time is outside its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the timestamp is {seconds} s {direction}")]
pub struct OutOfWindow {
    /// How far the time is from our clock, in s.
    pub seconds: u64,
    /// `old` or `ahead`.
    pub direction: &'static str,
}

impl TimeRule {
    /// Checks a time against our clock. A time exactly at a bound passes, a nanosecond beyond does
    /// not (contract 7.1).
    pub fn judge(&self, timestamp: Time, now: Time) -> Result<(), OutOfWindow> {
        let behind_ms_max = match self.kind {
            TimeKind::Delivery => Some(self.skew_ms),
            TimeKind::Event => self.max_age_ms,
            TimeKind::None => None,
        };
        let too_old = behind_ms_max.is_some_and(|max_ms| now > timestamp.plus_ms(max_ms));
        let too_far_ahead = timestamp > now.plus_ms(self.skew_ms);
        if !too_old && !too_far_ahead {
            return Ok(());
        }
        let direction = if too_old { "old" } else { "ahead" };
        let seconds = now.nanos_since(timestamp).unsigned_abs() / 1_000_000_000;
        Err(OutOfWindow { seconds, direction })
    }
}
