//! Owns money: amounts in minor units and ISO 4217 currencies. An amount is 1 to 10^15,
//! parsed from its digits and never through a float.

use std::cell::Cell;
use std::fmt;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

/// The largest amount, in minor units: far above any payment, and small enough for i64 sums.
pub const AMOUNT_MAX: i64 = 1_000_000_000_000_000;

/// An amount of money in minor units of its currency (contract 2.1), 1 to 10^15.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Encode, Decode)]
#[serde(transparent)]
#[cbor(transparent)]
pub struct Amount(#[n(0)] i64);

/// Why digits are not an amount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    /// A sign, a point, an exponent, a leading zero or anything that is no digit.
    #[error("amount must be plain digits of an integer in minor units")]
    NotInteger,
    /// Below 1 or over 10^15.
    #[error("amount must be 1 to {AMOUNT_MAX} minor units")]
    OutOfRange,
}

impl Amount {
    /// Checks a number of minor units. Errors: `OutOfRange`.
    pub fn from_minor(minor: i64) -> Result<Self, AmountError> {
        if (1..=AMOUNT_MAX).contains(&minor) {
            Ok(Self(minor))
        } else {
            Err(AmountError::OutOfRange)
        }
    }

    /// Parses the digits exactly as a partner printed them: `100`, never `1e2`, `100.0`, `0100`,
    /// `+1`, `-0`. Errors: `NotInteger` for another notation, `OutOfRange` for zero, negative or
    /// too large.
    pub fn parse(digits: &str) -> Result<Self, AmountError> {
        let (negative, magnitude) = match digits.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, digits),
        };
        let plain = !magnitude.is_empty() && magnitude.bytes().all(|b| b.is_ascii_digit());
        let padded = magnitude.len() > 1 && magnitude.starts_with('0');
        if !plain || padded || (negative && magnitude == "0") {
            return Err(AmountError::NotInteger);
        }
        if negative {
            return Err(AmountError::OutOfRange);
        }
        // Digits that overflow i64 are far over the largest amount.
        magnitude.parse().map_err(|_| AmountError::OutOfRange).and_then(Self::from_minor)
    }

    /// The number of minor units.
    pub fn minor(self) -> i64 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::from_minor(i64::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

thread_local! {
    /// The currency that was parsed last on this thread.
    static LAST: Cell<Option<iso_currency::Currency>> = const { Cell::new(None) };
}

/// An ISO 4217 currency.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Currency(iso_currency::Currency);

/// A text that is not the code of a currency with minor units; case matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("currency must be an ISO 4217 code in capitals that has minor units, such as VND")]
pub struct CurrencyError;

impl Currency {
    /// Parses the code of a currency for new money: three capital letters. Errors:
    /// `CurrencyError`, also for the codes without minor units (XXX, XTS, XAU, XDR).
    pub fn parse(code: &str) -> Result<Self, CurrencyError> {
        Self::parse_stored(code).ok().filter(|read| read.has_minor_units()).ok_or(CurrencyError)
    }

    /// Parses any ISO 4217 code. Only for stored values: older programs admitted the codes without
    /// minor units. Errors: `CurrencyError`.
    pub fn parse_stored(code: &str) -> Result<Self, CurrencyError> {
        // The library's table is long, and consecutive reads are usually of the same currency.
        if let Some(last) = LAST.get().filter(|last| last.code() == code) {
            return Ok(Self(last));
        }
        let currency = iso_currency::Currency::from_code(code)
            .filter(|currency| currency.code() == code)
            .ok_or(CurrencyError)?;
        LAST.set(Some(currency));
        Ok(Self(currency))
    }

    /// The three-letter code.
    pub fn code(self) -> &'static str {
        self.0.code()
    }

    /// Whether ISO 4217 gives it minor units, which amounts are counted in. It gives none to "no
    /// currency" (XXX), the test code (XTS), metals and units of account.
    pub fn has_minor_units(self) -> bool {
        self.0.exponent().is_some()
    }

    /// Digits behind the point: 0 for VND, 2 for EUR. Codes without minor units (XAU) have 0.
    pub fn exponent(self) -> u16 {
        self.0.exponent().unwrap_or(0)
    }
}

impl PartialOrd for Currency {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Currency {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.code().cmp(other.code())
    }
}

impl fmt::Debug for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl Serialize for Currency {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

impl<'de> Deserialize<'de> for Currency {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let code = std::borrow::Cow::<str>::deserialize(deserializer)?;
        Self::parse_stored(&code).map_err(serde::de::Error::custom)
    }
}

impl<C> Encode<C> for Currency {
    fn encode<W: minicbor::encode::Write>(
        &self,
        e: &mut minicbor::Encoder<W>,
        _: &mut C,
    ) -> Result<(), minicbor::encode::Error<W::Error>> {
        e.str(self.code())?.ok()
    }
}

impl<'b, C> Decode<'b, C> for Currency {
    fn decode(d: &mut minicbor::Decoder<'b>, _: &mut C) -> Result<Self, minicbor::decode::Error> {
        Self::parse_stored(d.str()?)
            .map_err(|_| minicbor::decode::Error::message("stored currency is not in ISO 4217"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_plain_digits_in_range() {
        use AmountError::{NotInteger, OutOfRange};
        for (digits, expected) in [
            ("1", Ok(1)),
            ("1000000000000000", Ok(AMOUNT_MAX)),
            ("1000000000000001", Err(OutOfRange)),
            ("99999999999999999999999999", Err(OutOfRange)),
            ("0", Err(OutOfRange)),
            ("-5", Err(OutOfRange)),
            ("-0", Err(NotInteger)),
            ("+1", Err(NotInteger)),
            ("0100", Err(NotInteger)),
            ("00", Err(NotInteger)),
            ("1e3", Err(NotInteger)),
            ("100.0", Err(NotInteger)),
            ("", Err(NotInteger)),
            ("-", Err(NotInteger)),
            ("١", Err(NotInteger)),
        ] {
            assert_eq!(Amount::parse(digits).map(Amount::minor), expected, "{digits:?}");
        }
    }

    #[test]
    fn currencies_are_iso_4217_in_capitals() {
        assert_eq!(Currency::parse("VND").unwrap().exponent(), 0);
        assert_eq!(Currency::parse("EUR").unwrap().exponent(), 2);
        assert_eq!(Currency::parse("KWD").unwrap().exponent(), 3);
        for code in ["vnd", "VNĐ", "XYZ", "", "VND ", "ＶＮＤ"] {
            assert!(Currency::parse(code).is_err(), "{code:?}");
        }
    }

    #[test]
    fn a_code_without_minor_units_is_read_from_storage_and_refused_for_new_money() {
        for code in ["XXX", "XTS", "XAU", "XAG", "XPT", "XPD", "XDR", "XBA", "XSU", "XUA"] {
            let stored: Currency = minicbor::decode(&minicbor::to_vec(code).unwrap()).unwrap();
            assert_eq!(stored.code(), code);
            assert_eq!(serde_json::from_value::<Currency>(code.into()).unwrap(), stored);
            assert!(Currency::parse(code).is_err(), "{code} right behind the same code as stored");
        }
        for code in ["CLF", "UYW", "CHE", "HRK"] {
            assert!(Currency::parse(code).is_ok(), "{code} has minor units");
        }
    }
}
