//! Owns the repeated verification of a recorded notice, for releases and for audits: the request is
//! rebuilt from its record and verified as at its receipt. Pure. Invariant: the recorded bytes are
//! verified unchanged, with the keys that were valid when the notice was received.

use payfold_partners::directory::Directory;
use payfold_partners::scheme::NoticeRequest;
use payfold_partners::sealing::{SealError, UnsealedBody};
use payfold_partners::verified::VerifiedNotice;
use payfold_schemas::ids::KeyId;
use payfold_schemas::notice_source::{NoticeSource, RecordedRequest};
use payfold_schemas::record::QuarantineRecord;
use payfold_schemas::release::Quarantined;
use payfold_schemas::time::Time;

use crate::incoming;

const ROUTE: &str = "/api/payment/ipn/";

/// A notice read from the log, unsealed.
#[derive(Clone, Copy)]
pub(crate) struct RecordedNotice<'a> {
    /// The recorded profile and key.
    pub(crate) source: &'a NoticeSource,
    /// The whole request; `source` may hold only its clear part.
    pub(crate) request: &'a RecordedRequest,
    /// The body as received.
    pub(crate) raw: &'a [u8],
    /// When the request arrived.
    pub(crate) received_at: Time,
}

/// Opens the bytes of a quarantined notice. Errors: they are sealed, and the key is erased.
pub(crate) fn open_quarantined(
    directory: &Directory,
    notice: &Quarantined,
) -> Result<UnsealedBody, SealError> {
    let recorded = (notice.delivery(), &notice.record.source.request);
    let sealed = (notice.raw_key_id.as_ref(), notice.raw.as_slice());
    directory.open_body(&notice.record.account, recorded, sealed)
}

/// Verifies a quarantined notice with these opened bytes again; `None` if no key of the directory
/// signed it. `base_url` is the public URL.
pub(crate) fn reverify_quarantined(
    directory: &Directory,
    base_url: &str,
    (record, opened): (&QuarantineRecord, &UnsealedBody),
) -> Option<VerifiedNotice> {
    let QuarantineRecord { source, received_at, .. } = record;
    let UnsealedBody { request, raw } = opened;
    let recorded = RecordedNotice { source, request, raw, received_at: *received_at };
    reverify_notice(directory, base_url, recorded)
}

/// Whether a notice belongs to this account (`partner/merchantCode`) and was signed by this key.
pub(crate) fn is_signed_by(notice: &VerifiedNotice, account: &str, key_id: &KeyId) -> bool {
    let (partner, merchant) = (notice.account().partner(), notice.account().merchant_code());
    account.split_once('/') == Some((partner.as_str(), merchant.as_str()))
        && notice.key_id() == key_id
}

/// Verifies a recorded notice again; `None` if no key of the directory signed it. `base_url` is the
/// public URL. If the record holds the `Host` header, verification is also tried with that host.
pub(crate) fn reverify_notice(
    directory: &Directory,
    base_url: &str,
    notice: RecordedNotice<'_>,
) -> Option<VerifiedNotice> {
    let recorded = notice.request;
    let (path, query) = recorded.target.split_once('?').unwrap_or((&recorded.target, ""));
    let named = path.strip_prefix(ROUTE);
    // The shared path names no partner, so the partner comes from the recorded profile.
    let partner = named.unwrap_or(notice.source.profile.partner.as_str());
    let host_url = incoming::recorded_host(recorded).map(|host| format!("http://{host}"));
    let base_urls = [Some(base_url), host_url.as_deref()];
    let headers: Vec<_> =
        recorded.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    base_urls.into_iter().flatten().find_map(|base_url| {
        let request = NoticeRequest {
            method: recorded.method.as_deref().unwrap_or("POST"),
            base_url,
            path,
            query,
            headers: headers.clone(),
            body: notice.raw,
        };
        let (route, item) = ((named, partner), recorded.item);
        directory.reauthenticate(route, &request, item, notice.received_at).ok()
    })
}
