//! Owns the inputs of the safety rules: time and nonce of the profile, and the events that make
//! facts.

use crate::profile::rules::NonceRule;
use crate::profile::time::TimeKind;
use crate::scheme::compiled::Scheme;
use crate::scheme::rules::{EventOutcome, EventRule};

/// The settings of a profile for time and nonce, which are outside of its scheme.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TimeAndNonce {
    pub(crate) time: TimeKind,
    pub(crate) nonce: NonceRule,
}

pub(crate) fn fact_events(scheme: &Scheme) -> impl Iterator<Item = (usize, &EventRule)> {
    let numbered = scheme.events.iter().enumerate().map(|(at, event)| (at + 1, event));
    numbered.filter(|(_, event)| matches!(event.outcome, EventOutcome::Status(_)))
}
