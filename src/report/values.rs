//! Owns how the two sides of a finding are written: amounts in major units of the currency each side means, times in the
//! partner's zone, everything else as it was told. Pure.

use std::collections::HashMap;

use payfold_schemas::finding::{BookLine, Code, FindingChanged, FindingStatus};
use payfold_schemas::ids::{MerchantCode, OrderId, ProviderRef};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::Currency;
use payfold_schemas::time::Time;

use super::when::Zone;
use super::words::shown;

type Payment<'a> = (Option<&'a MerchantCode>, Option<&'a OrderId>, Option<&'a ProviderRef>);

/// What is known here is in the finding's currency, unless another finding of the payment says that currencies differ.
#[derive(Debug, Default)]
pub(crate) struct Currencies<'a>(HashMap<Payment<'a>, Currency>);

impl<'a> Currencies<'a> {
    pub(crate) fn of(findings: &'a [FindingChanged]) -> Self {
        let differs = findings.iter().filter(|finding| {
            finding.code == Code::CurrencyDiffers && finding.status != FindingStatus::Cleared
        });
        let ours = |finding: &'a FindingChanged| {
            Some((payment(finding), Currency::parse_stored(&finding.ours.value).ok()?))
        };
        Self(differs.filter_map(ours).collect())
    }

    /// Ours, where it is another than the finding's.
    pub(super) fn other(&self, finding: &'a FindingChanged) -> Option<Currency> {
        self.0.get(&payment(finding)).copied()
    }

    fn ours(&self, finding: &'a FindingChanged) -> Option<Currency> {
        self.other(finding).or(finding.currency)
    }
}

fn payment(finding: &FindingChanged) -> Payment<'_> {
    (finding.merchant_code.as_ref(), finding.order_id.as_ref(), finding.payment_ref.as_ref())
}

/// How the two sides are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// The zone that times are written in; `None` leaves them as they came.
    pub(crate) zone: Option<Zone>,
    /// Minor units with their currency, as an amount in major units.
    pub(crate) money: fn(i128, Currency) -> String,
}

/// What each side says, ours first.
pub(crate) fn sides<'a>(
    finding: &'a FindingChanged,
    currencies: &Currencies<'a>,
    manner: Manner,
) -> (String, String) {
    let field = finding.field.as_deref().unwrap_or_default();
    let written = |text: &str, currency: Option<Currency>| {
        let known = match field {
            "amount" => {
                minor(text).zip(currency).map(|(minor, currency)| (manner.money)(minor, currency))
            }
            "paidAt" => {
                Time::parse(text).ok().zip(manner.zone).map(|(time, zone)| zone.clock(time))
            }
            "status" => money_words(text, currency, manner.money),
            _ => None,
        };
        known.unwrap_or_else(|| shown(text))
    };
    let ours = written(&finding.ours.value, currencies.ours(finding));
    (ours, written(&finding.partners.value, finding.currency))
}

fn minor(text: &str) -> Option<i128> {
    let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

/// `REFUNDED 1.00 EUR + 2.00 EUR` of `REFUNDED 100 + 200`.
fn money_words(
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
        Some(money(minor(digits)?, currency))
    };
    let parts: Option<Vec<String>> = rest.split(" + ").map(of_words).collect();
    Some(format!("{status} {}", parts?.join(" + ")))
}

/// Status and money of `SUCCESS 100 VND`, as a finding says it of a payment that the partner does not list.
pub(super) fn told(text: &str) -> Option<(Status, i128, Currency)> {
    let mut words = text.split(' ');
    let status = Status::parse(words.next()?)?;
    Some((status, minor(words.next()?)?, Currency::parse_stored(words.next()?).ok()?))
}

/// The line of the records that a finding is about.
pub(super) fn line_of(finding: &FindingChanged) -> Option<&BookLine> {
    let (_, number) = finding.partners.source.rsplit_once(" line ")?;
    let number: u64 = number.parse().ok()?;
    finding.lines.iter().find(|line| line.line == number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::money::named;

    #[test]
    fn amounts_among_words_are_written_in_major_units() {
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
            assert_eq!(money_words(text, eur, named).as_deref(), expected, "{text}");
        }
        assert_eq!(money_words("REFUNDED 100", None, named), None);
        assert_eq!(minor("99999999999999999999999999999999999999999"), None);
        assert_eq!((minor(""), minor("+1"), minor("-1")), (None, None, None));
    }
}
