//! Owns the plan of a payment: how its create call is answered, what becomes of it, and which notices say so
//! when and with which defects. Pure: the same words and seed give the same plan, whatever the payment.

use fastrand::Rng;
use payfold_schemas::ipn::Status;

use crate::trouble::{Trouble, Troubles};

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

impl Event {
    const fn of(status: Status) -> Self {
        let paid_at = match status {
            Status::Success | Status::Refunded => PaidAt::Then,
            Status::Failed | Status::Expired => PaidAt::Absent,
        };
        let (of, amount, currency) = (Transaction::First, AmountOf::Asked, CurrencyOf::Asked);
        Self { status, of, amount, currency, paid_at }
    }

    const fn amount(self, amount: AmountOf) -> Self {
        Self { amount, ..self }
    }

    const fn paid(self, paid_at: PaidAt) -> Self {
        Self { paid_at, ..self }
    }
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
}

/// What is wrong with an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// Stamped ten minutes ago.
    OldStamp,
    /// Signed with a key of nobody.
    WrongKey,
}

/// How long a notice is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    /// As the schedule of the settings says.
    Schedule,
    /// Once: a forger's.
    Once,
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

/// The plan of these words with this seed.
pub fn plan(troubles: &Troubles, seed: u64) -> Plan {
    let mut dice = Rng::with_seed(seed);
    let answer = answer(troubles.answer(), &mut dice);
    let (history, told) = match answer.opens() {
        true => story(troubles, &mut dice),
        false => (Vec::new(), Vec::new()),
    };
    let story = troubles.story();
    let short = matches!(story, Trouble::Late | Trouble::PaidLate | Trouble::Never);
    Plan {
        answer,
        session: if short { SessionLength::Short } else { SessionLength::Full },
        begin: begin(troubles, &mut dice),
        history,
        deliveries: deliveries(troubles, &told, &mut dice),
        seed: dice.u64(..),
    }
}

/// The plan of what a payer did at the page: one notice, now.
pub fn plan_of_click(status: Status, seed: u64) -> Plan {
    let event = Event::of(status);
    Plan {
        answer: Answer::Session,
        session: SessionLength::Full,
        begin: Begin::AfterMs(0),
        history: vec![event],
        deliveries: vec![Delivery { pause_ms: 0, ..delivery(event) }],
        seed,
    }
}

fn answer(word: Option<Trouble>, dice: &mut Rng) -> Answer {
    use Breach::*;
    match word {
        Some(Trouble::CreateDelayed) => Answer::Delayed,
        Some(Trouble::CreateRefused) => {
            Answer::Refused(pick(dice, &[400, 401, 403, 404, 409, 422, 429]))
        }
        Some(Trouble::Create500) => Answer::ServerError(pick(dice, &[500, 502, 503, 504])),
        Some(Trouble::CreateSlow) => Answer::Slow,
        Some(Trouble::CreateCut) => Answer::Cut,
        Some(Trouble::CreateHuge) => Answer::Huge,
        Some(Trouble::CreateRedirect) => Answer::Broken(Redirect),
        Some(Trouble::CreateNotJson) => Answer::Broken(pick(dice, &[Html, Array, TwiceKeyed])),
        Some(Trouble::CreateNoRef) => Answer::Broken(NoRef),
        Some(Trouble::CreateBoth) => Answer::Broken(Both),
        Some(Trouble::CreateNeither) => Answer::Broken(Neither),
        Some(Trouble::CreateBadUrl) => Answer::Broken(BadUrl),
        Some(Trouble::CreateHttpUrl) => Answer::Broken(HttpUrl),
        Some(Trouble::CreateUserinfo) => Answer::Broken(Userinfo),
        Some(Trouble::CreateBadQr) => Answer::Broken(BadQr),
        Some(Trouble::CreateNoExpiry) => Answer::Broken(NoExpiry),
        Some(Trouble::CreatePastExpiry) => Answer::Broken(PastExpiry),
        // No other word is one of an answer.
        Some(_) | None => Answer::Session,
    }
}

fn pick<T: Copy>(dice: &mut Rng, among: &[T]) -> T {
    among[dice.usize(..among.len())]
}

/// What happened, and what is told of it.
fn story(troubles: &Troubles, dice: &mut Rng) -> (Vec<Event>, Vec<Event>) {
    const PAID: Event = Event::of(Status::Success);
    const FAILED: Event = Event::of(Status::Failed);
    const EXPIRED: Event = Event::of(Status::Expired);
    const REFUNDED: Event = Event::of(Status::Refunded);
    let off = AmountOf::Off(dice.i64(1..=9));
    let same = |events: &[Event]| (events.to_vec(), events.to_vec());
    match troubles.story() {
        Trouble::Fail | Trouble::Cancel => same(&[FAILED]),
        Trouble::Expire => same(&[EXPIRED]),
        Trouble::Late => same(&[PAID.paid(PaidAt::InSession)]),
        Trouble::Never => (vec![PAID.paid(PaidAt::InSession)], Vec::new()),
        Trouble::WrongAmount => same(&[PAID.amount(off)]),
        Trouble::WrongCurrency => same(&[Event { currency: CurrencyOf::Other, ..PAID }]),
        Trouble::ContentVariant => (vec![PAID], vec![PAID, PAID.paid(PaidAt::Otherwise)]),
        Trouble::ContentVariantAmount => (vec![PAID], vec![PAID, PAID.amount(off)]),
        Trouble::SecondRef => same(&[PAID, Event { of: Transaction::Second, ..PAID }]),
        Trouble::RefundFirst => (vec![PAID, REFUNDED], vec![REFUNDED, PAID]),
        Trouble::RefundOnly => (vec![PAID, REFUNDED], vec![REFUNDED]),
        Trouble::RefundTwice => same(&[PAID, REFUNDED, REFUNDED.paid(PaidAt::Otherwise)]),
        Trouble::RefundPart => same(&[PAID, REFUNDED.amount(AmountOf::Half)]),
        Trouble::RefundParts => {
            // Two equal halves of one time would be one refund told twice.
            let rest = REFUNDED.amount(AmountOf::OtherHalf).paid(PaidAt::Otherwise);
            same(&[PAID, REFUNDED.amount(AmountOf::Half), rest])
        }
        Trouble::RefundAfterFail => same(&[FAILED, REFUNDED]),
        Trouble::FailAfterSuccess => (vec![PAID], vec![PAID, FAILED]),
        Trouble::ExpireAfterSuccess => (vec![PAID], vec![PAID, EXPIRED]),
        Trouble::Pay if troubles.has(Trouble::Disorder) => same(&[PAID, REFUNDED]),
        // Pay, PaidLate and ReusedRef are payments like any other; the rest are no stories.
        _ => same(&[PAID]),
    }
}

fn begin(troubles: &Troubles, dice: &mut Rng) -> Begin {
    let soon = Begin::AfterMs(dice.u64(50..=150));
    if troubles.has(Trouble::BeforeCreate) {
        Begin::BeforeAnswer
    } else if troubles.has(Trouble::CreateSlow) {
        Begin::AfterTimeout
    } else if matches!(troubles.story(), Trouble::Late | Trouble::PaidLate) {
        Begin::AfterDeadline
    } else {
        soon
    }
}

fn delivery(event: Event) -> Delivery {
    let persistence = Persistence::Schedule;
    Delivery { pause_ms: 0, event, defects: Vec::new(), persistence, repeats: Vec::new() }
}

fn deliveries(troubles: &Troubles, told: &[Event], dice: &mut Rng) -> Vec<Delivery> {
    let mut deliveries: Vec<_> = told.iter().map(|event| delivery(*event)).collect();
    if troubles.has(Trouble::Disorder) {
        deliveries.reverse();
        let last = deliveries.len().saturating_sub(1);
        deliveries = (deliveries.into_iter().enumerate())
            .flat_map(|(place, one)| vec![one; if place < last { 2 } else { 1 }])
            .collect();
    }
    if let Some(first) = deliveries.first_mut() {
        let mut defect = |word, defect| {
            if troubles.has(word) {
                first.defects.push(defect);
            }
        };
        defect(Trouble::Stale, Defect::OldStamp);
        defect(Trouble::WrongKey, Defect::WrongKey);
    }
    if troubles.has(Trouble::Duplicates) {
        for delivery in &mut deliveries {
            delivery.repeats = (0..DUPLICATES).map(|_| repeat(delivery, dice)).collect();
        }
    }
    for delivery in deliveries.iter_mut().skip(1) {
        delivery.pause_ms = dice.u64(20..=150);
    }
    if troubles.has(Trouble::WrongKey) {
        deliveries.insert(0, forged(told));
    }
    deliveries
}

fn repeat(delivery: &Delivery, dice: &mut Rng) -> Repeat {
    // The very bytes of an attempt with a defect would have it too.
    let same = delivery.defects.is_empty() && dice.bool();
    let form = if same { Form::SameBytes } else { Form::Restamped };
    Repeat { pause_ms: dice.u64(0..=80), form }
}

/// A notice of nobody that says the opposite: if it counted, the order would show it.
fn forged(told: &[Event]) -> Delivery {
    let pays = told.iter().any(|event| event.status == Status::Success);
    let event = Event::of(if pays { Status::Failed } else { Status::Success });
    let (defects, persistence) = (vec![Defect::WrongKey], Persistence::Once);
    Delivery { defects, persistence, ..delivery(event) }
}

#[cfg(test)]
mod tests;
