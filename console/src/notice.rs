//! Owns the page of one quarantined notice: what it reports, why it was refused, who decided what,
//! and the form for it.

use actix_web::web::Path;
use actix_web::{Error, HttpResponse};
use maud::{Markup, html};
use payfold_api::call::Nothing;
use payfold_api::quarantine::{DECIDE, JUDGE, Judge, JudgedNotice};
use payfold_api::raw::READ_RAW;
use payfold_api::reads::NOTICE;
use payfold_report::text::{count, isolated, shown, whole};
use payfold_schemas::release::NoticeVerdict;
use payfold_views::quarantine::NoticeHistory;
use serde::Serialize;

use crate::bytes;
use crate::choice::Choice;
use crate::client::CallError;
use crate::decide::DecisionFields;
use crate::failure;
use crate::quarantine::{is_open, standing, subject_of};
use crate::refused::{action, choices, usually};
use crate::session::Session;
use crate::text::{copy_button, moment, money, people};
use crate::visit::Visit;

/// A notice, and how the keys and profiles in force judge it.
#[derive(Debug, Serialize)]
struct ShownNotice {
    notice: NoticeHistory,
    judged: Option<JudgedNotice>,
    /// Why it can't be judged now.
    unjudged: Option<String>,
}

/// Shows a quarantined notice.
pub(crate) async fn show(visit: Visit, position: Path<String>) -> Result<HttpResponse, Error> {
    if position.parse::<payfold_schemas::position::Position>().is_err() {
        let detail = format!("{position} is no position of a notice, such as 0-12.");
        return Err(failure::missing(&visit.request, &detail));
    }
    let notice = visit.call(&NOTICE, &[&position], &Nothing {}).await?;
    let because = choices(&notice.row.notice.code).iter().find_map(|choice| match choice {
        Choice::Release(because) => Some(*because),
        Choice::Accept(_) | Choice::Dismiss => None,
    });
    let client = visit.client();
    let (judged, unjudged) = match client.call(&JUDGE, &[&position], &Judge { because }).await {
        Ok(judged) => (Some(judged), None),
        Err(CallError::Refused(_, problem)) => (None, Some(problem.detail)),
        Err(error) => return Err(failure::failed(&visit.request, &error)),
    };
    let content = ShownNotice { notice, judged, unjudged };
    let title = format!("Notice {}", content.notice.row.position);
    Ok(visit.answer(&title, &content, || content.render(&visit.session)))
}

impl ShownNotice {
    fn render(&self, session: &Session) -> Markup {
        let row = &self.notice.row;
        let first = row.decision.as_ref().filter(|said| !said.decided).map(|said| &said.author);
        html! {
            p.over { "Quarantined, from " (isolated(&row.notice.account)) }
            h1 { "Notice " (row.position) " " span.badge.high { (shown(&row.notice.code)) } }
            (self.verdict())
            (self.figures())
            @if session.may(&READ_RAW) {
                p { a href=(bytes::path("quarantine", &row.position)) { "Read its bytes" } }
            }
            @if !self.notice.decisions.is_empty() {
                h2 { "Decisions" }
                ol.flags {
                    @for said in &self.notice.decisions {
                        li { (moment(said.at)) " " (standing(said)) }
                    }
                }
            }
            @if is_open(row) && session.may(&DECIDE) && let Some(subject) = subject_of(row) {
                (DecisionFields::on(subject.path(), choices(&row.notice.code))
                    .offered(&subject, first, session))
            }
        }
    }

    /// What is so, and what to do.
    fn verdict(&self) -> Markup {
        let row = &self.notice.row;
        let code = &row.notice.code;
        let is_open = is_open(row);
        let tone = if is_open { "open" } else { "good" };
        html! {
            section.verdict.(tone) aria-label="What is so" {
                @match row.decision.as_ref().filter(|said| said.decided) {
                    Some(said) => h2 {
                        @match said.verdict {
                            NoticeVerdict::Release => "Released: its order has it",
                            NoticeVerdict::Dismiss => "Dismissed: it is kept as evidence only",
                        }
                        ", by " (people(&said.author, said.seconded_by.as_ref()))
                    },
                    None => h2 { "Refused, and not decided: it is in no order" },
                }
                @if let Some(read) = self.judged.as_ref().and_then(|judged| judged.reads.as_ref()) {
                    p { "It reports " b { (read.status) " of "
                        (money(read.amount.minor(), Some(read.currency))) } " for the order "
                        a href={ "/orders/" (read.order) } {
                            (isolated(read.order.order_id.as_str()))
                        }
                        "."
                        @if is_open && read.needs_second_person {
                            " A decision takes two people."
                        }
                    }
                }
                @if is_open {
                    p { b { "Usually: " } (usually(code)) "." }
                    p { b { "Do: " } (action(code)) "." }
                    @match self.judged.as_ref().map(|judged| &judged.problem) {
                        Some(Some(problem)) => p {
                            b { "It can't be released now: " } (whole(problem)) "."
                        },
                        Some(None) => p { "It can be released now." },
                        None => p {
                            b { "It can't be judged now: " }
                            (whole(self.unjudged.as_deref().unwrap_or_default())) "."
                        },
                    }
                }
            }
        }
    }

    fn figures(&self) -> Markup {
        let row = &self.notice.row;
        let notice = &row.notice;
        html! {
            dl.facts {
                div { dt { "Received" } dd { (moment(notice.received_at)) } }
                div { dt { "Refused because" } dd { (isolated(&notice.detail)) } }
                div { dt { "Signed by the key" } dd { (isolated(notice.source.key_id.as_str())) } }
                div { dt { "Profile then" } dd {
                    (notice.source.profile.partner) " version " (notice.source.profile.version) } }
                div { dt { "Sent to" } dd { code { (shown(&notice.source.request.target)) } } }
                div { dt { "Request id" } dd {
                    code { (notice.request_id) }
                    (copy_button("the request id"))
                } }
                div { dt { "Bytes" } dd { (count(row.raw_bytes as u64)) } }
            }
        }
    }
}
