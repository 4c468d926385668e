//! Owns one payment: what was asked for, what became of it (its books), and how its notices fared.
//! It ends once: what is booked first stays, whoever comes second.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use payfold_partners::mac::MacKey;
use payfold_schemas::ids::{MerchantCode, OrderId, ProviderRef};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::{AMOUNT_MAX, Amount, Currency};
use payfold_schemas::time::Time;
use url::Url;

use crate::plan::{AmountOf, CurrencyOf, Event, Hosting, PaidAt, Transaction};

/// How many attempts of a payment are remembered one by one.
const ATTEMPTS_KEPT: usize = 100;

/// An account at this partner.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) merchant_code: MerchantCode,
    pub(crate) key: MacKey,
}

/// Who ends a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payer {
    /// A person at the page or the code, or the session's end.
    Person,
    /// The plan that was asked for.
    Plan,
}

/// A payment.
#[derive(Debug)]
pub(crate) struct Payment {
    /// Names its page; its providerRef, unless another payment has that one too.
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
    pub(crate) hosting: Hosting,
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    books: Vec<Entry>,
    sendings: Vec<Sending>,
    attempts: usize,
    finished: bool,
}

/// A line of the books.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) said: Said,
    pub(crate) at: Time,
}

/// What a notice or the books say of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) provider_ref: ProviderRef,
    pub(crate) status: Status,
    pub(crate) amount: Amount,
    pub(crate) currency: Currency,
    pub(crate) paid_at: Option<Time>,
}

/// One notice on its way, with its attempts.
#[derive(Clone, Debug)]
pub(crate) struct Sending {
    pub(crate) said: Said,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) acked: bool,
}

/// One attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) at: Time,
    /// The timestamp in the bytes that were sent; none where the profile has no time.
    pub(crate) timestamp: Option<Time>,
    pub(crate) outcome: Outcome,
}

/// What an attempt came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// 200 with an empty body.
    Acked,
    /// Another status, or 200 with a body.
    Refused(u16),
    /// No answer.
    Unanswered,
}

/// What a payment starts with.
pub(crate) struct Opening {
    pub(crate) page: Box<str>,
    pub(crate) provider_ref: ProviderRef,
    pub(crate) payer: Payer,
    pub(crate) created_at: Time,
    pub(crate) expires_at: Time,
    pub(crate) seed: u64,
    pub(crate) hosting: Hosting,
}

impl Payment {
    pub(crate) fn open(asked: crate::create::CreateCall, opening: Opening) -> Self {
        Self {
            page: opening.page,
            provider_ref: opening.provider_ref,
            account: asked.account,
            order_id: asked.order_id,
            amount: asked.amount,
            currency: asked.currency,
            description: asked.description,
            return_url: asked.return_url,
            ipn_url: asked.ipn_url,
            payer: opening.payer,
            created_at: opening.created_at,
            expires_at: opening.expires_at,
            seed: opening.seed,
            hosting: opening.hosting,
            progress: Mutex::default(),
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Books what happened, unless something did before: then the payment had ended, and nothing changes.
    pub(crate) fn book(&self, entries: Vec<Entry>) -> Option<Vec<Entry>> {
        let mut progress = self.progress();
        if progress.finished || !progress.books.is_empty() {
            return None;
        }
        progress.books = entries.clone();
        Some(entries)
    }

    /// What is booked last of this transaction.
    pub(crate) fn latest(&self, provider_ref: &str) -> Option<Entry> {
        let progress = self.progress();
        let of_ref = |entry: &&Entry| entry.said.provider_ref.as_str() == provider_ref;
        progress.books.iter().rev().find(of_ref).cloned()
    }

    /// A notice sets out; its place in the log.
    pub(crate) fn sets_out(&self, said: &Said) -> usize {
        let mut progress = self.progress();
        let (said, attempts) = (said.clone(), Vec::new());
        // Nearly every payment has one notice and one attempt: memory for no more.
        progress.sendings.reserve_exact(1);
        progress.sendings.push(Sending { said, attempts, acked: false });
        progress.sendings.len() - 1
    }

    /// An attempt of the notice at this place is over.
    pub(crate) fn attempted(&self, place: usize, attempt: Attempt) {
        let mut progress = self.progress();
        progress.attempts += 1;
        let keep = progress.attempts <= ATTEMPTS_KEPT;
        let sending = &mut progress.sendings[place];
        sending.acked |= attempt.outcome == Outcome::Acked;
        if keep {
            sending.attempts.reserve_exact(1);
            sending.attempts.push(attempt);
        }
    }

    /// Nothing more will be sent.
    pub(crate) fn finish(&self) {
        self.progress().finished = true;
    }

    /// Whether nothing more will be sent.
    pub(crate) fn is_finished(&self) -> bool {
        self.progress().finished
    }

    /// How its notices fared.
    pub(crate) fn sendings(&self) -> Vec<Sending> {
        self.progress().sendings.clone()
    }

    /// What an event of the plan says of this payment, whose payer acted then.
    pub(crate) fn said(&self, event: &Event, acted_at: Time) -> Said {
        let minor = self.amount.minor();
        let half = minor / 2;
        let minor = match event.amount {
            AmountOf::Asked => minor,
            AmountOf::Off(by) if minor <= AMOUNT_MAX - by => minor + by,
            AmountOf::Off(by) => minor - by,
            AmountOf::Half => half,
            AmountOf::OtherHalf => minor - half,
        };
        let paid_at = match event.paid_at {
            PaidAt::Absent => None,
            PaidAt::Then => Some(acted_at),
            PaidAt::InSession => Some(self.created_at.plus_ms(1)),
            PaidAt::Otherwise => Some(acted_at.plus_ms(-1_000)),
        };
        Said {
            provider_ref: match event.of {
                Transaction::First => self.provider_ref.clone(),
                Transaction::Second => second(&self.provider_ref),
            },
            status: event.status,
            amount: Amount::from_minor(minor).unwrap_or(self.amount),
            currency: match event.currency {
                CurrencyOf::Asked => self.currency,
                CurrencyOf::Other => other(self.currency),
            },
            paid_at,
        }
    }
}

/// What a second transaction of an order is called.
const SECOND: &str = "-2";

fn second(provider_ref: &ProviderRef) -> ProviderRef {
    ProviderRef::parse(&format!("{provider_ref}{SECOND}")).expect("the refs made here are short")
}

/// The session's ref, from that of either of an order's transactions.
pub(crate) fn first(provider_ref: &str) -> &str {
    provider_ref.strip_suffix(SECOND).unwrap_or(provider_ref)
}

fn other(currency: Currency) -> Currency {
    let code = if currency.code() == "EUR" { "USD" } else { "EUR" };
    Currency::parse(code).expect("it is in ISO 4217")
}
