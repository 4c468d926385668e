//! Owns the log lines of create calls that opened no session: what a person may have to look into. A partner that is
//! down fails every call: that it refuses or is not there is told at most once a second for each partner.

use std::collections::HashMap;
use std::sync::Mutex;

use payfold_partners::remote::{Created, Failure};
use payfold_schemas::ids::{OrderKey, PartnerCode};
use payfold_schemas::time::Time;

use crate::calls::lock;

/// When each partner's failure was last told, and how many went by since.
#[derive(Default)]
pub(crate) struct Teller {
    partners: Mutex<HashMap<PartnerCode, Slot>>,
}

struct Slot {
    second: i64,
    passed_over: u64,
}

impl Teller {
    /// Tells what came of a call at `now`.
    pub(crate) fn called(&self, key: &OrderKey, created: &Created, now: Time) {
        let (order_id, partner) = (&key.order_id, &key.partner);
        match created {
            Created::Opened(_) => {}
            Created::Failed(failure) => self.failed(key, failure, now),
            Created::Unknown(reason) => tracing::warn!(
                order.id = %order_id,
                partner = %partner,
                reason,
                "the end of a create call is unknown: a notice, a query or the deadline settles it"
            ),
        }
    }

    fn failed(&self, key: &OrderKey, failure: &Failure, now: Time) {
        let (order_id, partner) = (&key.order_id, &key.partner);
        match failure {
            Failure::Violation(rule) => tracing::warn!(
                order.id = %order_id,
                partner = %partner,
                rule = rule.name(),
                "the answer to a create call breaks the contract"
            ),
            Failure::Refused(status) => {
                let Some(since_last) = self.due(partner, now) else { return };
                tracing::warn!(
                    order.id = %order_id,
                    partner = %partner,
                    status,
                    since_last,
                    "the partner refuses a create call"
                );
            }
            Failure::Declined(code) => {
                let Some(since_last) = self.due(partner, now) else { return };
                tracing::warn!(
                    order.id = %order_id,
                    partner = %partner,
                    code,
                    since_last,
                    "the partner's answer to a create call says no"
                );
            }
            Failure::Unreachable(reason) => {
                let Some(since_last) = self.due(partner, now) else { return };
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

    /// How many went by since the last line, if this second has none yet.
    fn due(&self, partner: &PartnerCode, now: Time) -> Option<u64> {
        let second = now.unix_ms().div_euclid(1_000);
        let mut partners = lock(&self.partners);
        let never = Slot { second: i64::MIN, passed_over: 0 };
        let slot = partners.entry(partner.clone()).or_insert(never);
        if slot.second >= second {
            slot.passed_over += 1;
            return None;
        }
        slot.second = second;
        Some(std::mem::take(&mut slot.passed_over))
    }
}
