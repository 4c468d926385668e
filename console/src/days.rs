//! Owns the days of partners: which were compared, what is open on each, and which are missing.

use std::collections::{BTreeMap, BTreeSet};

use actix_web::web::Query;
use actix_web::{Error, HttpResponse};
use chrono::{NaiveDate, TimeDelta};
use maud::{Markup, html};
use payfold_api::accounts::ACCOUNTS;
use payfold_api::call::Nothing;
use payfold_api::reads::PERIODS;
use payfold_api::reconcile::PREVIEW;
use payfold_report::text::{count, isolated};
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::run::RunResult;
use payfold_schemas::time::Time;
use payfold_views::periods::{ListPeriods, PeriodRow, Periods};
use serde::{Deserialize, Serialize};

use crate::compare;
use crate::csv_file::{self, Lines};
use crate::field::{UnfitField, day_given, partner_given};
use crate::redirect::address;
use crate::table::{Head, table};
use crate::visit::Visit;

/// The path of the list as a file.
pub(crate) const FILE: &str = "/days.csv";
/// The compared days of a partner on a page.
const PAGE_DAYS: usize = 62;
const DAY_NANOS: i64 = 86_400_000_000_000;

/// The partner that is shown, and only days before this one. An empty text filters nothing.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct DaySelection {
    partner: String,
    before: String,
}

impl DaySelection {
    fn is_first_page(&self) -> bool {
        self.before.is_empty()
    }

    /// The selection as the admin listener takes it. Errors: what is wrong with which field.
    fn parse(&self) -> Result<ListPeriods, UnfitField> {
        Ok(ListPeriods {
            partner: partner_given(&self.partner)?,
            before: day_given(&self.before)?,
            limit: Some(PAGE_DAYS + 1),
            ..ListPeriods::default()
        })
    }
}

impl Visit {
    /// The last run of a day, if it was compared. Errors: the page with why there is no answer.
    pub(crate) async fn last_run(
        &self,
        partner: PartnerCode,
        day: String,
    ) -> Result<Option<PeriodRow>, Error> {
        let (partner, day) = (Some(partner), Some(day));
        let asked = ListPeriods { partner, day, ..ListPeriods::default() };
        Ok(self.call(&PERIODS, &[], &asked).await?.periods.pop())
    }
}

/// Lists the days of each partner, the latest first.
pub(crate) async fn list(
    visit: Visit,
    selection: Query<DaySelection>,
) -> Result<HttpResponse, Error> {
    let asked = visit.selected(selection.parse())?;
    let periods = visit.call(&PERIODS, &[], &asked).await?;
    let accounts = match selection.is_first_page() && visit.session.may(&PREVIEW) {
        // Without an answer the partner can be written.
        true => visit.client().call(&ACCOUNTS, &[], &Nothing {}).await.map(|known| known.accounts),
        false => Ok(Vec::new()),
    };
    let accounts = accounts.unwrap_or_default();
    let codes: BTreeSet<_> = accounts.iter().map(|account| account.partner.as_str()).collect();
    let codes: Vec<_> = codes.into_iter().collect();
    Ok(visit.answer("Days", &periods, || render(&visit, &selection, &periods, &codes)))
}

/// Gives the days away, as a file.
pub(crate) async fn file(
    visit: Visit,
    selection: Query<DaySelection>,
) -> Result<HttpResponse, Error> {
    let asked = ListPeriods { limit: None, before: None, ..visit.selected(selection.parse())? };
    csv_file::answer(visit, "days", async move |visit, _| {
        Lines::of(visit.call(&PERIODS, &[], &asked).await?.periods, None)
    })
    .await
}

fn render(visit: &Visit, selection: &DaySelection, periods: &Periods, codes: &[&str]) -> Markup {
    let is_first_page = selection.is_first_page();
    let mut partners: BTreeMap<&str, Vec<&PeriodRow>> = BTreeMap::new();
    for row in &periods.periods {
        partners.entry(row.run.partner.as_str()).or_default().push(row);
    }
    html! {
        h1 { "Days" }
        @if partners.is_empty() {
            p {
                @if is_first_page {
                    "No day was compared yet."
                    @if visit.session.may(&PREVIEW) {
                        " Compare the file of a partner with the orders below."
                    }
                } @else {
                    "No day before " (selection.before) " was compared."
                }
            }
        }
        @for (partner, rows) in &partners {
            h2 { (partner) }
            (days_of(partner, rows, selection, (visit.console.now)()))
        }
        @if !partners.is_empty() {
            @let all = DaySelection { partner: selection.partner.clone(), before: String::new() };
            (csv_file::link(&address(FILE, &all)))
        }
        @if is_first_page && visit.session.may(&PREVIEW) {
            (compare::fields(&visit.session, codes, ""))
        }
    }
}

/// A day in the list.
enum Listed<'p> {
    Compared(&'p PeriodRow),
    /// Not compared, from the first to the last of them.
    Missing(NaiveDate, NaiveDate),
}

fn days_of(partner: &str, rows: &[&PeriodRow], selection: &DaySelection, now: Time) -> Markup {
    let shown = &rows[rows.len().saturating_sub(PAGE_DAYS)..];
    let has_earlier = shown.len() < rows.len();
    let first_open = first_open(shown, now);
    let before = selection.before.parse().map_or(first_open, |before| first_open.min(before));
    let heads = [
        Head::Text("Day"),
        Head::Text("Standing"),
        Head::Number("Open"),
        Head::Number("Decided"),
        Head::Number("Entries"),
        Head::Text("Records"),
    ];
    let rows = html! {
        @for listed in days(shown, before).into_iter().rev() {
            @match listed {
                Listed::Compared(row) => (compared(row)),
                Listed::Missing(first, last) => tr {
                    th.id scope="row" { (first) @if first < last { " to " (last) } }
                    td colspan="5" { span.badge { "not compared yet" } }
                },
            }
        }
    };
    html! {
        (table(&format!("Days of {partner}"), &heads, &rows))
        @if let (true, Some(first)) = (has_earlier, shown.first()) {
            p { a href=(earlier(first)) { "Earlier days of " (partner) } }
        }
    }
}

/// The address of the days of a partner before this one.
fn earlier(row: &PeriodRow) -> String {
    let (partner, before) = (row.run.partner.to_string(), row.run.day.clone());
    address("/days", &DaySelection { partner, before })
}

/// The first day that is not over, or the day after the last that was compared.
fn first_open(rows: &[&PeriodRow], now: Time) -> NaiveDate {
    let Some(run) = rows.last().map(|row| &row.run) else { return NaiveDate::MIN };
    let day = run.day.parse().unwrap_or(NaiveDate::MIN);
    let days_over = (now.nanos_since(run.until) / DAY_NANOS).max(0);
    let days = TimeDelta::try_days(days_over + 1).unwrap_or_default();
    day.checked_add_signed(days).unwrap_or(day)
}

/// The days from the first of these rows up to the day `before`.
fn days<'p>(rows: &[&'p PeriodRow], before: NaiveDate) -> Vec<Listed<'p>> {
    let mut listed = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        listed.push(Listed::Compared(row));
        let next = rows.get(at + 1).map_or(Some(before), |next| next.run.day.parse().ok());
        let day: Option<NaiveDate> = row.run.day.parse().ok();
        let missing = (day.and_then(|day| day.succ_opt()), next.and_then(|day| day.pred_opt()));
        if let (Some(first), Some(last)) = missing
            && first <= last
        {
            listed.push(Listed::Missing(first, last));
        }
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
            span.badge.paid { @if row.now.decided > 0 { "all decided" } @else { "agreed" } }
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
        PeriodRow { run, now: PeriodNow::default(), closed: None }
    }

    #[test]
    fn days_that_were_not_compared_are_listed() {
        let rows =
            [row("2026-02-27", "2026-02-28T00:00:00Z"), row("2026-03-02", "2026-03-03T00:00:00Z")];
        let rows: Vec<_> = rows.iter().collect();
        for (now, after) in [
            ("2026-03-02T12:00:00Z", &[][..]),
            ("2026-03-03T12:00:00Z", &[][..]),
            ("2026-03-05T12:00:00Z", &["2026-03-03 2026-03-04"]),
        ] {
            let listed = days(&rows, first_open(&rows, Time::parse(now).unwrap()));
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

    #[test]
    fn earlier_days_are_on_another_page() {
        let first = NaiveDate::from_ymd_opt(2026, 1, 1).unwrap();
        let day = |at: usize| first + TimeDelta::try_days(at.try_into().unwrap()).unwrap();
        let all: Vec<_> = (0..=PAGE_DAYS)
            .map(|at| row(&day(at).to_string(), &format!("{}T00:00:00Z", day(at + 1))))
            .collect();
        let all: Vec<_> = all.iter().collect();
        let now = Time::parse("2026-04-01T00:00:00Z").unwrap();
        let page = |rows: &[&PeriodRow], before: &str| {
            let selection = DaySelection { before: before.to_owned(), ..Default::default() };
            days_of("p", rows, &selection, now).into_string()
        };
        let last = page(&all, "");
        assert!(
            last.contains("?before=2026-01-02&amp;partner=mygateway\">Earlier days of p"),
            "{last}"
        );
        assert!(last.contains("2026-03-05 to 2026-03-31"), "{last}");
        assert!(!last.contains(">2026-01-01<"), "{last}");
        let earlier = page(&all[..1], "2026-01-02");
        assert!(earlier.contains(">2026-01-01<"), "{earlier}");
        assert!(!earlier.contains("Earlier days") && !earlier.contains(" to "), "{earlier}");
    }
}
