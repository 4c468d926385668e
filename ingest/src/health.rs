//! Owns what readiness makes of the times that partners sign. A process is not ready while notices come that show its
//! host's clock to be wrong; after 10 s without one it asks for traffic again, so that a clock that was set is noticed.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use payfold_schemas::ids::PartnerCode;
use payfold_schemas::time::Time;

use crate::clock_agreement::{ClockAgreement, ClockVerdict, OutsideNotice};

const PATIENCE_MS: i64 = 10_000;

/// What partners' times say of our clock. One value, shared by all workers.
#[derive(Debug, Default)]
pub struct ClockHealth {
    agreement: Mutex<ClockAgreement>,
    /// What was last logged.
    is_off: AtomicBool,
    last_outside_ms: AtomicI64,
}

impl ClockHealth {
    /// A signed notice of this partner came in its time.
    pub(crate) fn saw_inside(&self, partner: &PartnerCode, now: Time) {
        self.agreement().note_inside(partner, now);
        if self.is_off.load(Ordering::Relaxed) {
            self.verdict(now);
        }
    }

    /// A signed notice of this partner came outside its time.
    pub(crate) fn saw_outside(&self, partner: &PartnerCode, notice: OutsideNotice) {
        if self.agreement().note_outside(partner, notice) {
            self.last_outside_ms.store(notice.at.unix_ms(), Ordering::Relaxed);
        }
    }

    /// What the notices of the last minutes say of our clock.
    pub fn verdict(&self, now: Time) -> ClockVerdict {
        let verdict = self.agreement().verdict(now);
        match verdict {
            ClockVerdict::Off { .. } => {
                if !self.is_off.swap(true, Ordering::Relaxed) {
                    tracing::error!(
                        problem = describe_skew(verdict),
                        "this host's clock is wrong: signed notices outside the window are answered 503, so that \
                         partners send them again, until it is right; set it (NTP)"
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

    /// Why no traffic should come here, as far as the clock goes.
    pub fn trouble(&self, now: Time) -> Option<String> {
        let last_ms = self.last_outside_ms.load(Ordering::Relaxed);
        let shown_lately = now.unix_ms().saturating_sub(last_ms) < PATIENCE_MS;
        let verdict = self.verdict(now);
        let is_off = matches!(verdict, ClockVerdict::Off { .. });
        (is_off && shown_lately).then(|| format!("{}; set it (NTP)", describe_skew(verdict)))
    }

    fn agreement(&self) -> MutexGuard<'_, ClockAgreement> {
        self.agreement.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is wrong with the clock, for people.
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
    fn a_wrong_clock_is_not_ready_while_new_notices_show_it() {
        let (health, at) =
            (ClockHealth::default(), |ms: i64| Time::from_unix_ms(1 << 40).plus_ms(ms));
        let partners = ["acme", "bolt"].map(|code| PartnerCode::parse(code).unwrap());
        let outside = |ms: i64, identity: u64| {
            let notice = OutsideNotice { at: at(ms), skew_ms: -400_000, identity };
            health.saw_outside(&partners[usize::from(identity % 2 == 1)], notice);
        };
        (0..9).for_each(|identity| outside(0, identity));
        assert_eq!(health.trouble(at(0)), None);
        outside(0, 9);
        let trouble =
            "this host's clock is about 400 s behind the times that 2 partners sign; set it (NTP)";
        assert_eq!(health.trouble(at(9_999)).as_deref(), Some(trouble));
        outside(9_000, 9);
        assert_eq!(health.trouble(at(10_000)), None, "a replay is no news: try again");
        assert!(matches!(health.verdict(at(10_000)), ClockVerdict::Off { .. }));
        outside(10_000, 10);
        assert!(health.trouble(at(10_000)).is_some());
        health.saw_inside(&partners[0], at(10_001));
        assert_eq!(health.trouble(at(10_001)), None);
    }
}
