//! Owns the way of a notice of a partner with its own scheme: GET or POST, JSON or form, one or an array, answered as
//! the partner wants it. What holds for every notice holds here: nothing is acknowledged before it is durable, what is
//! genuine and not admissible is kept whole, and a forgery tells nothing.

use std::sync::Arc;

use actix_web::guard::GuardContext;
use actix_web::http::header::{self, HeaderValue};
use actix_web::http::{Method, StatusCode};
use actix_web::web::{Data, Payload};
use actix_web::{HttpRequest, HttpResponse};
use futures_util::future::join_all;
use payfold_partners::scheme::{
    Ack, Answer, FaultKind, Mapped, Request, Said, Scheme, VerifiedNotice,
};
use payfold_schemas::ids::OrderKey;
use payfold_schemas::ipn::Ipn;
use payfold_schemas::record::{NoticeRequest, NoticeSource};
use payfold_schemas::time::Time;

use crate::admit::{self, Admitted, Judged};
use crate::genuine::{Genuine, Signer, Taken, Verdict};
use crate::http::Ingest;
use crate::intake::Receipt;
use crate::refusal::{Code, Refusal};
use crate::replays::SignedPart;
use crate::{body, transport};

/// Whether this path's partner sends its notices by GET.
pub(crate) fn takes_get(context: &GuardContext<'_>) -> bool {
    let partner = context.head().uri.path().strip_prefix("/api/payment/ipn/");
    let ingest = context.app_data::<Data<Ingest>>();
    partner.zip(ingest).is_some_and(|(partner, ingest)| {
        let directory = ingest.directory.load();
        directory.scheme(partner).is_some_and(|scheme| scheme.takes_method("GET"))
    })
}

impl Ingest {
    /// Takes a notice if its path's partner has its own scheme; `None` if it has not. Errors: the refusal of one
    /// whose body may not have been read.
    pub(crate) async fn receive_own(
        &self,
        request: &HttpRequest,
        payload: &mut Payload,
        receipt: &Receipt,
    ) -> Option<Result<HttpResponse, HttpResponse>> {
        let partner = request.match_info().get("partner")?;
        let directory = self.directory.load();
        let scheme = directory.scheme(partner)?;
        if !scheme.takes_method(request.method().as_str()) {
            let mut refused = self.refuse(receipt, None, &Refusal::new(Code::MethodNotAllowed));
            let allow = if scheme.takes_method("GET") { "GET" } else { "POST" };
            refused.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
            return Some(Err(refused));
        }
        let refuse = |refusal: Refusal| self.refuse(receipt, None, &refusal);
        let bytes_max = directory.limits(Some(partner)).body_bytes;
        let takes = |content_type: Option<&str>| scheme.takes_content_type(content_type);
        let head = self
            .limits
            .pass_address(self.source(request))
            .and_then(|()| transport::check(request.head(), bytes_max, &takes));
        if let Err(refusal) = head {
            return Some(Err(refuse(refusal)));
        }
        let raw = if request.method() == Method::GET {
            Ok(bytes::Bytes::new())
        } else {
            body::read(payload, bytes_max, self.body_timeout).await
        };
        let raw = match raw {
            Ok(raw) => raw,
            Err(refusal) => return Some(Err(refuse(refusal))),
        };
        let base_url = self.base_url(request);
        let notice = notice(request, &base_url, &raw);
        match directory.verify_scheme(partner, &notice, receipt.received_at) {
            Ok(verified) => {
                Some(Ok(self.take_all(request, (scheme, &notice), *receipt, &verified).await))
            }
            Err(rejection) => {
                let refusal = Refusal::from(rejection);
                let plain = self.refuse(receipt, Some(&raw), &refusal);
                let answer = (refusal.code == Code::Unauthenticated)
                    .then(|| scheme.acks().plain(Ack::BadSignature))
                    .flatten();
                Some(Ok(answer.map_or(plain, |answer| respond(&answer))))
            }
        }
    }

    /// Takes a notice on the shared route that is nobody's of the contract's scheme, if a partner with its own scheme has
    /// signed it for the account it names; `None` if none has.
    pub(crate) async fn receive_by_merchant(
        &self,
        request: &HttpRequest,
        raw: &[u8],
        receipt: Receipt,
    ) -> Option<HttpResponse> {
        let directory = self.directory.load();
        let base_url = self.base_url(request);
        let notice = notice(request, &base_url, raw);
        let (scheme, verified) = directory.found_by_merchant().find_map(|partner| {
            let verified = directory.verify_scheme(partner, &notice, receipt.received_at);
            Some((directory.scheme(partner)?, verified.ok()?))
        })?;
        Some(self.take_all(request, (scheme, &notice), receipt, &verified).await)
    }

    /// Our address as the partner has it: configured, or as it was asked for.
    fn base_url(&self, request: &HttpRequest) -> String {
        if !self.public_url.is_empty() {
            return self.public_url.clone();
        }
        format!("http://{}", host(request).unwrap_or_default())
    }

    /// Takes every notice of a request; the outcome of the highest rank decides what is answered.
    async fn take_all(
        &self,
        request: &HttpRequest,
        (scheme, notice): (&Scheme, &Request<'_>),
        receipt: Receipt,
        verified: &[VerifiedNotice],
    ) -> HttpResponse {
        let mut kept = kept_headers(scheme, notice);
        // Where our address is not configured, what was signed of it is what was asked for.
        if self.public_url.is_empty() && scheme.signs_address() {
            kept.extend(host(request).map(|host| (header::HOST.as_str().to_owned(), host)));
        }
        let source = |one: &VerifiedNotice| NoticeSource {
            profile: one.profile().stamp().clone(),
            key_id: one.key_id().clone(),
            request: NoticeRequest {
                target: notice.target(),
                headers: kept.clone(),
                method: (notice.method != "POST").then(|| notice.method.to_owned()),
                item: one.item(),
                sign: Some(one.sign().to_owned()),
            },
            released: None,
        };
        let takings = verified.iter().map(|one| {
            let signer =
                Signer { account: Arc::clone(one.account()), key_id: one.key_id().clone() };
            let verdict = Verdict::of(self.admits(request, &signer.account), || {
                judged(one, receipt.received_at)
            });
            let signed = SignedPart {
                text: *one.signed_text_digest(),
                covers_all: one.covers_all(),
                item: one.item(),
            };
            self.taken(self.take(
                Genuine { signer, signed, source: source(one), receipt, raw: notice.body },
                verdict,
            ))
        });
        let outcomes = verified.iter().zip(join_all(takings).await);
        let (one, outcome) = deciding(outcomes).expect("a verified request has a notice");
        answer(one, outcome, receipt)
    }
}

fn host(request: &HttpRequest) -> Option<String> {
    let host = request.headers().get(header::HOST)?;
    host.to_str().ok().map(str::to_owned)
}

/// The host a kept notice was sent to, where that was kept.
pub(crate) fn host_of(recorded: &NoticeRequest) -> Option<&str> {
    let mut headers = recorded.headers.iter();
    let host = headers.find(|(name, _)| name.eq_ignore_ascii_case(header::HOST.as_str()));
    host.map(|(_, host)| host.as_str())
}

/// What a genuine notice is for us. Errors: why it can't be taken.
pub(crate) fn judged(notice: &VerifiedNotice, received_at: Time) -> Result<Judged, Refusal> {
    let judged = shape(notice)?;
    if let Judged::Admitted(admitted) = &judged
        && let Some(timestamp) = admitted.ipn.timestamp
    {
        admit::in_window(notice.profile().time(), timestamp, received_at)?;
    }
    Ok(judged)
}

/// The same without the clock.
pub(crate) fn shape(notice: &VerifiedNotice) -> Result<Judged, Refusal> {
    let said =
        notice.said().map_err(|fault| Refusal::because(code_of(fault.kind), fault.to_string()))?;
    let mapped: &Mapped = match said {
        Said::Ignored => return Ok(Judged::Ignored),
        Said::Kept => return Ok(Judged::Kept),
        Said::Event(mapped) => mapped,
    };
    let account = notice.account();
    let order = OrderKey {
        partner: account.partner().clone(),
        merchant_code: account.merchant_code().clone(),
        order_id: mapped.order_id.clone(),
    };
    let ipn = Ipn {
        provider_ref: mapped.provider_ref.clone(),
        status: mapped.status,
        money: mapped.money.clone(),
        timestamp: mapped.timestamp,
        nonce: mapped.nonce.clone(),
        policy: mapped.policy,
    };
    Ok(Judged::Admitted(Admitted { order, ipn }))
}

fn code_of(kind: FaultKind) -> Code {
    match kind {
        FaultKind::Missing => Code::MissingField,
        FaultKind::Empty => Code::EmptyField,
        FaultKind::WrongType => Code::WrongType,
        FaultKind::UnknownStatus => Code::UnknownStatus,
        FaultKind::AmountNotInteger => Code::AmountNotInteger,
        FaultKind::AmountOutOfRange => Code::AmountOutOfRange,
        FaultKind::UnknownCurrency => Code::UnknownCurrency,
        FaultKind::TooLong => Code::FieldTooLong,
        FaultKind::IllegalCharacter => Code::IllegalCharacter,
        FaultKind::BadTimestamp => Code::BadTimestamp,
        FaultKind::Repeated => Code::DuplicateField,
        FaultKind::Ambiguous => Code::SeparatorInField,
    }
}

/// How much one outcome counts in the answer to a request with several notices. A retry brings every notice again, and
/// what is durable is a duplicate then. A final refusal ends the retries, so a notice that is kept nowhere outranks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AnswerRank {
    Taken,
    RefusedForGood,
    RetryAsked,
    ReceiverClockOff,
    QuarantineFull,
    StorageUnavailable,
}

impl AnswerRank {
    fn of(outcome: &Result<Taken, Refusal>) -> Self {
        let Err(refusal) = outcome else { return Self::Taken };
        match refusal.code {
            Code::StorageUnavailable => Self::StorageUnavailable,
            Code::QuarantineFull => Self::QuarantineFull,
            Code::ReceiverClockOff => Self::ReceiverClockOff,
            code if matches!(code.status(), 429 | 503) => Self::RetryAsked,
            _ => Self::RefusedForGood,
        }
    }
}

/// The first outcome of the highest rank, with the notice it is of.
fn deciding<N>(
    outcomes: impl Iterator<Item = (N, Result<Taken, Refusal>)>,
) -> Option<(N, Result<Taken, Refusal>)> {
    outcomes.min_by_key(|(_, outcome)| std::cmp::Reverse(AnswerRank::of(outcome)))
}

fn ack_of(code: Code) -> Ack {
    match code {
        Code::TimestampOutOfWindow => Ack::Stale,
        Code::StorageUnavailable | Code::QuarantineFull | Code::ReceiverClockOff => {
            Ack::Unavailable
        }
        _ => Ack::NotAdmissible,
    }
}

/// What the partner is told. What limits its traffic is told in HTTP's words, all else in its own where it has some.
fn answer(one: &VerifiedNotice, outcome: Result<Taken, Refusal>, receipt: Receipt) -> HttpResponse {
    let refusal = match outcome {
        Ok(taken) => {
            let ack = match taken {
                Taken::Stored | Taken::Duplicate => Ack::Accepted,
                Taken::Ignored => Ack::Ignored,
            };
            return one.answer(ack).map_or_else(|| HttpResponse::Ok().finish(), respond);
        }
        Err(refusal) => refusal,
    };
    let plain = refusal.respond(receipt.request_id);
    let is_about_traffic = matches!(refusal.code, Code::RateLimited | Code::SourceNotAllowed);
    let Some(own) = one.answer(ack_of(refusal.code)).filter(|_| !is_about_traffic) else {
        return plain;
    };
    let mut response = respond(own);
    if let Some(after) = plain.headers().get(header::RETRY_AFTER) {
        response.headers_mut().insert(header::RETRY_AFTER, after.clone());
    }
    response
}

fn respond(answer: &Answer) -> HttpResponse {
    let status = StatusCode::from_u16(answer.status).expect("a profile's statuses are checked");
    let mut response = HttpResponse::build(status);
    if let Some(content_type) = &answer.content_type {
        response.content_type(content_type.as_str());
    }
    if answer.body.is_empty() { response.finish() } else { response.body(answer.body.clone()) }
}

/// The request as a scheme reads it. A header that is no text is none.
fn notice<'r>(request: &'r HttpRequest, base_url: &'r str, raw: &'r [u8]) -> Request<'r> {
    let headers = request.headers().iter();
    let text = headers.filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
    Request {
        method: request.method().as_str(),
        base_url,
        path: request.uri().path(),
        query: request.uri().query().unwrap_or_default(),
        headers: text.collect(),
        body: raw,
    }
}

/// The headers that have to be kept to check the signature again.
fn kept_headers(scheme: &Scheme, notice: &Request<'_>) -> Vec<(String, String)> {
    let wanted = scheme.headers();
    let is_wanted = |name: &str| wanted.iter().any(|other| other.eq_ignore_ascii_case(name));
    let kept = notice.headers.iter().filter(|(name, _)| is_wanted(name));
    kept.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Outcomes in the order of their notices => the place of the one that is answered.
    const TABLE: &str = "
        stored => 0
        stored duplicate => 0
        ignored stored => 0
        stored timestamp_out_of_window => 1
        timestamp_out_of_window stored missing_field => 0
        source_not_allowed rate_limited => 1
        rate_limited unknown_status => 0
        timestamp_out_of_window quarantine_full => 1
        missing_field receiver_clock_off => 1
        wrong_type storage_unavailable => 1
        storage_unavailable wrong_type => 0
        rate_limited receiver_clock_off => 1
        receiver_clock_off quarantine_full => 1
        quarantine_full storage_unavailable => 1
        storage_unavailable quarantine_full receiver_clock_off rate_limited => 0
        stored wrong_type rate_limited receiver_clock_off quarantine_full storage_unavailable => 5
        quarantine_full stored quarantine_full => 0
    ";

    fn outcome(word: &str) -> Result<Taken, Refusal> {
        match word {
            "stored" => Ok(Taken::Stored),
            "duplicate" => Ok(Taken::Duplicate),
            "ignored" => Ok(Taken::Ignored),
            _ => {
                let code = Code::ALL.into_iter().find(|code| code.as_str() == word);
                Err(Refusal::new(code.expect("a code")))
            }
        }
    }

    #[test]
    fn what_asks_for_a_retry_is_answered_before_what_is_refused_for_good() {
        for case in TABLE.lines().map(str::trim).filter(|case| !case.is_empty()) {
            let (given, expected) = case.split_once(" => ").unwrap();
            let outcomes = given.split(' ').map(outcome).enumerate();
            let (place, _) = deciding(outcomes).unwrap();
            assert_eq!(place.to_string(), expected, "{case}");
        }
        // Whatever the others are, an answer that asks for a retry is never left out.
        for one in Code::ALL {
            for other in Code::ALL {
                let both = [one, other].map(|code| Err(Refusal::new(code)));
                let (_, answered) = deciding(both.into_iter().enumerate()).unwrap();
                let asks_again = |code: Code| matches!(code.status(), 429 | 503);
                let is_asked = asks_again(answered.unwrap_err().code);
                assert_eq!(is_asked, asks_again(one) || asks_again(other), "{one:?} {other:?}");
            }
        }
    }
}
