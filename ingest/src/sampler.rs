//! Owns the log lines of refusals: at most one a second for each code, with a digest of the body and never
//! a value of it, so that a flood of refusals can't flood the log. And those of old keys: one a minute for each.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use payfold_partners::directory::Account;
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{KeyId, MerchantCode, PartnerCode};

use crate::intake::Receipt;
use crate::refusal::Code;

/// Remembers when each kind of line was last logged and how many went by since.
pub struct Sampler {
    codes: [Slot; Code::ALL.len()],
    over_budget: Slot,
    /// There are as many as keys that were replaced while this process ran.
    old_keys: Mutex<HashMap<(PartnerCode, MerchantCode, KeyId), Minute>>,
}

/// One minute's line of one old key.
#[derive(Default)]
struct Minute {
    minute: i64,
    passed_over: u64,
}

impl Minute {
    /// How many uses went by since the last line, if this minute has none yet.
    fn due(&mut self, receipt: &Receipt) -> Option<u64> {
        let minute = receipt.received_at.unix_ms().div_euclid(60_000);
        if minute <= self.minute {
            self.passed_over += 1;
            return None;
        }
        self.minute = minute;
        Some(std::mem::take(&mut self.passed_over))
    }
}

/// One kind of line.
#[derive(Default)]
struct Slot {
    second: AtomicI64,
    passed_over: AtomicU64,
}

impl Slot {
    /// How many lines went by since the last one, if this second has none yet. Workers' clocks may
    /// disagree by a little: only a later second begins a new one.
    fn due(&self, receipt: &Receipt) -> Option<u64> {
        let second = receipt.received_at.unix_ms().div_euclid(1_000);
        if self.second.fetch_max(second, Ordering::Relaxed) >= second {
            self.passed_over.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(self.passed_over.swap(0, Ordering::Relaxed))
    }
}

impl Default for Sampler {
    fn default() -> Self {
        Self {
            codes: std::array::from_fn(|_| Slot::default()),
            over_budget: Slot::default(),
            old_keys: Mutex::default(),
        }
    }
}

impl Sampler {
    /// Logs this refusal if its code has not been logged in this second.
    pub fn refused(&self, receipt: &Receipt, body: Option<&[u8]>, code: Code) {
        let Some(passed_over) = self.codes[code.index()].due(receipt) else { return };
        let digest = body.map(|body| Digest::of_bytes(body).to_string()).unwrap_or_default();
        tracing::info!(
            code = code.as_str(), request.id = %receipt.request_id, body.digest = digest,
            body.bytes = body.map_or(0, <[u8]>::len), since_last = passed_over, "ipn refused"
        );
    }

    /// Logs, once a second, that a signed notice could not be kept whole.
    pub fn not_kept(&self, receipt: &Receipt, body: &[u8], account: &str) {
        let Some(passed_over) = self.over_budget.due(receipt) else { return };
        tracing::error!(
            account, request.id = %receipt.request_id, body.digest = %Digest::of_bytes(body), since_last = passed_over,
            "signed notices are not kept: the account is over its quarantine budget for this hour; they are answered 503, \
             so that the partner sends them again: find out why they are refused (payfold quarantine list), or raise \
             ingest.quarantine_bytes_per_hour"
        );
    }

    /// Logs, once a minute for each key, that a partner still signs with the key before the one it has.
    pub fn old_key_used(&self, receipt: &Receipt, account: &Account, (old, new): (&KeyId, &KeyId)) {
        let key = (account.partner().clone(), account.merchant_code().clone(), old.clone());
        let mut old_keys = self.old_keys.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Some(passed_over) = old_keys.entry(key).or_default().due(receipt) else { return };
        drop(old_keys);
        tracing::info!(
            partner = %account.partner(), merchant = %account.merchant_code(), key.id = %old, key.newer = %new,
            request.id = %receipt.request_id, since_last = passed_over, "an old key is still used"
        );
    }
}

#[cfg(test)]
mod tests {
    use payfold_schemas::ids::RequestId;
    use payfold_schemas::time::Time;

    use super::*;

    #[test]
    fn a_minute_has_one_line_of_an_old_key() {
        let mut minute = Minute::default();
        let at = |ms| Receipt {
            request_id: "01939b1c-7a00-7000-8000-000000000001".parse::<RequestId>().unwrap(),
            received_at: Time::from_unix_ms(ms),
        };
        let due: Vec<_> =
            [60_000, 119_999, 61_000, 120_000, 180_000].map(|ms| minute.due(&at(ms))).into();
        assert_eq!(due, [Some(0), None, None, Some(2), Some(0)]);
    }

    #[test]
    fn a_second_has_one_line_and_the_next_tells_how_many_went_by() {
        let slot = Slot::default();
        let at = |ms| Receipt {
            request_id: "01939b1c-7a00-7000-8000-000000000001".parse::<RequestId>().unwrap(),
            received_at: Time::from_unix_ms(ms),
        };
        assert_eq!(slot.due(&at(5_000)), Some(0));
        assert_eq!(slot.due(&at(5_999)), None);
        assert_eq!(slot.due(&at(4_999)), None, "another worker's clock is a little behind");
        assert_eq!(slot.due(&at(6_000)), Some(2));
    }
}
