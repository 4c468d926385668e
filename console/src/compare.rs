//! Owns comparing a day: the file that a browser sends, or asking the partner; and the page that
//! shows how far the comparison is.

use std::io;

use actix_multipart::{Field, Multipart};
use actix_web::http::StatusCode;
use actix_web::http::header::{self, HeaderValue};
use actix_web::web::{Bytes, Form, Path};
use actix_web::{Error, HttpResponse};
use futures_util::{StreamExt as _, TryStreamExt as _, future, stream};
use maud::{Markup, html};
use payfold_api::call::Nothing;
use payfold_api::reconcile::{COMPARE, CompareFile, QUERY, QueryPartner, RUN, RunState, Ticket};
use payfold_report::text::{count, isolated, whole};
use payfold_schemas::ids::PartnerCode;
use payfold_schemas::run::RunEnded;
use serde::Deserialize;
use tokio::sync::mpsc;

use crate::client::CallError;
use crate::failure;
use crate::field::{UnfitField, day_of, given};
use crate::redirect;
use crate::session::Session;
use crate::visit::Visit;

/// The path that files are sent to.
pub(crate) const COMPARISONS: &str = "/comparisons";
/// The path that a partner's queries are started with.
pub(crate) const QUERIES: &str = "/queries";
/// The longest value beside the file, in bytes.
const VALUE_BYTES_MAX: usize = 1_024;
/// Parts of a file on their way.
const PARTS: usize = 4;
/// Seconds to the next page about a comparison.
const RELOAD: &str = "1";

/// What is compared, beside the file.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Compared {
    post_token: String,
    partner: String,
    day: String,
    replace: String,
}

impl Compared {
    /// The partner's code and the day. Errors: what is wrong with which field.
    fn parse(&self) -> Result<(PartnerCode, Option<String>), UnfitField> {
        let unfit = |_| UnfitField(self.partner.clone(), "the code of a partner");
        let partner = PartnerCode::parse(self.partner.trim()).map_err(unfit)?;
        Ok((partner, given(&self.day, day_of, "a day, such as 2026-01-31")?))
    }

    fn replaces(&self) -> bool {
        !self.replace.is_empty()
    }
}

/// The forms that compare a day: with a file, or by asking the partner.
pub(crate) fn fields(session: &Session, partner: &str, day: &str) -> Markup {
    let what = |hint: &str| {
        html! {
            input type="hidden" name="post_token" value=(session.post_token);
            @if partner.is_empty() {
                label { "Partner " input name="partner" required maxlength="64"; }
            } @else {
                input type="hidden" name="partner" value=(partner);
            }
            @if day.is_empty() {
                label { "Day of the partner " input type="date" name="day"; }
                p.hint { "In the zone of its records; yesterday, if it is empty." }
            } @else {
                input type="hidden" name="day" value=(day);
            }
            label.choice {
                input type="checkbox" name="replace" value="yes";
                " " (hint)
            }
        }
    };
    html! {
        h2 { "Compare" @if !day.is_empty() { " again" } }
        div.beside {
            form method="post" action=(COMPARISONS) enctype="multipart/form-data" {
                fieldset {
                    legend { "With the partner’s file" }
                    (what("It replaces a file of the day with another name"))
                    label { "File " input type="file" name="records" required; }
                    button type="submit" { "Compare" }
                }
            }
            form method="post" action=(QUERIES) {
                fieldset {
                    legend { "By asking the partner for each payment" }
                    (what("The answers replace a file of the day"))
                    button type="submit" { "Ask and compare" }
                }
            }
        }
    }
}

/// Takes a file and has it compared. The fields before it say with what.
pub(crate) async fn upload(visit: Visit, mut parts: Multipart) -> Result<HttpResponse, Error> {
    let unread = |error: &dyn std::fmt::Display| {
        failure::unfit(&visit.request, &format!("The file can't be read: {error}."))
    };
    let mut compared = Compared::default();
    while let Some(mut part) = parts.try_next().await.map_err(|error| unread(&error))? {
        let name = part.name().unwrap_or_default().to_owned();
        if name == "records" {
            return visit.compare(&compared, part).await;
        }
        let value =
            part.bytes(VALUE_BYTES_MAX).await.map_err(|_| unread(&"a field is too long"))?;
        let value = value.map_err(|error| unread(&error))?;
        let value = String::from_utf8_lossy(&value).into_owned();
        match &*name {
            "post_token" => compared.post_token = value,
            "partner" => compared.partner = value,
            "day" => compared.day = value,
            "replace" => compared.replace = value,
            _ => {}
        }
    }
    Err(failure::unfit(&visit.request, "No file was sent: choose the partner's file."))
}

/// Asks a partner for the payments of a day, and has its answers compared.
pub(crate) async fn query(visit: Visit, form: Form<Compared>) -> Result<HttpResponse, Error> {
    visit.assert_own_page(&form.post_token)?;
    let (partner, day) = visit.comparison(&form)?;
    let request = QueryPartner { day, replace: form.replaces() };
    let Ticket { ticket } = visit.call(&QUERY, &[partner.as_str()], &request).await?;
    Ok(shown_at(&ticket))
}

/// Leads to the page of a comparison.
fn shown_at(ticket: &str) -> HttpResponse {
    redirect::to(format!("{COMPARISONS}/{ticket}"))
}

impl Visit {
    /// What a form says is to be compared. Errors: what is wrong with which field.
    fn comparison(&self, compared: &Compared) -> Result<(PartnerCode, Option<String>), Error> {
        compared.parse().map_err(|problem| failure::unfit(&self.request, &problem.to_string()))
    }

    /// Passes a file on as it comes.
    async fn compare(&self, compared: &Compared, mut file: Field) -> Result<HttpResponse, Error> {
        self.assert_own_page(&compared.post_token)?;
        let (partner, day) = self.comparison(compared)?;
        let disposition = file.content_disposition().and_then(|it| it.get_filename());
        let name = disposition.unwrap_or_default().to_owned();
        if name.is_empty() {
            let problem = "No file is chosen: go back and choose the partner's file.";
            return Err(failure::unfit(&self.request, problem));
        }
        let request = CompareFile { day, name, replace: compared.replaces() };
        // What reqwest sends has to be able to change threads, and a form's part can't.
        let (parts, passed) = mpsc::channel::<io::Result<Bytes>>(PARTS);
        let passed = stream::unfold(passed, |mut passed| async {
            passed.recv().await.map(|part| (part, passed))
        });
        let reading = async move {
            while let Some(part) = file.next().await {
                let broken = part.as_ref().err().map(ToString::to_string);
                let part = part.map_err(|error| io::Error::other(error.to_string()));
                if parts.send(part).await.is_err() || broken.is_some() {
                    return broken;
                }
            }
            None
        };
        let client = self.client();
        let body = reqwest::Body::wrap_stream(passed);
        let names = [partner.as_str()];
        let sending = client.upload(&COMPARE, &names, &request, body);
        let (answer, broken) = future::join(sending, reading).await;
        if let Some(why) = broken {
            let problem = format!(
                "The file did not arrive whole, so nothing is compared: {why}. Send it once more."
            );
            return Err(failure::unfit(&self.request, &problem));
        }
        let Ticket { ticket } = answer.map_err(|error| failure::failed(&self.request, &error))?;
        Ok(shown_at(&ticket))
    }
}

/// Shows how far a comparison is; leads to its day at the end.
pub(crate) async fn show(visit: Visit, ticket: Path<String>) -> Result<HttpResponse, Error> {
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
            response.headers_mut().insert(header::REFRESH, HeaderValue::from_static(RELOAD));
            response
        }
        RunState::Refused { problem } => visit.answer("Not compared", &state, || {
            html! {
                h1 { "Not compared" }
                p.said role="alert" { (whole(problem)) }
                p.hint {
                    "Where it names an option of a command, the forms have a box for it: "
                    code { "--replace" } " is “It replaces …” there."
                }
                p { a href="/days" { "Back to the days" } }
            }
        }),
    })
}
