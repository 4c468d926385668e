//! Owns the log lines of create calls that opened no session, for a person to investigate. A
//! partner that is down fails every call, so refusals and failed connections are logged at most
//! once a second for each partner.

use std::collections::HashMap;
use std::sync::Mutex;

use payfold_partners::remote::{CreateFailure, CreateOutcome};
use payfold_schemas::ids::{OrderKey, PartnerCode};
use payfold_schemas::time::Time;

use crate::in_flight::lock;

/// Logs create calls, and remembers when each partner's failures were last logged.
#[derive(Default)]
pub(crate) struct CallLog {
    partners: Mutex<HashMap<PartnerCode, LogSlot>>,
}

/// The last log line about one partner.
struct LogSlot {
    /// When it was written, in seconds since 1970.
    second: i64,
    /// How many failures were not logged since.
    skipped: u64,
}

impl CallLog {
    /// Logs how a call ended at `now`, unless it opened a session.
    pub(crate) fn log_call(&self, key: &OrderKey, created: &CreateOutcome, now: Time) {
        let (order_id, partner) = (&key.order_id, &key.partner);
        match created {
            CreateOutcome::Opened(_) => {}
            CreateOutcome::Failed(failure) => self.log_failure(key, failure, now),
            CreateOutcome::Unknown(reason) => tracing::warn!(
                order.id = %order_id,
                partner = %partner,
                reason,
                "the end of a create call is unknown: a notice, a query or the deadline settles it"
            ),
        }
    }

    fn log_failure(&self, key: &OrderKey, failure: &CreateFailure, now: Time) {
        let (order_id, partner) = (&key.order_id, &key.partner);
        match failure {
            CreateFailure::Violation(rule) => tracing::warn!(
                order.id = %order_id,
                partner = %partner,
                rule = rule.name(),
                "the answer to a create call breaks the contract"
            ),
            CreateFailure::Refused(status) => {
                let Some(since_last) = self.claim_line(partner, now) else { return };
                tracing::warn!(
                    order.id = %order_id,
                    partner = %partner,
                    status,
                    since_last,
                    "the partner refuses a create call"
                );
            }
            CreateFailure::Declined(code) => {
                let Some(since_last) = self.claim_line(partner, now) else { return };
                tracing::warn!(
                    order.id = %order_id,
                    partner = %partner,
                    code,
                    since_last,
                    "the partner's answer to a create call says no"
                );
            }
            CreateFailure::Unreachable(reason) => {
                let Some(since_last) = self.claim_line(partner, now) else { return };
                tracing::warn!(
                    order.id = %order_id,
                    partner = %partner,
                    reason,
                    since_last,
                    "the partner is not reached by a create call"
                );
            }
        }
    }

    /// If no line about the partner was written in this second: claims the line and returns how
    /// many failures were not logged since the last line.
    fn claim_line(&self, partner: &PartnerCode, now: Time) -> Option<u64> {
        let second = now.unix_ms().div_euclid(1_000);
        let mut partners = lock(&self.partners);
        let never = LogSlot { second: i64::MIN, skipped: 0 };
        let slot = partners.entry(partner.clone()).or_insert(never);
        if slot.second >= second {
            slot.skipped += 1;
            return None;
        }
        slot.second = second;
        Some(std::mem::take(&mut slot.skipped))
    }
}
