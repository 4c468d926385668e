//! Owns the explanation of a control total's difference: what each uncleared finding contributes to
//! ours minus the partner's. Pure. What no finding explains is reported as a rest, never spread
//! over the findings.

use std::collections::{BTreeMap, HashMap};

use payfold_schemas::finding::{BookLine, Code, FindingChanged, FindingStatus};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::Currency;

use super::report::Report;
use super::times::PartnerZone;
use super::values::{OurCurrencies, line_of, parse_status_money};

/// Day, currency and status (SUCCESS or REFUNDED) of a control total.
pub(super) type TotalKey = (String, Currency, Status);

/// Findings of one code: their number, and the minor units they contribute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Contribution {
    pub(super) findings: u64,
    pub(super) minor: i128,
}

/// The contributions to each total, by finding code.
pub(super) type Contributions = HashMap<TotalKey, BTreeMap<Code, Contribution>>;

/// Computes the contributions of a report's findings.
pub(super) fn contributions(report: &Report<'_>) -> Contributions {
    let currencies = OurCurrencies::new(report.findings);
    let amounts = foreign_amounts(report.findings, &currencies);
    let explainer = Explainer { day: &report.ended.day, zone: report.zone(), currencies, amounts };
    let mut contributions = Contributions::new();
    for finding in report.findings.iter().filter(|f| f.status != FindingStatus::Cleared) {
        let mut of_finding: HashMap<TotalKey, i128> = HashMap::new();
        for (key, minor) in explainer.contributions_of(finding) {
            *of_finding.entry(key).or_default() += minor;
        }
        for (key, minor) in of_finding {
            let contribution =
                contributions.entry(key).or_default().entry(finding.code).or_default();
            contribution.findings += 1;
            contribution.minor += minor;
        }
    }
    contributions
}

/// Our amounts of payments that also differ in currency, by order and ref.
fn foreign_amounts<'a>(
    findings: &'a [FindingChanged],
    currencies: &OurCurrencies<'a>,
) -> HashMap<(Option<&'a str>, Option<&'a str>), i128> {
    let amounts = findings.iter().filter(|finding| finding.code == Code::AmountDiffers);
    amounts
        .filter(|finding| currencies.differing_currency(finding).is_some())
        .filter_map(|finding| Some((payment(finding), finding.ours.value.parse().ok()?)))
        .collect()
}

fn payment(finding: &FindingChanged) -> (Option<&str>, Option<&str>) {
    let order = finding.order_id.as_ref().map(|order| order.as_str());
    (order, finding.payment_ref.as_ref().map(|provider_ref| provider_ref.as_str()))
}

/// What the contributions are computed from.
struct Explainer<'a> {
    day: &'a str,
    zone: PartnerZone,
    currencies: OurCurrencies<'a>,
    amounts: HashMap<(Option<&'a str>, Option<&'a str>), i128>,
}

impl<'a> Explainer<'a> {
    /// The contributions of a finding: ours positive, the partner's negative; empty if both sides
    /// have the money.
    fn contributions_of(&self, finding: &'a FindingChanged) -> Vec<(TotalKey, i128)> {
        let line = line_of(finding);
        let theirs = |line: &BookLine| {
            let key = (self.zone.day(line.at), line.currency, line.status);
            (key, -i128::from(line.amount.minor()))
        };
        match finding.code {
            Code::StatusDiffers if line.is_some_and(|line| is_end(line.status)) => {
                let ours = finding.currency.map(|currency| (currency, finding.money_at_risk));
                let paid =
                    |(currency, minor)| self.ours(currency, Status::Success, i128::from(minor));
                ours.map(paid).into_iter().collect()
            }
            Code::RefOnTwoOrders if finding.ours.value.starts_with("also ") => Vec::new(),
            Code::MissingHere
            | Code::StatusDiffers
            | Code::DuplicatedThere
            | Code::OtherDay
            | Code::RefOnTwoOrders => line.map(theirs).into_iter().collect(),
            Code::MissingThere | Code::CutOff => {
                let ours = parse_status_money(&finding.ours.value);
                ours.map(|(status, minor, currency)| self.ours(currency, status, minor))
                    .into_iter()
                    .collect()
            }
            Code::AmountDiffers | Code::CurrencyDiffers => {
                let ours = line.and_then(|line| Some((line, self.our_money(finding, line)?)));
                let both = ours.map(|(line, (currency, minor))| {
                    [self.ours(currency, line.status, minor), theirs(line)]
                });
                both.into_iter().flatten().collect()
            }
            Code::RefDiffers
            | Code::TimeDiffers
            | Code::ReferencePaidTwice
            | Code::NonceReused
            | Code::PartnerSilent
            | Code::OpenFlag => Vec::new(),
        }
    }

    /// Our side of a payment that differs in amount or currency. If both differ, the currency
    /// finding contributes both, and the amount finding contributes nothing.
    fn our_money(&self, finding: &'a FindingChanged, line: &BookLine) -> Option<(Currency, i128)> {
        let Some(currency) = self.currencies.differing_currency(finding) else {
            let minor = finding.ours.value.parse().ok()?;
            return Some((line.currency, minor));
        };
        let amount = self.amounts.get(&payment(finding)).copied();
        let minor = amount.unwrap_or_else(|| i128::from(line.amount.minor()));
        (finding.code == Code::CurrencyDiffers).then_some((currency, minor))
    }

    fn ours(&self, currency: Currency, status: Status, minor: i128) -> (TotalKey, i128) {
        ((self.day.to_owned(), currency, status), minor)
    }
}

fn is_end(status: Status) -> bool {
    matches!(status, Status::Failed | Status::Expired)
}
