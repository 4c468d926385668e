//! Owns the partner's records: one JSON object a line, appended. A line is with the operating system before anything
//! is answered or sent for it, so no kill of either process loses one; a power cut may.
//!
//! Two kinds of lines, told apart by `record`:
//! - `create`: a genuine create call was taken. `at`, `merchantCode`, `orderId`, `call` (1 for the first of its
//!   order, so an order that is called twice shows a 2).
//! - `payment`: a transaction came to this. `at` (when it was booked, UTC), `merchantCode`, `orderId`, `providerRef`,
//!   `status` (as in an IPN), `amount` (minor units), `currency`, `paidAt` (where somebody paid). A refund is a line
//!   of its own behind that of its payment. The books say what happened, whatever the notices said of it.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use payfold_schemas::ids::{MerchantCode, OrderId};
use payfold_schemas::time::Time;
use serde::Serialize;

use crate::payment::{Entry, Payment};

/// Where lines go; nowhere if there is no file.
#[derive(Debug)]
pub(crate) struct Records(Option<Mutex<File>>);

#[derive(Serialize)]
#[serde(tag = "record", rename_all = "camelCase", rename_all_fields = "camelCase")]
enum Line<'a> {
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

impl Records {
    pub(crate) fn open(path: Option<&Path>) -> io::Result<Self> {
        let open = |path| File::options().create(true).append(true).open(path).map(Mutex::new);
        Ok(Self(path.map(open).transpose()?))
    }

    /// A genuine create call came.
    pub(crate) fn create(
        &self,
        (merchant_code, order_id): (&MerchantCode, &OrderId),
        call: u32,
        at: Time,
    ) -> io::Result<()> {
        self.append(&[Line::Create { at, merchant_code, order_id, call }])
    }

    /// Lines of a payment's books.
    pub(crate) fn booked(&self, payment: &Payment, entries: &[Entry]) -> io::Result<()> {
        let lines: Vec<_> = entries
            .iter()
            .map(|entry| Line::Payment {
                at: entry.at,
                merchant_code: &payment.account.merchant_code,
                order_id: &payment.order_id,
                provider_ref: entry.said.provider_ref.as_str(),
                status: entry.said.status.as_str(),
                amount: entry.said.amount.minor(),
                currency: entry.said.currency.code(),
                paid_at: entry.said.paid_at,
            })
            .collect();
        self.append(&lines)
    }

    fn append(&self, lines: &[Line<'_>]) -> io::Result<()> {
        let Some(file) = &self.0 else { return Ok(()) };
        let mut text = Vec::with_capacity(256);
        for line in lines {
            serde_json::to_writer(&mut text, line)?;
            text.push(b'\n');
        }
        // One write: a line is there whole or not at all, whoever else appends.
        file.lock().unwrap_or_else(PoisonError::into_inner).write_all(&text)
    }
}
