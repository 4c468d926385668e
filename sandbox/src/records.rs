//! Owns the partner's records file: JSON lines, appended. A line is written to the operating system
//! before the response or the notices that depend on it. A killed process loses no line; a power
//! cut may.
//!
//! `record` names the type of a line:
//! - `create`: a signed create call was accepted. `at`, `merchantCode`, `orderId`, `call` (1 for
//!   the first call of its order, 2 for the second).
//! - `payment`: the outcome of a transaction. `at` (when it was recorded, UTC), `merchantCode`,
//!   `orderId`, `providerRef`, `status` (as in an IPN), `amount` (minor units), `currency`,
//!   `paidAt` (if a payment was made). A refund is a separate line after that of its payment. The
//!   lines say what happened, even if the notices say something else.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use payfold_schemas::ids::{MerchantCode, OrderId};
use payfold_schemas::time::Time;
use serde::Serialize;

use crate::payment::{LedgerEntry, Payment};

/// The open file; `None` writes nothing.
#[derive(Debug)]
pub(crate) struct RecordsWriter(Option<Mutex<File>>);

#[derive(Serialize)]
#[serde(tag = "record", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum RecordLine<'a> {
    Create {
        at: Time,
        merchant_code: &'a MerchantCode,
        order_id: &'a OrderId,
        call: u32,
    },
    Payment {
        at: Time,
        merchant_code: &'a MerchantCode,
        order_id: &'a OrderId,
        provider_ref: &'a str,
        status: &'a str,
        amount: i64,
        currency: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        paid_at: Option<Time>,
    },
}

impl RecordsWriter {
    pub(crate) fn open(path: Option<&Path>) -> io::Result<Self> {
        let open = |path| File::options().create(true).append(true).open(path).map(Mutex::new);
        Ok(Self(path.map(open).transpose()?))
    }

    /// Appends a signed create call.
    pub(crate) fn append_create(
        &self,
        (merchant_code, order_id): (&MerchantCode, &OrderId),
        call: u32,
        at: Time,
    ) -> io::Result<()> {
        self.append_lines(&[RecordLine::Create { at, merchant_code, order_id, call }])
    }

    /// Appends ledger entries of a payment.
    pub(crate) fn append_payment(
        &self,
        payment: &Payment,
        entries: &[LedgerEntry],
    ) -> io::Result<()> {
        let lines: Vec<_> = entries
            .iter()
            .map(|entry| RecordLine::Payment {
                at: entry.at,
                merchant_code: payment.account.merchant_code(),
                order_id: &payment.order_id,
                provider_ref: entry.state.provider_ref.as_str(),
                status: entry.state.status.as_str(),
                amount: entry.state.amount.minor(),
                currency: entry.state.currency.code(),
                paid_at: entry.state.paid_at,
            })
            .collect();
        self.append_lines(&lines)
    }

    fn append_lines(&self, lines: &[RecordLine<'_>]) -> io::Result<()> {
        let Some(file) = &self.0 else { return Ok(()) };
        let mut text = Vec::with_capacity(256);
        for line in lines {
            serde_json::to_writer(&mut text, line)?;
            text.push(b'\n');
        }
        // One write call, so that lines of other writers do not mix into these.
        file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&text)
    }
}
