//! Owns the effect of signed timestamps on readiness. A process is not ready while new notices show
//! that its host's clock is wrong. After 10 s without such a notice it reports ready again
//! (half-open), because only new notices can show that the clock was corrected.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use payfold_schemas::ids::PartnerCode;
use payfold_schemas::time::Time;

use crate::clock_agreement::{ClockAgreement, ClockVerdict, OutOfWindowNotice};

/// How long a new out-of-window notice keeps the process not ready, while the clock counts as
/// wrong.
const UNREADY_MS: i64 = 10_000;

/// Evidence from signed timestamps about this host's clock. One value, shared by all workers.
#[derive(Debug, Default)]
pub struct ClockHealth {
    agreement: Mutex<ClockAgreement>,
    /// The state in the newest log line, so that only changes are logged.
    is_off: AtomicBool,
    last_outside_ms: AtomicI64,
}

impl ClockHealth {
    /// Records a signed notice with a timestamp inside its window.
    pub(crate) fn record_in_window(&self, partner: &PartnerCode, now: Time) {
        self.agreement().record_in_window(partner, now);
        if self.is_off.load(Ordering::Relaxed) {
            // Logs the recovery at once; while the clock agrees, the check is not needed.
            self.verdict(now);
        }
    }

    /// Records a signed notice with a timestamp outside its window.
    pub(crate) fn record_out_of_window(&self, partner: &PartnerCode, notice: OutOfWindowNotice) {
        // A notice that is recorded already is no new evidence.
        if self.agreement().record_out_of_window(partner, notice) {
            self.last_outside_ms.store(notice.at.unix_ms(), Ordering::Relaxed);
        }
    }

    /// Whether the notices of the last 5 minutes show that this host's clock is wrong. Logs when
    /// the answer changes.
    pub fn verdict(&self, now: Time) -> ClockVerdict {
        let verdict = self.agreement().verdict(now);
        match verdict {
            ClockVerdict::Off { .. } => {
                if !self.is_off.swap(true, Ordering::Relaxed) {
                    tracing::error!(
                        problem = describe_skew(verdict),
                        "this host's clock is wrong: signed notices outside the window are \
                         answered 503 while partners' notices show this, so that they are \
                         sent again; set the clock (NTP)"
                    );
                }
            }
            ClockVerdict::Agrees => {
                if self.is_off.swap(false, Ordering::Relaxed) {
                    tracing::info!(
                        "partners' notices no longer show that this host's clock is wrong"
                    );
                }
            }
        }
        verdict
    }

    /// Why the clock makes this process not ready; `None` if it does not.
    pub fn unready_reason(&self, now: Time) -> Option<String> {
        let last_ms = self.last_outside_ms.load(Ordering::Relaxed);
        let is_recent = now.unix_ms().saturating_sub(last_ms) < UNREADY_MS;
        let verdict = self.verdict(now);
        let is_off = matches!(verdict, ClockVerdict::Off { .. });
        (is_off && is_recent).then(|| format!("{}; set it (NTP)", describe_skew(verdict)))
    }

    fn agreement(&self) -> MutexGuard<'_, ClockAgreement> {
        self.agreement.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Describes the clock's error for a person.
fn describe_skew(verdict: ClockVerdict) -> String {
    let ClockVerdict::Off { skew_ms, partners } = verdict else { return String::new() };
    let (seconds, side) =
        (skew_ms.unsigned_abs() / 1_000, if skew_ms > 0 { "ahead of" } else { "behind" });
    format!("this host's clock is about {seconds} s {side} the times that {partners} partners sign")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_clock_makes_unready_while_new_notices_show_it() {
        let (health, at) =
            (ClockHealth::default(), |ms: i64| Time::from_unix_ms(1 << 40).plus_ms(ms));
        let partners = ["acme", "bolt"].map(|code| PartnerCode::parse(code).unwrap());
        let outside = |ms: i64, identity: u64| {
            let notice = OutOfWindowNotice { at: at(ms), skew_ms: -400_000, identity };
            health.record_out_of_window(&partners[usize::from(identity % 2 == 1)], notice);
        };
        (0..9).for_each(|identity| outside(0, identity));
        assert_eq!(health.unready_reason(at(0)), None);
        outside(0, 9);
        let reason =
            "this host's clock is about 400 s behind the times that 2 partners sign; set it (NTP)";
        assert_eq!(health.unready_reason(at(9_999)).as_deref(), Some(reason));
        outside(9_000, 9);
        assert_eq!(health.unready_reason(at(10_000)), None, "a replay is no new evidence");
        assert!(matches!(health.verdict(at(10_000)), ClockVerdict::Off { .. }));
        outside(10_000, 10);
        assert!(health.unready_reason(at(10_000)).is_some());
        health.record_in_window(&partners[0], at(10_001));
        assert_eq!(health.unready_reason(at(10_001)), None);
    }
}
