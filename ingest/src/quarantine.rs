//! Owns the quarantine of signed notices that are no fact: notices that are not admissible, and
//! notices that name no order of ours. Each is stored whole, with the reason, in the `quarantine`
//! topic, and is durable before the answer is sent: if the partner then gives up, the evidence is
//! stored. An account over its byte budget, and a signature with as many variants as it may have,
//! store nothing but a digest in a log line; the notice is answered 503 instead of refused, so that
//! its partner sends it again. A replay of a quarantined notice uses no budget while this process
//! remembers the notice.

use std::collections::HashMap;
use std::sync::Mutex;

use payfold_engines::log::{Message, Topic};
use payfold_partners::directory::Account;
use payfold_schemas::notice_source::NoticeSource;
use payfold_schemas::record::{QuarantineRecord, encode_quarantine, encode_quarantine_sealed};
use payfold_schemas::sealed::Delivery;
use payfold_schemas::time::Time;

use crate::intake::{Intake, PendingAppend, Receipt, strip_to_clear};
use crate::refusal::{Refusal, RefusalCode};
use crate::replays::{NoticeIdentity, Variant};

const HOUR_MS: i64 = 3_600_000;

/// Limits the bytes that each account may put into quarantine per hour of the clock.
pub struct QuarantineBudget {
    bytes_max: u64,
    spent: Mutex<HashMap<String, HourSpending>>,
}

/// The bytes one account used in one hour.
#[derive(Clone, Copy)]
struct HourSpending {
    /// Hours since 1970.
    hour: i64,
    bytes: u64,
}

impl QuarantineBudget {
    /// `bytes_max`: bytes per hour and account.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, spent: Mutex::default() }
    }

    /// Takes `bytes` from the account's budget of this hour. Returns `false`, and takes nothing, if
    /// that would exceed `share`.
    pub(crate) fn take(&self, account: &str, bytes: usize, limit: BudgetLimit, now: Time) -> bool {
        let hour = now.unix_ms().div_euclid(HOUR_MS);
        let mut spent = self.spent.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let entry = match spent.get_mut(account) {
            Some(entry) => entry,
            None => spent.entry(account.to_owned()).or_insert(HourSpending { hour, bytes: 0 }),
        };
        if entry.hour != hour {
            *entry = HourSpending { hour, bytes: 0 };
        }
        let total = entry.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        let bytes_max = match limit {
            BudgetLimit::Whole => self.bytes_max,
            BudgetLimit::Half => self.bytes_max / 2,
        };
        if total > bytes_max {
            return false;
        }
        entry.bytes = total;
        true
    }

    /// Returns the bytes of a notice that could not be stored.
    pub(crate) fn give_back(&self, account: &str, bytes: usize) {
        let mut spent = self.spent.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(entry) = spent.get_mut(account) {
            entry.bytes = entry.bytes.saturating_sub(u64::try_from(bytes).unwrap_or(u64::MAX));
        }
    }
}

/// How much of its hourly budget an account may have used after a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BudgetLimit {
    /// All of it.
    Whole,
    /// The first half: for a notice that is answered 503 in any case, and for what no key has
    /// signed. The second half is reserved for signed notices that are refused for good.
    Half,
}

/// Whether a notice is in quarantine once its write is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuarantineOutcome {
    /// The notice is durable, from this delivery or an earlier one.
    Stored,
    /// The notice is not stored: there is no room for it.
    NoRoom,
}

/// A write to quarantine that has begun, or that is not needed.
pub(crate) enum QuarantineWrite {
    /// An earlier delivery of the same notice is durable.
    AlreadyStored,
    /// Nothing is written.
    NoRoom,
    /// The record is with the log. Boxed to keep the future of a request small.
    Pending(PendingAppend, Box<Reserved>),
}

/// What a record on its way to quarantine has taken, and what it becomes known by.
pub(crate) struct Reserved {
    /// The code of the refusal that is recorded.
    pub(crate) code: RefusalCode,
    /// Bytes taken from the account's budget.
    pub(crate) bytes: usize,
    /// Recognises replays once the record is durable.
    pub(crate) identity: NoticeIdentity,
    /// Its place among the variants of its notice; `None` if they are not counted.
    pub(crate) variant: Option<Variant>,
}

/// A signed notice to be quarantined.
pub struct QuarantineEntry<'a> {
    /// The account that signed it.
    pub account: &'a Account,
    /// The reason.
    pub refusal: &'a Refusal,
    /// Profile, key and request.
    pub source: NoticeSource,
    /// The request's body, unchanged.
    pub raw: &'a [u8],
}

/// Hands a quarantine record to the log under the account's name. The refusal must not be sent
/// before the record is durable.
pub fn append_entry(
    intake: &Intake,
    receipt: Receipt,
    account_name: String,
    entry: QuarantineEntry<'_>,
) -> PendingAppend {
    intake.append_message(Topic::Quarantine, encode_message(receipt, account_name, entry))
}

fn encode_message(receipt: Receipt, account_name: String, entry: QuarantineEntry<'_>) -> Message {
    let mut source = entry.source;
    let key = entry.account.body_keys().sealing(receipt.received_at);
    let seals = key.map(|key| (key, strip_to_clear(&mut source.request)));
    let record = QuarantineRecord {
        account: account_name,
        code: entry.refusal.code.as_str().to_owned(),
        detail: entry.refusal.detail.clone().unwrap_or_default(),
        request_id: receipt.request_id,
        received_at: receipt.received_at,
        source,
    };
    let value = match &seals {
        None => encode_quarantine(&record, entry.raw),
        Some((key, request)) => {
            let (partner, merchant) = (entry.account.partner(), entry.account.merchant_code());
            let delivery = Delivery {
                partner: partner.as_str(),
                merchant_code: merchant.as_str(),
                request_id: receipt.request_id,
            };
            encode_quarantine_sealed(&record, key.id(), |into| {
                key.seal(delivery, (request, entry.raw), into);
            })
        }
    };
    Message { key: record.account, event: None, value, mac: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_half_of_the_budget_is_for_final_refusals() {
        let (budget, now) = (QuarantineBudget::new(100), Time::from_unix_ms(10 * HOUR_MS));
        let take = |account: &str, bytes, share| budget.take(account, bytes, share, now);
        assert!(take("a", 40, BudgetLimit::Half));
        assert!(!take("a", 11, BudgetLimit::Half));
        assert!(take("a", 10, BudgetLimit::Half));
        assert!(!take("a", 1, BudgetLimit::Half));
        assert!(take("a", 50, BudgetLimit::Whole));
        assert!(!take("a", 1, BudgetLimit::Whole));
        assert!(take("b", 100, BudgetLimit::Whole), "each account has its own budget");
        budget.give_back("a", 50);
        assert!(take("a", 50, BudgetLimit::Whole));
        assert!(budget.take("a", 100, BudgetLimit::Whole, now.plus_ms(HOUR_MS)), "the next hour");
    }
}
