//! Owns the log lines of refusals: at most one per second and code, so that a flood of refusals
//! can't flood the log. A line has a digest of the body and never a value of it. Also owns the log
//! lines of old keys: at most one per minute and key.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use payfold_partners::directory::Account;
use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{KeyId, MerchantCode, PartnerCode};

use crate::intake::Receipt;
use crate::refusal::{Refusal, RefusalCode};
use crate::replays::NoRoom;

/// Remembers for each kind of line when it was last logged, and how many were skipped since.
pub struct Sampler {
    codes: [SecondSlot; RefusalCode::ALL.len()],
    no_room: SecondSlot,
    /// One entry for each replaced key that was used while this process ran.
    old_keys: Mutex<HashMap<(PartnerCode, MerchantCode, KeyId), MinuteSlot>>,
}

/// Limits the line of one old key to one per minute.
#[derive(Default)]
struct MinuteSlot {
    minute: i64,
    skipped: u64,
}

impl MinuteSlot {
    /// Returns the number of uses skipped since the last line if this minute has no line yet.
    fn begin_line(&mut self, receipt: &Receipt) -> Option<u64> {
        let minute = receipt.received_at.unix_ms().div_euclid(60_000);
        if minute <= self.minute {
            self.skipped += 1;
            return None;
        }
        self.minute = minute;
        Some(std::mem::take(&mut self.skipped))
    }
}

/// Limits one kind of line to one per second.
#[derive(Default)]
struct SecondSlot {
    second: AtomicI64,
    skipped: AtomicU64,
}

impl SecondSlot {
    /// Returns the number of lines skipped since the last one if this second has none yet. Requests
    /// of different workers arrive slightly out of order, so only a later second counts as a new
    /// one.
    fn begin_line(&self, receipt: &Receipt) -> Option<u64> {
        let second = receipt.received_at.unix_ms().div_euclid(1_000);
        if self.second.fetch_max(second, Ordering::Relaxed) >= second {
            self.skipped.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(self.skipped.swap(0, Ordering::Relaxed))
    }
}

impl Default for Sampler {
    fn default() -> Self {
        Self {
            codes: std::array::from_fn(|_| SecondSlot::default()),
            no_room: SecondSlot::default(),
            old_keys: Mutex::default(),
        }
    }
}

impl Sampler {
    /// Logs a refusal if its code has no line in this second yet.
    pub(crate) fn log_refusal(&self, receipt: &Receipt, body: Option<&[u8]>, refusal: &Refusal) {
        let code = refusal.code;
        let Some(skipped) = self.codes[code.index()].begin_line(receipt) else { return };
        let digest = body.map(|body| Digest::of_bytes(body).to_string()).unwrap_or_default();
        tracing::info!(
            code = code.as_str(), detail = refusal.detail,
            source.address = refusal.address.map(tracing::field::display),
            request.id = %receipt.request_id, body.digest = digest,
            body.bytes = body.map_or(0, <[u8]>::len), since_last = skipped, "ipn refused"
        );
    }

    /// Logs, at most once per second, that a signed notice was not stored.
    pub(crate) fn log_no_room(
        &self,
        receipt: &Receipt,
        body: &[u8],
        (account, why): (&str, NoRoom),
    ) {
        let Some(since_last) = self.no_room.begin_line(receipt) else { return };
        let (request_id, digest) = (receipt.request_id, Digest::of_bytes(body));
        match why {
            NoRoom::Budget => tracing::error!(
                account, request.id = %request_id, body.digest = %digest, since_last,
                "signed notices are not stored: the account is over its quarantine budget for this \
                 hour; they are answered 503, so that the partner sends them again; find out why \
                 they are refused (payfold quarantine list), or raise \
                 ingest.quarantine_bytes_per_hour"
            ),
            NoRoom::Variants => tracing::error!(
                account, request.id = %request_id, body.digest = %digest, since_last,
                "signed notices are not stored: others with the same signature and other unsigned \
                 bytes are in quarantine, as many as a day may bring; they are answered 503, so \
                 that the partner sends them again; if the partner did not send those (payfold \
                 quarantine list), dismiss them and let only its addresses send (payfold account \
                 set --allow-source)"
            ),
        }
    }

    /// Logs, at most once per minute and key, that a partner still signs with a replaced key.
    pub(crate) fn log_old_key_use(
        &self,
        receipt: &Receipt,
        account: &Account,
        (old, new): (&KeyId, &KeyId),
    ) {
        let key = (account.partner().clone(), account.merchant_code().clone(), old.clone());
        let mut old_keys = self.old_keys.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Some(skipped) = old_keys.entry(key).or_default().begin_line(receipt) else { return };
        drop(old_keys);
        tracing::info!(
            partner = %account.partner(), merchant = %account.merchant_code(),
            key.id = %old, key.newer = %new,
            request.id = %receipt.request_id, since_last = skipped, "an old key is still used"
        );
    }
}

#[cfg(test)]
mod tests {
    use payfold_schemas::ids::RequestId;
    use payfold_schemas::time::Time;

    use super::*;

    #[test]
    fn an_old_key_is_logged_once_per_minute() {
        let mut minute = MinuteSlot::default();
        let at = |ms| Receipt {
            request_id: "01939b1c-7a00-7000-8000-000000000001".parse::<RequestId>().unwrap(),
            received_at: Time::from_unix_ms(ms),
        };
        let lines: Vec<_> =
            [60_000, 119_999, 61_000, 120_000, 180_000].map(|ms| minute.begin_line(&at(ms))).into();
        assert_eq!(lines, [Some(0), None, None, Some(2), Some(0)]);
    }

    #[test]
    fn a_second_has_one_line_and_the_next_line_counts_the_skipped() {
        let slot = SecondSlot::default();
        let at = |ms| Receipt {
            request_id: "01939b1c-7a00-7000-8000-000000000001".parse::<RequestId>().unwrap(),
            received_at: Time::from_unix_ms(ms),
        };
        assert_eq!(slot.begin_line(&at(5_000)), Some(0));
        assert_eq!(slot.begin_line(&at(5_999)), None);
        assert_eq!(
            slot.begin_line(&at(4_999)),
            None,
            "a request of another worker is a little late"
        );
        assert_eq!(slot.begin_line(&at(6_000)), Some(2));
    }
}
