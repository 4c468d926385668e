//! Owns the second judgement of a quarantined notice: whether the key that signed it then signs it now, and whether it is
//! what the contract says once the one rule that refused it is set aside. Pure: nothing is appended here. Invariant: the
//! bytes are judged as they came; nobody's word admits what no key of the account signed, or what can't be read as a notice.

use payfold_partners::directory::Directory;
use payfold_partners::sealing::{Opened, SealError};
use payfold_schemas::ids::{KeyId, OrderKey};
use payfold_schemas::ipn::{Ipn, Status};
use payfold_schemas::record::{NoticeSource, QuarantineRecord};
use payfold_schemas::release::{Because, Quarantined};

use crate::admit::{Admitted, Judged};
use crate::again::{self, Kept};
use crate::refusal::{Code, Refusal};

/// A quarantined notice as it reads today, released or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reread {
    /// The order it names.
    pub order: OrderKey,
    /// The notice, normalised.
    pub ipn: Ipn,
    /// Profile and key of today's judgement, the request as it was.
    pub source: NoticeSource,
}

/// Why a notice can't be released as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// Its signature can't be checked again.
    #[error(
        "key {0} of its account signs it no longer: was the key taken out of the vault, the account switched off or \
         given another constant? Bring that back to release it"
    )]
    NotVerified(KeyId),
    /// The rule that refused it is another one.
    #[error(
        "it was refused with {code}, and {} sets aside the rule on time only: mend the partner's profile and \
         say profile-fixed, or dismiss it", because.as_str()
    )]
    OtherRule {
        /// What it was refused with.
        code: String,
        /// What was said.
        because: Because,
    },
    /// It is not what the contract and the profile say, or not yet.
    #[error(
        "the profile does not take it: {0}; mend the profile if it should, else dismiss it and have the partner send a \
         right one"
    )]
    NotAdmissible(String),
    /// Its bytes can't be read.
    #[error("{0}; what nobody can read nobody can release: dismiss it")]
    Sealed(#[from] SealError),
    /// It is money of no order of ours.
    #[error(
        "it names no order of ours, so there is nothing it could become: book it or pay it back at the partner, then dismiss it"
    )]
    NoOrder,
    /// It tells nothing that is kept.
    #[error("the profile ignores notices of its kind, so there is nothing to release: dismiss it")]
    Ignored,
}

impl Reread {
    /// Whether it moves money: everything but a plain FAILED or EXPIRED.
    pub fn is_money(&self) -> bool {
        match self.ipn.status {
            Status::Success | Status::Refunded => true,
            Status::Failed | Status::Expired => false,
        }
    }
}

/// Judges a quarantined notice again. `base_url` is our address as partners know it, for schemes that sign it; the key's
/// validity is that of the time the notice came. Errors: `ReleaseError`.
pub fn readmit(
    directory: &Directory,
    base_url: &str,
    kept: &Quarantined,
    because: Because,
) -> Result<Reread, ReleaseError> {
    let refused_with = kept.record.code.as_str();
    if because.is_about_time() && refused_with != Code::TimestampOutOfWindow.as_str() {
        let code = refused_with.to_owned();
        return Err(ReleaseError::OtherRule { code, because });
    }
    reread(directory, base_url, kept, because)
}

/// Reads a quarantined notice for those who decide on it, whatever it was refused for: as far as its shape goes.
/// Errors: `ReleaseError`.
pub fn look(
    directory: &Directory,
    base_url: &str,
    kept: &Quarantined,
) -> Result<Reread, ReleaseError> {
    reread(directory, base_url, kept, Because::LateRetry)
}

fn reread(
    directory: &Directory,
    base_url: &str,
    kept: &Quarantined,
    because: Because,
) -> Result<Reread, ReleaseError> {
    let QuarantineRecord { account, source, received_at, .. } = &kept.record;
    let (recorded, sealed) =
        ((kept.delivery(), &source.request), (kept.raw_key_id.as_ref(), kept.raw.as_slice()));
    let Opened { request, raw } = directory.opened(account, recorded, sealed)?;
    let stored = Kept { source, request: &request, raw: &raw, received_at: *received_at };
    let again = again::verify(directory, base_url, stored)
        .filter(|again| again.is_of(account, &source.key_id))
        .ok_or_else(|| ReleaseError::NotVerified(source.key_id.clone()))?;
    let judged = if because.is_about_time() { again.shape() } else { again.judged(*received_at) };
    match judged.map_err(not_admissible)? {
        Judged::Admitted(admitted) => Ok(of_admitted(admitted, again.source(&source.request))),
        Judged::Kept => Err(ReleaseError::NoOrder),
        Judged::Ignored => Err(ReleaseError::Ignored),
    }
}

fn of_admitted(admitted: Admitted, source: NoticeSource) -> Reread {
    Reread { order: admitted.order, ipn: admitted.ipn, source }
}

fn not_admissible(refusal: Refusal) -> ReleaseError {
    let code = refusal.code.as_str();
    ReleaseError::NotAdmissible(
        refusal.detail.map_or_else(|| code.to_owned(), |detail| format!("{code}, {detail}")),
    )
}

#[cfg(test)]
mod tests;
