//! Owns how a partner writes amounts, and the exact conversion between its digits and our minor
//! units (ISO 4217). Invariants: no float is used; an amount that is not a whole number of minor
//! units is refused, and so are exponents, blanks, signs and digit grouping.

use std::collections::BTreeMap;

use payfold_schemas::money::{Amount, AmountError, Currency};
use schemars::JsonSchema;
use serde::Deserialize;

/// The unit a partner's amounts are counted in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AmountUnit {
    /// Minor units of the currency, an integer.
    #[default]
    Minor,
    /// Hundredths of the currency's unit, whatever its minor unit is ("times 100"), an integer.
    Hundredths,
    /// The currency's unit, a decimal text.
    Major,
}

/// How amounts are written: `amount_unit` and `exponents` of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AmountRule {
    pub(crate) unit: AmountUnit,
    /// By currency code: the number of decimal digits, where the partner's differs from ISO 4217.
    pub(crate) exponents: BTreeMap<String, u32>,
}

impl AmountRule {
    /// Writes an amount as the partner does. `None` if the partner has no exact number for it.
    pub(crate) fn write_amount(&self, amount: Amount, currency: Currency) -> Option<String> {
        let ours = u32::from(currency.exponent());
        let theirs = match self.unit {
            AmountUnit::Minor => self.exponents.get(currency.code()).copied().unwrap_or(ours),
            AmountUnit::Hundredths => 2,
            AmountUnit::Major => return Some(major(amount.minor(), ours)),
        };
        let shift = |digits: u32| 10_i64.checked_pow(digits);
        if theirs >= ours {
            return Some(amount.minor().checked_mul(shift(theirs - ours)?)?.to_string());
        }
        let unit = shift(ours - theirs)?;
        (amount.minor() % unit == 0).then(|| (amount.minor() / unit).to_string())
    }

    /// Reads an amount in minor units (ISO 4217). Errors: `NotInteger` if `text` is not an exact
    /// number of minor units, `OutOfRange` if it is not between 1 and 10^15.
    pub(crate) fn read_amount(
        &self,
        text: &str,
        currency: Currency,
    ) -> Result<Amount, AmountError> {
        let minor = i64::try_from(self.read_minor_units(text, currency)?);
        minor.map_err(|_| AmountError::OutOfRange).and_then(Amount::from_minor)
    }

    /// Reads any number of minor units, 0 included. Errors: `NotInteger`; `OutOfRange` if it does
    /// not fit a `u128`.
    pub(crate) fn read_minor_units(
        &self,
        text: &str,
        currency: Currency,
    ) -> Result<u128, AmountError> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let is_plain = !whole.is_empty()
            && digits(whole)
            && digits(fraction)
            && (whole == "0" || !whole.starts_with('0'))
            && !text.ends_with('.');
        // A u128 has 39 digits at most, so a longer text is refused before it is computed.
        if !is_plain || (self.unit != AmountUnit::Major && text.contains('.')) || text.len() > 40 {
            return Err(AmountError::NotInteger);
        }
        let ours = u32::from(currency.exponent());
        let theirs = match self.unit {
            AmountUnit::Minor => self.exponents.get(currency.code()).copied().unwrap_or(ours),
            AmountUnit::Hundredths => 2,
            AmountUnit::Major => 0,
        };
        // The amount is `all` / 10^scale units of the currency.
        let all = whole.bytes().chain(fraction.bytes()).try_fold(0_u128, |all, digit| {
            all.checked_mul(10)?.checked_add(u128::from(digit - b'0'))
        });
        let all = all.ok_or(AmountError::OutOfRange)?;
        let scale = theirs + u32::try_from(fraction.len()).map_err(|_| AmountError::NotInteger)?;
        if scale <= ours {
            let unit = 10_u128.checked_pow(ours - scale);
            return unit.and_then(|unit| all.checked_mul(unit)).ok_or(AmountError::OutOfRange);
        }
        match 10_u128.checked_pow(scale - ours) {
            Some(unit) if all % unit == 0 => Ok(all / unit),
            None if all == 0 => Ok(0),
            Some(_) | None => Err(AmountError::NotInteger),
        }
    }
}

/// Writes minor units as a decimal number of the currency's unit, with all its decimals.
fn major(minor: i64, digits: u32) -> String {
    let width = usize::try_from(digits).unwrap_or(0);
    let padded = format!("{minor:0>0$}", width + 1);
    match padded.split_at(padded.len() - width) {
        (whole, "") => whole.to_owned(),
        (whole, fraction) => format!("{whole}.{fraction}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Unit, text, currency => minor units, or `-` not an integer, `!` out of range.
    const CASES: &str = "
        minor 150000 VND => 150000
        minor 1050 USD => 1050
        minor 10.50 USD => -
        minor 0 USD => !
        minor 007 USD => -
        minor 1e3 USD => -
        minor -5 USD => -
        minor +5 USD => -
        minor 1,000 USD => -
        hundredths 1000000 VND => 10000
        hundredths 1000050 VND => -
        hundredths 1050 USD => 1050
        hundredths 1 KWD => 10
        major 100000.00 VND => 100000
        major 100000.50 VND => -
        major 10.10 USD => 1010
        major 10.1 USD => 1010
        major 10 USD => 1000
        major 10. USD => -
        major .5 USD => -
        major 0.05 USD => 5
        major 0.005 USD => -
        major 1.234 KWD => 1234
        major 00.5 USD => -
        major 99999999999999999999 USD => !
        major 0.00 USD => !
    ";

    #[test]
    fn digits_become_minor_units_exactly() {
        for case in CASES.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<_> = case.split(' ').collect();
            let unit = match words[0] {
                "minor" => AmountUnit::Minor,
                "hundredths" => AmountUnit::Hundredths,
                _ => AmountUnit::Major,
            };
            let rule = AmountRule { unit, ..AmountRule::default() };
            let read = rule.read_amount(words[1], Currency::parse(words[2]).unwrap());
            let got = match read {
                Ok(amount) => amount.minor().to_string(),
                Err(AmountError::NotInteger) => "-".to_owned(),
                Err(AmountError::OutOfRange) => "!".to_owned(),
            };
            assert_eq!(got, words[4], "{case}");
        }
    }

    /// Unit, minor units, currency => what is sent to the partner, or `-` if impossible.
    const WRITTEN: &str = "
        minor 150000 VND => 150000
        minor 1050 USD => 1050
        hundredths 1500 VND => 150000
        hundredths 1234 KWD => -
        hundredths 1230 KWD => 123
        major 150000 VND => 150000
        major 1050 USD => 10.50
        major 5 USD => 0.05
        major 1234 KWD => 1.234
        whole 15000000 IDR => 150000
        whole 15000050 IDR => -
        minor 1000000000000000 USD => 1000000000000000
        hundredths 1000000000000000 VND => 100000000000000000
    ";

    #[test]
    fn an_amount_is_written_as_it_would_be_read() {
        for case in WRITTEN.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<_> = case.split(' ').collect();
            let unit = match words[0] {
                "hundredths" => AmountUnit::Hundredths,
                "major" => AmountUnit::Major,
                _ => AmountUnit::Minor,
            };
            let exponents = BTreeMap::from([("IDR".to_owned(), 0)]);
            let exponents = if words[0] == "whole" { exponents } else { BTreeMap::new() };
            let rule = AmountRule { unit, exponents };
            let currency = Currency::parse(words[2]).unwrap();
            let amount = Amount::parse(words[1]).unwrap();
            let written = rule.write_amount(amount, currency);
            assert_eq!(written.as_deref().unwrap_or("-"), words[4], "{case}");
            if let Some(written) = written {
                assert_eq!(rule.read_amount(&written, currency).unwrap(), amount, "{case}");
            }
        }
    }

    #[test]
    fn a_partner_may_count_other_digits() {
        let exponents = BTreeMap::from([("VND".to_owned(), 2), ("ISK".to_owned(), 2)]);
        let rule = AmountRule { unit: AmountUnit::Minor, exponents };
        let read = |text, code| rule.read_amount(text, Currency::parse(code).unwrap());
        assert_eq!(read("150000", "VND").unwrap().minor(), 1_500);
        assert_eq!(read("150001", "VND"), Err(AmountError::NotInteger));
        assert_eq!(read("150001", "USD").unwrap().minor(), 150_001);
    }
}
