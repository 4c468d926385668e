//! Owns the page of a partner's file that was sent: how it is read, and the button that has it
//! compared.

use actix_web::http::header;
use actix_web::web::{Form, Path, Query};
use actix_web::{Error, HttpResponse};
use chrono::NaiveDate;
use maud::{Markup, html};
use payfold_api::call::Nothing;
use payfold_api::reconcile::{
    COMPARE_PREVIEWED, ComparePreviewed, LeftOutLines, PREVIEWED, PreviewState, RecordsPreview,
    RecordsSum, Ticket,
};
use payfold_report::money::major;
use payfold_report::text::{count, counted, isolated, shown, whole};
use payfold_schemas::finding::BookLine;
use payfold_schemas::run::RecordsFile;
use payfold_views::periods::PeriodRow;
use serde::Deserialize;

use crate::compare::{OfFile, RELOAD, path_of_file, shown_at};
use crate::field::{day_given, given};
use crate::table::{Head, table};
use crate::text::{moment, money};
use crate::visit::Visit;

/// The day that a file is to be compared with; empty is the day with the most of its entries.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct FileDay {
    day: String,
}

/// What a person sends to have the file compared.
#[derive(Deserialize)]
pub(crate) struct Comparing {
    post_token: String,
    day: String,
    /// The SHA-256 of the records that it may replace.
    #[serde(default)]
    replaces: String,
}

/// Shows how a file is read.
pub(crate) async fn show(
    visit: Visit,
    ticket: Path<String>,
    asked: Query<FileDay>,
) -> Result<HttpResponse, Error> {
    let asked = visit.selected(day_given(&asked.day))?;
    let state = visit.call(&PREVIEWED, &[&ticket], &Nothing {}).await?;
    match &state {
        PreviewState::Reading { lines } => {
            let mut response = visit.answer("Reading the file", &state, || {
                html! {
                    h1 { "Reading the file" }
                    p role="status" { (counted(*lines, "line")) " so far" }
                    p.hint { "This page follows it." }
                }
            });
            response.headers_mut().insert(header::REFRESH, RELOAD);
            Ok(response)
        }
        PreviewState::Refused { problem } => Ok(visit.answer("Not read", &state, || {
            html! {
                h1 { "Not read" }
                p.said role="alert" { (whole(problem)) }
                p { a href="/days" { "Back to the days" } }
            }
        })),
        PreviewState::Read { preview } => {
            let day = asked.or_else(|| preview.main_day().map(str::to_owned));
            let before = match &day {
                Some(day) => visit.last_run(preview.partner.clone(), day.clone()).await?,
                None => None,
            };
            let page = FilePage { visit: &visit, ticket: &ticket, preview, day, before };
            Ok(visit.answer(&shown(&preview.file.name), &state, || page.render()))
        }
    }
}

/// Has a file compared.
pub(crate) async fn compare(
    visit: Visit,
    ticket: Path<String>,
    form: Form<Comparing>,
) -> Result<HttpResponse, Error> {
    visit.assert_own_page(&form.post_token)?;
    let day = visit.selected(day_given(&form.day))?.unwrap_or_default();
    let replaces = given(&form.replaces, |text| text.parse().ok(), "a digest of records");
    let request = ComparePreviewed { day: day.clone(), replaces: visit.selected(replaces)? };
    let run = visit.call(&COMPARE_PREVIEWED, &[&ticket], &request).await?;
    let Ticket { ticket: run } = run;
    Ok(shown_at(&run, &OfFile { file: ticket.into_inner(), day }))
}

/// A file that was read, and the day it is to be compared with.
struct FilePage<'p> {
    visit: &'p Visit,
    ticket: &'p str,
    preview: &'p RecordsPreview,
    day: Option<String>,
    before: Option<PeriodRow>,
}

impl FilePage<'_> {
    fn path(&self) -> String {
        path_of_file(self.ticket, "")
    }

    fn render(&self) -> Markup {
        let RecordsPreview { partner, zone, file, left_out, .. } = self.preview;
        html! {
            p.over { "A file of " (partner) ", with days in " (zone) }
            h1 { (isolated(&file.name)) }
            (self.verdict())
            @if self.preview.trusted {
                (figures(file, left_out))
                (self.day())
            }
            p { a href="/days" { "Send another file" } }
            @if !file.bad_lines.is_empty() { (bad_lines(file)) }
            @if !self.preview.sums.is_empty() { (sums(self.preview)) }
            @if !self.preview.first.is_empty() { (first(&self.preview.first)) }
        }
    }

    /// Whether the file can be used, and why not.
    fn verdict(&self) -> Markup {
        let RecordsPreview { trusted, problems, file, .. } = self.preview;
        let (tone, verdict) = match (trusted, problems.is_empty(), file.entries) {
            (false, _, _) => ("bad", "This file can’t be used."),
            (true, false, _) => ("open", "A part of this file can’t be read."),
            (true, true, 0) => ("open", "This file lists no payment."),
            (true, true, _) => ("good", "Every line of this file can be read."),
        };
        html! {
            section.verdict.(tone) aria-label="What is so" {
                h2 { (verdict) }
                @for problem in problems { p { (whole(problem)) } }
                @if !trusted {
                    p {
                        "Nothing of it would be compared. Fetch it from the partner once more; if \
                         it is the same, its format has changed, and the profile has to follow."
                    }
                } @else if !problems.is_empty() {
                    p {
                        "It can be compared. What its other lines show counts; that something is \
                         missing does not, and the day can’t be closed."
                    }
                }
            }
        }
    }

    /// The day that it is to be compared with, and the choice of another.
    fn day(&self) -> Markup {
        let day = self.day.as_deref();
        html! {
            h2 { "Compare with the orders of " (day.unwrap_or("a day")) }
            @if let Some(day) = day { (self.of_day(day)) }
            form.filter method="get" action=(self.path()) {
                label {
                    @if day.is_some() { "Another day " } @else { "Day of the partner " }
                    input type="date" name="day" value=[day] required;
                }
                button type="submit" { "Choose" }
            }
        }
    }

    /// What the file has of a day, and the form that has it compared.
    fn of_day(&self, day: &str) -> Markup {
        let (entries, all) = (self.preview.entries_of(day), self.preview.file.entries);
        let distant =
            all - beside(day).map(|day| self.preview.entries_of(&day)).iter().sum::<u64>();
        html! {
            @if entries == 0 && self.preview.not_dated == 0 {
                p.said role="alert" {
                    "No entry of this file is of " (day) "."
                    @if self.preview.problems.is_empty() {
                        " Every payment of that day would be missing on the partner’s side."
                    }
                }
            } @else {
                p {
                    (counted(entries, "entry")) " of " (count(all)) " " (is_are(entries))
                    " of that day."
                }
                @if distant > 0 {
                    p.said role="alert" {
                        (counted(distant, "entry")) " " (is_are(distant)) " neither of that day \
                         nor of the days beside it: what they list becomes a finding."
                    }
                }
            }
            @if let Some(before) = &self.before { (self.before(before)) }
            @if self.visit.session.may(&COMPARE_PREVIEWED) { (self.comparing(day)) }
        }
    }

    /// What the day was compared with before.
    fn before(&self, before: &PeriodRow) -> Markup {
        let run = &before.run;
        html! {
            p {
                "That day was compared with "
                @if run.records.sha256 == self.preview.file.sha256 { "this very file" }
                @else { (isolated(&run.records.name)) }
                " on " (moment(run.started_at)) "."
                @if before.closed.is_some() {
                    " It is closed: what changes now shows as an adjustment."
                }
            }
        }
    }

    fn comparing(&self, day: &str) -> Markup {
        let session = &self.visit.session;
        html! {
            form method="post" action=(self.path()) {
                input type="hidden" name="post_token" value=(session.post_token);
                input type="hidden" name="day" value=(day);
                @if let Some(known) = self.replaced() {
                    p { label.choice {
                        input type="checkbox" name="replaces" value=(known.sha256) required;
                        " It replaces " (isolated(&known.name))
                        @if self.preview.problems.is_empty() {
                            ": payments that only that one lists become missing"
                        }
                    } }
                }
                p { button type="submit" { "Compare" } }
            }
        }
    }

    /// The records of the day that it would replace.
    fn replaced(&self) -> Option<&RecordsFile> {
        let run = &self.before.as_ref()?.run;
        run.is_replaced_by(&self.preview.file).then_some(&run.records)
    }
}

/// A day, and those before and after it.
fn beside(day: &str) -> [String; 3] {
    let date: Option<NaiveDate> = day.parse().ok();
    let text = |date: Option<NaiveDate>| date.map(|date| date.to_string()).unwrap_or_default();
    let (before, after) =
        (date.and_then(|date| date.pred_opt()), date.and_then(|date| date.succ_opt()));
    [day.to_owned(), text(before), text(after)]
}

fn is_are(number: u64) -> &'static str {
    if number == 1 { "is" } else { "are" }
}

fn figures(file: &RecordsFile, left_out: &[LeftOutLines]) -> Markup {
    html! {
        dl.facts {
            div { dt { "Lines" } dd { (count(file.lines)) } }
            div { dt { "Entries" } dd { (count(file.entries)) } }
            div { dt { "Unreadable" } dd { (count(file.bad)) } }
            div {
                dt { "Left out" }
                dd {
                    (count(file.ignored))
                    @for LeftOutLines { why, lines } in left_out {
                        small { (isolated(why)) ": " (count(*lines)) }
                    }
                }
            }
        }
    }
}

/// The first lines that can't be read.
pub(crate) fn bad_lines(file: &RecordsFile) -> Markup {
    html! {
        h2 { "Lines that can’t be read" }
        @if file.bad as usize > file.bad_lines.len() {
            p { "The first " (file.bad_lines.len()) " of " (count(file.bad)) "." }
        }
        ul.flags {
            @for bad in &file.bad_lines {
                li { "line " (bad.line) ": " (isolated(&bad.problem)) }
            }
        }
    }
}

fn sums(preview: &RecordsPreview) -> Markup {
    let heads =
        [Head::Text("Day"), Head::Text("Kind"), Head::Number("Entries"), Head::Number("Sum")];
    let rows = html! {
        @for RecordsSum { day, status, currency, sum } in &preview.sums {
            tr {
                th scope="row" { (day) }
                td { (status) " " (currency) }
                td.num { (count(sum.count)) }
                td.num { (major(sum.amount.into(), *currency)) }
            }
        }
    };
    html! {
        h2 { "Sums" }
        (table("Sums", &heads, &rows))
        @if preview.not_summed > 0 {
            p {
                (counted(preview.not_summed, "entry")) " " (is_are(preview.not_summed))
                " in none of these sums."
            }
        }
    }
}

fn first(lines: &[BookLine]) -> Markup {
    let heads = [
        Head::Number("Line"),
        Head::Text("Account"),
        Head::Text("Order"),
        Head::Text("Reference"),
        Head::Text("Status"),
        Head::Number("Amount"),
        Head::Text("Booked"),
    ];
    let rows = html! {
        @for line in lines {
            tr {
                td.num { (line.line) }
                td { (isolated(line.merchant_code.as_str())) }
                td { @if let Some(order) = &line.order_id { (isolated(order.as_str())) } }
                td { @if let Some(known) = &line.provider_ref { (isolated(known.as_str())) } }
                td { (line.status) }
                td.num { (money(line.amount.minor(), Some(line.currency))) }
                td { (moment(line.at)) }
            }
        }
    };
    html! {
        h2 { "The first entries as they are read" }
        (table("The first entries", &heads, &rows))
    }
}
