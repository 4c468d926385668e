//! Owns the keeping of notices that are validly signed and no fact, because they are not admissible or name no order
//! of ours: whole, with the verdict, in `quarantine`, and durable before the answer is sent: a partner that gives up
//! must not have cost us the evidence. Over an account's byte budget nothing is kept but a digest in the log line, so the
//! notice is answered 503 and not refused: its partner sends it again. A replay of a notice that is kept costs nothing.

use std::collections::HashMap;
use std::sync::Mutex;

use payfold_engines::log::{Message, Topic};
use payfold_partners::directory::Account;
use payfold_schemas::record::{
    NoticeSource, QuarantineRecord, encode_quarantine, encode_quarantine_sealed,
};
use payfold_schemas::sealed::Delivery;
use payfold_schemas::time::Time;

use crate::intake::{Appending, Intake, Receipt, conceal};
use crate::refusal::{Code, Refusal};
use crate::replays::NoticeIdentity;

const HOUR_MS: i64 = 3_600_000;

/// Bytes each account may put into quarantine per hour.
pub struct Budget {
    bytes_max: u64,
    spent: Mutex<HashMap<String, Spent>>,
}

#[derive(Clone, Copy)]
struct Spent {
    hour: i64,
    bytes: u64,
}

impl Budget {
    /// `bytes_max` an hour and account.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, spent: Mutex::default() }
    }

    /// Takes `bytes` from this share of the account's hour, if they are left.
    pub fn take(&self, account: &str, bytes: usize, share: BudgetShare, now: Time) -> bool {
        let hour = now.unix_ms().div_euclid(HOUR_MS);
        let mut spent = self.spent.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let entry = match spent.get_mut(account) {
            Some(entry) => entry,
            None => spent.entry(account.to_owned()).or_insert(Spent { hour, bytes: 0 }),
        };
        if entry.hour != hour {
            *entry = Spent { hour, bytes: 0 };
        }
        let total = entry.bytes.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
        let bytes_max = match share {
            BudgetShare::Whole => self.bytes_max,
            BudgetShare::Half => self.bytes_max / 2,
        };
        if total > bytes_max {
            return false;
        }
        entry.bytes = total;
        true
    }

    /// Gives back what was taken for a notice that could not be stored.
    pub fn give_back(&self, account: &str, bytes: usize) {
        let mut spent = self.spent.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(entry) = spent.get_mut(account) {
            entry.bytes = entry.bytes.saturating_sub(u64::try_from(bytes).unwrap_or(u64::MAX));
        }
    }
}

/// How much of its hour an account may use up for a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetShare {
    /// All of it.
    Whole,
    /// The first half: for a notice that is answered 503 anyway. The second half stays for notices that are refused.
    Half,
}

/// What became of a notice that was to be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeping {
    /// It is durable, now or since it first came.
    Whole,
    /// It is not kept: the account's hour is full.
    OverBudget,
}

/// A notice that is being kept.
pub(crate) enum Kept {
    /// It was kept when it first came.
    Before,
    /// It is not kept: its account's hour is full.
    OverBudget,
    /// It is on its way.
    Appending {
        /// Its message.
        appending: Appending,
        /// What it was refused with.
        code: Code,
        /// How many bytes of the budget it took.
        bytes: usize,
        /// By which a replay is known once it is durable.
        identity: NoticeIdentity,
    },
}

/// A signed notice that was refused, or taken without being a fact.
pub struct Refused<'a> {
    /// Whose it is.
    pub account: &'a Account,
    /// Why.
    pub refusal: &'a Refusal,
    /// Profile, key and request.
    pub source: NoticeSource,
    /// The bytes as they came.
    pub raw: &'a [u8],
}

/// Hands a refused notice to the log under its account's name. Until it is durable the sender must not be told of the
/// refusal.
pub fn append(
    intake: &Intake,
    receipt: Receipt,
    (account, refused): (String, Refused<'_>),
) -> Appending {
    intake.hand_over(Topic::Quarantine, message(receipt, account, refused))
}

fn message(receipt: Receipt, account: String, refused: Refused<'_>) -> Message {
    let mut source = refused.source;
    let key = refused.account.body_keys().sealing(receipt.received_at);
    let seals = key.map(|key| (key, conceal(&mut source.request)));
    let record = QuarantineRecord {
        account,
        code: refused.refusal.code.as_str().to_owned(),
        detail: refused.refusal.detail.clone().unwrap_or_default(),
        request_id: receipt.request_id,
        received_at: receipt.received_at,
        source,
    };
    let value = match &seals {
        None => encode_quarantine(&record, refused.raw),
        Some((key, request)) => {
            let (partner, merchant) = (refused.account.partner(), refused.account.merchant_code());
            let delivery = Delivery {
                partner: partner.as_str(),
                merchant_code: merchant.as_str(),
                request_id: receipt.request_id,
            };
            encode_quarantine_sealed(&record, key.id(), |into| {
                key.seal(delivery, (request, refused.raw), into);
            })
        }
    };
    Message { key: record.account, event: None, value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_half_of_an_hour_is_for_what_is_refused_for_good() {
        let (budget, now) = (Budget::new(100), Time::from_unix_ms(10 * HOUR_MS));
        let take = |account: &str, bytes, share| budget.take(account, bytes, share, now);
        assert!(take("a", 40, BudgetShare::Half));
        assert!(!take("a", 11, BudgetShare::Half));
        assert!(take("a", 10, BudgetShare::Half));
        assert!(!take("a", 1, BudgetShare::Half));
        assert!(take("a", 50, BudgetShare::Whole));
        assert!(!take("a", 1, BudgetShare::Whole));
        assert!(take("b", 100, BudgetShare::Whole), "each account has its own");
        budget.give_back("a", 50);
        assert!(take("a", 50, BudgetShare::Whole));
        assert!(budget.take("a", 100, BudgetShare::Whole, now.plus_ms(HOUR_MS)), "the next hour");
    }
}
