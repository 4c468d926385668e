//! Owns the routes of the public listener and the steps of an IPN request; each step is one call
//! into another file. `Ingest::receive` checks the address rate (`limits`) and the head
//! (`endpoint`) and reads the bytes (`body`). `begin_notices` authenticates the request
//! (`partners::authenticate`), picks what is recorded of it (`incoming`: target, method, and the
//! headers that the scheme reads or signs), admits its notices and hands their records to the log
//! (`begin_notice` in `authenticated`). `process_request` waits for the records (`finish_notice`
//! there) and responds (`answer`). An accepted notice is answered after `Intake::await_durable`
//! returns, a replay from the memory of durable notices. `Ingest`, the shared state, is in
//! `ingest`.

use std::collections::HashSet;
use std::time::Instant;

use actix_web::http::Method;
use actix_web::web::{self, Data, Payload, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse, guard};
use bytes::Bytes;
use futures_util::future::join_all;
use payfold_partners::rejection::Rejection;
use payfold_partners::verified::{UnsignedItems, VerifiedNotice, VerifiedRequest};

use crate::authenticated::{
    Acknowledged, AuthenticatedNotice, PendingNotice, SIGNED_RETRY_AFTER_S,
};
use crate::incoming::{IncomingRequest, PartnerFacingUrl};
use crate::ingest::Ingest;
use crate::intake::Receipt;
use crate::refusal::{Refusal, RefusalCode};
use crate::{answer, body, endpoint, not_found};

/// Registers the routes that partners use. Every other path gets a 404 problem document.
pub fn routes(config: &mut ServiceConfig) {
    for path in ["/api/payment/ipn", "/api/payment/ipn/{partner}"] {
        config.service(
            web::resource(path)
                .guard(guard::fn_guard(not_found::is_plain_path))
                .route(web::post().to(handle_ipn))
                .route(web::get().guard(guard::fn_guard(endpoint::accepts_get)).to(handle_ipn))
                .default_service(web::to(refuse_method)),
        );
    }
    config.default_service(web::to(not_found::respond_not_found));
}

async fn refuse_method(request: HttpRequest, unread: Payload) -> HttpResponse {
    not_found::respond_method_not_allowed(&request, unread, "POST")
}

/// Handles `POST /api/payment/ipn` and `/api/payment/ipn/{partner}` (contract 4.2). A durable
/// notice gets 200 with an empty body, or the answer of the partner's custom scheme. Everything
/// else gets a problem document (RFC 9457).
async fn handle_ipn(
    request: HttpRequest,
    mut payload: Payload,
    ingest: Data<Ingest>,
) -> HttpResponse {
    let started = Instant::now();
    let _open = ingest.open_request();
    let answer = match ingest.receive(&request, &mut payload).await {
        Ok(answer) => answer,
        Err(refused) => body::attach_unread(payload, refused),
    };
    ingest.metrics.observe_request(started.elapsed());
    answer
}

impl Ingest {
    /// Processes a request from its arrival to its response. Errors: the response of a refusal that
    /// is decided before the whole body is read.
    async fn receive(
        &self,
        request: &HttpRequest,
        payload: &mut Payload,
    ) -> Result<HttpResponse, HttpResponse> {
        let receipt = self.new_receipt();
        let refuse = |refusal: Refusal| self.refuse_anonymous(&receipt, None, &refusal);
        self.limits.check_address_rate(self.source_address(request)).map_err(refuse)?;
        let bytes_max = endpoint::check_head(&self.directory.load(), request)
            .map_err(|refused| refused.add_allow_header(refuse(refused.refusal.clone())))?;
        let raw = match *request.method() {
            Method::GET => Bytes::new(),
            _ => body::read(payload, bytes_max, self.body_timeout).await.map_err(refuse)?,
        };
        Ok(self.process_request(request, &raw, receipt).await)
    }

    /// Processes every notice of a request after its body is read. The outcome with the highest
    /// `AnswerRank` decides the response.
    async fn process_request(
        &self,
        request: &HttpRequest,
        raw: &[u8],
        receipt: Receipt,
    ) -> HttpResponse {
        let (VerifiedRequest { notices, unsigned }, pending) =
            match self.begin_notices(request, raw, receipt) {
                Ok(begun) => begun,
                Err(rejection) => return self.refuse_rejected(request, raw, &receipt, rejection),
            };
        let mut outcomes = self.finish_notices(pending).await;
        // The first notice's profile writes the answer.
        let unsigned = self.refuse_unsigned(&notices[0], unsigned, (raw, &receipt));
        outcomes.extend(unsigned.map(Err));
        let deciders = notices.iter().chain(&notices[..1]);
        let (notice, outcome) = answer::select_deciding(deciders.zip(outcomes))
            .expect("a verified request has a notice");
        answer::respond_to_notice(notice, outcome, receipt)
    }

    /// Verifies a request, admits each of its notices, and hands the records to the log. Returns
    /// before they are durable. Errors: no known key signed the request, or the request can't be
    /// parsed.
    fn begin_notices<'a>(
        &self,
        request: &HttpRequest,
        raw: &'a [u8],
        receipt: Receipt,
    ) -> Result<(VerifiedRequest, Vec<PendingNotice<'a>>), Rejection> {
        let directory = self.directory.load();
        let (partner, now) = (request.match_info().get("partner"), receipt.received_at);
        let url;
        let incoming = if directory.reads_whole_request(partner) {
            url = PartnerFacingUrl::from_request(request, &self.public_url);
            IncomingRequest::whole(request, raw, &url)
        } else {
            IncomingRequest::without_headers(request, raw)
        };
        let verified = directory.authenticate(partner, &incoming.request, now)?;
        let address = self.source_address(request);
        // An array may hold one notice many times; it is stored once.
        let mut facts = HashSet::new();
        let begin = |notice: &VerifiedNotice| {
            let source = incoming.notice_source(notice);
            let authenticated =
                AuthenticatedNotice { verified: notice, source, address, receipt, raw };
            self.begin_notice(authenticated, &mut facts)
        };
        let pending = verified.notices.iter().map(begin).collect();
        Ok((verified, pending))
    }

    /// Counts and logs the items of an array that no known key signed. Returns a refusal if one of
    /// them may be a notice for us, so that it is sent again: its account may be disabled, or its
    /// key not known yet.
    fn refuse_unsigned(
        &self,
        beside: &VerifiedNotice,
        UnsignedItems { ours, others }: UnsignedItems,
        (raw, receipt): (&[u8], &Receipt),
    ) -> Option<Refusal> {
        let partner = beside.account().partner();
        let codes = [(ours, RefusalCode::UnverifiedItem), (others, RefusalCode::Unauthenticated)];
        for (count, code) in codes.into_iter().filter(|(count, _)| *count > 0) {
            (0..count).for_each(|_| self.metrics.count_refused(Some(partner), code));
            self.sampler.log_refusal(receipt, Some(raw), &Refusal::new(code));
        }
        (ours > 0).then(|| Refusal::with_retry(RefusalCode::UnverifiedItem, SIGNED_RETRY_AFTER_S))
    }

    /// Builds the response to a request that no known key signed, or that can't be parsed.
    fn refuse_rejected(
        &self,
        request: &HttpRequest,
        raw: &[u8],
        receipt: &Receipt,
        rejection: Rejection,
    ) -> HttpResponse {
        let refusal = Refusal::from(rejection);
        let problem = self.refuse_anonymous(receipt, Some(raw), &refusal);
        let directory = self.directory.load();
        let partner = request.match_info().get("partner");
        let scheme = partner.and_then(|partner| directory.scheme(partner));
        answer::respond_unauthenticated(scheme, &refusal, problem)
    }

    /// Waits for all notices of a request at once. Outcomes are in the order of the notices.
    async fn finish_notices(
        &self,
        mut pending: Vec<PendingNotice<'_>>,
    ) -> Vec<Result<Acknowledged, Refusal>> {
        if pending.len() > 1 {
            // Boxed to keep the future of a request with one notice small (a test holds it under
            // 1.5 KiB).
            let all = pending.into_iter().map(|notice| self.finish_notice(notice));
            return Box::pin(join_all(all)).await;
        }
        match pending.pop() {
            Some(only) => vec![self.finish_notice(only).await],
            None => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Size in bytes of the future that handles a request, without the request's own bytes.
    fn future_size<F>(_: impl Fn(HttpRequest, Payload, Data<Ingest>) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn the_future_of_a_waiting_request_is_small() {
        let bytes = future_size(handle_ipn);
        assert!(bytes <= 1_536, "{bytes} bytes: thousands of these futures wait at once");
    }
}
