//! Owns the notices a bench posts: distinct, valid, signed ahead, as whole HTTP requests in one buffer.

use std::io::Write;

use payfold_partners::mac::MacKey;
use payfold_partners::profile::{Field, Profile};
use payfold_partners::signing;
use payfold_schemas::time::Time;

use crate::demo;

/// What is wrong with the notices, if anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: each is answered 200.
    Valid,
    /// The signature is of another key: 401.
    Forged,
    /// Signed, with a timestamp an hour old: 403 and quarantine.
    Stale,
}

impl Kind {
    /// The HTTP status each is answered with.
    pub fn status(self) -> u16 {
        match self {
            Self::Valid => 200,
            Self::Forged => 401,
            Self::Stale => 403,
        }
    }
}

/// Requests in one buffer.
pub struct Notices {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Notices {
    /// So many notices of a kind, signed with the sandbox key's text.
    pub fn sign(count: usize, kind: Kind, secret: &str, now: Time) -> anyhow::Result<Self> {
        let key = match kind {
            Kind::Valid | Kind::Stale => MacKey::new(secret.as_bytes()),
            Kind::Forged => MacKey::new(b"a key the server does not have, of good length"),
        };
        let profile = demo::profile().expect("the demo has a profile");
        let sent = if kind == Kind::Stale { now.plus_ms(-3_600_000) } else { now };
        let sent = Time::from_unix_ms(sent.unix_ms()).to_string();
        let mut notices =
            Self { bytes: Vec::with_capacity(count * 640), ends: Vec::with_capacity(count) };
        let run = format!("{:x}", now.unix_nanos());
        for number in 0..count {
            let body = body(&profile, &key, (&run, number), &sent);
            write!(
                notices.bytes,
                "POST /api/payment/ipn HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )?;
            notices.ends.push(notices.bytes.len());
        }
        Ok(notices)
    }

    /// So many create requests of the demo's shop, each under a key of its own, that the sandbox partner pays by
    /// itself. `run` tells those of one round from another's.
    pub fn creates(count: usize, token: &str, run: &str) -> anyhow::Result<Self> {
        let mut creates =
            Self { bytes: Vec::with_capacity(count * 420), ends: Vec::with_capacity(count) };
        for number in 0..count {
            let body = format!(
                r#"{{"partner":"{}","merchantCode":"{}","reference":"{run}-{number}","amount":250000,"currency":"VND","description":"bench {run}-{number} #pay"}}"#,
                demo::PARTNER,
                demo::MERCHANT
            );
            write!(
                creates.bytes,
                "POST /v1/payments HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nIdempotency-Key: {run}-{number}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )?;
            creates.ends.push(creates.bytes.len());
        }
        Ok(creates)
    }

    /// The request of a number; none behind the last.
    pub fn request(&self, number: usize) -> Option<&[u8]> {
        let end = *self.ends.get(number)?;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.bytes[start..end])
    }
}

fn body(profile: &Profile, key: &MacKey, (run, number): (&str, usize), sent: &str) -> String {
    let order_id = format!("bench-{run}-{number:09}");
    let provider_ref = format!("ref-{run}-{number:09}");
    let value = |field| match field {
        Field::MerchantCode => Some(demo::MERCHANT),
        Field::OrderId => Some(order_id.as_str()),
        Field::ProviderRef => Some(provider_ref.as_str()),
        Field::Status => Some("SUCCESS"),
        Field::Amount => Some("250000"),
        Field::Currency => Some("VND"),
        Field::PaidAt | Field::Timestamp => Some(sent),
        Field::Nonce | Field::Signature => None,
    };
    let signature = signing::sign(profile, key, value);
    format!(
        r#"{{"merchantCode":"{}","orderId":"{order_id}","providerRef":"{provider_ref}","status":"SUCCESS","amount":250000,"currency":"VND","paidAt":"{sent}","timestamp":"{sent}","signature":"{signature}"}}"#,
        demo::MERCHANT
    )
}
