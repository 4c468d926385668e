//! Owns the reading of IPNs and returns. Signatures are verified and contents are read by the same
//! code as in service. Signatures are not recorded.

use payfold_partners::directory::{Account, Directory};
use payfold_partners::profile::{Field, TimeKind};
use payfold_partners::rejection::RejectCode;
use payfold_partners::scheme::{
    AckKind, AckResponse, NoticeContent, NoticeRequest, PaymentEvent, VerifiedNotice,
};
use payfold_schemas::digest::Digest;
use payfold_schemas::time::Time;
use url::form_urlencoded;

use super::observations::{IpnReading, ReceivedReturn, SignedIpn};

/// The most parameters of a return that are recorded.
const PARAMETERS_MAX: usize = 64;

/// An IPN as it was read, with its answer if it is refused. The decision approximates that of
/// ingest: content type, size, signature, content and time.
pub(super) struct ReadIpn {
    /// `None` if the profile acknowledges and ignores this kind of notice.
    pub(super) reading: Option<IpnReading>,
    /// The answer of its refusal, if it is refused.
    pub(super) refusal: Option<AckResponse>,
    notice: Option<VerifiedNotice>,
}

impl ReadIpn {
    /// An IPN that belongs to no account that is known.
    fn refused(reading: IpnReading, refusal: AckResponse) -> Self {
        Self { reading: Some(reading), refusal: Some(refusal), notice: None }
    }

    /// The profile's answer for this outcome, or the contract's.
    pub(super) fn ack(&self, kind: AckKind) -> AckResponse {
        let answer = self.notice.as_ref().and_then(|notice| notice.answer(kind));
        answer.unwrap_or_else(|| contract_ack(kind))
    }
}

fn contract_ack(kind: AckKind) -> AckResponse {
    empty_answer(match kind {
        AckKind::Accepted | AckKind::Ignored => 200,
        AckKind::BadSignature => 401,
        AckKind::NotAdmissible => 400,
        AckKind::Stale => 403,
        AckKind::Unavailable => 503,
    })
}

fn empty_answer(status: u16) -> AckResponse {
    AckResponse { status, content_type: None, body: Vec::new() }
}

/// Reads the IPNs of a request: one, or one for each item of its array. Those that must come again
/// stand first, because their refusal outranks the others in service.
pub(super) fn read_ipns(
    directory: &Directory,
    account: &Account,
    request: &NoticeRequest<'_>,
    now: Time,
) -> Vec<ReadIpn> {
    let scheme = account.profile().scheme();
    if let Some((code, status)) = refused_head(account, request) {
        return vec![ReadIpn::refused(IpnReading::Unread(code), empty_answer(status))];
    }
    let unsigned = |named, kind| {
        let answer = scheme.acks().plain(kind).unwrap_or_else(|| contract_ack(kind));
        ReadIpn::refused(IpnReading::Unsigned(named), answer)
    };
    let partner = account.partner().as_str();
    match directory.authenticate(Some(partner), request, now) {
        Ok(verified) => {
            // Beside signed items, it may be an item that is signed with a key not known yet.
            let items = 0..verified.unsigned.ours;
            let forged = items.map(|_| unsigned(None, AckKind::Unavailable));
            let notices = verified.notices.into_iter();
            forged.chain(notices.map(|notice| read_notice(account, notice, now))).collect()
        }
        Err(rejection) if rejection.code() == RejectCode::Unauthenticated => {
            let is_default = account.profile().is_default_scheme();
            let named = is_default.then(|| claimed_account(request.body)).flatten();
            vec![unsigned(named, AckKind::BadSignature)]
        }
        Err(rejection) => {
            let reading = IpnReading::Unread(rejection.code().as_str());
            vec![ReadIpn::refused(reading, contract_ack(AckKind::NotAdmissible))]
        }
    }
}

/// The code and the status of a request that is refused before its notice is read.
fn refused_head(account: &Account, request: &NoticeRequest<'_>) -> Option<(&'static str, u16)> {
    let header = |wanted| {
        let found = request.headers.iter().find(|(name, _)| *name == wanted);
        found.map(|(_, value)| *value)
    };
    if header("content-encoding").is_some() {
        return Some(("unsupported_content_encoding", 415));
    }
    if !account.profile().scheme().takes_content_type(header("content-type")) {
        return Some(("unsupported_media_type", 415));
    }
    let is_large = request.body.len() > account.profile().limits().body_bytes;
    is_large.then_some(("body_too_large", 413))
}

/// The account that a body names as the contract's IPNs do, whether or not its signature is valid.
fn claimed_account(body: &[u8]) -> Option<String> {
    let value: serde_json::Value = serde_json::from_slice(body).ok()?;
    value.get(Field::MerchantCode.name())?.as_str().map(str::to_owned)
}

fn read_notice(account: &Account, notice: VerifiedNotice, now: Time) -> ReadIpn {
    let other = notice.account().merchant_code();
    let (reading, refusal) = if other != account.merchant_code() {
        (Some(IpnReading::Unsigned(Some(other.to_string()))), Some(AckKind::BadSignature))
    } else if let Some(begins) = notice.key_begins() {
        let early = format!("the key that signed it begins at {begins}");
        (Some(IpnReading::Inadmissible(early)), Some(AckKind::Unavailable))
    } else {
        match notice.content() {
            Ok(NoticeContent::Event(event)) => {
                let refusal = is_stale(&notice, event, now).then_some(AckKind::Stale);
                (Some(IpnReading::Signed(signed_ipn(&notice, event))), refusal)
            }
            Ok(NoticeContent::Ignored | NoticeContent::NoOrder) => (None, None),
            Err(fault) => {
                let reading = IpnReading::Inadmissible(fault.to_string());
                (Some(reading), Some(AckKind::NotAdmissible))
            }
        }
    };
    let read = ReadIpn { reading, refusal: None, notice: Some(notice) };
    ReadIpn { refusal: refusal.map(|kind| read.ack(kind)), ..read }
}

fn is_stale(notice: &VerifiedNotice, event: &PaymentEvent, now: Time) -> bool {
    let rule = notice.profile().time();
    let is_in_time = |time| rule.judge(time, now).is_ok();
    rule.kind != TimeKind::None && !event.timestamp.is_some_and(is_in_time)
}

fn signed_ipn(notice: &VerifiedNotice, event: &PaymentEvent) -> SignedIpn {
    SignedIpn {
        order_id: event.order_id.clone(),
        provider_ref: event.provider_ref.clone(),
        status: event.status,
        amount: event.money.amount,
        currency: event.money.currency,
        paid_at: event.money.paid_at,
        time: event.timestamp,
        event_ref: event.money.event_ref.clone(),
        refund_so_far: event.policy.refund_so_far,
        // A digest of it: the signature itself is not recorded.
        signed: (!notice.is_unsigned()).then(|| Digest::of_bytes(notice.signed())),
        is_signed_anew: notice.profile().time().kind == TimeKind::Delivery,
    }
}

/// Reads a return. Verifies its signature as the browser return does.
pub(super) fn read_return(directory: &Directory, query: &str, now: Time) -> ReceivedReturn {
    let parameters = form_urlencoded::parse(query.as_bytes())
        .filter(|(name, _)| name != Field::Signature.name())
        .take(PARAMETERS_MAX)
        .map(|(name, value)| (name.into_owned(), value.into_owned()));
    let signed_for = directory.verify_return(query, now).map(|order| order.to_string());
    ReceivedReturn { at: now, signed_for, parameters: parameters.collect() }
}
