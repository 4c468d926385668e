//! Owns the text of a finding's two sides: amounts in major units of each side's currency, times in
//! the partner's zone, other values as they are. Pure.

use std::collections::HashMap;

use payfold_schemas::finding::{BookLine, Code, FindingChanged, FindingStatus, Side};
use payfold_schemas::ids::{MerchantCode, OrderId, ProviderRef};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::Currency;
use payfold_schemas::order::Flag;
use payfold_schemas::time::Time;

use super::text::shown;
use super::times::PartnerZone;

type PaymentKey<'a> = (Option<&'a MerchantCode>, Option<&'a OrderId>, Option<&'a ProviderRef>);

/// Our currency of each payment that differs in currency. Any other payment has the finding's
/// currency on both sides.
#[derive(Debug, Default)]
pub struct OurCurrencies<'a>(HashMap<PaymentKey<'a>, Currency>);

impl<'a> OurCurrencies<'a> {
    /// Collects our currencies from the findings of a day.
    pub fn new(findings: &'a [FindingChanged]) -> Self {
        let differs = findings.iter().filter(|finding| {
            finding.code == Code::CurrencyDiffers && finding.status != FindingStatus::Cleared
        });
        let ours = |finding: &'a FindingChanged| {
            Some((payment(finding), Currency::parse_stored(&finding.ours.value).ok()?))
        };
        Self(differs.filter_map(ours).collect())
    }

    /// Our currency, if it differs from the finding's.
    pub(super) fn differing_currency(&self, finding: &'a FindingChanged) -> Option<Currency> {
        self.0.get(&payment(finding)).copied()
    }

    fn ours(&self, finding: &'a FindingChanged) -> Option<Currency> {
        self.differing_currency(finding).or(finding.currency)
    }
}

fn payment(finding: &FindingChanged) -> PaymentKey<'_> {
    (finding.merchant_code.as_ref(), finding.order_id.as_ref(), finding.payment_ref.as_ref())
}

/// The format of a finding's values.
#[derive(Clone, Copy, Debug)]
pub struct ValueFormat {
    /// The zone of times; `None` leaves times as they are.
    pub(crate) zone: Option<PartnerZone>,
    /// Formats minor units of a currency.
    pub(crate) money: fn(i128, Currency) -> String,
}

impl ValueFormat {
    /// Formats money with this function, and leaves times as they are.
    pub fn with_money(money: fn(i128, Currency) -> String) -> Self {
        Self { zone: None, money }
    }
}

/// The text of both sides, ours first. Those of a flag have none.
pub fn format_sides<'a>(
    finding: &'a FindingChanged,
    currencies: &OurCurrencies<'a>,
    format: ValueFormat,
) -> (String, String) {
    let field = finding.field.as_deref().unwrap_or_default();
    let format_value = |text: &str, currency: Option<Currency>| {
        let known = match field {
            "amount" => parse_minor(text)
                .zip(currency)
                .map(|(minor, currency)| (format.money)(minor, currency)),
            "paidAt" => {
                Time::parse(text).ok().zip(format.zone).map(|(time, zone)| zone.clock(time))
            }
            "status" => format_status_money(text, currency, format.money),
            _ => None,
        };
        known.unwrap_or_else(|| shown(text))
    };
    // A flag is about the order alone.
    if finding.flag.is_some() {
        return ("–".to_owned(), "–".to_owned());
    }
    let ours = format_value(&finding.ours.value, currencies.ours(finding));
    (ours, format_value(&finding.partners.value, finding.currency))
}

/// The source of a side; the order that the finding names is not named once more.
pub fn source_of<'a>(side: &'a Side, finding: &FindingChanged) -> &'a str {
    if finding.flag.is_some() {
        return "";
    }
    let order = finding.order_key().map(|order| order.to_string());
    if order.is_some_and(|order| order == side.source) { "the order" } else { &side.source }
}

/// The field that differs, or the flag.
pub fn what_differs(finding: &FindingChanged) -> &str {
    let flag = finding.flag.map(Flag::as_str);
    flag.or(finding.field.as_deref()).unwrap_or("–")
}

fn parse_minor(text: &str) -> Option<i128> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// Formats `REFUNDED 100 + 200` as `REFUNDED 1.00 EUR + 2.00 EUR`; `None` for any other text.
fn format_status_money(
    text: &str,
    currency: Option<Currency>,
    money: fn(i128, Currency) -> String,
) -> Option<String> {
    let (status, rest) = text.split_once(' ')?;
    Status::parse(status)?;
    let of_words = |words: &str| {
        let (digits, code) = words.split_once(' ').map_or((words, None), |(d, c)| (d, Some(c)));
        let currency = match code {
            Some(code) => Currency::parse_stored(code).ok()?,
            None => currency?,
        };
        Some(money(parse_minor(digits)?, currency))
    };
    let parts: Option<Vec<String>> = rest.split(" + ").map(of_words).collect();
    Some(format!("{status} {}", parts?.join(" + ")))
}

/// Parses `SUCCESS 100 VND`, our value of a payment that the partner does not list.
pub(super) fn parse_status_money(text: &str) -> Option<(Status, i128, Currency)> {
    let mut words = text.split(' ');
    let status = Status::parse(words.next()?)?;
    Some((status, parse_minor(words.next()?)?, Currency::parse_stored(words.next()?).ok()?))
}

/// The line of the records that a finding cites.
pub(super) fn line_of(finding: &FindingChanged) -> Option<&BookLine> {
    let (_, number) = finding.partners.source.rsplit_once(" line ")?;
    let number: u64 = number.parse().ok()?;
    finding.lines.iter().find(|line| line.line == number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::money::major_named;

    #[test]
    fn amounts_in_a_text_are_written_in_major_units() {
        let eur = Currency::parse("EUR").ok();
        for (text, expected) in [
            ("SUCCESS 123456 VND", Some("SUCCESS 123,456 VND")),
            ("REFUNDED 100", Some("REFUNDED 1.00 EUR")),
            ("REFUNDED 100 + 205", Some("REFUNDED 1.00 EUR + 2.05 EUR")),
            ("SUCCESS", None),
            ("PENDING", None),
            ("nothing", None),
            ("SUCCESS 1e3 VND", None),
            ("SUCCESS 100 XYZ", None),
            ("SOMETHING 100 VND", None),
        ] {
            assert_eq!(format_status_money(text, eur, major_named).as_deref(), expected, "{text}");
        }
        assert_eq!(format_status_money("REFUNDED 100", None, major_named), None);
        assert_eq!(parse_minor("99999999999999999999999999999999999999999"), None);
        assert_eq!((parse_minor(""), parse_minor("+1"), parse_minor("-1")), (None, None, None));
    }
}
