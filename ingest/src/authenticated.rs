//! Owns the processing of a notice with a verified signature, for every scheme: the limits of its
//! account, its admission and its durability. A notice that is not admissible is stored whole in
//! quarantine before it is refused. A notice that can't be stored is answered 503. A replay of a
//! durable fact is acknowledged again, as long as its time is in the window. A replay of a
//! quarantined notice is judged again by the present clock and is not stored again.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use payfold_partners::directory::Account;
use payfold_partners::profile::TimeKind;
use payfold_partners::verified::VerifiedNotice;
use payfold_schemas::ids::KeyId;
use payfold_schemas::notice_source::NoticeSource;
use payfold_schemas::time::Time;

use crate::admit::{Admission, admit_notice};
use crate::clock_agreement::{ClockVerdict, OutOfWindowNotice};
use crate::ingest::Ingest;
use crate::intake::{NoticeBody, PendingAppend, Receipt};
use crate::limits::{Charge, Sender, UNKNOWN_ADDRESS};
use crate::quarantine::{BudgetLimit, QuarantineOutcome, QuarantineWrite};
use crate::refusal::{Refusal, RefusalCode};
use crate::replays::NoticeIdentity;

/// `Retry-After` of a signed notice that is answered 503, in seconds.
pub(crate) const SIGNED_RETRY_AFTER_S: u64 = 60;

/// A notice that a key of a known account has signed, or a notice of a scheme without signatures.
pub(crate) struct AuthenticatedNotice<'v, 'a> {
    /// The account, the key, and the fields that are signed.
    pub(crate) verified: &'v VerifiedNotice,
    /// Profile, key and request, as they will be recorded.
    pub(crate) source: NoticeSource,
    /// The address the request came from.
    pub(crate) address: Option<IpAddr>,
    /// When the request arrived, and its id.
    pub(crate) receipt: Receipt,
    /// The request's body, unchanged.
    pub(crate) raw: &'a [u8],
}

/// An authenticated notice that is judged. Its record, if it has one, is with the log and perhaps
/// not durable yet.
pub(crate) struct PendingNotice<'a> {
    /// The account that the notice belongs to.
    account: Arc<Account>,
    /// The key of that account that signed it; `unsigned` if none did.
    key_id: KeyId,
    receipt: Receipt,
    raw: &'a [u8],
    step: PendingStep,
}

/// What `finish_notice` still has to do for a notice.
enum PendingStep {
    /// Wait until the fact is durable, then acknowledge.
    StoreFact {
        append: PendingAppend,
        timestamp: Option<Time>,
        /// Whether its time is evidence that this host's clock is right.
        shows_clock: bool,
        started: Instant,
        identity: NoticeIdentity,
        unknown_fields: u32,
    },
    /// Acknowledge a replay of a fact that this process remembers as durable.
    AcknowledgeReplay,
    /// Wait until the notice is durable in quarantine, then refuse it.
    QuarantineAndRefuse(QuarantineWrite, Refusal),
    /// Wait until the notice is durable in quarantine, then acknowledge it.
    QuarantineAndAcknowledge(QuarantineWrite),
    /// Nothing: the notice leaves no record.
    Nothing(Result<Acknowledged, Refusal>),
}

/// Why a notice is answered as received rather than refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acknowledged {
    /// Its fact is durable.
    Stored,
    /// It is a replay of a durable fact.
    Duplicate,
    /// It leaves no fact. If it must be in quarantine, it is durable there.
    Ignored,
}

/// The refusal of a signed notice that could not be quarantined. It is always a 503: a final
/// refusal would end the partner's retries, and no copy of the notice would be left.
fn refusal_without_quarantine(refusal: Refusal) -> Refusal {
    match refusal.code {
        RefusalCode::ReceiverClockOff => refusal,
        _ => Refusal::with_retry(RefusalCode::QuarantineFull, SIGNED_RETRY_AFTER_S),
    }
}

impl Ingest {
    /// Counts a notice against the rate of its account. Errors: `rate_limited`.
    pub(crate) fn check_account_rate(
        &self,
        notice: &AuthenticatedNotice<'_, '_>,
        charge: Charge,
    ) -> Result<(), Refusal> {
        let (account, sender) = (notice.verified.account(), Sender::of(notice.verified));
        self.limits
            .check_account_rate((account.index(), sender), account.rate_per_s(), charge)
            .map_err(|refusal| refusal.of_address(notice.address))
    }

    /// Checks that the account may send from this address and admits the notice, then hands its
    /// record to the log. A notice from another address leaves no record. Does not wait for
    /// durability. `facts` has the facts of the request's earlier notices.
    pub(crate) fn begin_notice<'a>(
        &self,
        notice: AuthenticatedNotice<'_, 'a>,
        facts: &mut HashSet<NoticeIdentity>,
    ) -> PendingNotice<'a> {
        let AuthenticatedNotice { verified, address, receipt, raw, .. } = notice;
        let (account, key_id) = (Arc::clone(verified.account()), verified.key_id().clone());
        let step = if account.allows_source(address.unwrap_or(UNKNOWN_ADDRESS)) {
            match admit_notice(verified, receipt.received_at) {
                Ok(admission) => self.begin_admission(notice, admission, facts),
                Err(refusal) => self.begin_refusal(notice, refusal),
            }
        } else {
            Err(Refusal::new(RefusalCode::SourceNotAllowed).of_address(address))
        };
        let step = step.unwrap_or_else(|refusal| PendingStep::Nothing(Err(refusal)));
        PendingNotice { account, key_id, receipt, raw, step }
    }

    /// Begins what an admissible notice requires. Only a new fact counts against the account's rate
    /// of facts: replays must not use it up. `remembers` is false while the log takes no appends.
    fn begin_admission(
        &self,
        notice: AuthenticatedNotice<'_, '_>,
        admission: Admission,
        facts: &mut HashSet<NoticeIdentity>,
    ) -> Result<PendingStep, Refusal> {
        let (verified, receipt) = (notice.verified, notice.receipt);
        let account = &**verified.account();
        let admitted = match admission {
            Admission::Admitted(admitted) => admitted,
            Admission::Ignored => {
                self.check_account_rate(&notice, Charge::Replay)?;
                self.metrics.count_ignored(account.partner());
                return Ok(PendingStep::Nothing(Ok(Acknowledged::Ignored)));
            }
            Admission::NoOrder => {
                let refusal = Refusal::new(RefusalCode::NoOrder);
                let kept = self.identify_kept(&notice, refusal.code);
                let write = self.begin_quarantine(notice, &refusal, (kept, BudgetLimit::Whole))?;
                return Ok(PendingStep::QuarantineAndAcknowledge(write));
            }
        };
        let identity = self.replays.identify_fact(verified, &admitted);
        if self.remembers(self.replays.facts(), identity, &receipt) {
            self.check_account_rate(&notice, Charge::Replay)?;
            return Ok(PendingStep::AcknowledgeReplay);
        }
        if verified.item().is_some() && !facts.insert(identity) {
            // What the copy before it comes to decides the answer of the request.
            self.check_account_rate(&notice, Charge::Replay)?;
            self.metrics.count_duplicate(account.partner());
            return Ok(PendingStep::Nothing(Ok(Acknowledged::Duplicate)));
        }
        self.check_account_rate(&notice, Charge::Fact)?;
        let (timestamp, started) = (admitted.ipn.timestamp, Instant::now());
        let body =
            NoticeBody { raw: notice.raw, key: account.body_keys().sealing(receipt.received_at) };
        let append = self.intake.append_notice(receipt, admitted, notice.source, body);
        let is_of_delivery = account.profile().time().kind == TimeKind::Delivery;
        let shows_clock = timestamp.is_some() && verified.covers_time() && is_of_delivery;
        Ok(PendingStep::StoreFact {
            append,
            timestamp,
            shows_clock,
            started,
            identity,
            unknown_fields: verified.unknown_fields(),
        })
    }

    /// Begins the quarantine of an inadmissible notice.
    fn begin_refusal(
        &self,
        notice: AuthenticatedNotice<'_, '_>,
        refusal: Refusal,
    ) -> Result<PendingStep, Refusal> {
        let kept = self.identify_kept(&notice, refusal.code);
        let answer = self.apply_clock_verdict(notice.verified, &refusal, &notice.receipt);
        // A 503 makes the partner send the notice again. These notices get half of the budget, so
        // that they can't displace the evidence of final refusals.
        let share = match answer.code {
            RefusalCode::ReceiverClockOff => BudgetLimit::Half,
            _ => BudgetLimit::Whole,
        };
        let write = self.begin_quarantine(notice, &refusal, (kept, share))?;
        Ok(PendingStep::QuarantineAndRefuse(write, answer))
    }

    /// Replaces a refusal for an out-of-window timestamp by a 503 while this host's clock is wrong,
    /// and if a key that is not valid yet has signed the notice. Other refusals stay as they are.
    fn apply_clock_verdict(
        &self,
        verified: &VerifiedNotice,
        refusal: &Refusal,
        receipt: &Receipt,
    ) -> Refusal {
        let at = receipt.received_at;
        // Anybody can write a time that nothing signs.
        if let Some(skew_ms) = refusal.skew_ms.filter(|_| verified.covers_time()) {
            // A replay is no evidence about the clock: anybody with an old notice can send it
            // again, with other bytes beside the signed ones.
            let identity = self.replays.identify_signed(verified);
            if self.replays.out_of_window().add(identity, at) {
                let notice = OutOfWindowNotice { at, skew_ms, identity: identity.first_half() };
                self.clock_health.record_out_of_window(verified.account().partner(), notice);
            }
        }
        let is_ours = || {
            verified.key_begins().is_some()
                || matches!(self.clock_health.verdict(at), ClockVerdict::Off { .. })
        };
        if refusal.code == RefusalCode::TimestampOutOfWindow && is_ours() {
            return Refusal::with_retry(RefusalCode::ReceiverClockOff, SIGNED_RETRY_AFTER_S);
        }
        refusal.clone()
    }

    /// Waits until the record of a notice is durable, then counts the outcome. Errors: the refusal
    /// to answer with.
    pub(crate) async fn finish_notice(
        &self,
        pending: PendingNotice<'_>,
    ) -> Result<Acknowledged, Refusal> {
        let PendingNotice { account, key_id, receipt, raw, step } = pending;
        let partner = account.partner();
        let outcome = match step {
            PendingStep::Nothing(outcome) => outcome,
            PendingStep::AcknowledgeReplay => self.intake.check_storage().await.map(|()| {
                self.metrics.count_duplicate(partner);
                Acknowledged::Duplicate
            }),
            PendingStep::StoreFact {
                append,
                timestamp,
                shows_clock,
                started,
                identity,
                unknown_fields,
            } => {
                self.intake.await_durable(append).await.map(|()| {
                    // Only now: a replay must not be acknowledged before the fact is durable.
                    self.replays.facts().remember(identity, receipt.received_at);
                    self.metrics.observe_append(started.elapsed());
                    self.metrics.count_unknown_fields(u64::from(unknown_fields));
                    self.record_accepted(&account, &key_id, &receipt, timestamp);
                    if shows_clock {
                        self.clock_health.record_in_window(partner, receipt.received_at);
                    }
                    Acknowledged::Stored
                })
            }
            PendingStep::QuarantineAndRefuse(write, refusal) => {
                match self.finish_quarantine(&account, write, &receipt).await {
                    Ok(QuarantineOutcome::Stored) => Err(refusal),
                    Ok(QuarantineOutcome::NoRoom) => Err(refusal_without_quarantine(refusal)),
                    Err(unavailable) => Err(unavailable),
                }
            }
            PendingStep::QuarantineAndAcknowledge(write) => {
                match self.finish_quarantine(&account, write, &receipt).await {
                    Ok(QuarantineOutcome::Stored) => {
                        self.metrics.count_ignored(partner);
                        Ok(Acknowledged::Ignored)
                    }
                    // An acknowledged notice is not sent again, so this one must not be.
                    Ok(QuarantineOutcome::NoRoom) => {
                        Err(refusal_without_quarantine(Refusal::new(RefusalCode::NoOrder)))
                    }
                    Err(unavailable) => Err(unavailable),
                }
            }
        };
        outcome.inspect_err(|refusal| {
            self.metrics.count_refused(Some(partner), refusal.code);
            self.sampler.log_refusal(&receipt, Some(raw), refusal);
        })
    }

    /// Counts a durable fact.
    fn record_accepted(
        &self,
        account: &Account,
        key_id: &KeyId,
        receipt: &Receipt,
        timestamp: Option<Time>,
    ) {
        let partner = account.partner();
        let partner_metrics = self.metrics.for_partner(partner);
        self.metrics.count_accepted(&partner_metrics, (partner, key_id));
        self.warn_of_old_key(account, key_id, receipt);
        partner_metrics.set_last_accepted(receipt.received_at, timestamp);
    }

    /// Counts and logs a partner that still signs with a replaced key. Its notices are refused once
    /// the overlap of the two keys ends.
    fn warn_of_old_key(&self, account: &Account, old: &KeyId, receipt: &Receipt) {
        if let Some(new) = account.keys().replacement_of(old, receipt.received_at) {
            self.metrics.count_old_key_use(account.partner(), old);
            self.sampler.log_old_key_use(receipt, account, (old, new.id()));
        }
    }
}
