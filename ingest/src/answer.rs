//! Owns the response to a partner: which outcome of several notices decides it, and how it is
//! written. A request refused before its signature is checked gets a problem document. A 401 and
//! every later outcome get the answer of the partner's custom scheme, if the scheme defines one.
//! `rate_limited` and `source_not_allowed` are always problem documents.

use actix_web::HttpResponse;
use actix_web::http::StatusCode;
use actix_web::http::header;
use payfold_partners::scheme::{AckKind, AckResponse, Scheme};
use payfold_partners::verified::VerifiedNotice;

use crate::authenticated::Acknowledged;
use crate::intake::Receipt;
use crate::refusal::{Refusal, RefusalCode};

/// The rank of one notice's outcome in the response to a request with several notices, lowest
/// first. A retry sends every notice again, and the durable ones are duplicates then. A final
/// refusal ends the retries. An outcome that needs a retry therefore ranks above a final refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AnswerRank {
    Acknowledged,
    FinallyRefused,
    RetryRequested,
    ReceiverClockOff,
    QuarantineFull,
    StorageUnavailable,
}

impl AnswerRank {
    fn from_outcome(outcome: &Result<Acknowledged, Refusal>) -> Self {
        let Err(refusal) = outcome else { return Self::Acknowledged };
        match refusal.code {
            RefusalCode::StorageUnavailable => Self::StorageUnavailable,
            RefusalCode::QuarantineFull => Self::QuarantineFull,
            RefusalCode::ReceiverClockOff => Self::ReceiverClockOff,
            code if matches!(code.status(), 429 | 503) => Self::RetryRequested,
            _ => Self::FinallyRefused,
        }
    }
}

/// Selects the first outcome of the highest rank, with its notice.
pub(crate) fn select_deciding<N>(
    outcomes: impl Iterator<Item = (N, Result<Acknowledged, Refusal>)>,
) -> Option<(N, Result<Acknowledged, Refusal>)> {
    outcomes.min_by_key(|(_, outcome)| std::cmp::Reverse(AnswerRank::from_outcome(outcome)))
}

fn scheme_ack(code: RefusalCode) -> AckKind {
    match code {
        RefusalCode::TimestampOutOfWindow => AckKind::Stale,
        RefusalCode::StorageUnavailable
        | RefusalCode::QuarantineFull
        | RefusalCode::ReceiverClockOff
        | RefusalCode::UnverifiedItem => AckKind::Unavailable,
        _ => AckKind::NotAdmissible,
    }
}

/// Builds the response to an authenticated request. A refusal by a traffic limit is a problem
/// document. Every other outcome gets the answer of the partner's custom scheme, if it defines one.
pub(crate) fn respond_to_notice(
    notice: &VerifiedNotice,
    outcome: Result<Acknowledged, Refusal>,
    receipt: Receipt,
) -> HttpResponse {
    let refusal = match outcome {
        Ok(acknowledged) => {
            let ack = match acknowledged {
                Acknowledged::Stored | Acknowledged::Duplicate => AckKind::Accepted,
                Acknowledged::Ignored => AckKind::Ignored,
            };
            return notice.answer(ack).map_or_else(|| HttpResponse::Ok().finish(), write_answer);
        }
        Err(refusal) => refusal,
    };
    let problem = refusal.respond(receipt.request_id);
    let is_about_traffic =
        matches!(refusal.code, RefusalCode::RateLimited | RefusalCode::SourceNotAllowed);
    let Some(answer) = notice.answer(scheme_ack(refusal.code)).filter(|_| !is_about_traffic) else {
        return problem;
    };
    let mut response = write_answer(answer);
    if let Some(after) = problem.headers().get(header::RETRY_AFTER) {
        response.headers_mut().insert(header::RETRY_AFTER, after.clone());
    }
    response
}

fn write_answer(answer: AckResponse) -> HttpResponse {
    let status = StatusCode::from_u16(answer.status).expect("a profile's statuses are checked");
    let mut response = HttpResponse::build(status);
    if let Some(content_type) = &answer.content_type {
        response.content_type(content_type.as_str());
    }
    if answer.body.is_empty() { response.finish() } else { response.body(answer.body) }
}

/// The response to a request that is not authenticated: that of the custom scheme, or `problem`.
pub(crate) fn respond_unauthenticated(
    scheme: Option<&Scheme>,
    refusal: &Refusal,
    problem: HttpResponse,
) -> HttpResponse {
    let scheme = scheme.filter(|_| refusal.code == RefusalCode::Unauthenticated);
    let answer = scheme.and_then(|scheme| scheme.acks().plain(AckKind::BadSignature));
    answer.map_or(problem, write_answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Outcomes in the order of their notices => the index of the deciding one.
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
        stored timestamp_out_of_window unverified_item => 2
        receiver_clock_off quarantine_full => 1
        quarantine_full storage_unavailable => 1
        storage_unavailable quarantine_full receiver_clock_off rate_limited => 0
        stored wrong_type rate_limited receiver_clock_off quarantine_full storage_unavailable => 5
        quarantine_full stored quarantine_full => 0
    ";

    fn parse_outcome(name: &str) -> Result<Acknowledged, Refusal> {
        match name {
            "stored" => Ok(Acknowledged::Stored),
            "duplicate" => Ok(Acknowledged::Duplicate),
            "ignored" => Ok(Acknowledged::Ignored),
            _ => {
                let code = RefusalCode::ALL.into_iter().find(|code| code.as_str() == name);
                Err(Refusal::new(code.expect("a code")))
            }
        }
    }

    #[test]
    fn an_outcome_that_needs_a_retry_decides_before_a_final_refusal() {
        for case in TABLE.lines().map(str::trim).filter(|case| !case.is_empty()) {
            let (given, expected) = case.split_once(" => ").unwrap();
            let outcomes = given.split(' ').map(parse_outcome).enumerate();
            let (index, _) = select_deciding(outcomes).unwrap();
            assert_eq!(index.to_string(), expected, "{case}");
        }
        // If any outcome needs a retry, the response asks for one.
        for one in RefusalCode::ALL {
            for other in RefusalCode::ALL {
                let both = [one, other].map(|code| Err(Refusal::new(code)));
                let (_, answered) = select_deciding(both.into_iter().enumerate()).unwrap();
                let needs_retry = |code: RefusalCode| matches!(code.status(), 429 | 503);
                let asks_for_retry = needs_retry(answered.unwrap_err().code);
                assert_eq!(
                    asks_for_retry,
                    needs_retry(one) || needs_retry(other),
                    "{one:?} {other:?}"
                );
            }
        }
    }
}
