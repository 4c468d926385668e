//! Owns the answer to a create call (contract 2.2) as its plan says: a session, or one of the many ways not to answer
//! with one.

use std::io;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::body::{BodyStream, SizedStream};
use actix_web::http::{StatusCode, header};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use payfold_partners::create::Wish;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use crate::plan::{Answer, Breach};
use crate::problem::Problem;
use actix_web::ResponseError;

/// What a huge answer weighs.
const HUGE_BYTES: usize = 5 * 1_024 * 1_024;
const PIECE_BYTES: usize = 64 * 1_024;
/// An answer that is delayed takes this at most, or half of the time-out.
const DELAY_MS_MAX: u64 = 2_000;
/// By then the first half of a cut answer has gone out.
const HALF_SENT: Duration = Duration::from_millis(50);
/// How long after the time-out a slow answer comes.
const TOO_LATE_MS: u64 = 500;

/// What a session is offered with.
#[derive(Clone, Debug)]
pub(crate) struct Offered {
    pub(crate) provider_ref: String,
    pub(crate) page_url: String,
    pub(crate) qr_payload: String,
    pub(crate) wish: Wish,
    pub(crate) expires_at: Time,
    pub(crate) now: Time,
}

/// What a QR code of the sandbox says: nothing a wallet would take for a payment.
pub(crate) fn qr_payload(provider_ref: &str, amount: Amount, currency: Currency) -> String {
    format!("payfold-sandbox:{provider_ref}?amount={amount}&currency={currency}")
}

impl Offered {
    fn fields(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.insert("providerRef".to_owned(), self.provider_ref.clone().into());
        let (name, value) = match self.wish {
            Wish::Page => ("redirectUrl", &self.page_url),
            Wish::Qr => ("qrPayload", &self.qr_payload),
        };
        fields.insert(name.to_owned(), value.clone().into());
        fields.insert("expiresAt".to_owned(), self.expires_at.to_string().into());
        fields
    }

    /// With the page's address replaced, whatever was wished for.
    fn with_url(&self, url: String) -> Map<String, Value> {
        let mut fields = self.fields();
        fields.remove("qrPayload");
        fields.insert("redirectUrl".to_owned(), url.into());
        fields
    }

    fn broken(&self, breach: Breach) -> HttpResponse {
        let mut fields = self.fields();
        match breach {
            Breach::Redirect => {
                let location = (header::LOCATION, self.page_url.clone());
                return HttpResponse::Found().insert_header(location).finish();
            }
            Breach::Html => return as_json("<!doctype html><title>Welcome</title>".into()),
            Breach::Array => return as_json(Value::Array(vec![Value::Object(fields)]).to_string()),
            Breach::TwiceKeyed => {
                let text = Value::Object(fields).to_string();
                return as_json(text.replacen('{', "{\"providerRef\":\"sbx-other\",", 1));
            }
            Breach::NoRef => drop(fields.remove("providerRef")),
            Breach::Both => {
                fields.insert("redirectUrl".to_owned(), self.page_url.clone().into());
                fields.insert("qrPayload".to_owned(), self.qr_payload.clone().into());
            }
            Breach::Neither => {
                fields.remove("redirectUrl");
                fields.remove("qrPayload");
            }
            Breach::BadUrl => fields = self.with_url(format!("/pay/{}", self.provider_ref)),
            Breach::HttpUrl => {
                fields = self.with_url(format!("http://pay.example/{}", self.provider_ref));
            }
            Breach::Userinfo => {
                fields = self.with_url(format!("https://shop@pay.example/{}", self.provider_ref));
            }
            Breach::BadQr => {
                fields.remove("redirectUrl");
                fields.insert("qrPayload".to_owned(), "payfold-sandbox:\u{0}".into());
            }
            Breach::NoExpiry => drop(fields.remove("expiresAt")),
            Breach::PastExpiry => {
                let past = self.now.plus_ms(-60_000).to_string();
                fields.insert("expiresAt".to_owned(), past.into());
            }
        }
        as_json(Value::Object(fields).to_string())
    }

    fn cut(&self) -> HttpResponse {
        let text = Value::Object(self.fields()).to_string();
        let half = Bytes::copy_from_slice(&text.as_bytes()[..text.len() / 2]);
        // The library drops what it has not written yet when a body breaks: the half goes out first.
        let broken = async {
            sleep(HALF_SENT).await;
            Err(io::Error::new(io::ErrorKind::BrokenPipe, "the plan cuts this answer"))
        };
        let pieces = stream::iter([Ok(half)]).chain(stream::once(Box::pin(broken)));
        let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
        HttpResponse::Ok().content_type("application/json").body(SizedStream::new(length, pieces))
    }

    /// A good answer, but for a filler that makes it huge.
    fn huge(&self) -> HttpResponse {
        let text = Value::Object(self.fields()).to_string();
        let piece = Bytes::from(vec![b'x'; PIECE_BYTES]);
        let filler = std::iter::repeat_n(piece, HUGE_BYTES / PIECE_BYTES);
        let pieces = std::iter::once(Bytes::from_static(b"{\"filler\":\""))
            .chain(filler)
            .chain([Bytes::from_static(b"\","), Bytes::from(text[1..].to_owned())]);
        HttpResponse::Ok()
            .content_type("application/json")
            .body(BodyStream::new(stream::iter(pieces.map(Ok::<_, io::Error>))))
    }
}

/// Answers a create call as planned.
pub(crate) async fn respond(answer: Answer, offered: &Offered, timeout_ms: u64) -> HttpResponse {
    match answer {
        Answer::Session => as_json(Value::Object(offered.fields()).to_string()),
        Answer::Delayed => {
            sleep(Duration::from_millis(DELAY_MS_MAX.min(timeout_ms / 2))).await;
            as_json(Value::Object(offered.fields()).to_string())
        }
        Answer::Slow => {
            sleep(Duration::from_millis(timeout_ms + TOO_LATE_MS)).await;
            as_json(Value::Object(offered.fields()).to_string())
        }
        Answer::Refused(status) => {
            Problem::new(status, "refused_as_asked", "the description asks for it").error_response()
        }
        Answer::ServerError(status) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            HttpResponse::build(status).json(json!({"error": "as the description asks"}))
        }
        Answer::Cut => offered.cut(),
        Answer::Huge => offered.huge(),
        Answer::Broken(breach) => offered.broken(breach),
    }
}

/// When a caller that waits so long has given up for certain.
pub(crate) fn given_up_ms(timeout_ms: u64) -> u64 {
    timeout_ms + TOO_LATE_MS / 2
}

fn as_json(text: String) -> HttpResponse {
    HttpResponse::Ok().content_type("application/json").body(text)
}
