//! Owns putting a signed notice into quarantine: whether its bytes are stored already, whether
//! there is room for them, the wait until they are durable, and forgetting them once people have
//! dismissed the notice.

use payfold_partners::directory::Account;
use payfold_partners::sealing::UnsealedBody;
use payfold_partners::verified::VerifiedNotice;
use payfold_schemas::release::Quarantined;
use payfold_schemas::time::Time;

use crate::authenticated::AuthenticatedNotice;
use crate::ingest::Ingest;
use crate::intake::Receipt;
use crate::quarantine::{
    self, BudgetLimit, NoRoom, QuarantineEntry, QuarantineOutcome, QuarantineWrite, Reserved,
};
use crate::refusal::Refusal;
use crate::replays::{KeptNotice, NoticeIdentity};
use crate::reverify::{self, RecordedNotice};

impl Ingest {
    /// Hands a signed notice that is no fact to the log. Writes nothing if this process remembers
    /// its bytes as quarantined, or if there is no room for them.
    pub(crate) fn begin_quarantine(
        &self,
        notice: AuthenticatedNotice<'_, '_>,
        refusal: &Refusal,
        limit: BudgetLimit,
    ) -> QuarantineWrite {
        let AuthenticatedNotice { verified, source, receipt, raw } = notice;
        let (account, now, code) = (&**verified.account(), receipt.received_at, refusal.code);
        let name = account.name();
        let kept = KeptNotice {
            account: &name,
            key_id: &source.key_id,
            code: code.as_str(),
            request: &source.request,
            raw,
        };
        let identity = self.replays.identify_kept(kept);
        if self.remembers(self.replays.quarantined(), identity, &receipt) {
            return QuarantineWrite::AlreadyStored;
        }
        let place = match self.reserve_room(verified, (&name, raw.len()), limit, now) {
            Ok(place) => place,
            Err(why) => {
                self.metrics.count_over_budget();
                if limit == BudgetLimit::Whole {
                    self.sampler.log_no_room(&receipt, raw, (&name, why));
                }
                return QuarantineWrite::NoRoom;
            }
        };
        let entry = QuarantineEntry { account, refusal, source, raw };
        let append = quarantine::append_entry(&self.intake, receipt, name, entry);
        let reserved = Reserved { code, bytes: raw.len(), identity, place };
        QuarantineWrite::Pending(append, Box::new(reserved))
    }

    /// Takes a notice's bytes from its account's budget. If its signature covers all that decides,
    /// takes a place among the variants of its signature, too, and returns that.
    fn reserve_room(
        &self,
        verified: &VerifiedNotice,
        (account, bytes): (&str, usize),
        limit: BudgetLimit,
        now: Time,
    ) -> Result<Option<NoticeIdentity>, NoRoom> {
        let place = match verified.covers_all() {
            true => {
                let signed = self.replays.identify_signed(verified);
                Some(self.replays.reserve_variant(signed, now).ok_or(NoRoom::Variants)?)
            }
            false => None,
        };
        if self.quarantine.take(account, bytes, limit, now) {
            return Ok(place);
        }
        place.into_iter().for_each(|place| self.replays.release_variant(place));
        Err(NoRoom::Budget)
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
            self.quarantine.give_back(&account.name(), reserved.bytes);
            reserved.place.into_iter().for_each(|place| self.replays.release_variant(place));
            return Err(unavailable);
        }
        self.replays.quarantined().remember(reserved.identity, receipt.received_at);
        self.metrics.count_quarantined(reserved.code);
        Ok(QuarantineOutcome::Stored)
    }

    /// Forgets a quarantined notice that people have dismissed: if the partner sends it again, it
    /// is stored again. Bytes that can't be opened any more are not remembered either.
    pub fn forget_dismissed(&self, notice: &Quarantined) {
        let (record, directory) = (&notice.record, self.directory.load());
        let recorded = (notice.delivery(), &record.source.request);
        let sealed = (notice.raw_key_id.as_ref(), notice.raw.as_slice());
        let Ok(UnsealedBody { request, raw }) =
            directory.open_body(&record.account, recorded, sealed)
        else {
            return;
        };
        let kept = KeptNotice {
            account: &record.account,
            key_id: &record.source.key_id,
            code: &record.code,
            request: &request,
            raw: &raw,
        };
        self.replays.quarantined().forget(self.replays.identify_kept(kept));
        let (source, received_at) = (&record.source, record.received_at);
        let recorded = RecordedNotice { source, request: &request, raw: &raw, received_at };
        if let Some(verified) = reverify::reverify_notice(&directory, &self.public_url, recorded) {
            let signed = self.replays.identify_signed(&verified);
            self.replays.release_last_variant(signed, self.clock.now());
        }
    }
}
