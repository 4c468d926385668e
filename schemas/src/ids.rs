//! Owns the names of things: partners, merchants, orders, references, keys, requests. An order is
//! named by (partner, merchantCode, orderId); that triple is the key of every topic and row.

use std::fmt;

use minicbor::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::{Text, TextError, TextRule};

#[inline]
fn is_code(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | ':' | '-')
}

#[inline]
fn is_printable(c: char) -> bool {
    matches!(c, ' '..='~')
}

/// Rule of `PartnerCode`: lower-case letters, digits, `-`; up to 32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PartnerCodeRule {}
impl TextRule for PartnerCodeRule {
    const NAME: &'static str = "partner";
    const MAX_CHARS: usize = 32;
    #[inline]
    fn allows(c: char) -> bool {
        c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'
    }
}
/// The short name a gateway partner has in this system and in `/api/payment/ipn/{partner}`.
pub type PartnerCode = Text<PartnerCodeRule>;

/// Rule of `MerchantCode`: `[A-Za-z0-9._:-]`, up to 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MerchantCodeRule {}
impl TextRule for MerchantCodeRule {
    const NAME: &'static str = "merchantCode";
    const MAX_CHARS: usize = 64;
    #[inline]
    fn allows(c: char) -> bool {
        is_code(c)
    }
}
/// Our account at a partner, issued by the partner (contract 2.1).
pub type MerchantCode = Text<MerchantCodeRule>;

/// Rule of `OrderId`: `[A-Za-z0-9._:-]`, up to 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum OrderIdRule {}
impl TextRule for OrderIdRule {
    const NAME: &'static str = "orderId";
    const MAX_CHARS: usize = 64;
    #[inline]
    fn allows(c: char) -> bool {
        is_code(c)
    }
}
/// One attempt at one payment, named by the platform, echoed by the partner (contract 2.1, 2.3).
pub type OrderId = Text<OrderIdRule>;

/// Rule of `ProviderRef`: printable ASCII, up to 255.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProviderRefRule {}
impl TextRule for ProviderRefRule {
    const NAME: &'static str = "providerRef";
    const MAX_CHARS: usize = 255;
    #[inline]
    fn allows(c: char) -> bool {
        is_printable(c)
    }
}
/// The partner's transaction identifier (contract 2.2, 2.3).
pub type ProviderRef = Text<ProviderRefRule>;

/// Rule of `Nonce`: printable ASCII, up to 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NonceRule {}
impl TextRule for NonceRule {
    const NAME: &'static str = "nonce";
    const MAX_CHARS: usize = 256;
    #[inline]
    fn allows(c: char) -> bool {
        is_printable(c)
    }
}
/// A unique value of one delivery, for replay protection where a partner sends it (contract 2.3).
pub type Nonce = Text<NonceRule>;

/// Rule of `EventRef`: printable ASCII, up to 255.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EventRefRule {}
impl TextRule for EventRefRule {
    const NAME: &'static str = "eventRef";
    const MAX_CHARS: usize = 255;
    #[inline]
    fn allows(c: char) -> bool {
        is_printable(c)
    }
}
/// A partner's own name for one event (one refund of several), where its profile has one.
pub type EventRef = Text<EventRefRule>;

/// Rule of `Reference`: printable ASCII, up to 128.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReferenceRule {}
impl TextRule for ReferenceRule {
    const NAME: &'static str = "reference";
    const MAX_CHARS: usize = 128;
    #[inline]
    fn allows(c: char) -> bool {
        is_printable(c)
    }
}
/// The shop's own name for what is being paid; several attempts (orders) may share it.
pub type Reference = Text<ReferenceRule>;

/// Rule of `KeyId`: `[A-Za-z0-9._:-]`, up to 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyIdRule {}
impl TextRule for KeyIdRule {
    const NAME: &'static str = "keyId";
    const MAX_CHARS: usize = 64;
    #[inline]
    fn allows(c: char) -> bool {
        is_code(c)
    }
}
/// Names a key of a partner account; never the key itself.
pub type KeyId = Text<KeyIdRule>;

/// Rule of `ShopName`: `[A-Za-z0-9._:-]`, up to 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ShopNameRule {}
impl TextRule for ShopNameRule {
    const NAME: &'static str = "shop";
    const MAX_CHARS: usize = 64;
    #[inline]
    fn allows(c: char) -> bool {
        is_code(c)
    }
}
/// Names a shop that calls the shop listener; never its token.
pub type ShopName = Text<ShopNameRule>;

/// Rule of `Author`: printable ASCII, up to 128.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AuthorRule {}
impl TextRule for AuthorRule {
    const NAME: &'static str = "author";
    const MAX_CHARS: usize = 128;
    #[inline]
    fn allows(c: char) -> bool {
        is_printable(c)
    }
}
/// The person behind an admin action: the name of their admin token.
pub type Author = Text<AuthorRule>;

/// One HTTP request, a UUIDv7: its time part lets `trace` search the log around it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(uuid::Uuid);

impl RequestId {
    /// Wraps a UUID. `engines` makes new ones, because that needs a clock and random numbers.
    pub fn new(uuid: uuid::Uuid) -> Self {
        Self(uuid)
    }

    /// The length of its text, in characters and in bytes.
    pub const TEXT_LENGTH: usize = uuid::fmt::Hyphenated::LENGTH;

    /// Writes its text into the caller's buffer, and returns it.
    pub fn encode<'a>(&self, place: &'a mut [u8; Self::TEXT_LENGTH]) -> &'a str {
        self.0.as_hyphenated().encode_lower(place)
    }

    /// The unix time in ms that a UUIDv7 carries; `None` for another version.
    pub fn unix_ms(&self) -> Option<u64> {
        let (seconds, nanos) = self.0.get_timestamp()?.to_unix();
        seconds.checked_mul(1_000)?.checked_add(u64::from(nanos) / 1_000_000)
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::str::FromStr for RequestId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, uuid::Error> {
        text.parse().map(Self)
    }
}

impl<C> Encode<C> for RequestId {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.bytes(self.0.as_bytes())?.ok()
    }
}

impl<'b, C> Decode<'b, C> for RequestId {
    fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        uuid::Uuid::from_slice(d.bytes()?)
            .map(Self)
            .map_err(|_| minicbor::decode::Error::message("a request id has 16 bytes"))
    }
}

/// The name of an order: the key of its messages and its row.
#[derive(
    Clone,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    Encode,
    Decode,
    JsonSchema,
)]
#[serde(rename_all = "camelCase")]
pub struct OrderKey {
    /// The partner that handles the payment.
    #[n(0)]
    pub partner: PartnerCode,
    /// Our account at that partner.
    #[n(1)]
    pub merchant_code: MerchantCode,
    /// The platform's order reference.
    #[n(2)]
    pub order_id: OrderId,
}

/// The name of an account, `partner/merchantCode`. Neither part can contain a `/`.
pub fn account_name(partner: &PartnerCode, merchant_code: &MerchantCode) -> String {
    [partner.as_str(), "/", merchant_code.as_str()].concat()
}

impl OrderKey {
    /// `partner/merchantCode/orderId`: the key of messages and rows.
    pub fn to_message_key(&self) -> String {
        let parts = [self.partner.as_str(), self.merchant_code.as_str(), self.order_id.as_str()];
        parts.join("/")
    }

    /// `partner/merchantCode`: the name of its account.
    pub fn account_name(&self) -> String {
        account_name(&self.partner, &self.merchant_code)
    }

    /// Parses `partner/merchantCode/orderId`; no part can contain a `/`. Errors: the part's
    /// `TextError`.
    pub fn parse(text: &str) -> Result<Self, TextError> {
        let mut parts = text.splitn(3, '/');
        let mut part = || parts.next().unwrap_or_default();
        Ok(Self {
            partner: PartnerCode::parse(part())?,
            merchant_code: MerchantCode::parse(part())?,
            order_id: OrderId::parse(part())?,
        })
    }
}

impl fmt::Display for OrderKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.partner, self.merchant_code, self.order_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_key_reads_what_it_writes() {
        let key = OrderKey::parse("default/SHOP-1/ord:1").unwrap();
        assert_eq!(key.to_string(), "default/SHOP-1/ord:1");
        assert_eq!(key.to_message_key(), key.to_string());
        assert_eq!(minicbor::decode::<OrderKey>(&minicbor::to_vec(&key).unwrap()).unwrap(), key);
        assert!(OrderKey::parse("default/SHOP-1").is_err());
        assert!(OrderKey::parse("default/SHOP-1/a/b").is_err());
    }

    #[test]
    fn a_request_id_contains_its_time() {
        let id: RequestId = "01939b1c-7a00-7000-8000-000000000001".parse().unwrap();
        assert_eq!(id.unix_ms(), Some(0x0193_9b1c_7a00));
        assert_eq!(minicbor::decode::<RequestId>(&minicbor::to_vec(id).unwrap()).unwrap(), id);
    }
}
