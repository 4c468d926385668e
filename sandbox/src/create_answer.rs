//! Owns the response to a create call as the plan requires: a session, or one of
//! the planned faults.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use actix_web::HttpResponse;
use actix_web::body::{BodyStream, SizedStream};
use actix_web::http::{StatusCode, header};
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use payfold_partners::create::PresentationKind;
use payfold_partners::directory::Account;
use payfold_partners::scheme::SimulatedOffer;
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::time::Time;
use serde_json::json;
use tokio::time::sleep;

use crate::plan::{ContractBreach, PlannedAnswer};
use crate::problem::RequestProblem;

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
    pub(crate) account: Arc<Account>,
    pub(crate) provider_ref: String,
    pub(crate) page_url: String,
    pub(crate) qr_payload: String,
    pub(crate) presentation: Option<PresentationKind>,
    pub(crate) expires_at: Time,
    pub(crate) now: Time,
}

/// The content of the sandbox's QR code. No wallet recognises it as a payment.
pub(crate) fn qr_payload(provider_ref: &str, amount: Amount, currency: Currency) -> String {
    format!("payfold-sandbox:{provider_ref}?amount={amount}&currency={currency}")
}

impl SessionOffer {
    /// The values of the offer: the page, the QR code, or both if the call did not choose.
    fn values(&self) -> SimulatedOffer<'_> {
        let is_offered = |kind| self.presentation.is_none_or(|chosen| chosen == kind);
        SimulatedOffer {
            provider_ref: Some(&self.provider_ref),
            redirect_url: is_offered(PresentationKind::Page).then_some(&self.page_url),
            qr_payload: is_offered(PresentationKind::Qr).then_some(&self.qr_payload),
            expires_at: Some(self.expires_at),
        }
    }

    /// The body with these values.
    fn body(&self, values: &SimulatedOffer<'_>) -> Result<String, RequestProblem> {
        let body = self.account.write_offer(values, self.now)?;
        String::from_utf8(body)
            .map_err(|_| RequestProblem::new(500, "unwritable_answer", "it is not UTF-8"))
    }

    /// The body of the offer. Errors: the profile can't say it.
    pub(crate) fn text(&self) -> Result<String, RequestProblem> {
        self.body(&self.values())
    }

    /// Responds with a breach of the contract. `text` is the body of the offer.
    fn respond_broken(
        &self,
        breach: ContractBreach,
        text: &str,
    ) -> Result<HttpResponse, RequestProblem> {
        let with_url = |url: &str| {
            let shown =
                SimulatedOffer { qr_payload: None, redirect_url: Some(url), ..self.values() };
            self.body(&shown)
        };
        let shown = self.values();
        let broken = match breach {
            ContractBreach::Redirect => {
                let location = (header::LOCATION, self.page_url.clone());
                return Ok(HttpResponse::Found().insert_header(location).finish());
            }
            ContractBreach::Html => Ok("<!doctype html><title>Welcome</title>".to_owned()),
            ContractBreach::Array => Ok(format!("[{text}]")),
            ContractBreach::TwiceKeyed => {
                let key = text.get(1..).unwrap_or_default().split(':').next().unwrap_or_default();
                Ok(text.replacen('{', &format!("{{{key}:\"sbx-other\","), 1))
            }
            ContractBreach::NoRef => self.body(&SimulatedOffer { provider_ref: None, ..shown }),
            ContractBreach::Both => {
                let (redirect_url, qr_payload) = (Some(&*self.page_url), Some(&*self.qr_payload));
                self.body(&SimulatedOffer { redirect_url, qr_payload, ..shown })
            }
            ContractBreach::Neither => {
                self.body(&SimulatedOffer { redirect_url: None, qr_payload: None, ..shown })
            }
            ContractBreach::BadUrl => with_url(&format!("/pay/{}", self.provider_ref)),
            ContractBreach::HttpUrl => {
                with_url(&format!("http://pay.example/{}", self.provider_ref))
            }
            ContractBreach::Userinfo => {
                with_url(&format!("https://shop@pay.example/{}", self.provider_ref))
            }
            ContractBreach::BadQr => {
                let qr_payload = Some("payfold-sandbox:\u{0}");
                self.body(&SimulatedOffer { redirect_url: None, qr_payload, ..shown })
            }
            ContractBreach::NoExpiry => self.body(&SimulatedOffer { expires_at: None, ..shown }),
            ContractBreach::PastExpiry => {
                let expires_at = Some(self.now.plus_ms(-60_000));
                self.body(&SimulatedOffer { expires_at, ..shown })
            }
        };
        let broken = broken?;
        if broken == text {
            let detail = format!("the partner's profile reads no value that {breach:?} is about");
            return Err(RequestProblem::new(400, "no_such_trouble", detail));
        }
        Ok(respond_json(broken))
    }
}

/// Half of a response, and then no more.
fn respond_cut(text: &str) -> HttpResponse {
    let half = Bytes::copy_from_slice(&text.as_bytes()[..text.len() / 2]);
    // Actix drops unwritten bytes when a body fails. The pause lets the first half be sent.
    let broken = async {
        sleep(HALF_SENT).await;
        Err(io::Error::new(io::ErrorKind::BrokenPipe, "the plan cuts this answer"))
    };
    let chunks = stream::iter([Ok(half)]).chain(stream::once(Box::pin(broken)));
    let length = u64::try_from(text.len()).unwrap_or(u64::MAX);
    let body = SizedStream::new(length, chunks);
    HttpResponse::Ok().content_type("application/json").body(body)
}

/// A valid response with a filler field that makes it huge.
fn respond_huge(text: &str) -> HttpResponse {
    let chunk = Bytes::from(vec![b'x'; CHUNK_BYTES]);
    let filler = std::iter::repeat_n(chunk, HUGE_BYTES / CHUNK_BYTES);
    let chunks = std::iter::once(Bytes::from_static(b"{\"filler\":\""))
        .chain(filler)
        .chain([Bytes::from_static(b"\","), Bytes::from(text[1..].to_owned())]);
    let body = BodyStream::new(stream::iter(chunks.map(Ok::<_, io::Error>)));
    HttpResponse::Ok().content_type("application/json").body(body)
}

/// Responds to a create call as planned. `text` is the body of the offer.
pub(crate) async fn respond(
    answer: PlannedAnswer,
    offered: &SessionOffer,
    text: String,
    timeout_ms: u64,
) -> Result<HttpResponse, RequestProblem> {
    match answer {
        PlannedAnswer::Session => Ok(respond_json(text)),
        PlannedAnswer::Delayed => {
            sleep(Duration::from_millis(DELAY_MS_MAX.min(timeout_ms / 2))).await;
            Ok(respond_json(text))
        }
        PlannedAnswer::Slow => {
            sleep(Duration::from_millis(timeout_ms + TOO_LATE_MS)).await;
            Ok(respond_json(text))
        }
        PlannedAnswer::Refused(status) => {
            Err(RequestProblem::new(status, "refused_as_asked", "the description requests it"))
        }
        PlannedAnswer::ServerError(status) => {
            let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
            let body = json!({"error": "the description requests it"});
            Ok(HttpResponse::build(status).json(body))
        }
        PlannedAnswer::Cut => Ok(respond_cut(&text)),
        PlannedAnswer::Huge => Ok(respond_huge(&text)),
        PlannedAnswer::Broken(breach) => offered.respond_broken(breach, &text),
    }
}

/// After how many ms a caller with this timeout has certainly given up.
pub(crate) fn caller_gave_up_ms(timeout_ms: u64) -> u64 {
    timeout_ms + TOO_LATE_MS / 2
}

fn respond_json(text: String) -> HttpResponse {
    HttpResponse::Ok().content_type("application/json").body(text)
}
