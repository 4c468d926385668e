//! Owns notices as a partner writes and signs them: its own join and HMAC after the contract
//! (sections 2.3 and 5), sharing nothing with `payfold_partners`. Anything can be altered, before
//! the signing or after it.

use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use payfold_engines::clock::{Clock, SystemClock};
use payfold_schemas::time::Time;
use sha2::Sha256;

/// The fields that are signed, in the order of the contract's table 2.3.
pub const SIGNED: [&str; 9] = [
    "merchantCode",
    "orderId",
    "providerRef",
    "status",
    "amount",
    "currency",
    "paidAt",
    "timestamp",
    "nonce",
];

/// A notice before it is signed: fields as JSON source texts, in the order they are written.
#[derive(Clone, Debug)]
pub struct Notice {
    fields: Vec<(String, String)>,
    signed: Vec<String>,
    separator: String,
}

impl Notice {
    /// A paid order's notice, sent now.
    pub fn paid(merchant: &str, order: &str, provider_ref: &str) -> Self {
        let now = time(0);
        let fields = [
            ("merchantCode", text(merchant)),
            ("orderId", text(order)),
            ("providerRef", text(provider_ref)),
            ("status", text("SUCCESS")),
            ("amount", "150000".to_owned()),
            ("currency", text("VND")),
            ("paidAt", text(&now)),
            ("timestamp", text(&now)),
        ];
        Self {
            fields: fields.map(|(name, source)| (name.to_owned(), source)).into(),
            signed: SIGNED.map(str::to_owned).into(),
            separator: "|".to_owned(),
        }
    }

    /// Gives a field another JSON source; a new field comes last.
    pub fn with(mut self, field: &str, source: impl Into<String>) -> Self {
        let source = source.into();
        match self.fields.iter_mut().find(|(name, _)| name == field) {
            Some((_, old)) => *old = source,
            None => self.fields.push((field.to_owned(), source)),
        }
        self
    }

    /// Gives a field a text.
    pub fn with_text(self, field: &str, value: &str) -> Self {
        self.with(field, text(value))
    }

    /// Leaves a field out.
    pub fn without(mut self, field: &str) -> Self {
        self.fields.retain(|(name, _)| name != field);
        self
    }

    /// Stamps it as sent so many seconds from now.
    pub fn sent(self, seconds_from_now: i64) -> Self {
        self.with_text("timestamp", &time(seconds_from_now))
    }

    /// Stamps it as paid so many seconds from now.
    pub fn paid_at(self, seconds_from_now: i64) -> Self {
        self.with_text("paidAt", &time(seconds_from_now))
    }

    /// Writes the keys in the opposite order; the order of the signed fields stays.
    pub fn reversed(mut self) -> Self {
        self.fields.reverse();
        self
    }

    /// Signs other fields, or in another order.
    pub fn signing(mut self, fields: &[&str]) -> Self {
        self.signed = fields.iter().map(|field| (*field).to_owned()).collect();
        self
    }

    /// Joins what is signed with something else.
    pub fn joined_with(mut self, separator: &str) -> Self {
        separator.clone_into(&mut self.separator);
        self
    }

    /// The signed text: the text of strings, the source of every other value, an empty slot for a
    /// missing field.
    pub fn signing_text(&self) -> String {
        let value = |wanted: &String| -> String {
            let Some((_, source)) = self.fields.iter().find(|(name, _)| name == wanted) else {
                return String::new();
            };
            if source == "null" {
                return String::new();
            }
            serde_json::from_str(source).unwrap_or_else(|_| source.clone())
        };
        self.signed.iter().map(value).collect::<Vec<_>>().join(&self.separator)
    }

    /// Lower-case hex of HMAC-SHA256 over what is signed.
    pub fn signature(&self, secret: &str) -> String {
        hmac::<Hmac<Sha256>>(secret, &self.signing_text())
    }

    /// The notice with its signature, to be altered further.
    pub fn sign(self, secret: &str) -> Self {
        let signature = self.signature(secret);
        self.with_text("signature", &signature)
    }

    /// The body as it stands.
    pub fn body(&self) -> String {
        let entry = |(name, source): &(String, String)| format!("{}:{source}", text(name));
        format!("{{{}}}", self.fields.iter().map(entry).collect::<Vec<_>>().join(","))
    }

    /// Signs it and writes it down.
    pub fn signed(self, secret: &str) -> Vec<u8> {
        self.sign(secret).body().into_bytes()
    }
}

/// Lower-case hex of an HMAC over a text or bytes.
pub fn hmac<M: Mac + KeyInit>(secret: &str, text: &(impl AsRef<[u8]> + ?Sized)) -> String {
    let mut mac = <M as Mac>::new_from_slice(secret.as_bytes()).expect("any key will do");
    mac.update(text.as_ref());
    hex::encode(mac.finalize().into_bytes())
}

/// A JSON string.
pub fn text(value: &str) -> String {
    serde_json::Value::from(value).to_string()
}

/// So many seconds from now, in UTC with milliseconds.
pub fn time(seconds_from_now: i64) -> String {
    let now = Time::from_unix_ms(SystemClock.now().unix_ms());
    now.plus_ms(seconds_from_now * 1_000).to_string()
}
