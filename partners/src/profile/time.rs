//! Owns how a notice's time is judged against ours (contract 7.1). Pure; `now` is passed in.

use payfold_schemas::time::Time;
use serde::Deserialize;

use super::Field;

/// What a profile's time says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimeKind {
    /// When this delivery was sent: a retry has a new one.
    Delivery,
    /// When the event happened: a retry has the same one.
    Event,
    /// There is none.
    None,
}

/// How a notice's time is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeRule {
    /// What the time says.
    pub kind: TimeKind,
    /// Which field carries it; `None` for kind `none`.
    pub field: Option<Field>,
    /// How far it may be from our clock, in ms: ahead for every kind, behind for `delivery`.
    pub skew_ms: i64,
    /// For `event`: how old it may be, in ms.
    pub max_age_ms: Option<i64>,
}

/// A notice's time is outside its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the timestamp is {seconds} s {direction}")]
pub struct OutOfWindow {
    /// How far from our clock.
    pub seconds: u64,
    /// `old` or `ahead`.
    pub direction: &'static str,
}

impl TimeRule {
    /// The clock's word: exactly so far off still passes, a nanosecond more does not (contract 7.1).
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
