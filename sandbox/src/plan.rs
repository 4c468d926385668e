//! Owns the plan of a payment: the create response, the outcome, and the notices with their times
//! and defects. Pure: equal keywords and an equal seed give an equal plan.

use payfold_schemas::ipn::Status;

/// How many more times a notice is sent with the trouble `duplicates`.
pub(crate) const DUPLICATES: usize = 3;

/// Everything the partner does for one payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The create response.
    pub answer: PlannedAnswer,
    /// The length of the session.
    pub(crate) session: SessionLength,
    /// When the payer acts.
    pub begin: ActionTime,
    /// The events of the payment in order, as the ledger records them. Empty if there is no
    /// payment.
    pub(crate) history: Vec<PlannedEvent>,
    /// The notices, sent one after another.
    pub deliveries: Vec<PlannedNotice>,
    /// The seed for random choices during sending.
    pub seed: u64,
}

/// The planned response to a create call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlannedAnswer {
    /// A session.
    Session,
    /// A session, delayed within the timeout.
    Delayed,
    /// This 4xx status.
    Refused(u16),
    /// This 5xx status.
    ServerError(u16),
    /// A session, after the timeout.
    Slow,
    /// A session, cut off in the middle.
    Cut,
    /// A session in a body of 5 MB.
    Huge,
    /// A complete response that breaks the contract.
    Broken(ContractBreach),
}

/// How a create response breaks the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContractBreach {
    /// A redirect.
    Redirect,
    /// A web page instead of a JSON object.
    Html,
    /// An array instead of an object.
    Array,
    /// A repeated key.
    TwiceKeyed,
    /// No providerRef.
    NoRef,
    /// Both redirectUrl and qrPayload.
    Both,
    /// Neither redirectUrl nor qrPayload.
    Neither,
    /// redirectUrl without a host.
    BadUrl,
    /// redirectUrl is http.
    HttpUrl,
    /// redirectUrl has a user name.
    Userinfo,
    /// qrPayload with a control character.
    BadQr,
    /// No expiresAt.
    NoExpiry,
    /// expiresAt was a minute ago.
    PastExpiry,
}

impl PlannedAnswer {
    /// Whether the payment exists after this response.
    pub(crate) fn opens_payment(self) -> bool {
        !matches!(self, Self::Refused(_) | Self::Broken(_))
    }
}

/// The length of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SessionLength {
    /// `session_ms` of the settings.
    Full,
    /// `short_session_ms` of the settings, for events at the end of a session.
    Short,
}

/// When the payer acts. The first notice is sent after that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActionTime {
    /// Before the create response, which waits for the notices.
    BeforeAnswer,
    /// This many ms after the create call arrived.
    AfterMs(u64),
    /// After the caller's timeout for the create response.
    AfterTimeout,
    /// After the order's deadline.
    AfterDeadline,
}

/// An event of the payment, real or only claimed by a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedEvent {
    /// The status.
    pub status: Status,
    /// The transaction.
    pub transaction: TransactionSlot,
    /// The amount.
    pub amount: EventAmount,
    /// The currency.
    pub currency: EventCurrency,
    /// The time of the payment.
    pub(crate) paid_at: EventPaidAt,
}

/// Which transaction of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionSlot {
    /// The session's transaction.
    First,
    /// A second transaction.
    Second,
}

/// An amount, relative to the requested one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventAmount {
    /// The requested one.
    Requested,
    /// Different by this many minor units.
    Off(i64),
    /// The smaller half.
    Half,
    /// The other half.
    OtherHalf,
}

/// A currency, relative to the requested one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventCurrency {
    /// The requested one.
    Requested,
    /// A different one.
    Other,
}

/// The `paidAt` of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventPaidAt {
    /// Absent: the payment was not made.
    Absent,
    /// When the payer acted.
    ActionTime,
    /// Right after the session was opened, so within the session.
    InSession,
    /// One second before the payer acted, so that the content differs.
    OneSecondBefore,
}

/// One notice to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedNotice {
    /// The pause after the previous notice is finished, in ms.
    pub(crate) pause_ms: u64,
    /// The content.
    pub event: PlannedEvent,
    /// The defects of the first attempts, one per attempt. Later attempts have none.
    pub(crate) defects: Vec<NoticeDefect>,
    /// Whether it is sent again without an acknowledgement.
    pub(crate) retry_policy: RetryPolicy,
    /// Repeats of the same notice, sent in parallel.
    pub(crate) repeats: Vec<NoticeRepeat>,
    /// How the attempts after the first are made.
    pub(crate) retries: RepeatFormat,
}

/// A defect of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoticeDefect {
    /// A timestamp of ten minutes ago.
    OldTimestamp,
    /// Signed with a key of no account.
    WrongKey,
    /// Without `paidAt`.
    NoPaidAt,
    /// The amount as a JSON string.
    AmountText,
    /// Another merchantCode.
    OtherMerchant,
}

/// How often a notice is sent without an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryPolicy {
    /// By the retry schedule of the settings.
    Schedule,
    /// Once: for forged notices and for those that are always refused.
    Once,
    /// By the schedule, until a refusal.
    UntilRefused,
    /// By the schedule, until an attempt gets no answer.
    UntilSilent,
}

/// A repeat of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoticeRepeat {
    /// The pause after the first attempt began, in ms.
    pub(crate) pause_ms: u64,
    /// The same bytes, or signed again.
    pub(crate) format: RepeatFormat,
}

/// How a repeat or retry is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RepeatFormat {
    /// The same bytes.
    SameBytes,
    /// With a new timestamp and signature.
    SignedAgain,
}

/// The defects of a payment's page and of its browser return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PayerDefects {
    /// The defect of the page.
    pub page: PageDefect,
    /// The defect of the browser return.
    pub(crate) return_defect: ReturnDefect,
}

/// The defect of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum PageDefect {
    /// The page has no defect.
    #[default]
    None,
    /// `X-Frame-Options: DENY`.
    FrameDenied,
    /// `frame-ancestors 'none'`.
    FrameAncestors,
    /// The page works only with a cookie.
    CookieWall,
    /// The page redirects to an address without TLS.
    Http,
    /// The page responds 500.
    Error,
}

/// The defect of a browser return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ReturnDefect {
    /// The return has no defect.
    #[default]
    None,
    /// There is no return after this status.
    Missing(Status),
    /// The return has no signature.
    Unsigned,
    /// The return has another amount.
    OtherAmount,
}

#[cfg(test)]
mod tests;
