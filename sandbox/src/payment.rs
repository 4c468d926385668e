//! Owns one payment: its request, its outcome (the ledger) and the attempts of its notices. A
//! payment ends once: the first recorded outcome stays.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use payfold_partners::directory::Account;
use payfold_schemas::ids::{OrderId, ProviderRef};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::{AMOUNT_MAX, Amount, Currency};
use payfold_schemas::time::Time;
use url::Url;

use crate::plan::{
    EventAmount, EventCurrency, EventPaidAt, PayerDefects, PlannedEvent, TransactionSlot,
};

/// The most attempts of a payment that are remembered individually.
const ATTEMPTS_MAX: usize = 100;

/// Who ends a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payer {
    /// A person at the page or QR code, or the end of the session.
    Person,
    /// The plan that the description requested.
    Plan,
}

/// A payment of the simulated partner.
#[derive(Debug)]
pub(crate) struct Payment {
    /// The id of its page. Equal to the providerRef, unless two payments share one providerRef or
    /// the partner's transactions are numbers.
    pub(crate) page: Box<str>,
    pub(crate) provider_ref: ProviderRef,
    pub(crate) account: Arc<Account>,
    pub(crate) order_id: OrderId,
    pub(crate) amount: Amount,
    pub(crate) currency: Currency,
    pub(crate) description: Box<str>,
    pub(crate) return_url: Arc<Url>,
    pub(crate) ipn_url: Arc<Url>,
    pub(crate) payer: Payer,
    pub(crate) created_at: Time,
    pub(crate) expires_at: Time,
    pub(crate) seed: u64,
    pub(crate) hosting: PayerDefects,
    progress: Mutex<PaymentProgress>,
}

#[derive(Debug, Default)]
struct PaymentProgress {
    ledger: Vec<LedgerEntry>,
    notices: Vec<SentNotice>,
    attempts: usize,
    finished: bool,
}

/// One entry of a payment's ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LedgerEntry {
    pub(crate) state: TransactionState,
    pub(crate) at: Time,
}

/// The state of a transaction, in a notice or in the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TransactionState {
    pub(crate) provider_ref: ProviderRef,
    pub(crate) status: Status,
    pub(crate) amount: Amount,
    pub(crate) currency: Currency,
    pub(crate) paid_at: Option<Time>,
    /// When the payer acted, so when it came about.
    pub(crate) at: Time,
}

/// One notice with its attempts.
#[derive(Clone, Debug)]
pub(crate) struct SentNotice {
    pub(crate) state: TransactionState,
    pub(crate) attempts: Vec<SendAttempt>,
    pub(crate) acked: bool,
}

/// One attempt to send a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SendAttempt {
    pub(crate) at: Time,
    /// The timestamp in the sent bytes; `None` if the profile has no timestamp.
    pub(crate) timestamp: Option<Time>,
    pub(crate) outcome: AttemptOutcome,
}

/// The result of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptOutcome {
    /// Acknowledged as the profile says, with this status; in the contract by 200 with an empty
    /// body.
    Acked(u16),
    /// Another answer.
    Refused(u16),
    /// No answer.
    Unanswered,
}

impl AttemptOutcome {
    pub(crate) fn is_acked(self) -> bool {
        matches!(self, Self::Acked(_))
    }
}

/// The parameters of a new session.
pub(crate) struct SessionParameters {
    pub(crate) page: Box<str>,
    pub(crate) provider_ref: ProviderRef,
    pub(crate) payer: Payer,
    pub(crate) created_at: Time,
    pub(crate) expires_at: Time,
    pub(crate) seed: u64,
    pub(crate) hosting: PayerDefects,
}

impl Payment {
    pub(crate) fn open(call: crate::create::CreateCall, opening: SessionParameters) -> Self {
        Self {
            page: opening.page,
            provider_ref: opening.provider_ref,
            account: call.account,
            order_id: call.order_id,
            amount: call.amount,
            currency: call.currency,
            description: call.description,
            return_url: call.return_url,
            ipn_url: call.ipn_url,
            payer: opening.payer,
            created_at: opening.created_at,
            expires_at: opening.expires_at,
            seed: opening.seed,
            hosting: opening.hosting,
            progress: Mutex::default(),
        }
    }

    fn lock_progress(&self) -> MutexGuard<'_, PaymentProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the outcome. Returns `None`, and changes nothing, if the payment has ended before.
    pub(crate) fn record_outcome(&self, entries: Vec<LedgerEntry>) -> Option<Vec<LedgerEntry>> {
        let mut progress = self.lock_progress();
        if progress.finished || !progress.ledger.is_empty() {
            return None;
        }
        progress.ledger = entries.clone();
        Some(entries)
    }

    /// The newest ledger entry of this transaction.
    pub(crate) fn latest_entry(&self, provider_ref: &str) -> Option<LedgerEntry> {
        let progress = self.lock_progress();
        let has_ref = |entry: &&LedgerEntry| entry.state.provider_ref.as_str() == provider_ref;
        progress.ledger.iter().rev().find(has_ref).cloned()
    }

    /// Adds a notice without attempts. Returns its index for `record_attempt`.
    pub(crate) fn begin_notice(&self, state: &TransactionState) -> usize {
        let mut progress = self.lock_progress();
        let (state, attempts) = (state.clone(), Vec::new());
        // Nearly every payment has one notice with one attempt, so allocate no more than that.
        progress.notices.reserve_exact(1);
        progress.notices.push(SentNotice { state, attempts, acked: false });
        progress.notices.len() - 1
    }

    /// Records a finished attempt of the notice with this index.
    pub(crate) fn record_attempt(&self, index: usize, attempt: SendAttempt) {
        let mut progress = self.lock_progress();
        progress.attempts += 1;
        let is_remembered = progress.attempts <= ATTEMPTS_MAX;
        let notice = &mut progress.notices[index];
        notice.acked |= attempt.outcome.is_acked();
        if is_remembered {
            notice.attempts.reserve_exact(1);
            notice.attempts.push(attempt);
        }
    }

    /// Marks the payment as finished: nothing more will be sent.
    pub(crate) fn finish(&self) {
        self.lock_progress().finished = true;
    }

    /// Whether nothing more will be sent.
    pub(crate) fn is_finished(&self) -> bool {
        self.lock_progress().finished
    }

    /// All notices with their attempts.
    pub(crate) fn sent_notices(&self) -> Vec<SentNotice> {
        self.lock_progress().notices.clone()
    }

    /// The transaction state that an event of the plan gives this payment. `acted_at` is the time
    /// when the payer acted.
    pub(crate) fn transaction_state(
        &self,
        event: &PlannedEvent,
        acted_at: Time,
    ) -> TransactionState {
        let minor = self.amount.minor();
        let half = minor / 2;
        let minor = match event.amount {
            EventAmount::Requested => minor,
            EventAmount::Off(by) if minor <= AMOUNT_MAX - by => minor + by,
            EventAmount::Off(by) => minor - by,
            EventAmount::Half => half,
            EventAmount::OtherHalf => minor - half,
        };
        let paid_at = match event.paid_at {
            EventPaidAt::Absent => None,
            EventPaidAt::ActionTime => Some(acted_at),
            EventPaidAt::InSession => Some(self.created_at.plus_ms(1)),
            EventPaidAt::OneSecondBefore => Some(acted_at.plus_ms(-1_000)),
        };
        TransactionState {
            provider_ref: match event.transaction {
                TransactionSlot::First => self.provider_ref.clone(),
                TransactionSlot::Second => second_ref(&self.provider_ref),
            },
            status: event.status,
            amount: Amount::from_minor(minor).unwrap_or(self.amount),
            currency: match event.currency {
                EventCurrency::Requested => self.currency,
                EventCurrency::Other => other_currency(self.currency),
            },
            paid_at,
            at: acted_at,
        }
    }
}

/// The suffix of the providerRef of an order's second transaction.
const SECOND_SUFFIX: &str = "-2";

/// The same, where providerRefs are numbers.
const SECOND_DIGIT: &str = "2";

fn second_ref(provider_ref: &ProviderRef) -> ProviderRef {
    let is_number = provider_ref.as_str().bytes().all(|byte| byte.is_ascii_digit());
    let suffix = if is_number { SECOND_DIGIT } else { SECOND_SUFFIX };
    ProviderRef::parse(&format!("{provider_ref}{suffix}")).expect("the refs made here are short")
}

/// The providerRef of the session, if this is that of an order's second transaction.
pub(crate) fn session_ref(second: &str) -> Option<&str> {
    second.strip_suffix(SECOND_SUFFIX).or_else(|| second.strip_suffix(SECOND_DIGIT))
}

fn other_currency(currency: Currency) -> Currency {
    let code = if currency.code() == "EUR" { "USD" } else { "EUR" };
    Currency::parse(code).expect("it is in ISO 4217")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_session_of_a_second_transaction_is_found_by_its_ref() {
        for first in ["SBX-20260101-1", "20260101001"] {
            let second = second_ref(&ProviderRef::parse(first).unwrap());
            assert_eq!(session_ref(second.as_str()), Some(first));
            assert!(second.as_str().starts_with(first) && second.as_str() != first);
        }
    }
}
