//! Owns comparing a day: the forms that begin it, and the page that shows how far it is.

use std::collections::BTreeMap;

use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderValue};
use actix_web::web::{Form, Path, Query};
use actix_web::{Error, HttpResponse};
use maud::{Markup, html};
use payfold_api::call::Nothing;
use payfold_api::reconcile::{QUERY, QueryPartner, RUN, RunState, Ticket};
use payfold_report::text::{count, isolated, whole};
use payfold_schemas::run::RunEnded;
use serde::{Deserialize, Serialize};

use crate::client::CallError;
use crate::failure;
use crate::field::{day_given, partner_of};
use crate::redirect::{self, address};
use crate::session::Session;
use crate::visit::Visit;

/// The path that files are sent to.
pub(crate) const FILES: &str = "/files";
/// The path of comparisons.
const COMPARISONS: &str = "/comparisons";
/// The path that a partner's queries are started with.
pub(crate) const QUERIES: &str = "/queries";
/// Seconds to the next page about what goes on.
pub(crate) const RELOAD: HeaderValue = HeaderValue::from_static("1");

/// What is compared by asking.
#[derive(Debug, Deserialize)]
pub(crate) struct Asked {
    post_token: String,
    partner: String,
    #[serde(default)]
    day: String,
    #[serde(default)]
    replace: String,
}

/// The file that a comparison is of, and the day.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub(crate) struct OfFile {
    pub(crate) file: String,
    pub(crate) day: String,
}

/// The path of a file's page, for a day if one is chosen.
pub(crate) fn path_of_file(ticket: &str, day: &str) -> String {
    address(&format!("{FILES}/{ticket}"), &BTreeMap::from([("day", day)]))
}

impl OfFile {
    /// Whether it is of a file that was read before.
    fn is_kept(&self) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        !self.file.is_empty() && self.file.bytes().all(is_plain)
    }
}

/// The forms that compare a day of one of these partners: with a file, or by asking the partner.
/// Without a day the person chooses it.
pub(crate) fn fields(session: &Session, partners: &[&str], day: &str) -> Markup {
    html! {
        h2 { "Compare" @if !day.is_empty() { " again" } }
        div.beside {
            form method="post" action=(FILES) enctype="multipart/form-data" {
                fieldset {
                    legend { "With the partner’s file" }
                    (hidden(session, day))
                    (partner_field(partners))
                    label { "File " input type="file" name="records" required; }
                    button type="submit" { "Read the file" }
                    p.hint { "You see how it is read before anything is compared." }
                }
            }
            form method="post" action=(QUERIES) {
                fieldset {
                    legend { "By asking the partner for each payment" }
                    (hidden(session, day))
                    (partner_field(partners))
                    @if day.is_empty() {
                        label { "Day of the partner " input type="date" name="day"; }
                        p.hint { "In the zone of its records; yesterday, if it is empty." }
                    }
                    label.choice {
                        input type="checkbox" name="replace" value="yes";
                        " The answers replace a file of the day"
                    }
                    button type="submit" { "Ask and compare" }
                }
            }
        }
    }
}

fn hidden(session: &Session, day: &str) -> Markup {
    html! {
        input type="hidden" name="post_token" value=(session.post_token);
        @if !day.is_empty() { input type="hidden" name="day" value=(day); }
    }
}

/// The field for the partner: a choice, if there is one. A process without accounts knows none.
fn partner_field(partners: &[&str]) -> Markup {
    html! {
        @match partners {
            [] => label { "Partner " input name="partner" required maxlength="64"; },
            [partner] => {
                input type="hidden" name="partner" value=(partner);
                p { "Partner: " (partner) }
            },
            partners => label {
                "Partner "
                select name="partner" required {
                    option value="" { "Choose one" }
                    @for partner in partners { option { (partner) } }
                }
            },
        }
    }
}

/// Asks a partner for the payments of a day, and has its answers compared.
pub(crate) async fn query(visit: Visit, form: Form<Asked>) -> Result<HttpResponse, Error> {
    visit.assert_own_page(&form.post_token)?;
    let partner = visit.selected(partner_of(&form.partner))?;
    let day = visit.selected(day_given(&form.day))?;
    let request = QueryPartner { day, replace: !form.replace.is_empty() };
    let Ticket { ticket } = visit.call(&QUERY, &[partner.as_str()], &request).await?;
    Ok(shown_at(&ticket, &OfFile::default()))
}

/// Leads to the page of a comparison.
pub(crate) fn shown_at(ticket: &str, of: &OfFile) -> HttpResponse {
    redirect::to(address(&format!("{COMPARISONS}/{ticket}"), of))
}

/// Shows how far a comparison is; leads to its day at the end.
pub(crate) async fn show(
    visit: Visit,
    ticket: Path<String>,
    of: Query<OfFile>,
) -> Result<HttpResponse, Error> {
    let client = visit.client();
    let state = match client.call(&RUN, &[&ticket], &Nothing {}).await {
        Err(CallError::Refused(StatusCode::NOT_FOUND, _)) => {
            let detail = "This comparison is not known any more. Its day shows what came of it; if \
                the time of comparing there is before yours, compare again.";
            return Err(failure::missing(&visit.request, detail));
        }
        answered => answered.map_err(|error| failure::failed(&visit.request, &error))?,
    };
    Ok(match &state {
        RunState::Ended { run } => {
            let RunEnded { partner, day, .. } = &**run;
            redirect::to(format!("/days/{partner}/{day}"))
        }
        RunState::Running { stage, done } => {
            let mut response = visit.answer("Comparing", &state, || {
                html! {
                    h1 { "Comparing" }
                    p role="status" {
                        (isolated(stage)) @if *done > 0 { ": " (count(*done)) }
                    }
                    p.hint { "This page follows it. It goes on without you, too." }
                }
            });
            response.headers_mut().insert(header::REFRESH, RELOAD);
            response
        }
        RunState::Refused { problem } => visit.answer("Not compared", &state, || {
            html! {
                h1 { "Not compared" }
                p.said role="alert" { (whole(problem)) }
                p.hint {
                    "Where it names an option of a command, the pages have a box for it: "
                    code { "--replace" } " is “It replaces …” there."
                }
                @if of.is_kept() {
                    p { a href=(path_of_file(&of.file, &of.day)) { "Back to the file" } }
                }
                p { a href="/days" { "Back to the days" } }
            }
        }),
    })
}
