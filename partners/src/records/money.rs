//! Owns how a partner's books write amounts: signs, decimal commas and groups of digits are taken off here and only as
//! the profile says; what the digits are worth is read as in notices, exactly and never through a float.

use std::borrow::Cow;
use std::collections::BTreeMap;

use payfold_schemas::ipn::Status;
use payfold_schemas::money::{AMOUNT_MAX, Amount, AmountError, Currency};
use serde::Deserialize;

use super::{Fault, shown};
use crate::scheme::amount::AmountRule;

/// How a refund's amount is signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Refunds {
    /// As a payment's: no amount has a minus.
    #[default]
    Positive,
    /// With a minus, and nothing else has one.
    Negative,
    /// With or without.
    Either,
}

/// How amounts are written.
#[derive(Clone, Debug)]
pub(crate) struct MoneyRule {
    pub(crate) amount: AmountRule,
    pub(crate) refunds: Refunds,
    pub(crate) point: char,
    pub(crate) group: Option<char>,
    /// The partner's word for a currency => ours.
    pub(crate) currencies: BTreeMap<String, String>,
}

impl MoneyRule {
    pub(super) fn currency(&self, text: &str, column: &str) -> Result<Currency, Fault> {
        let code = if self.currencies.is_empty() {
            text
        } else {
            self.currencies.get(text).map_or(text, String::as_str)
        };
        Currency::parse(code).map_err(|_| {
            let problem = format!(
                "{} is no currency of ISO 4217; write the partner's word into records.map.currencies",
                shown(text)
            );
            Fault::of(column, problem)
        })
    }

    /// The amount of an entry, and what it adds to the sum of the file. Errors: what is wrong with it.
    pub(super) fn amount(
        &self,
        text: &str,
        (currency, status): (Currency, Status),
        column: &str,
    ) -> Result<(Amount, i128), Fault> {
        let wrong = |problem: String| Err(Fault::of(column, format!("{} {problem}", shown(text))));
        let (is_negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let is_refund = status == Status::Refunded;
        match (self.refunds, is_refund, is_negative) {
            (Refunds::Negative, true, false) => {
                return wrong(
                    "is a refund without a minus, and records.refunds is \"negative\"".into(),
                );
            }
            (Refunds::Positive, _, true) => {
                return wrong(
                    "has a minus; if refunds are written so, set records.refunds = \"negative\""
                        .into(),
                );
            }
            (Refunds::Negative | Refunds::Either, false, true) => {
                return wrong(format!("has a minus, and {status} is no refund"));
            }
            (Refunds::Positive, _, false)
            | (Refunds::Negative | Refunds::Either, true, _)
            | (Refunds::Negative | Refunds::Either, false, false) => {}
        }
        let read = match self.plain(digits) {
            Some(digits) => self.amount.read(&digits, currency),
            None => Err(AmountError::NotInteger),
        };
        match read {
            Ok(amount) => {
                let minor = i128::from(amount.minor());
                Ok((amount, if is_negative { -minor } else { minor }))
            }
            Err(AmountError::NotInteger) => wrong(format!(
                "is no exact number of minor units of {currency}, written as records.map says"
            )),
            Err(AmountError::OutOfRange) => {
                wrong(format!("is not between 1 and {AMOUNT_MAX} minor units of {currency}"))
            }
        }
    }

    /// Minor units of a sum, which may be 0 or less. `None`: it is none.
    pub(super) fn sum(&self, text: &str, currency: Currency) -> Option<i128> {
        let (is_negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let minor = self.amount.minor(&self.plain(digits)?, currency).ok()?;
        let minor = i128::try_from(minor).ok()?;
        Some(if is_negative { -minor } else { minor })
    }

    /// The digits with a point and without groups. `None`: they are not written as the profile says.
    fn plain<'t>(&self, text: &'t str) -> Option<Cow<'t, str>> {
        if self.point == '.' && self.group.is_none() {
            return Some(Cow::Borrowed(text));
        }
        let (whole, fraction) = match text.split_once(self.point) {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (text, None),
        };
        let is_fraction = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !fraction.is_none_or(is_fraction) {
            return None;
        }
        let mut plain = match self.group {
            Some(group) if whole.contains(group) => ungrouped(whole, group)?,
            _ => whole.to_owned(),
        };
        if plain.contains('.') {
            return None;
        }
        if let Some(fraction) = fraction {
            plain.push('.');
            plain.push_str(fraction);
        }
        Some(Cow::Owned(plain))
    }
}

/// `1,234,567` or `12,34,567`: groups of two or three digits, of which the last has three.
fn ungrouped(text: &str, group: char) -> Option<String> {
    let groups: Vec<&str> = text.split(group).collect();
    let last = groups.len().checked_sub(1)?;
    let fits = |(at, digits): (usize, &&str)| match at {
        0 => (1..=3).contains(&digits.len()),
        at if at == last => digits.len() == 3,
        _ => (2..=3).contains(&digits.len()),
    };
    groups.iter().enumerate().all(fits).then(|| groups.concat())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scheme::amount::Unit;

    /// Point, group, text => minor units of USD, or `-`.
    const CASES: &str = "
        . _ 1234.56 => 123456
        . _ 1,234.56 => -
        . , 1,234.56 => 123456
        . , 1234.56 => 123456
        . , 1,23.56 => -
        . , 12,34,567.00 => 123456700
        . , ,234.56 => -
        . , 1,234, => -
        . , 1.234,56 => -
        , . 1.234,56 => 123456
        , . 1234,56 => 123456
        , . 1.234.56 => -
        , _ 1234,56 => 123456
        , _ 1234.56 => -
        , _ 1234,5,6 => -
        , ' 1'234,56 => 123456
        . _ 12e2 => -
        . _ +5 => -
        . _ 5- => -
        . _ (5) => -
        . _ --5 => -
    ";

    #[test]
    fn digits_are_read_as_the_partner_writes_them() {
        let usd = Currency::parse("USD").unwrap();
        for case in CASES.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words: Vec<_> = case.split(' ').collect();
            let one = |word: &str| word.chars().next().filter(|c| *c != '_');
            let amount = AmountRule { unit: Unit::Major, ..AmountRule::default() };
            let (point, group) = (one(words[0]).unwrap(), one(words[1]));
            let currencies = BTreeMap::new();
            let rule = MoneyRule { amount, refunds: Refunds::Either, point, group, currencies };
            let read = rule.amount(words[2], (usd, Status::Success), "Amount");
            let got = read.map_or("-".to_owned(), |(amount, _)| amount.minor().to_string());
            assert_eq!(got, words[4], "{case}");
        }
    }

    #[test]
    fn a_minus_stands_where_the_profile_says() {
        let usd = Currency::parse("USD").unwrap();
        for (refunds, text, status, expected) in [
            (Refunds::Positive, "5", Status::Refunded, Ok((5, 5))),
            (
                Refunds::Positive,
                "-5",
                Status::Refunded,
                Err("has a minus; if refunds are written so"),
            ),
            (Refunds::Negative, "-5", Status::Refunded, Ok((5, -5))),
            (Refunds::Negative, "5", Status::Refunded, Err("is a refund without a minus")),
            (
                Refunds::Negative,
                "-5",
                Status::Success,
                Err("has a minus, and SUCCESS is no refund"),
            ),
            (Refunds::Negative, "5", Status::Success, Ok((5, 5))),
            (Refunds::Either, "5", Status::Refunded, Ok((5, 5))),
            (Refunds::Either, "-5", Status::Refunded, Ok((5, -5))),
            (Refunds::Either, "-5", Status::Failed, Err("has a minus, and FAILED is no refund")),
            (Refunds::Either, "-0", Status::Refunded, Err("is not between 1 and")),
        ] {
            let (amount, currencies) = (AmountRule::default(), BTreeMap::new());
            let rule = MoneyRule { amount, refunds, point: '.', group: None, currencies };
            match (rule.amount(text, (usd, status), "Amount"), expected) {
                (Ok((amount, signed)), Ok(expected)) => {
                    assert_eq!((amount.minor(), signed), expected);
                }
                (Err(fault), Err(expected)) => {
                    assert!(fault.problem.contains(expected), "{}", fault.problem);
                }
                (got, _) => panic!("{refunds:?} {text} {status}: {got:?}"),
            }
        }
        let (amount, currencies) = (AmountRule::default(), BTreeMap::new());
        let refunds = Refunds::Negative;
        let rule = MoneyRule { amount, refunds, point: '.', group: None, currencies };
        assert_eq!(rule.sum("-12", usd), Some(-12));
        assert_eq!(rule.sum("0", usd), Some(0));
        assert_eq!(rule.sum("9000000000000000", usd), Some(9_000_000_000_000_000));
        assert_eq!(rule.sum("x", usd), None);
    }
}
