//! Owns what explains the difference of a control total: what each finding that stands adds to ours less theirs. Pure.
//! What no finding adds is told as a rest, never spread over the findings.

use std::collections::{BTreeMap, HashMap};

use payfold_schemas::finding::{BookLine, Code, FindingChanged, FindingStatus};
use payfold_schemas::ipn::Status;
use payfold_schemas::money::Currency;

use super::Report;
use super::values::{Currencies, line_of, told};
use super::when::Zone;

/// Day, currency and status (SUCCESS or REFUNDED), as a control total has them.
pub(super) type Key = (String, Currency, Status);

/// Findings of one kind: how many, and what they add.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) findings: u64,
    pub(super) minor: i128,
}

/// What findings add to each total, by kind.
pub(super) type Shares = HashMap<Key, BTreeMap<Code, Share>>;

/// What the findings of a report add.
pub(super) fn shares(report: &Report<'_>) -> Shares {
    let currencies = Currencies::of(report.findings);
    let amounts = foreign_amounts(report.findings, &currencies);
    let terms = Terms { day: &report.ended.day, zone: report.zone(), currencies, amounts };
    let mut shares = Shares::new();
    for finding in report.findings.iter().filter(|f| f.status != FindingStatus::Cleared) {
        let mut of_finding: HashMap<Key, i128> = HashMap::new();
        for (key, minor) in terms.of(finding) {
            *of_finding.entry(key).or_default() += minor;
        }
        for (key, minor) in of_finding {
            let share = shares.entry(key).or_default().entry(finding.code).or_default();
            share.findings += 1;
            share.minor += minor;
        }
    }
    shares
}

/// Our amounts in currencies that differ, by the id of what they were told with.
fn foreign_amounts<'a>(
    findings: &'a [FindingChanged],
    currencies: &Currencies<'a>,
) -> HashMap<(Option<&'a str>, Option<&'a str>), i128> {
    let amounts = findings.iter().filter(|finding| finding.code == Code::AmountDiffers);
    amounts
        .filter(|finding| currencies.other(finding).is_some())
        .filter_map(|finding| Some((payment(finding), finding.ours.value.parse().ok()?)))
        .collect()
}

fn payment(finding: &FindingChanged) -> (Option<&str>, Option<&str>) {
    let order = finding.order_id.as_ref().map(|order| order.as_str());
    (order, finding.payment_ref.as_ref().map(|provider_ref| provider_ref.as_str()))
}

struct Terms<'a> {
    day: &'a str,
    zone: Zone,
    currencies: Currencies<'a>,
    amounts: HashMap<(Option<&'a str>, Option<&'a str>), i128>,
}

impl<'a> Terms<'a> {
    /// What a finding adds, ours above zero and theirs below. Nothing where both sides have the money.
    fn of(&self, finding: &'a FindingChanged) -> Vec<(Key, i128)> {
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
                let ours = told(&finding.ours.value);
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

    /// Our side of a payment whose money differs. Where amount and currency differ, the currency's finding adds both.
    fn our_money(&self, finding: &'a FindingChanged, line: &BookLine) -> Option<(Currency, i128)> {
        let Some(currency) = self.currencies.other(finding) else {
            let minor = finding.ours.value.parse().ok()?;
            return Some((line.currency, minor));
        };
        let amount = self.amounts.get(&payment(finding)).copied();
        let minor = amount.unwrap_or_else(|| i128::from(line.amount.minor()));
        (finding.code == Code::CurrencyDiffers).then_some((currency, minor))
    }

    fn ours(&self, currency: Currency, status: Status, minor: i128) -> (Key, i128) {
        ((self.day.to_owned(), currency, status), minor)
    }
}

fn is_end(status: Status) -> bool {
    matches!(status, Status::Failed | Status::Expired)
}
