//! Owns the page of a day that was compared: what its last run found, its totals, and what is done
//! with it: look through its findings, compare it again, close it, take the report away.

use std::collections::BTreeMap;

use actix_web::http::header::ContentDisposition;
use actix_web::web::{Form, Path};
use actix_web::{Error, HttpResponse};
use maud::{Markup, html};
use payfold_api::call::Nothing;
use payfold_api::reads::{FINDINGS, NOTICES};
use payfold_api::reconcile::{CLOSE, COMPARE};
use payfold_report::money::{list_sums, major, signed};
use payfold_report::text::{count, counted, isolated, whole};
use payfold_report::{Report, render_page};
use payfold_schemas::finding::FindingChanged;
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::ipn::Status;
use payfold_schemas::money::Currency;
use payfold_schemas::run::{ControlTotal, PeriodClosed, RunEnded, RunResult, Sum};
use payfold_views::findings::ListFindings;
use payfold_views::periods::{PeriodNow, PeriodRow};
use payfold_views::quarantine::{ListNotices, NoticePage};
use serde::Deserialize;

use crate::compare;
use crate::days::standing;
use crate::failure;
use crate::field::day_of;
use crate::preview::bad_lines;
use crate::redirect::{self, address};
use crate::session::Session;
use crate::table::{Head, table};
use crate::text::moment;
use crate::visit::Visit;

/// The path of a day's page.
#[derive(Debug, Deserialize)]
pub(crate) struct DayPath {
    partner: String,
    day: String,
}

impl DayPath {
    fn address(&self) -> String {
        format!("/days/{}/{}", self.partner, self.day)
    }
}

impl Visit {
    /// The last run of a day. Errors: the page that says that there is none, or why there is no
    /// answer.
    async fn period(&self, path: &DayPath) -> Result<PeriodRow, Error> {
        let nowhere = || {
            let detail = format!("No records of {} of {} were compared.", path.partner, path.day);
            failure::missing(&self.request, &detail)
        };
        let partner = PartnerCode::parse(&path.partner).map_err(|_| nowhere())?;
        let day = day_of(&path.day).ok_or_else(nowhere)?;
        self.last_run(partner, day).await?.ok_or_else(nowhere)
    }

    /// What is said of the partner's notices in quarantine before a day is closed.
    async fn undecided_notices(&self, run: &RunEnded) -> Option<&'static str> {
        let partner = Some(run.partner.to_string());
        let asked = ListNotices { partner, open: true, limit: Some(1), ..Default::default() };
        match self.client().call(&NOTICES, &[], &asked).await {
            Ok(page) if !page.notices.is_empty() => {
                Some("Signed notices of this partner are in quarantine, and undecided:")
            }
            Ok(NoticePage { next: None, .. }) => None,
            Ok(_) | Err(_) => {
                Some("Whether signed notices of this partner are in quarantine is not known:")
            }
        }
    }

    /// Every finding of a day.
    async fn findings_of(&self, run: &RunEnded) -> Result<Vec<FindingChanged>, Error> {
        let (partner, day) = (Some(run.partner.clone()), Some(run.day.clone()));
        let mut asked = ListFindings { partner, day, ..ListFindings::default() };
        let mut findings = Vec::new();
        loop {
            let page = self.call(&FINDINGS, &[], &asked).await?;
            findings.extend(page.findings.into_iter().map(|row| row.finding));
            asked.after = page.next;
            if asked.after.is_none() {
                return Ok(findings);
            }
        }
    }
}

/// Shows a day.
pub(crate) async fn show(visit: Visit, path: Path<DayPath>) -> Result<HttpResponse, Error> {
    let period = visit.period(&path).await?;
    let quarantine = match can_be_closed(&period) && visit.session.may(&CLOSE) {
        true => visit.undecided_notices(&period.run).await,
        false => None,
    };
    let title = format!("{} of {}", path.day, path.partner);
    let content = DayContent { period: &period, quarantine };
    Ok(visit.answer(&title, &period, || content.render(&visit.session)))
}

/// What the page of a day shows.
struct DayContent<'c> {
    period: &'c PeriodRow,
    /// What is said of quarantine before the day is closed.
    quarantine: Option<&'static str>,
}

/// Gives the day's report away, as a file.
pub(crate) async fn report(visit: Visit, path: Path<DayPath>) -> Result<HttpResponse, Error> {
    let PeriodRow { run, closed, .. } = visit.period(&path).await?;
    let findings = visit.findings_of(&run).await?;
    let now = (visit.console.now)();
    let report = Report { ended: &run, findings: &findings, closed: closed.as_ref(), now };
    let name = format!("report-{}-{}.html", run.partner, run.day);
    Ok(HttpResponse::Ok()
        .content_type("text/html; charset=utf-8")
        .insert_header(ContentDisposition::attachment(name))
        .body(render_page(&report)))
}

/// What a person sends to close a day.
#[derive(Deserialize)]
pub(crate) struct Closing {
    post_token: String,
    /// Ticked by a person who knows that this can't be taken back.
    #[serde(default)]
    for_good: String,
}

/// Closes a day. If it can't be closed, its page says why.
pub(crate) async fn close(
    visit: Visit,
    path: Path<DayPath>,
    form: Form<Closing>,
) -> Result<HttpResponse, Error> {
    visit.assert_own_page(&form.post_token)?;
    if form.for_good.is_empty() {
        let detail = "Tick that the day is closed for good: this can't be taken back.";
        return Err(failure::unfit(&visit.request, detail));
    }
    visit.call(&CLOSE, &[&path.partner, &path.day], &Nothing {}).await?;
    Ok(redirect::to(path.address()))
}

impl DayContent<'_> {
    fn render(&self, session: &Session) -> Markup {
        let PeriodRow { run, closed, .. } = self.period;
        let path = DayPath { partner: run.partner.to_string(), day: run.day.clone() };
        html! {
            p.over { (run.partner) ", a day in " (run.zone) }
            h1 { (run.day) " " (standing(self.period)) }
            (verdict(self.period))
            (figures(run))
            @if !run.records.bad_lines.is_empty() { (bad_lines(&run.records)) }
            h2 { "Control totals" }
            @if run.totals.is_empty() { p { "No money moved on either side." } }
            @else { (totals(&run.totals)) }
            p { a href={ (path.address()) "/report" } { "The whole report, as a file" } }
            @if session.may(&COMPARE) {
                (compare::fields(session, &[run.partner.as_str()], &run.day))
                @if closed.is_some() {
                    p.hint { "What is sealed stays; what changes shows as an adjustment." }
                }
            }
            @if session.may(&CLOSE) && closed.is_none() { (self.closing(&path, session)) }
        }
    }

    /// The form that closes the day, once nothing is open.
    fn closing(&self, path: &DayPath, session: &Session) -> Markup {
        html! {
            h2 { "Close" }
            p.hint {
                "A digest seals the totals and findings of a day that is over and has nothing \
                 open. What changes later shows as an adjustment."
            }
            @if let Some(said) = self.quarantine {
                p.said {
                    (said) " "
                    a href=(address("/quarantine", &BTreeMap::from([("partner", &path.partner)]))) {
                        "look at them"
                    }
                    " before you close the day."
                }
            }
            @if can_be_closed(self.period) {
                form method="post" action={ (path.address()) "/close" } {
                    input type="hidden" name="post_token" value=(session.post_token);
                    label.choice {
                        input type="checkbox" name="for_good" value="yes" required;
                        " The day is closed for good: this can't be taken back"
                    }
                    button type="submit" { "Close the day" }
                }
            } @else {
                p { "It can be closed once all of it was compared and every finding is decided." }
            }
        }
    }
}

/// Whether a day can be closed as far as is known here: nothing of it is open.
fn can_be_closed(period: &PeriodRow) -> bool {
    let is_whole = period.run.result == RunResult::Complete && period.now.open == 0;
    is_whole && period.closed.is_none()
}

/// What is so, and where to go on.
fn verdict(period: &PeriodRow) -> Markup {
    let PeriodRow { run, now, closed } = period;
    let tone = match (run.result, now.open) {
        (RunResult::Incomplete, _) => "bad",
        (RunResult::Complete, 0) => "good",
        (RunResult::Complete, _) => "open",
    };
    let of_partner = BTreeMap::from([("partner", run.partner.as_str())]);
    let mut of_day = BTreeMap::from([("partner", run.partner.as_str()), ("day", &run.day)]);
    if now.open == 0 {
        of_day.insert("status", "all");
    }
    html! {
        section.verdict.(tone) aria-label="What is so" {
            h2 { (sentence(period)) }
            @for problem in &run.problems { p { (whole(problem)) } }
            @if run.findings.open_of_other_days > 0 {
                p {
                    "This run opened " (counted(run.findings.open_of_other_days, "finding"))
                    " of other days: "
                    a href=(address("/findings", &of_partner)) { "findings of the partner" }
                }
            }
            @if run.result == RunResult::Incomplete {
                p {
                    "Fetch the partner's file once more, or mend what is named here, and compare \
                     it below."
                }
            }
            p {
                a href=(address("/findings", &of_day)) { "Findings of the day" }
                @if now.decided > 0 { "; " (count(now.decided)) " decided" }
            }
            (risks(now))
            @if let Some(closed) = closed { (sealed(closed, run)) }
        }
    }
}

/// The money at risk by the findings of the day, and what waits for a second person.
fn risks(now: &PeriodNow) -> Markup {
    let sums = |minor: &BTreeMap<Currency, i64>| {
        list_sums(&minor.iter().map(|(currency, minor)| (*currency, i128::from(*minor))).collect())
    };
    let (at_risk, was_at_risk) = (sums(&now.at_risk), sums(&now.was_at_risk));
    html! {
        @if now.waiting > 0 {
            p { (counted(now.waiting, "decision")) " waiting for a second person" }
        }
        @if !at_risk.is_empty() { p { "At risk by what is open: " b { (at_risk) } } }
        @if !was_at_risk.is_empty() { p { "Was at risk by what is decided: " (was_at_risk) } }
    }
}

/// The same in a sentence.
fn sentence(period: &PeriodRow) -> String {
    let open = period.now.open;
    match (period.run.result, open) {
        (RunResult::Incomplete, _) => "Not everything could be compared.".to_owned(),
        (RunResult::Complete, 0) => {
            "Everything was compared, and nothing of the day is to be decided.".to_owned()
        }
        (RunResult::Complete, 1) => "Everything was compared. 1 finding is open.".to_owned(),
        (RunResult::Complete, _) => {
            format!("Everything was compared. {} are open.", counted(open, "finding"))
        }
    }
}

/// Who closed the day.
fn sealed(closed: &PeriodClosed, run: &RunEnded) -> Markup {
    html! {
        p {
            "Closed by " (isolated(closed.author.as_str())) " " (moment(closed.at)) ", seal "
            code { (closed.seal) } "."
            @if run.adjusts.is_some() {
                " It has changed since. What is sealed stays; the report has the adjustment to \
                 book."
            }
        }
    }
}

fn figures(run: &RunEnded) -> Markup {
    let RunEnded { records, compared, .. } = run;
    html! {
        dl.facts {
            div { dt { "Records" } dd { (isolated(&records.name)) } }
            div {
                dt { "Lines" }
                dd {
                    (count(records.lines))
                    small {
                        (counted(records.entries, "entry")) ", " (count(records.ignored))
                        " left out, " (count(records.bad)) " unreadable"
                    }
                }
            }
            div { dt { "Orders" } dd { (count(compared.orders)) } }
            div { dt { "Lines that agree" } dd { (count(compared.matched)) } }
            div { dt { "Too recent" } dd { (count(compared.pending)) } }
            div { dt { "Of a neighbouring day" } dd { (count(compared.cut_off)) } }
            div { dt { "Compared" } dd { (moment(run.started_at)) } }
        }
    }
}

fn totals(totals: &[ControlTotal]) -> Markup {
    let heads = [
        Head::Text("Day"),
        Head::Text("Kind"),
        Head::Number("Ours"),
        Head::Number("Partner"),
        Head::Number("Difference"),
    ];
    table("Control totals", &heads, &html! { @for total in totals { (total_row(total)) } })
}

fn total_row(total: &ControlTotal) -> Markup {
    let noun = if total.status == Status::Refunded { "refund" } else { "payment" };
    let sum = |sum: &Sum| {
        html! { (major(sum.amount.into(), total.currency)) small { (counted(sum.count, noun)) } }
    };
    html! {
        tr {
            th scope="row" { (isolated(&total.day)) }
            td { (total.status) " " (total.currency) }
            td.num { (sum(&total.ours)) }
            td.num { (sum(&total.partners)) }
            td.num { b { (signed(total.difference().into(), total.currency)) } }
        }
    }
}
