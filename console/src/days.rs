//! Owns the days of partners: which were compared, what is open on each, and which are missing.

use std::collections::BTreeMap;

use actix_web::web::Query;
use actix_web::{Error, HttpResponse};
use chrono::{NaiveDate, TimeDelta};
use maud::{Markup, html};
use payfold_api::reads::PERIODS;
use payfold_api::reconcile::COMPARE;
use payfold_report::text::{count, isolated};
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::run::RunResult;
use payfold_schemas::time::Time;
use payfold_views::periods::{ListPeriods, PeriodRow, Periods};
use serde::Deserialize;

use crate::compare;
use crate::failure;
use crate::field::given;
use crate::table::{Head, table};
use crate::visit::Visit;

/// The days of a partner that are shown, the latest.
const DAYS_MAX: usize = 62;
const DAY_NANOS: i64 = 86_400_000_000_000;

/// The partner that is shown; every one if it is empty.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct DaySelection {
    partner: String,
}

/// Lists the days of each partner, the latest first.
pub(crate) async fn list(
    visit: Visit,
    selection: Query<DaySelection>,
) -> Result<HttpResponse, Error> {
    let partner = given(&selection.partner, |text| PartnerCode::parse(text).ok(), "a partner")
        .map_err(|problem| failure::unfit(&visit.request, &problem.to_string()))?;
    let asked = ListPeriods { partner, ..ListPeriods::default() };
    let periods = visit.call(&PERIODS, &[], &asked).await?;
    Ok(visit.answer("Days", &periods, || render(&visit, &periods)))
}

fn render(visit: &Visit, periods: &Periods) -> Markup {
    let mut partners: BTreeMap<&str, Vec<&PeriodRow>> = BTreeMap::new();
    for row in &periods.periods {
        partners.entry(row.run.partner.as_str()).or_default().push(row);
    }
    html! {
        h1 { "Days" }
        @if partners.is_empty() {
            p { "No day was compared yet. Compare the file of a partner with the orders below." }
        }
        @for (partner, rows) in &partners {
            h2 { (partner) }
            (days_of(partner, rows, (visit.console.now)()))
        }
        @if visit.session.may(&COMPARE) {
            (compare::fields(&visit.session, "", ""))
        }
    }
}

/// A day in the list.
enum Listed<'p> {
    Compared(&'p PeriodRow),
    /// Not compared, from the first to the last of them.
    Missing(NaiveDate, NaiveDate),
}

fn days_of(partner: &str, rows: &[&PeriodRow], now: Time) -> Markup {
    let heads = [
        Head::Text("Day"),
        Head::Text("Standing"),
        Head::Number("Open"),
        Head::Number("Decided"),
        Head::Number("Entries"),
        Head::Text("Records"),
    ];
    let rows = html! {
        @for listed in days(rows, now).into_iter().rev().take(DAYS_MAX) {
            @match listed {
                Listed::Compared(row) => (compared(row)),
                Listed::Missing(first, last) => tr {
                    th.id scope="row" { (first) @if first < last { " to " (last) } }
                    td colspan="5" { span.badge { "not compared yet" } }
                },
            }
        }
    };
    table(&format!("Days of {partner}"), &heads, &rows)
}

/// The days from the first that was compared to the last that is over.
fn days<'p>(rows: &[&'p PeriodRow], now: Time) -> Vec<Listed<'p>> {
    let mut listed = Vec::new();
    let mut expected: Option<NaiveDate> = None;
    for row in rows {
        let day = row.run.day.parse::<NaiveDate>().ok();
        let before = day.and_then(|day| day.pred_opt());
        if let (Some(first), Some(last)) = (expected, before)
            && first <= last
        {
            listed.push(Listed::Missing(first, last));
        }
        listed.push(Listed::Compared(row));
        expected = day.and_then(|day| day.succ_opt());
    }
    let over = rows.last().map_or(0, |row| now.nanos_since(row.run.until) / DAY_NANOS);
    let last = expected.and_then(|first| first.checked_add_signed(TimeDelta::try_days(over - 1)?));
    if let (Some(first), Some(last)) = (expected, last)
        && first <= last
    {
        listed.push(Listed::Missing(first, last));
    }
    listed
}

fn compared(row: &PeriodRow) -> Markup {
    let run = &row.run;
    html! {
        tr {
            th.id scope="row" { a href={ "/days/" (run.partner) "/" (run.day) } { (run.day) } }
            td { (standing(row)) }
            td.num { (count(row.now.open)) }
            td.num { (count(row.now.decided)) }
            td.num { (count(run.records.entries)) }
            td { (isolated(&run.records.name)) }
        }
    }
}

/// How far a day has come.
pub(crate) fn standing(row: &PeriodRow) -> Markup {
    html! {
        @if row.run.result == RunResult::Incomplete {
            span.badge.critical { "incomplete" }
        } @else if row.now.open > 0 {
            span.badge.high { "open" }
        } @else if row.closed.is_some() && row.run.adjusts.is_some() {
            span.badge.high { "closed, changed since" }
        } @else if row.closed.is_some() {
            span.badge.paid { "closed" }
        } @else {
            span.badge.paid { "agreed" }
        }
    }
}

#[cfg(test)]
mod tests {
    use payfold_views::periods::PeriodNow;

    use super::*;

    /// A compared day in UTC.
    fn row(day: &str, until: &str) -> PeriodRow {
        let sample: serde_json::Value =
            serde_json::from_str(include_str!("../../report/src/tests/sample.json")).unwrap();
        let mut run: payfold_schemas::run::RunEnded =
            serde_json::from_value(sample["ended"].clone()).unwrap();
        (run.day, run.until) = (day.to_owned(), Time::parse(until).unwrap());
        PeriodRow { run, now: PeriodNow { open: 0, decided: 0 }, closed: None }
    }

    #[test]
    fn days_that_were_not_compared_are_listed() {
        let rows =
            [row("2026-02-27", "2026-02-28T00:00:00Z"), row("2026-03-02", "2026-03-03T00:00:00Z")];
        let rows: Vec<_> = rows.iter().collect();
        for (now, after) in [
            ("2026-03-03T12:00:00Z", &[][..]),
            ("2026-03-05T12:00:00Z", &["2026-03-03 2026-03-04"]),
        ] {
            let listed = days(&rows, Time::parse(now).unwrap());
            let missing: Vec<_> = (listed.iter())
                .filter_map(|listed| match listed {
                    Listed::Missing(first, last) => Some(format!("{first} {last}")),
                    Listed::Compared(_) => None,
                })
                .collect();
            assert_eq!(missing, [&["2026-02-28 2026-03-01"], after].concat(), "{now}");
            assert_eq!(listed.len(), missing.len() + rows.len());
        }
    }
}
