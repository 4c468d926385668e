//! Owns the making of plans from words and chance. Pure; all chance comes from the seed.

use fastrand::Rng;
use payfold_schemas::ipn::Status;

use super::*;
use crate::trouble::{Trouble, Troubles};

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

/// What these words make of the page and the way back.
pub fn hosting(troubles: &Troubles) -> Hosting {
    let page = match troubles.page() {
        Some(Trouble::FrameDenied) => PageDefect::FrameDenied,
        Some(Trouble::FrameAncestors) => PageDefect::FrameAncestors,
        Some(Trouble::CookieWall) => PageDefect::CookieWall,
        Some(Trouble::PageHttp) => PageDefect::Http,
        Some(Trouble::PageError) => PageDefect::Error,
        // No other word is one of a page.
        Some(_) | None => PageDefect::None,
    };
    let way_back = match troubles.way_back() {
        Some(Trouble::NoReturn) => WayDefect::Missing(Status::Success),
        Some(Trouble::NoReturnCancel) => WayDefect::Missing(Status::Failed),
        Some(Trouble::ReturnUnsigned) => WayDefect::Unsigned,
        Some(Trouble::ReturnAmount) => WayDefect::OtherAmount,
        Some(_) | None => WayDefect::None,
    };
    Hosting { page, way_back }
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
    let (defects, repeats, retries) = (Vec::new(), Vec::new(), Form::Restamped);
    Delivery { pause_ms: 0, event, defects, persistence, repeats, retries }
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
        defect(Trouble::NoPaidAt, Defect::NoPaidAt);
        defect(Trouble::AmountText, Defect::AmountText);
        defect(Trouble::OtherMerchant, Defect::OtherMerchant);
    }
    for delivery in &mut deliveries {
        delivery.persistence = persistence(troubles);
        if troubles.has(Trouble::SameBytes) {
            delivery.retries = Form::SameBytes;
        }
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

fn persistence(troubles: &Troubles) -> Persistence {
    if troubles.story().is_refused_for_good() {
        Persistence::Once
    } else if troubles.has(Trouble::GiveUpRefused) {
        Persistence::UntilRefused
    } else if troubles.has(Trouble::GiveUpSilent) {
        Persistence::UntilSilent
    } else {
        Persistence::Schedule
    }
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
