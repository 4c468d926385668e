//! Owns putting a signed notice into quarantine: whether its bytes are stored already, whether
//! there is room for them, the wait until they are durable, and forgetting them once people have
//! dismissed the notice.

use payfold_partners::directory::Account;
use payfold_partners::verified::VerifiedNotice;
use payfold_schemas::release::Quarantined;

use crate::authenticated::AuthenticatedNotice;
use crate::ingest::Ingest;
use crate::intake::Receipt;
use crate::limits::Charge;
use crate::quarantine::{
    self, BudgetLimit, QuarantineEntry, QuarantineOutcome, QuarantineWrite, Reserved,
};
use crate::refusal::{Refusal, RefusalCode};
use crate::replays::{KeptNotice, NoRoom, NoticeIdentity, Variant};
use crate::reverify;

impl Ingest {
    /// The identity of a notice that is quarantined under this code.
    pub(crate) fn identify_kept(
        &self,
        notice: &AuthenticatedNotice<'_, '_>,
        code: RefusalCode,
    ) -> NoticeIdentity {
        self.replays.identify_kept(KeptNotice {
            account: &notice.verified.account().name(),
            key_id: &notice.source.key_id,
            code: code.as_str(),
            request: &notice.source.request,
            raw: notice.raw,
        })
    }

    /// Hands a signed notice that is no fact to the log. Writes nothing if this process remembers
    /// its bytes as quarantined (`kept`), or if there is no room for them. Errors: `rate_limited`.
    pub(crate) fn begin_quarantine(
        &self,
        notice: AuthenticatedNotice<'_, '_>,
        refusal: &Refusal,
        (kept, limit): (NoticeIdentity, BudgetLimit),
    ) -> Result<QuarantineWrite, Refusal> {
        let AuthenticatedNotice { verified, receipt, raw, .. } = notice;
        let (account, code) = (&**verified.account(), refusal.code);
        // Those who can't sign leave room for what is signed.
        let limit = if verified.is_unsigned() { BudgetLimit::Half } else { limit };
        if self.remembers(self.replays.quarantined(), kept, &receipt) {
            self.check_account_rate(&notice, Charge::Replay)?;
            return Ok(QuarantineWrite::AlreadyStored);
        }
        let variant = match self.reserve_room(verified, (kept, raw.len()), limit, &receipt) {
            Ok(variant) => variant,
            Err(why) => {
                self.check_account_rate(&notice, Charge::Replay)?;
                if why == NoRoom::Budget {
                    self.metrics.count_over_budget();
                }
                if limit == BudgetLimit::Whole {
                    self.sampler.log_no_room(&receipt, raw, (&account.name(), why));
                }
                return Ok(QuarantineWrite::NoRoom);
            }
        };
        let reserved = Reserved { code, bytes: raw.len(), identity: kept, variant };
        if let Err(limited) = self.check_account_rate(&notice, Charge::Kept) {
            self.give_room_back(account, &reserved);
            return Err(limited);
        }
        let entry = QuarantineEntry { account, refusal, source: notice.source, raw };
        let append = quarantine::append_entry(&self.intake, receipt, account.name(), entry);
        Ok(QuarantineWrite::Pending(append, Box::new(reserved)))
    }

    /// Takes a notice's bytes from its account's budget. If its signature covers all that decides,
    /// takes a place among its variants, too, and returns that.
    fn reserve_room(
        &self,
        verified: &VerifiedNotice,
        (kept, bytes): (NoticeIdentity, usize),
        limit: BudgetLimit,
        receipt: &Receipt,
    ) -> Result<Option<Variant>, NoRoom> {
        let (account, now) = (verified.account().name(), receipt.received_at);
        let variant = match verified.covers_all() {
            true => {
                let variants = self.replays.identify_variants(verified);
                self.replays.reserve_variant(variants, kept, now)?
            }
            false => None,
        };
        if self.quarantine.take(&account, bytes, limit, now) {
            return Ok(variant);
        }
        variant.into_iter().for_each(|variant| self.replays.release_variant(variant));
        Err(NoRoom::Budget)
    }

    /// Gives back what a notice that is not stored has taken.
    fn give_room_back(&self, account: &Account, reserved: &Reserved) {
        self.quarantine.give_back(&account.name(), reserved.bytes);
        reserved.variant.into_iter().for_each(|variant| self.replays.release_variant(variant));
    }

    /// Waits until a quarantined notice is durable. Errors: `storage_unavailable`; the notice's
    /// bytes then go back to its account's budget.
    pub(crate) async fn finish_quarantine(
        &self,
        account: &Account,
        write: QuarantineWrite,
        receipt: &Receipt,
    ) -> Result<QuarantineOutcome, Refusal> {
        let (append, reserved) = match write {
            QuarantineWrite::AlreadyStored => {
                return self.intake.check_storage().await.map(|()| QuarantineOutcome::Stored);
            }
            QuarantineWrite::NoRoom => return Ok(QuarantineOutcome::NoRoom),
            QuarantineWrite::Pending(append, reserved) => (append, reserved),
        };
        if let Err(unavailable) = self.intake.await_durable(append).await {
            self.give_room_back(account, &reserved);
            return Err(unavailable);
        }
        self.replays.quarantined().remember(reserved.identity, receipt.received_at);
        self.metrics.count_quarantined(reserved.code);
        Ok(QuarantineOutcome::Stored)
    }

    /// Forgets a quarantined notice that people have dismissed: if the partner sends it again, it
    /// is stored again. A notice that can't be unsealed any more stays known by its bytes.
    pub fn forget_dismissed(&self, notice: &Quarantined) {
        let (record, directory) = (&notice.record, self.directory.load());
        let Ok(opened) = reverify::open_quarantined(&directory, notice) else { return };
        let kept = self.replays.identify_kept(KeptNotice {
            account: &record.account,
            key_id: &record.source.key_id,
            code: &record.code,
            request: &opened.request,
            raw: &opened.raw,
        });
        let verified =
            reverify::reverify_quarantined(&directory, &self.public_url, (record, &opened));
        let variants = verified.map(|verified| self.replays.identify_variants(&verified));
        self.replays.forget_kept(kept, variants, self.clock.now());
    }
}
