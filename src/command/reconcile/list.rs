//! `payfold reconcile findings|totals|runs`: the listings.

use payfold_engines::clock::{Clock, SystemClock};
use payfold_report::values::OurCurrencies;
use payfold_schemas::finding::Code;
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::ipn::Status;
use payfold_schemas::money::Currency;
use payfold_schemas::run::{ControlTotal, RunEnded, Sum};
use payfold_views::findings::{FINDINGS_MAX, FindingPage, FindingRow, ListFindings, ListedFinding};
use payfold_views::periods::{ListPeriods, PeriodRow};
use serde::Serialize;
use serde_json::Value;

use crate::args::{DayArgs, FindingsArgs};
use crate::command::pages;
use crate::error::Fixable;
use crate::listing::{self, Cells, Row};
use crate::reads::Reads;

/// A control total of a day.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TotalRow<'a> {
    partner: &'a PartnerCode,
    day: &'a str,
    currency: Currency,
    exponent: u16,
    status: Status,
    ours: SumCell,
    partners: SumCell,
    difference_minor: i64,
    run: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SumCell {
    count: u64,
    amount_minor: i64,
}

impl<'a> TotalRow<'a> {
    fn of(run: &'a RunEnded, total: &'a ControlTotal) -> Self {
        let sum = |sum: &Sum| SumCell { count: sum.count, amount_minor: sum.amount };
        Self {
            partner: &run.partner,
            day: &total.day,
            currency: total.currency,
            exponent: total.currency.exponent(),
            status: total.status,
            ours: sum(&total.ours),
            partners: sum(&total.partners),
            difference_minor: total.difference(),
            run: &run.run,
        }
    }
}

impl Row for TotalRow<'_> {
    /// Amounts are in major units of the currency.
    const COLUMNS: &'static str = "partner day currency status ours our_count:ours.count partners \
        their_count:partners.count difference run";
    /// Each amount has a column with its minor units.
    const CSV_COLUMNS: &'static str = "partner day currency status ours \
        ours_minor:ours.amountMinor our_count:ours.count partners \
        partners_minor:partners.amountMinor their_count:partners.count difference difference_minor \
        run";

    fn shown(&self, column: &str, cells: Cells) -> Option<Value> {
        let write = cells.money();
        let minor = match column {
            "ours" => self.ours.amount_minor,
            "partners" => self.partners.amount_minor,
            "difference" => self.difference_minor,
            _ => return None,
        };
        Some(write(minor.into(), self.currency).into())
    }
}

/// Prints findings by day and severity, with the status of the queries about their orders.
pub(crate) async fn findings(reads: &Reads<'_>, args: &FindingsArgs) -> anyhow::Result<()> {
    let asked = ListFindings {
        open: args.open,
        partner: args.partner.as_deref().map(PartnerCode::parse).transpose()?,
        day: args.day.map(|day| day.to_string()),
        code: args.code.as_deref().map(code).transpose()?,
        order: args.order.clone(),
        ..Default::default()
    };
    let (mut shown, beside) = (Vec::new(), std::cell::RefCell::new(Vec::new()));
    let read = async |limit, after| {
        let asked = ListFindings { limit: Some(limit), after, ..asked.clone() };
        let FindingPage { findings, currencies, next } = reads.findings(&asked).await?;
        beside.borrow_mut().extend(currencies);
        Ok((findings, next))
    };
    let take = |rows: Vec<FindingRow>| {
        shown.extend(rows);
        Ok(())
    };
    pages::read(&args.page, FINDINGS_MAX, read, take).await?;
    let place = |row: &FindingRow| (std::cmp::Reverse(row.finding.severity), row.finding.code);
    shown.sort_by(|a, b| a.finding.day.cmp(&b.finding.day).then_with(|| place(a).cmp(&place(b))));
    let beside = beside.into_inner();
    let currencies = OurCurrencies::new(&beside);
    let now = SystemClock.now();
    let rows = shown.iter().map(|row| ListedFinding { row, now, currencies: &currencies });
    listing::print(args.output.output, rows)
}

fn code(word: &str) -> anyhow::Result<Code> {
    Code::parse(word).ok_or_else(|| {
        let codes: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        Fixable::error(
            format!("{word} is not a code of findings"),
            format!("use one of {}", codes.join(", ")),
        )
    })
}

/// The compared days that the arguments select.
async fn periods(reads: &Reads<'_>, args: &DayArgs) -> anyhow::Result<Vec<PeriodRow>> {
    let partner = args.partner.as_deref().map(PartnerCode::parse).transpose()?;
    let day = args.day.map(|day| day.to_string());
    let asked = ListPeriods { partner, day, ..Default::default() };
    Ok(reads.periods(&asked).await?.periods)
}

/// Prints the control totals of the last run of each day.
pub(crate) async fn totals(reads: &Reads<'_>, args: &DayArgs) -> anyhow::Result<()> {
    let periods = periods(reads, args).await?;
    let runs = periods.iter().map(|period| &period.run);
    let totals = runs.flat_map(|run| run.totals.iter().map(move |total| TotalRow::of(run, total)));
    listing::print(args.output.output, totals)
}

/// Prints the last run of each day, with the current number of open and decided findings.
pub(crate) async fn runs(reads: &Reads<'_>, args: &DayArgs) -> anyhow::Result<()> {
    listing::print(args.output.output, periods(reads, args).await?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn totals_are_written_in_major_units() {
        let sample: Value =
            serde_json::from_str(include_str!("../../../report/src/tests/sample.json")).unwrap();
        let run: RunEnded = serde_json::from_value(sample["ended"].clone()).unwrap();
        // 61 payments of each side, ours more by 0.50 USD.
        let total = TotalRow::of(&run, &run.totals[1]);
        let shown = |column| total.shown(column, Cells::Csv).unwrap();
        assert_eq!((shown("ours"), shown("partners")), ("12049.99".into(), "12049.49".into()));
        assert_eq!((shown("difference"), total.difference_minor), ("0.50".into(), 50));
        assert_eq!(total.shown("ours", Cells::Table).unwrap(), "12,049.99");
        assert_eq!(json!(total)["ours"], json!({ "count": 61, "amountMinor": 1_204_999 }));
    }
}
