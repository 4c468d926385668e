//! Owns the amounts in a partner's file. Signs, decimal commas and digit groups are removed here,
//! by the rules of the profile. The digits are then read like those of notices: exactly, and never
//! through a float.

use std::borrow::Cow;
use std::collections::BTreeMap;

use payfold_schemas::ipn::Status;
use payfold_schemas::money::{AMOUNT_MAX, Amount, AmountError, Currency};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::records::types::{RowFault, shown};
use crate::scheme::amount::AmountRule;

/// The sign of refund amounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RefundSign {
    /// No amount has a minus.
    #[default]
    Positive,
    /// Every refund has a minus, and nothing else has.
    Negative,
    /// A refund may have a minus; nothing else may.
    Either,
}

/// How amounts are written.
#[derive(Clone, Debug)]
pub(crate) struct MoneyRule {
    pub(crate) amount: AmountRule,
    pub(crate) refunds: RefundSign,
    pub(crate) point: char,
    pub(crate) group: Option<char>,
    /// The partner's currency code => the ISO 4217 code.
    pub(crate) currencies: BTreeMap<String, String>,
}

impl MoneyRule {
    pub(super) fn currency(&self, text: &str, column: &str) -> Result<Currency, RowFault> {
        let code = if self.currencies.is_empty() {
            text
        } else {
            self.currencies.get(text).map_or(text, String::as_str)
        };
        Currency::parse(code).map_err(|_| {
            let problem = format!(
                "{} is not a currency of ISO 4217; add the partner's code to \
                 records.map.currencies",
                shown(text)
            );
            RowFault::of(column, problem)
        })
    }

    /// The amount of an entry, and the signed amount that it adds to the sum of the file. Errors:
    /// the fault.
    pub(super) fn amount(
        &self,
        text: &str,
        (currency, status): (Currency, Status),
        column: &str,
    ) -> Result<(Amount, i128), RowFault> {
        let wrong =
            |problem: String| Err(RowFault::of(column, format!("{} {problem}", shown(text))));
        let (is_negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let is_refund = status == Status::Refunded;
        match (self.refunds, is_refund, is_negative) {
            (RefundSign::Negative, true, false) => {
                return wrong(
                    "is a refund without a minus, and records.refunds is \"negative\"".into(),
                );
            }
            (RefundSign::Positive, _, true) => {
                return wrong(
                    "has a minus; if refunds are written so, set records.refunds = \"negative\""
                        .into(),
                );
            }
            (RefundSign::Negative | RefundSign::Either, false, true) => {
                return wrong(format!("has a minus, and {status} is not a refund"));
            }
            (RefundSign::Positive, _, false)
            | (RefundSign::Negative | RefundSign::Either, true, _)
            | (RefundSign::Negative | RefundSign::Either, false, false) => {}
        }
        let read = match self.plain(digits) {
            Some(digits) => self.amount.read_amount(&digits, currency),
            None => Err(AmountError::NotInteger),
        };
        match read {
            Ok(amount) => {
                let minor = i128::from(amount.minor());
                Ok((amount, if is_negative { -minor } else { minor }))
            }
            Err(AmountError::NotInteger) => wrong(format!(
                "is not an exact number of minor units of {currency} in the format of records.map"
            )),
            Err(AmountError::OutOfRange) => {
                wrong(format!("is not between 1 and {AMOUNT_MAX} minor units of {currency}"))
            }
        }
    }

    /// The minor units of a sum, which may be 0 or negative. `None` if the text is not an amount.
    pub(super) fn sum(&self, text: &str, currency: Currency) -> Option<i128> {
        let (is_negative, digits) = match text.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, text),
        };
        let minor = self.amount.read_minor_units(&self.plain(digits)?, currency).ok()?;
        let minor = i128::try_from(minor).ok()?;
        Some(if is_negative { -minor } else { minor })
    }

    /// The digits with a decimal point and without groups. `None` if they are not in the
    /// profile's format.
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

/// Removes the group separators of `1,234,567` or `12,34,567`: groups have two or three digits, and
/// the last group has three.
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
    use crate::scheme::amount::AmountUnit;

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
            let cells: Vec<_> = case.split(' ').collect();
            let one = |cell: &str| cell.chars().next().filter(|c| *c != '_');
            let amount = AmountRule { unit: AmountUnit::Major, ..AmountRule::default() };
            let (point, group) = (one(cells[0]).unwrap(), one(cells[1]));
            let currencies = BTreeMap::new();
            let rule = MoneyRule { amount, refunds: RefundSign::Either, point, group, currencies };
            let read = rule.amount(cells[2], (usd, Status::Success), "Amount");
            let got = read.map_or("-".to_owned(), |(amount, _)| amount.minor().to_string());
            assert_eq!(got, cells[4], "{case}");
        }
    }

    #[test]
    fn a_minus_must_be_where_the_profile_puts_it() {
        let usd = Currency::parse("USD").unwrap();
        for (refunds, text, status, expected) in [
            (RefundSign::Positive, "5", Status::Refunded, Ok((5, 5))),
            (
                RefundSign::Positive,
                "-5",
                Status::Refunded,
                Err("has a minus; if refunds are written so"),
            ),
            (RefundSign::Negative, "-5", Status::Refunded, Ok((5, -5))),
            (RefundSign::Negative, "5", Status::Refunded, Err("is a refund without a minus")),
            (
                RefundSign::Negative,
                "-5",
                Status::Success,
                Err("has a minus, and SUCCESS is not a refund"),
            ),
            (RefundSign::Negative, "5", Status::Success, Ok((5, 5))),
            (RefundSign::Either, "5", Status::Refunded, Ok((5, 5))),
            (RefundSign::Either, "-5", Status::Refunded, Ok((5, -5))),
            (
                RefundSign::Either,
                "-5",
                Status::Failed,
                Err("has a minus, and FAILED is not a refund"),
            ),
            (RefundSign::Either, "-0", Status::Refunded, Err("is not between 1 and")),
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
        let refunds = RefundSign::Negative;
        let rule = MoneyRule { amount, refunds, point: '.', group: None, currencies };
        assert_eq!(rule.sum("-12", usd), Some(-12));
        assert_eq!(rule.sum("0", usd), Some(0));
        assert_eq!(rule.sum("9000000000000000", usd), Some(9_000_000_000_000_000));
        assert_eq!(rule.sum("x", usd), None);
    }
}
