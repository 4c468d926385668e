//! Owns the page of one finding: what differs, what to do, who decided what, and the form for it.

use actix_web::web::Path;
use actix_web::{Error, HttpResponse};
use maud::{Markup, html};
use payfold_api::decisions::DECIDE_FINDING;
use payfold_api::reads::FINDINGS;
use payfold_report::codes::{meaning_of, severity_meaning, title_of, verdict_text};
use payfold_report::text::{isolated, whole};
use payfold_report::values::{OurCurrencies, what_differs};
use payfold_schemas::finding::{BookLine, Code, EarlierDecision, FindingChanged, FindingStatus};
use payfold_views::findings::{FindingPage, FindingRow, ListFindings};
use payfold_views::queries::QueryStatus;

use crate::choice::Choice;
use crate::decide::DecisionFields;
use crate::finding_row::{action, decision_text, order_path, side, sides, subject_of};
use crate::problem;
use crate::session::Session;
use crate::table::{Head, table};
use crate::text::{copy_button, moment, money, people, reasons};
use crate::visit::Visit;

/// Shows a finding.
pub(crate) async fn show(visit: Visit, finding: Path<String>) -> Result<HttpResponse, Error> {
    let finding = Some(finding.into_inner());
    let asked = ListFindings { finding, ..ListFindings::default() };
    let page = visit.call(&FINDINGS, &[], &asked).await?;
    let Some(row) = page.findings.first() else {
        return Ok(problem::nowhere(visit.request.clone()).await);
    };
    let heading = title_of(&row.finding);
    Ok(visit.answer(heading, &page, || render(row, &page, &visit.session)))
}

fn render(row: &FindingRow, page: &FindingPage, session: &Session) -> Markup {
    let finding = &row.finding;
    let is_open = finding.status == FindingStatus::Open;
    let tone = if is_open { "open" } else { "good" };
    html! {
        p.over { (finding.partner) ", records of " (finding.day) }
        h1 {
            (title_of(finding)) " "
            span.badge.(finding.severity.as_str()) { (finding.severity.as_str()) } " "
            span.badge { (finding.status.as_str()) }
        }
        section.verdict.(tone) aria-label="What is so" {
            h2 { (meaning_of(finding)) }
            @if is_open {
                (action(&finding.action))
                p { "Severity " (finding.severity.as_str()) ": "
                    (severity_meaning(finding.severity)) "." }
            }
        }
        (figures(finding, &OurCurrencies::new(&page.currencies)))
        @if let Some(query) = &row.query { (asked(query)) }
        (decisions(finding))
        @if is_open && session.may(&DECIDE_FINDING) { (decision_fields(finding, session)) }
        @if !finding.lines.is_empty() { (lines(&finding.lines)) }
    }
}

fn figures<'a>(finding: &'a FindingChanged, currencies: &OurCurrencies<'a>) -> Markup {
    let (ours, partners) = sides(finding, currencies);
    html! {
        dl.facts {
            div {
                dt { @if finding.flag.is_some() { "Flag" } @else { "Field" } }
                dd { (isolated(what_differs(finding))) }
            }
            @if finding.flag.is_none() {
                div { dt { "Here" } dd { (side(&ours, finding, &finding.ours)) } }
                div { dt { "Partner" } dd { (side(&partners, finding, &finding.partners)) } }
            }
            @if finding.money_at_risk != 0 {
                div { dt { "At risk" } dd { (money(finding.money_at_risk, finding.currency)) } }
            }
            @if let Some(order) = &finding.order_id {
                div {
                    dt { "Order" }
                    dd {
                        @match order_path(finding) {
                            Some(path) if finding.code == Code::MissingHere => {
                                (isolated(order.as_str())) " "
                                a href=(path) { "search for it here" }
                            }
                            Some(path) => a href=(path) { (isolated(order.as_str())) },
                            None => (isolated(order.as_str())),
                        }
                    }
                }
            }
            @if let Some(payment) = &finding.payment_ref {
                div { dt { "The partner's reference" } dd { (isolated(payment.as_str())) } }
            }
            @if let Some(reference) = &finding.reference {
                div { dt { "The shop's reference" } dd { (isolated(reference.as_str())) } }
            }
            div { dt { "Found" } dd { (moment(finding.first_seen)) } }
            div { dt { "Id" } dd {
                code { (finding.finding_id) }
                (copy_button("the finding's id"))
            } }
        }
    }
}

/// What the partner is asked about the order of an open finding.
fn asked(query: &QueryStatus) -> Markup {
    html! {
        p {
            "The partner is asked about this order, which is " (query.reason) ". "
            @match (query.queries_due, query.queries_planned) {
                (Some(due), Some(planned)) => {
                    "Of " (planned) " planned times, " (due) " are past. "
                }
                _ => { "It can't be: the profile has no query. " }
            }
            @if let Some(next) = query.next_query {
                "The next is due " (moment(next)) "; its answer may clear the finding."
            }
        }
    }
}

/// Every decision on it, the oldest first.
fn decisions(finding: &FindingChanged) -> Markup {
    let is_waiting = finding.first_decision().is_some();
    html! {
        @if finding.decision.is_some() || !finding.earlier_decisions.is_empty() {
            h2 { "Decisions" }
            ol.flags {
                @for earlier in &finding.earlier_decisions { (ended(earlier)) }
                @if let Some(decision) = &finding.decision {
                    li {
                        (decision_text(finding, decision))
                        @if is_waiting { b { " It waits for a second person." } }
                    }
                }
            }
        }
    }
}

/// A decision that no longer counts.
fn ended(earlier: &EarlierDecision) -> Markup {
    html! {
        li {
            (moment(earlier.at)) " " (people(&earlier.author, earlier.seconded_by.as_ref()))
            ": " (verdict_text(earlier.accept)) ", "
            (reasons(&earlier.reason, earlier.second_reason.as_deref())) "; "
            (earlier.ended.as_str()) " by " (isolated(earlier.ended_by.as_str())) " "
            (moment(earlier.ended_at))
            @if let Some(reason) = &earlier.ended_reason { ", “" (whole(reason)) "”" }
        }
    }
}

/// The form that decides it.
fn decision_fields(finding: &FindingChanged, session: &Session) -> Markup {
    let subject = subject_of(finding);
    let first = finding.first_decision().map(|first| &first.author);
    DecisionFields::on(subject.path(), Choice::RECORDS)
        .of_severity(finding.severity)
        .offered(&subject, first, session)
}

/// The partner's lines about it.
fn lines(lines: &[BookLine]) -> Markup {
    let heads = [
        Head::Number("Line"),
        Head::Text("Order"),
        Head::Text("The partner's reference"),
        Head::Text("Status"),
        Head::Number("Amount"),
        Head::Text("Booked"),
    ];
    html! {
        h2 { "The partner's lines" }
        (table("The partner's lines", &heads, &html! { @for line in lines { (line_row(line)) } }))
    }
}

fn line_row(line: &BookLine) -> Markup {
    html! {
        tr {
            th.num scope="row" { (line.line) }
            td { @if let Some(order) = &line.order_id { (order) } @else { "–" } }
            td {
                @if let Some(payment) = &line.provider_ref { (isolated(payment.as_str())) }
                @else { "–" }
            }
            td { (line.status) }
            td.num { (money(line.amount.minor(), Some(line.currency))) }
            td { (moment(line.at)) }
        }
    }
}
