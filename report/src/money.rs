//! Owns the text of money for people and spreadsheets: major units by the currency's exponent, made
//! from the digits of the minor units, never through a float. Pure.

use std::collections::BTreeMap;

use payfold_schemas::money::Currency;

/// Sums of minor units by currency. `i128`, because a sum of many `i64` can exceed an `i64`.
pub type Sums = BTreeMap<Currency, i128>;

/// Formats minor units as major units for people, with separators and the minus sign U+2212:
/// `1,234.56` for 123456 minor units of EUR, `−150,000` for −150000 minor units of VND.
pub fn major(minor: i128, currency: Currency) -> String {
    let (whole, fraction) = digits(minor, currency);
    let sign = if minor < 0 { "−" } else { "" };
    format!("{sign}{}{fraction}", grouped(&whole))
}

/// Formats minor units as major units for spreadsheets and programs, without separators and with
/// an ASCII minus: `1234.56` for 123456 minor units of EUR, `-150000` for −150000 of VND.
pub fn plain(minor: i128, currency: Currency) -> String {
    let (whole, fraction) = digits(minor, currency);
    let sign = if minor < 0 { "-" } else { "" };
    format!("{sign}{whole}{fraction}")
}

/// As `plain`, with the currency: `1234.56 EUR`.
pub fn plain_named(minor: i128, currency: Currency) -> String {
    format!("{} {currency}", plain(minor, currency))
}

/// The digits before the decimal point, and the point with the digits after it, if the currency has
/// any.
fn digits(minor: i128, currency: Currency) -> (String, String) {
    let exponent = usize::from(currency.exponent());
    let digits = format!("{:0>width$}", minor.unsigned_abs(), width = exponent + 1);
    let (whole, fraction) = digits.split_at(digits.len() - exponent);
    let fraction = if fraction.is_empty() { String::new() } else { format!(".{fraction}") };
    (whole.to_owned(), fraction)
}

/// Separates thousands in ASCII digits without a sign: `1,204` for 1204.
pub(crate) fn grouped(digits: &str) -> String {
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// As `major`, with the currency: `1,234.56 EUR`.
pub fn major_named(minor: i128, currency: Currency) -> String {
    format!("{} {currency}", major(minor, currency))
}

/// As `major`, with a sign before a positive amount, too: `+1.00`, `−1.00`, `0.00`.
pub fn signed(minor: i128, currency: Currency) -> String {
    let plus = if minor > 0 { "+" } else { "" };
    format!("{plus}{}", major(minor, currency))
}

/// Lists sums that are not zero by currency code: `12.50 EUR and 1,000 VND`; empty if there are
/// none.
pub fn list_sums(sums: &Sums) -> String {
    let texts: Vec<String> = (sums.iter())
        .filter(|(_, minor)| **minor != 0)
        .map(|(currency, minor)| major_named(*minor, *currency))
        .collect();
    match texts.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(code: &str) -> Currency {
        Currency::parse(code).unwrap()
    }

    #[test]
    fn money_is_written_by_its_currency() {
        for (minor, code, expected) in [
            (0, "VND", "0"),
            (0, "EUR", "0.00"),
            (1, "JPY", "1"),
            (150_000, "VND", "150,000"),
            (1, "EUR", "0.01"),
            (100, "EUR", "1.00"),
            (-5, "EUR", "−0.05"),
            (123_456, "EUR", "1,234.56"),
            (1_234, "KWD", "1.234"),
            (999_999, "KWD", "999.999"),
            (-1_000_000, "KWD", "−1,000.000"),
            (i128::from(i64::MAX), "USD", "92,233,720,368,547,758.07"),
            (i128::from(i64::MIN), "JPY", "−9,223,372,036,854,775,808"),
            // 2^53 + 1, which a 64-bit float can't represent.
            (9_007_199_254_740_993, "USD", "90,071,992,547,409.93"),
        ] {
            assert_eq!(major(minor, of(code)), expected, "{minor} {code}");
            let as_plain = expected.replace(',', "").replace('−', "-");
            assert_eq!(plain(minor, of(code)), as_plain, "{minor} {code}");
        }
        assert_eq!(signed(5, of("EUR")), "+0.05");
        assert_eq!(signed(0, of("EUR")), "0.00");
    }

    #[test]
    fn sums_are_listed_by_currency() {
        let sums = |of_codes: &[(&str, i128)]| -> Sums {
            of_codes.iter().map(|(code, minor)| (of(code), *minor)).collect()
        };
        assert_eq!(list_sums(&sums(&[])), "");
        assert_eq!(list_sums(&sums(&[("VND", 0)])), "");
        assert_eq!(list_sums(&sums(&[("VND", 1_000)])), "1,000 VND");
        assert_eq!(
            list_sums(&sums(&[("VND", 1), ("EUR", 250), ("KWD", 1)])),
            "2.50 EUR, 0.001 KWD and 1 VND"
        );
    }
}
