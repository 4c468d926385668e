//! Owns what happens to a notice whose signer is known, whichever scheme it came in: the limits of its account, its
//! admission, its durability. What is genuine and not admissible is kept whole before it is refused.

use std::time::Instant;

use actix_web::HttpRequest;
use payfold_partners::directory::Account;
use payfold_schemas::ids::KeyId;
use payfold_schemas::record::NoticeSource;

use crate::admit::Judged;
use crate::http::Ingest;
use crate::intake::{Body, Receipt};
use crate::limits::NOBODY;
use crate::quarantine::{Keeping, Refused};
use crate::refusal::{Code, Refusal};

/// A notice that a key of a known account has signed.
pub(crate) struct Genuine<'a> {
    /// Whose it is.
    pub(crate) account: &'a Account,
    /// The key that signed it.
    pub(crate) key_id: &'a KeyId,
    /// Profile, key and request.
    pub(crate) source: NoticeSource,
    /// When it came.
    pub(crate) receipt: Receipt,
    /// Its bytes as they came.
    pub(crate) raw: &'a [u8],
}

/// What became of a notice that is not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is durable.
    Stored,
    /// It is of a kind that leaves no fact; what has to be kept of it is durable.
    Ignored,
}

impl Ingest {
    /// Takes a genuine notice; `judge` says what it is for us. Errors: why it was not taken, once what
    /// has to be kept of it is durable.
    pub(crate) async fn take(
        &self,
        request: &HttpRequest,
        genuine: Genuine<'_>,
        judge: impl FnOnce() -> Result<Judged, Refusal>,
    ) -> Result<Taken, Refusal> {
        let Genuine { account, key_id, source, receipt, raw } = genuine;
        let refused = |refusal: Refusal| {
            self.metrics.notice_refused(Some(account.partner()), refusal.code);
            self.sampler.refused(&receipt, Some(raw), refusal.code);
            refusal
        };
        if !account.allows_source(self.source(request).unwrap_or(NOBODY)) {
            return Err(refused(Refusal::new(Code::SourceNotAllowed)));
        }
        self.limits.pass_account(account.index(), account.rate_per_s()).map_err(refused)?;
        match judge() {
            Ok(Judged::Ignored) => {
                self.metrics.notice_ignored(account.partner());
                Ok(Taken::Ignored)
            }
            Ok(Judged::Kept) => {
                let why = Refusal::new(Code::NoOrder);
                let kept = Refused { account, refusal: &why, source, raw };
                match self.keep(receipt, kept).await.map_err(refused)? {
                    Keeping::Whole => self.metrics.notice_ignored(account.partner()),
                    // What is acknowledged is not sent again.
                    Keeping::OverBudget => {
                        return Err(refused(Refusal::new(Code::StorageUnavailable)));
                    }
                }
                Ok(Taken::Ignored)
            }
            Ok(Judged::Admitted(admitted)) => {
                let (timestamp, started) = (admitted.ipn.timestamp, Instant::now());
                let admitted = admitted.with_source(source);
                let key = account.body_keys().sealing(receipt.received_at);
                let body = Body { raw, key };
                self.intake.append(receipt, admitted, body).await.map_err(refused)?;
                self.metrics.append_took(started.elapsed());
                let accepted = self.metrics.partner(account.partner());
                self.metrics.notice_accepted(&accepted, (account.partner(), key_id));
                self.look_at_key((account, key_id), &receipt);
                accepted.seen_at(receipt.received_at, timestamp);
                Ok(Taken::Stored)
            }
            Err(refusal) => {
                let kept = Refused { account, refusal: &refusal, source, raw };
                self.keep(receipt, kept).await.map_err(refused)?;
                Err(refused(refusal))
            }
        }
    }

    /// Tells of a partner that goes on signing with the key before: when its overlap ends, its notices are refused.
    fn look_at_key(&self, (account, old): (&Account, &KeyId), receipt: &Receipt) {
        if let Some(new) = account.keys().replacement_of(old, receipt.received_at) {
            self.metrics.old_key_used(account.partner(), old);
            self.sampler.old_key_used(receipt, account, (old, new.id()));
        }
    }
}
