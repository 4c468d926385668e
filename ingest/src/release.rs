//! Owns the second admission of a quarantined notice, for its release: whether its recorded key
//! still verifies it, and whether it keeps the contract when the rule that refused it is skipped.
//! Pure: nothing is appended here. Invariants: the bytes are checked as they were received. A
//! release never admits a notice that no key of the account signed, or that can't be read.

use payfold_partners::directory::Directory;
use payfold_partners::sealing::SealError;
use payfold_schemas::ids::{KeyId, OrderKey};
use payfold_schemas::ipn::{Ipn, Status};
use payfold_schemas::notice_source::NoticeSource;
use payfold_schemas::record::QuarantineRecord;
use payfold_schemas::release::Quarantined;
use payfold_schemas::released::Because;

use crate::admit::{self, Admission, AdmittedNotice};
use crate::incoming;
use crate::refusal::{Refusal, RefusalCode};
use crate::reverify;

/// A quarantined notice as today's keys and profile read it, released or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RereadNotice {
    /// The order that the notice names.
    pub order: OrderKey,
    /// The notice, normalised.
    pub ipn: Ipn,
    /// Today's profile and key, and the request as recorded.
    pub source: NoticeSource,
}

/// Why a quarantined notice can't be released.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// Today's keys do not verify its signature.
    #[error(
        "key {0} of its account no longer verifies it: the key was removed from the vault, or the \
         account was \
         disabled or got other constants; restore that to release the notice"
    )]
    NotVerified(KeyId),
    /// The reason for the release does not fit the rule that refused it.
    #[error(
        "it was refused with {code}, and {} skips the time rule only: correct the partner's \
         profile and release it with profile-fixed, or dismiss it", because.as_str()
    )]
    OtherRule {
        /// The code it was refused with.
        code: String,
        /// The reason given for the release.
        because: Because,
    },
    /// It breaks the contract or today's profile.
    #[error(
        "the profile does not admit it: {0}; correct the profile if it should, else have the \
         partner send a correct notice, then dismiss this one"
    )]
    NotAdmissible(String),
    /// Its sealed bytes can't be opened.
    #[error("{0}; a notice that can't be read can't be released: dismiss it")]
    Sealed(#[from] SealError),
    /// It reports money and names no order of ours.
    #[error(
        "it names no order of ours, so it can't become a fact: book the money or pay it back at \
         the partner, then dismiss it"
    )]
    NoOrder,
    /// The profile ignores notices of its type.
    #[error("the profile ignores notices of its type, so there is nothing to release: dismiss it")]
    Ignored,
}

impl RereadNotice {
    /// Whether it reports that money moved: SUCCESS or REFUNDED.
    pub fn is_money(&self) -> bool {
        match self.ipn.status {
            Status::Success | Status::Refunded => true,
            Status::Failed | Status::Expired => false,
        }
    }
}

/// Admits a quarantined notice again. `base_url` is the setting `public_url`, for schemes that sign
/// the URL. The key must have been valid when the notice was received. Errors: `ReleaseError`.
pub fn readmit(
    directory: &Directory,
    base_url: &str,
    notice: &Quarantined,
    because: Because,
) -> Result<RereadNotice, ReleaseError> {
    let refused_with = notice.record.code.as_str();
    if because.is_about_time() && refused_with != RefusalCode::TimestampOutOfWindow.as_str() {
        let code = refused_with.to_owned();
        return Err(ReleaseError::OtherRule { code, because });
    }
    reverify_and_admit(directory, base_url, notice, because)
}

/// Reads a quarantined notice for the people who decide about it. Skips the time rule, whatever the
/// notice was refused for. Errors: `ReleaseError`.
pub fn read_quarantined(
    directory: &Directory,
    base_url: &str,
    notice: &Quarantined,
) -> Result<RereadNotice, ReleaseError> {
    reverify_and_admit(directory, base_url, notice, Because::LateRetry)
}

fn reverify_and_admit(
    directory: &Directory,
    base_url: &str,
    notice: &Quarantined,
    because: Because,
) -> Result<RereadNotice, ReleaseError> {
    let QuarantineRecord { account, source, received_at, .. } = &notice.record;
    let opened = reverify::open_quarantined(directory, notice)?;
    let verified = reverify::reverify_quarantined(directory, base_url, (&notice.record, &opened))
        .filter(|verified| reverify::is_signed_by(verified, account, &source.key_id))
        .ok_or_else(|| ReleaseError::NotVerified(source.key_id.clone()))?;
    let admission = match because.is_about_time() {
        true => admit::admit_at_any_time(&verified),
        false => admit::admit_notice(&verified, *received_at),
    };
    match admission.map_err(not_admissible)? {
        Admission::Admitted(admitted) => {
            let AdmittedNotice { order, ipn } = admitted;
            let source = incoming::build_notice_source(&verified, source.request.clone());
            Ok(RereadNotice { order, ipn, source })
        }
        Admission::NoOrder => Err(ReleaseError::NoOrder),
        Admission::Ignored => Err(ReleaseError::Ignored),
    }
}

fn not_admissible(refusal: Refusal) -> ReleaseError {
    let code = refusal.code.as_str();
    ReleaseError::NotAdmissible(
        refusal.detail.map_or_else(|| code.to_owned(), |detail| format!("{code}, {detail}")),
    )
}

#[cfg(test)]
mod tests;
