//! Owns the response to a create call (contract 2.2), as the plan requires: a session, or one of
//! the planned faults.

use std::io;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::body::{BodyStream, SizedStream};
use actix_web::http::{StatusCode, header};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use payfold_partners::create::PresentationKind;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use crate::plan::{ContractBreach, PlannedAnswer};
use crate::problem::RequestProblem;
use actix_web::ResponseError;

/// The size of a huge response, in bytes.
const HUGE_BYTES: usize = 5 * 1_024 * 1_024;
const CHUNK_BYTES: usize = 64 * 1_024;
/// The longest delay of a delayed response, in ms; at most half of the timeout.
const DELAY_MS_MAX: u64 = 2_000;
/// How long the first half of a cut response gets to be sent.
const HALF_SENT: Duration = Duration::from_millis(50);
/// How long after the caller's timeout a slow response comes, in ms.
const TOO_LATE_MS: u64 = 500;

/// The content of a create response with a session.
#[derive(Clone, Debug)]
pub(crate) struct SessionOffer {
    pub(crate) provider_ref: String,
    pub(crate) page_url: String,
    pub(crate) qr_payload: String,
    pub(crate) presentation: PresentationKind,
    pub(crate) expires_at: Time,
    pub(crate) now: Time,
}

/// The content of the sandbox's QR code. No wallet recognises it as a payment.
pub(crate) fn qr_payload(provider_ref: &str, amount: Amount, currency: Currency) -> String {
    format!("payfold-sandbox:{provider_ref}?amount={amount}&currency={currency}")
}

impl SessionOffer {
    fn fields(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.insert("providerRef".to_owned(), self.provider_ref.clone().into());
        let (name, value) = match self.presentation {
            PresentationKind::Page => ("redirectUrl", &self.page_url),
            PresentationKind::Qr => ("qrPayload", &self.qr_payload),
        };
        fields.insert(name.to_owned(), value.clone().into());
        fields.insert("expiresAt".to_owned(), self.expires_at.to_string().into());
        fields
    }

    /// The fields with another page address, also if a QR code was requested.
    fn with_url(&self, url: String) -> Map<String, Value> {
        let mut fields = self.fields();
        fields.remove("qrPayload");
        fields.insert("redirectUrl".to_owned(), url.into());
        fields
    }

    fn respond_broken(&self, breach: ContractBreach) -> HttpResponse {
        let mut fields = self.fields();
        match breach {
            ContractBreach::Redirect => {
                let location = (header::LOCATION, self.page_url.clone());
                return HttpResponse::Found().insert_header(location).finish();
            }
            ContractBreach::Html => {
                return respond_json("<!doctype html><title>Welcome</title>".into());
            }
            ContractBreach::Array => {
                return respond_json(Value::Array(vec![Value::Object(fields)]).to_string());
            }
            ContractBreach::TwiceKeyed => {
                let text = Value::Object(fields).to_string();
                return respond_json(text.replacen('{', "{\"providerRef\":\"sbx-other\",", 1));
            }
            ContractBreach::NoRef => drop(fields.remove("providerRef")),
            ContractBreach::Both => {
                fields.insert("redirectUrl".to_owned(), self.page_url.clone().into());
                fields.insert("qrPayload".to_owned(), self.qr_payload.clone().into());
            }
            ContractBreach::Neither => {
                fields.remove("redirectUrl");
                fields.remove("qrPayload");
            }
            ContractBreach::BadUrl => fields = self.with_url(format!("/pay/{}", self.provider_ref)),
            ContractBreach::HttpUrl => {
                fields = self.with_url(format!("http://pay.example/{}", self.provider_ref));
            }
            ContractBreach::Userinfo => {
                fields = self.with_url(format!("https://shop@pay.example/{}", self.provider_ref));
            }
            ContractBreach::BadQr => {
                fields.remove("redirectUrl");
                fields.insert("qrPayload".to_owned(), "payfold-sandbox:\u{0}".into());
            }
            ContractBreach::NoExpiry => drop(fields.remove("expiresAt")),
            ContractBreach::PastExpiry => {
                let past = self.now.plus_ms(-60_000).to_string();
                fields.insert("expiresAt".to_owned(), past.into());
            }
        }
        respond_json(Value::Object(fields).to_string())
    }

    fn respond_cut(&self) -> HttpResponse {
        let text = Value::Object(self.fields()).to_string();
        let half = Bytes::copy_from_slice(&text.as_bytes()[..text.len() / 2]);
        // Actix drops unwritten bytes when a body fails. The pause lets the first half be sent.
        let broken = async {
            sleep(HALF_SENT).await;
            Err(io::Error::new(io::ErrorKind::BrokenPipe, "the plan cuts this answer"))
        };
        let chunks = stream::iter([Ok(half)]).chain(stream::once(Box::pin(broken)));
        let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
        HttpResponse::Ok().content_type("application/json").body(SizedStream::new(length, chunks))
    }

    /// A valid response with a filler field that makes it huge.
    fn respond_huge(&self) -> HttpResponse {
        let text = Value::Object(self.fields()).to_string();
        let chunk = Bytes::from(vec![b'x'; CHUNK_BYTES]);
        let filler = std::iter::repeat_n(chunk, HUGE_BYTES / CHUNK_BYTES);
        let chunks = std::iter::once(Bytes::from_static(b"{\"filler\":\""))
            .chain(filler)
            .chain([Bytes::from_static(b"\","), Bytes::from(text[1..].to_owned())]);
        HttpResponse::Ok()
            .content_type("application/json")
            .body(BodyStream::new(stream::iter(chunks.map(Ok::<_, io::Error>))))
    }
}

/// Responds to a create call as planned.
pub(crate) async fn respond(
    answer: PlannedAnswer,
    offered: &SessionOffer,
    timeout_ms: u64,
) -> HttpResponse {
    match answer {
        PlannedAnswer::Session => respond_json(Value::Object(offered.fields()).to_string()),
        PlannedAnswer::Delayed => {
            sleep(Duration::from_millis(DELAY_MS_MAX.min(timeout_ms / 2))).await;
            respond_json(Value::Object(offered.fields()).to_string())
        }
        PlannedAnswer::Slow => {
            sleep(Duration::from_millis(timeout_ms + TOO_LATE_MS)).await;
            respond_json(Value::Object(offered.fields()).to_string())
        }
        PlannedAnswer::Refused(status) => {
            RequestProblem::new(status, "refused_as_asked", "the description requests it")
                .error_response()
        }
        PlannedAnswer::ServerError(status) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            HttpResponse::build(status).json(json!({"error": "the description requests it"}))
        }
        PlannedAnswer::Cut => offered.respond_cut(),
        PlannedAnswer::Huge => offered.respond_huge(),
        PlannedAnswer::Broken(breach) => offered.respond_broken(breach),
    }
}

/// After how many ms a caller with this timeout has certainly given up.
pub(crate) fn caller_gave_up_ms(timeout_ms: u64) -> u64 {
    timeout_ms + TOO_LATE_MS / 2
}

fn respond_json(text: String) -> HttpResponse {
    HttpResponse::Ok().content_type("application/json").body(text)
}
