//! Owns the plan of a payment: how its create call is answered, what becomes of it, and which notices say so
//! when and with which defects. Pure: the same words and seed give the same plan, whatever the payment.

mod making;

use payfold_schemas::ipn::Status;

pub use making::{hosting, plan, plan_of_click};

/// How many times more a notice is sent that is asked for in duplicates.
pub const DUPLICATES: usize = 3;

/// Everything the partner does for one payment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// How the create call is answered.
    pub answer: Answer,
    /// How long the session is.
    pub session: SessionLength,
    /// When the payer acts.
    pub begin: Begin,
    /// What became of the payment, in the order it did: what the books say. Empty if there is no payment.
    pub history: Vec<Event>,
    /// The notices, one after the other.
    pub deliveries: Vec<Delivery>,
    /// Drives what is left to chance while sending.
    pub seed: u64,
}

/// How a create call is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// With a session.
    Session,
    /// With a session after a good part of the time-out.
    Delayed,
    /// With this 4xx.
    Refused(u16),
    /// With this 5xx.
    ServerError(u16),
    /// With a session, after the time-out.
    Slow,
    /// With half a session.
    Cut,
    /// With a session in 5 MB.
    Huge,
    /// With a complete answer that breaks the contract.
    Broken(Breach),
}

/// What breaks the contract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// A redirect.
    Redirect,
    /// A web page for a JSON object.
    Html,
    /// An array for an object.
    Array,
    /// A key twice.
    TwiceKeyed,
    /// No providerRef.
    NoRef,
    /// redirectUrl and qrPayload.
    Both,
    /// Neither.
    Neither,
    /// redirectUrl without a host.
    BadUrl,
    /// redirectUrl is http.
    HttpUrl,
    /// redirectUrl carries a user name.
    Userinfo,
    /// qrPayload with a control character.
    BadQr,
    /// No expiresAt.
    NoExpiry,
    /// expiresAt was a minute ago.
    PastExpiry,
}

impl Answer {
    /// Whether a payment comes of it.
    pub fn opens(self) -> bool {
        !matches!(self, Self::Refused(_) | Self::Broken(_))
    }
}

/// How long a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionLength {
    /// As the settings say.
    Full,
    /// As short as the settings say: for what happens at its end.
    Short,
}

/// When the payer acts, and the first notice may go out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Before the create call is answered, and the answer waits for the notices.
    BeforeAnswer,
    /// So many ms after the create call came.
    AfterMs(u64),
    /// Once the caller has given up waiting for the answer.
    AfterTimeout,
    /// Once the order's deadline has passed.
    AfterDeadline,
}

/// Something that happened to the payment, or that a notice pretends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// What.
    pub status: Status,
    /// Of which transaction.
    pub of: Transaction,
    /// How much.
    pub amount: AmountOf,
    /// In which currency.
    pub currency: CurrencyOf,
    /// When the payer paid.
    pub paid_at: PaidAt,
}

/// A transaction of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transaction {
    /// The session's.
    First,
    /// Another one.
    Second,
}

/// An amount, relative to what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AmountOf {
    /// What was asked for.
    Asked,
    /// Off by so many minor units.
    Off(i64),
    /// The smaller half.
    Half,
    /// The other half.
    OtherHalf,
}

/// A currency, relative to what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CurrencyOf {
    /// What was asked for.
    Asked,
    /// Another one.
    Other,
}

/// When the payer paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaidAt {
    /// Not said: nobody paid.
    Absent,
    /// When the payer acted.
    Then,
    /// Right after the session was opened: within it, whenever the notice comes.
    InSession,
    /// A second before the payer acted: another content.
    Otherwise,
}

/// One notice: sent until it is taken or given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// After the one before it is done with.
    pub pause_ms: u64,
    /// What it says.
    pub event: Event,
    /// What is wrong with its first attempts, one each; the later ones are right.
    pub defects: Vec<Defect>,
    /// Whether it is sent again if it is refused.
    pub persistence: Persistence,
    /// The same notice again, beside it.
    pub repeats: Vec<Repeat>,
    /// What the attempts after the first are made of.
    pub retries: Form,
}

/// What is wrong with an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// Stamped ten minutes ago.
    OldStamp,
    /// Signed with a key of nobody.
    WrongKey,
    /// Without `paidAt`.
    NoPaidAt,
    /// With its amount as a text.
    AmountText,
    /// With another merchantCode.
    OtherMerchant,
}

/// How long a notice is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// As the schedule of the settings says.
    Schedule,
    /// Once: a forger's, and what is refused for good.
    Once,
    /// By the schedule, but no more once it was refused.
    UntilRefused,
    /// By the schedule, but no more once it got no answer.
    UntilSilent,
}

/// The same notice once more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// After the notice's first attempt began.
    pub pause_ms: u64,
    /// Byte for byte, or anew.
    pub form: Form,
}

/// How a repeat is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The very bytes.
    SameBytes,
    /// Stamped and signed anew.
    Restamped,
}

/// What is wrong with the page of a payment and with the way back from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hosting {
    /// The page.
    pub page: PageDefect,
    /// The way back.
    pub way_back: WayDefect,
}

/// What is wrong with a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PageDefect {
    /// Nothing.
    #[default]
    None,
    /// `X-Frame-Options: DENY`.
    FrameDenied,
    /// `frame-ancestors 'none'`.
    FrameAncestors,
    /// Nothing can be done without a cookie.
    CookieWall,
    /// It leads on to an address without TLS.
    Http,
    /// It is answered with 500.
    Error,
}

/// What is wrong with the way back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WayDefect {
    /// Nothing.
    #[default]
    None,
    /// There is none for whom it ended so.
    Missing(Status),
    /// It has no signature.
    Unsigned,
    /// It names another amount.
    OtherAmount,
}

#[cfg(test)]
mod tests;
