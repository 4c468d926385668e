//! Owns what happens to a notice whose signer is known, whichever scheme it came in: the limits of its account, its
//! admission, its durability. What is genuine and not admissible is kept whole before it is refused; what can't be kept
//! is answered 503. A replay of what is durable already is answered as the first was.

use std::sync::Arc;
use std::time::Instant;

use actix_web::HttpRequest;
use payfold_partners::directory::Account;
use payfold_partners::profile::TimeKind;
use payfold_schemas::ids::{KeyId, PartnerCode};
use payfold_schemas::record::NoticeSource;
use payfold_schemas::time::Time;

use crate::admit::Judged;
use crate::clock_agreement::{ClockVerdict, OutsideNotice};
use crate::http::Ingest;
use crate::intake::{Appending, Body, Receipt};
use crate::limits::NOBODY;
use crate::quarantine::{BudgetShare, Keeping, Kept, Refused};
use crate::refusal::{Code, Refusal};
use crate::replays::{NoticeIdentity, SignedPart};

/// Seconds after which a partner should send again what was not refused for good.
const COME_AGAIN_AFTER_S: u64 = 60;

/// A notice that a key of a known account has signed.
pub(crate) struct Genuine<'a> {
    /// Who signed it.
    pub(crate) signer: Signer,
    /// What is signed in it.
    pub(crate) signed: SignedPart,
    /// Profile, key and request.
    pub(crate) source: NoticeSource,
    /// When it came.
    pub(crate) receipt: Receipt,
    /// Its bytes as they came.
    pub(crate) raw: &'a [u8],
}

/// An account, and the key of it that signed.
pub(crate) struct Signer {
    /// Whose it is.
    pub(crate) account: Arc<Account>,
    /// The key.
    pub(crate) key_id: KeyId,
}

/// What a genuine notice is for us.
pub(crate) enum Verdict {
    /// Its account may not send now; it was not judged.
    Barred(Refusal),
    /// It is not what the contract says.
    Inadmissible(Refusal),
    /// It is taken.
    Of(Judged),
}

impl Verdict {
    /// What `judge` says, if the account is admitted at all.
    pub(crate) fn of(
        admitted: Result<(), Refusal>,
        judge: impl FnOnce() -> Result<Judged, Refusal>,
    ) -> Self {
        match admitted.map(|()| judge()) {
            Err(refusal) => Self::Barred(refusal),
            Ok(Err(refusal)) => Self::Inadmissible(refusal),
            Ok(Ok(judged)) => Self::Of(judged),
        }
    }
}

/// A genuine notice that is judged; the log has what is to be stored of it.
pub(crate) struct Taking<'a> {
    signer: Signer,
    receipt: Receipt,
    raw: &'a [u8],
    step: Step,
}

/// Where it stands.
enum Step {
    /// It is a fact on its way.
    Stored {
        appending: Appending,
        timestamp: Option<Time>,
        since: Instant,
        identity: NoticeIdentity,
    },
    /// It is a replay of a notice that is durable, as far as this process remembers.
    Repeated,
    /// It is no fact, and kept before this answer is sent.
    Refused(Kept, Refusal),
    /// It is no fact, and kept before it is acknowledged.
    Kept(Kept),
    /// It leaves nothing.
    Over(Result<Taken, Refusal>),
}

/// What became of a notice that is not refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// It is durable.
    Stored,
    /// It is a replay of a notice that is durable.
    Duplicate,
    /// It is of a kind that leaves no fact; what has to be kept of it is durable.
    Ignored,
}

/// What a signed notice is answered that could not be kept: nothing but 503 makes its partner send it again.
fn not_kept(refusal: Refusal) -> Refusal {
    match refusal.code {
        Code::ReceiverClockOff => refusal,
        _ => Refusal::retry(Code::QuarantineFull, COME_AGAIN_AFTER_S),
    }
}

impl Ingest {
    /// Whether this account may send from here and now. Errors: `source_not_allowed`, `rate_limited`.
    pub(crate) fn admits(&self, request: &HttpRequest, account: &Account) -> Result<(), Refusal> {
        if !account.allows_source(self.source(request).unwrap_or(NOBODY)) {
            return Err(Refusal::new(Code::SourceNotAllowed));
        }
        self.limits.pass_account(account.index(), account.rate_per_s())
    }

    /// Hands to the log what is to be stored of a genuine notice; `verdict` says what it is for us.
    pub(crate) fn take<'a>(&self, genuine: Genuine<'a>, verdict: Verdict) -> Taking<'a> {
        let Genuine { signer, signed, source, receipt, raw } = genuine;
        let account = &*signer.account;
        let identity = |code| self.replays.refused(&signer, &signed, code, (&source.request, raw));
        let step = match verdict {
            Verdict::Barred(refusal) => Step::Over(Err(refusal)),
            Verdict::Inadmissible(refusal) => {
                let identity = identity(refusal.code);
                let answer = self.answer_to(account.partner(), &refusal, (identity, &receipt));
                let share = match answer.code {
                    Code::ReceiverClockOff => BudgetShare::Half,
                    _ => BudgetShare::Whole,
                };
                let refused = Refused { account, refusal: &refusal, source, raw };
                Step::Refused(self.keep(receipt, refused, identity, share), answer)
            }
            Verdict::Of(Judged::Ignored) => {
                self.metrics.notice_ignored(account.partner());
                Step::Over(Ok(Taken::Ignored))
            }
            Verdict::Of(Judged::Kept) => {
                let (identity, refusal) = (identity(Code::NoOrder), Refusal::new(Code::NoOrder));
                let refused = Refused { account, refusal: &refusal, source, raw };
                Step::Kept(self.keep(receipt, refused, identity, BudgetShare::Whole))
            }
            Verdict::Of(Judged::Admitted(admitted)) => {
                let identity = self.replays.fact(&signer, &signed, &admitted);
                if self.is_stored(identity, &receipt) {
                    Step::Repeated
                } else {
                    let (timestamp, since) = (admitted.ipn.timestamp, Instant::now());
                    let body = Body { raw, key: account.body_keys().sealing(receipt.received_at) };
                    let appending = self.intake.append(receipt, admitted.with_source(source), body);
                    Step::Stored { appending, timestamp, since, identity }
                }
            }
        };
        Taking { signer, receipt, raw, step }
    }

    /// Whether this fact is durable, as far as this process remembers. While the log takes no appends nothing is answered
    /// from memory.
    fn is_stored(&self, identity: NoticeIdentity, receipt: &Receipt) -> bool {
        self.intake.takes_appends() && self.replays.facts().holds(identity, receipt.received_at)
    }

    /// What a notice is answered that is refused: 503 if it came outside its time and our clock is why.
    fn answer_to(
        &self,
        partner: &PartnerCode,
        refusal: &Refusal,
        (identity, receipt): (NoticeIdentity, &Receipt),
    ) -> Refusal {
        let (outside, at) = (self.replays.outside(), receipt.received_at);
        // A replay says nothing of our clock: whoever holds an old notice can send it.
        if let Some(skew_ms) = refusal.skew_ms.filter(|_| !outside.holds(identity, at)) {
            outside.remember(identity, at);
            let identity = identity.half();
            self.clock_health.saw_outside(partner, OutsideNotice { at, skew_ms, identity });
        }
        let is_about_time = refusal.code == Code::TimestampOutOfWindow;
        match is_about_time.then(|| self.clock_health.verdict(receipt.received_at)) {
            Some(ClockVerdict::Off { .. }) => {
                Refusal::retry(Code::ReceiverClockOff, COME_AGAIN_AFTER_S)
            }
            Some(ClockVerdict::Agrees) | None => refusal.clone(),
        }
    }

    /// Waits until what is stored of a notice is durable. Errors: why it was not taken.
    pub(crate) async fn taken(&self, taking: Taking<'_>) -> Result<Taken, Refusal> {
        let Taking { signer, receipt, raw, step } = taking;
        let partner = signer.account.partner();
        let taken = match step {
            Step::Over(taken) => taken,
            Step::Repeated => self.intake.still_durable().await.map(|()| {
                self.metrics.notice_repeated(partner);
                Taken::Duplicate
            }),
            Step::Stored { appending, timestamp, since, identity } => {
                self.intake.durable(appending).await.map(|()| {
                    self.replays.facts().remember(identity, receipt.received_at);
                    self.metrics.append_took(since.elapsed());
                    self.stored(&signer, &receipt, timestamp);
                    Taken::Stored
                })
            }
            Step::Refused(kept, refusal) => {
                match self.kept(&signer.account, kept, &receipt).await {
                    Ok(Keeping::Whole) => Err(refusal),
                    Ok(Keeping::OverBudget) => Err(not_kept(refusal)),
                    Err(unavailable) => Err(unavailable),
                }
            }
            Step::Kept(kept) => match self.kept(&signer.account, kept, &receipt).await {
                Ok(Keeping::Whole) => {
                    self.metrics.notice_ignored(partner);
                    Ok(Taken::Ignored)
                }
                // What is acknowledged is not sent again.
                Ok(Keeping::OverBudget) => Err(not_kept(Refusal::new(Code::NoOrder))),
                Err(unavailable) => Err(unavailable),
            },
        };
        taken.inspect_err(|refusal| {
            self.metrics.notice_refused(Some(partner), refusal.code);
            self.sampler.refused(&receipt, Some(raw), refusal.code);
        })
    }

    /// Counts a fact that is durable.
    fn stored(&self, signer: &Signer, receipt: &Receipt, timestamp: Option<Time>) {
        let partner = signer.account.partner();
        let accepted = self.metrics.partner(partner);
        self.metrics.notice_accepted(&accepted, (partner, &signer.key_id));
        self.look_at_key((&signer.account, &signer.key_id), receipt);
        accepted.seen_at(receipt.received_at, timestamp);
        if timestamp.is_some() && signer.account.profile().time().kind == TimeKind::Delivery {
            self.clock_health.saw_inside(partner, receipt.received_at);
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
