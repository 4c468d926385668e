//! Owns the requests that benches send, notices and creates: distinct, built in advance (notices
//! also signed), stored as complete HTTP requests in one buffer.

use std::io::Write;

use payfold_partners::mac::MacKey;
use payfold_partners::profile::{Field, Profile};
use payfold_partners::signing;
use payfold_sandbox::demo::{self, MERCHANT, PARTNER};
use payfold_schemas::time::Time;

/// The validity of the notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeKind {
    /// Valid: each is answered 200.
    Valid,
    /// Signed with another key: 401.
    Forged,
    /// Signed, with a timestamp one hour old: 403 and quarantine.
    Stale,
}

impl NoticeKind {
    /// The HTTP status that each notice gets.
    pub fn status(self) -> u16 {
        match self {
            Self::Valid => 200,
            Self::Forged => 401,
            Self::Stale => 403,
        }
    }
}

/// HTTP requests in one buffer.
pub struct RequestBuffer {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl RequestBuffer {
    /// Builds `count` notices of a kind. `secret` is the content of the file `sandbox.key`, and its
    /// bytes are the key; a forged notice is signed with another key.
    pub fn sign_notices(count: usize, kind: NoticeKind, secret: &str, now: Time) -> Self {
        let key = match kind {
            NoticeKind::Valid | NoticeKind::Stale => MacKey::new(secret.as_bytes()),
            NoticeKind::Forged => MacKey::new(b"a key the server does not have, of good length"),
        };
        let profile = demo::profile().expect("the demo has a profile");
        let sent = if kind == NoticeKind::Stale { now.plus_ms(-3_600_000) } else { now };
        let sent = Time::from_unix_ms(sent.unix_ms()).to_string();
        let mut notices =
            Self { bytes: Vec::with_capacity(count * 640), ends: Vec::with_capacity(count) };
        let run = format!("{:x}", now.unix_nanos());
        for number in 0..count {
            let body = notice_body(&profile, &key, (&run, number), &sent);
            write!(
                notices.bytes,
                "POST /api/payment/ipn HTTP/1.1\r\nHost: 127.0.0.1\r\n\
                 Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .expect("writing into memory can't fail");
            notices.ends.push(notices.bytes.len());
        }
        notices
    }

    /// Builds `count` create requests of the demo's shop, each with its own idempotency key. The
    /// sandbox partner pays them automatically, because their description ends in `#pay`. `run`
    /// keeps the keys apart from those of other rounds.
    pub fn build_creates(count: usize, token: &str, run: &str) -> Self {
        let mut creates =
            Self { bytes: Vec::with_capacity(count * 420), ends: Vec::with_capacity(count) };
        for number in 0..count {
            let body = format!(
                concat!(
                    r#"{{"partner":"{}","merchantCode":"{}","reference":"{}-{}","amount":250000,"#,
                    r#""currency":"VND","description":"bench {}-{} #pay"}}"#
                ),
                PARTNER, MERCHANT, run, number, run, number
            );
            write!(
                creates.bytes,
                "POST /v1/payments HTTP/1.1\r\nHost: 127.0.0.1\r\n\
                 Authorization: Bearer {token}\r\nIdempotency-Key: {run}-{number}\r\n\
                 Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
            .expect("writing into memory can't fail");
            creates.ends.push(creates.bytes.len());
        }
        creates
    }

    /// The request with this number; `None` after the last.
    pub(crate) fn get(&self, number: usize) -> Option<&[u8]> {
        let end = *self.ends.get(number)?;
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        Some(&self.bytes[start..end])
    }
}

fn notice_body(
    profile: &Profile,
    key: &MacKey,
    (run, number): (&str, usize),
    sent: &str,
) -> String {
    let order_id = format!("bench-{run}-{number:09}");
    let provider_ref = format!("ref-{run}-{number:09}");
    let value = |field| match field {
        Field::MerchantCode => Some(MERCHANT),
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
        concat!(
            r#"{{"merchantCode":"{}","orderId":"{}","providerRef":"{}","status":"SUCCESS","#,
            r#""amount":250000,"currency":"VND","paidAt":"{}","timestamp":"{}","signature":"{}"}}"#
        ),
        MERCHANT, order_id, provider_ref, sent, sent, signature
    )
}
