//! Owns the page with the bytes of a notice as they came: it asks for a reason first, because each
//! read is recorded.

use actix_web::web::{Form, Path};
use actix_web::{Error, HttpResponse};
use maud::{Markup, html};
use payfold_api::raw::{READ_RAW, RawNotice, ReadRaw};
use payfold_report::text::whole;
use serde::{Deserialize, Serialize};

use crate::decide::reason_field;
use crate::failure;
use crate::field::lines_of;
use crate::visit::Visit;

/// Where a notice is stored.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct StoredAt {
    topic: String,
    position: String,
}

/// Why a person reads the bytes.
#[derive(Debug, Deserialize)]
pub(crate) struct ReadFields {
    post_token: String,
    reason: String,
}

/// The address of the bytes of a notice.
pub(crate) fn path(topic: &str, position: &str) -> String {
    format!("/bytes/{topic}/{position}")
}

/// Asks for the reason.
pub(crate) async fn ask(visit: Visit, at: Path<StoredAt>) -> Result<HttpResponse, Error> {
    if !visit.session.may(&READ_RAW) {
        return Err(failure::missing(&visit.request, "Your role does not read bytes of notices."));
    }
    let title = at.title();
    Ok(visit.answer(&title, &*at, || {
        html! {
            h1 { (title) }
            p { "What a payer wrote may be among them. That you read them is recorded, with your \
                name and reason." }
            form.decide method="post" action=(path(&at.topic, &at.position)) {
                input type="hidden" name="post_token" value=(visit.session.post_token);
                fieldset {
                    legend { "Read the bytes" }
                    (reason_field(""))
                    button type="submit" { "Read them" }
                }
            }
        }
    }))
}

/// Shows the bytes, once the read is recorded.
pub(crate) async fn show(
    visit: Visit,
    at: Path<StoredAt>,
    fields: Form<ReadFields>,
) -> Result<HttpResponse, Error> {
    visit.assert_own_page(&fields.post_token)?;
    let reason = lines_of(&fields.reason);
    if reason.trim().is_empty() {
        return Err(failure::unfit(&visit.request, "There is no reason. Nothing was read."));
    }
    let notice = visit.call(&READ_RAW, &[&at.topic, &at.position], &ReadRaw { reason }).await?;
    Ok(visit.answer(&at.title(), &notice, || render(&at, &notice)))
}

impl StoredAt {
    fn title(&self) -> String {
        format!("Bytes at {} of {}", self.position, self.topic)
    }
}

fn render(at: &StoredAt, notice: &RawNotice) -> Markup {
    let body = hex::decode(&notice.raw).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let method = notice.request.method.as_deref().unwrap_or("POST");
    html! {
        h1 { (at.title()) }
        p { "That you read them is recorded." }
        h2 { "Request" }
        pre {
            (whole(&format!("{method} {}", notice.request.target)))
            @for (name, value) in &notice.request.headers {
                "\n" (whole(&format!("{name}: {value}")))
            }
        }
        h2 { "Body" @if body.is_none() { ", in hex: it is no UTF-8" } }
        @if let Some(body) = &body {
            pre { @for line in body.split('\n') { (whole(line)) "\n" } }
            h2 { "The same in hex" }
        }
        pre { (notice.raw) }
    }
}
