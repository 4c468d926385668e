//! Owns the making of plans from troubles. Pure; all random choices come from the seed.

use fastrand::Rng;
use payfold_schemas::ipn::Status;

use crate::plan::*;
use crate::trouble::Trouble;
use crate::troubles::Troubles;

impl PlannedEvent {
    const fn new(status: Status) -> Self {
        let paid_at = match status {
            Status::Success | Status::Refunded => EventPaidAt::ActionTime,
            Status::Failed | Status::Expired => EventPaidAt::Absent,
        };
        let (transaction, amount, currency) =
            (TransactionSlot::First, EventAmount::Requested, EventCurrency::Requested);
        Self { status, transaction, amount, currency, paid_at }
    }

    const fn with_amount(self, amount: EventAmount) -> Self {
        Self { amount, ..self }
    }

    const fn with_paid_at(self, paid_at: EventPaidAt) -> Self {
        Self { paid_at, ..self }
    }
}

/// Makes the plan of these troubles with this seed.
pub fn plan(troubles: &Troubles, seed: u64) -> Plan {
    let mut random = Rng::with_seed(seed);
    let answer = plan_answer(troubles.answer(), &mut random);
    let (history, reported) = match answer.opens_payment() {
        true => plan_events(troubles, &mut random),
        false => (Vec::new(), Vec::new()),
    };
    let outcome = troubles.outcome();
    let short = matches!(outcome, Trouble::Late | Trouble::PaidLate | Trouble::Never);
    Plan {
        answer,
        session: if short { SessionLength::Short } else { SessionLength::Full },
        begin: plan_begin(troubles, &mut random),
        history,
        deliveries: plan_notices(troubles, &reported, &mut random),
        seed: random.u64(..),
    }
}

/// The defects that these troubles give the page and the browser return.
pub(crate) fn plan_payer_defects(troubles: &Troubles) -> PayerDefects {
    let page = match troubles.page() {
        Some(Trouble::FrameDenied) => PageDefect::FrameDenied,
        Some(Trouble::FrameAncestors) => PageDefect::FrameAncestors,
        Some(Trouble::CookieWall) => PageDefect::CookieWall,
        Some(Trouble::PageHttp) => PageDefect::Http,
        Some(Trouble::PageError) => PageDefect::Error,
        // `page()` returns no other trouble.
        Some(_) | None => PageDefect::None,
    };
    let return_defect = match troubles.return_trouble() {
        Some(Trouble::NoReturn) => ReturnDefect::Missing(Status::Success),
        Some(Trouble::NoReturnCancel) => ReturnDefect::Missing(Status::Failed),
        Some(Trouble::ReturnUnsigned) => ReturnDefect::Unsigned,
        Some(Trouble::ReturnAmount) => ReturnDefect::OtherAmount,
        Some(_) | None => ReturnDefect::None,
    };
    PayerDefects { page, return_defect }
}

/// Makes the plan for a payer's action at the page: one notice, at once.
pub(crate) fn plan_for_action(status: Status, seed: u64) -> Plan {
    let event = PlannedEvent::new(status);
    Plan {
        answer: PlannedAnswer::Session,
        session: SessionLength::Full,
        begin: ActionTime::AfterMs(0),
        history: vec![event],
        deliveries: vec![PlannedNotice { pause_ms: 0, ..plain_notice(event) }],
        seed,
    }
}

fn plan_answer(trouble: Option<Trouble>, random: &mut Rng) -> PlannedAnswer {
    use ContractBreach::*;
    match trouble {
        Some(Trouble::CreateDelayed) => PlannedAnswer::Delayed,
        Some(Trouble::CreateRefused) => {
            PlannedAnswer::Refused(pick(random, &[400, 401, 403, 404, 409, 422, 429]))
        }
        Some(Trouble::Create500) => PlannedAnswer::ServerError(pick(random, &[500, 502, 503, 504])),
        Some(Trouble::CreateSlow) => PlannedAnswer::Slow,
        Some(Trouble::CreateCut) => PlannedAnswer::Cut,
        Some(Trouble::CreateHuge) => PlannedAnswer::Huge,
        Some(Trouble::CreateRedirect) => PlannedAnswer::Broken(Redirect),
        Some(Trouble::CreateNotJson) => {
            PlannedAnswer::Broken(pick(random, &[Html, Array, TwiceKeyed]))
        }
        Some(Trouble::CreateNoRef) => PlannedAnswer::Broken(NoRef),
        Some(Trouble::CreateBoth) => PlannedAnswer::Broken(Both),
        Some(Trouble::CreateNeither) => PlannedAnswer::Broken(Neither),
        Some(Trouble::CreateBadUrl) => PlannedAnswer::Broken(BadUrl),
        Some(Trouble::CreateHttpUrl) => PlannedAnswer::Broken(HttpUrl),
        Some(Trouble::CreateUserinfo) => PlannedAnswer::Broken(Userinfo),
        Some(Trouble::CreateBadQr) => PlannedAnswer::Broken(BadQr),
        Some(Trouble::CreateNoExpiry) => PlannedAnswer::Broken(NoExpiry),
        Some(Trouble::CreatePastExpiry) => PlannedAnswer::Broken(PastExpiry),
        // `answer()` returns no other trouble.
        Some(_) | None => PlannedAnswer::Session,
    }
}

fn pick<T: Copy>(random: &mut Rng, choices: &[T]) -> T {
    choices[random.usize(..choices.len())]
}

/// Plans the events that happen, and the events that the notices report.
fn plan_events(troubles: &Troubles, random: &mut Rng) -> (Vec<PlannedEvent>, Vec<PlannedEvent>) {
    const PAID: PlannedEvent = PlannedEvent::new(Status::Success);
    const FAILED: PlannedEvent = PlannedEvent::new(Status::Failed);
    const EXPIRED: PlannedEvent = PlannedEvent::new(Status::Expired);
    const REFUNDED: PlannedEvent = PlannedEvent::new(Status::Refunded);
    let off = EventAmount::Off(random.i64(1..=9));
    let same = |events: &[PlannedEvent]| (events.to_vec(), events.to_vec());
    match troubles.outcome() {
        Trouble::Fail | Trouble::Cancel => same(&[FAILED]),
        Trouble::Expire => same(&[EXPIRED]),
        Trouble::Late => same(&[PAID.with_paid_at(EventPaidAt::InSession)]),
        Trouble::Never => (vec![PAID.with_paid_at(EventPaidAt::InSession)], Vec::new()),
        Trouble::WrongAmount => same(&[PAID.with_amount(off)]),
        Trouble::WrongCurrency => same(&[PlannedEvent { currency: EventCurrency::Other, ..PAID }]),
        Trouble::ContentVariant => {
            (vec![PAID], vec![PAID, PAID.with_paid_at(EventPaidAt::OneSecondBefore)])
        }
        Trouble::ContentVariantAmount => (vec![PAID], vec![PAID, PAID.with_amount(off)]),
        Trouble::SecondRef => {
            same(&[PAID, PlannedEvent { transaction: TransactionSlot::Second, ..PAID }])
        }
        Trouble::RefundFirst => (vec![PAID, REFUNDED], vec![REFUNDED, PAID]),
        Trouble::RefundOnly => (vec![PAID, REFUNDED], vec![REFUNDED]),
        Trouble::RefundTwice => {
            same(&[PAID, REFUNDED, REFUNDED.with_paid_at(EventPaidAt::OneSecondBefore)])
        }
        Trouble::RefundPart => same(&[PAID, REFUNDED.with_amount(EventAmount::Half)]),
        Trouble::RefundParts => {
            // Two equal halves with the same time would count as one refund that is reported twice.
            let rest = REFUNDED
                .with_amount(EventAmount::OtherHalf)
                .with_paid_at(EventPaidAt::OneSecondBefore);
            same(&[PAID, REFUNDED.with_amount(EventAmount::Half), rest])
        }
        Trouble::RefundAfterFail => same(&[FAILED, REFUNDED]),
        Trouble::FailAfterSuccess => (vec![PAID], vec![PAID, FAILED]),
        Trouble::ExpireAfterSuccess => (vec![PAID], vec![PAID, EXPIRED]),
        Trouble::Pay if troubles.has(Trouble::Disorder) => same(&[PAID, REFUNDED]),
        // Pay, PaidLate and ReusedRef are ordinary payments. `outcome()` returns no other trouble.
        _ => same(&[PAID]),
    }
}

fn plan_begin(troubles: &Troubles, random: &mut Rng) -> ActionTime {
    let soon = ActionTime::AfterMs(random.u64(50..=150));
    if troubles.has(Trouble::BeforeCreate) {
        ActionTime::BeforeAnswer
    } else if troubles.has(Trouble::CreateSlow) {
        ActionTime::AfterTimeout
    } else if matches!(troubles.outcome(), Trouble::Late | Trouble::PaidLate) {
        ActionTime::AfterDeadline
    } else {
        soon
    }
}

fn plain_notice(event: PlannedEvent) -> PlannedNotice {
    let retry_policy = RetryPolicy::Schedule;
    let (defects, repeats, retries) = (Vec::new(), Vec::new(), RepeatFormat::SignedAgain);
    PlannedNotice { pause_ms: 0, event, defects, retry_policy, repeats, retries }
}

fn plan_notices(
    troubles: &Troubles,
    reported: &[PlannedEvent],
    random: &mut Rng,
) -> Vec<PlannedNotice> {
    let mut deliveries: Vec<_> = reported.iter().map(|event| plain_notice(*event)).collect();
    if troubles.has(Trouble::Disorder) {
        deliveries.reverse();
        let last = deliveries.len().saturating_sub(1);
        deliveries = (deliveries.into_iter().enumerate())
            .flat_map(|(index, notice)| vec![notice; if index < last { 2 } else { 1 }])
            .collect();
    }
    if let Some(first) = deliveries.first_mut() {
        let mut add_defect = |trouble, defect| {
            if troubles.has(trouble) {
                first.defects.push(defect);
            }
        };
        add_defect(Trouble::Stale, NoticeDefect::OldTimestamp);
        add_defect(Trouble::WrongKey, NoticeDefect::WrongKey);
        add_defect(Trouble::NoPaidAt, NoticeDefect::NoPaidAt);
        add_defect(Trouble::AmountText, NoticeDefect::AmountText);
        add_defect(Trouble::OtherMerchant, NoticeDefect::OtherMerchant);
    }
    for delivery in &mut deliveries {
        delivery.retry_policy = choose_retry_policy(troubles);
        if troubles.has(Trouble::SameBytes) {
            delivery.retries = RepeatFormat::SameBytes;
        }
    }
    if troubles.has(Trouble::Duplicates) {
        for delivery in &mut deliveries {
            delivery.repeats = (0..DUPLICATES).map(|_| plan_repeat(delivery, random)).collect();
        }
    }
    for delivery in deliveries.iter_mut().skip(1) {
        delivery.pause_ms = random.u64(20..=150);
    }
    if troubles.has(Trouble::WrongKey) {
        deliveries.insert(0, plan_forged(reported));
    }
    deliveries
}

fn choose_retry_policy(troubles: &Troubles) -> RetryPolicy {
    if troubles.outcome().is_always_refused() {
        RetryPolicy::Once
    } else if troubles.has(Trouble::GiveUpRefused) {
        RetryPolicy::UntilRefused
    } else if troubles.has(Trouble::GiveUpSilent) {
        RetryPolicy::UntilSilent
    } else {
        RetryPolicy::Schedule
    }
}

fn plan_repeat(delivery: &PlannedNotice, random: &mut Rng) -> NoticeRepeat {
    // The same bytes as an attempt with a defect would have the defect, too.
    let same = delivery.defects.is_empty() && random.bool();
    let format = if same { RepeatFormat::SameBytes } else { RepeatFormat::SignedAgain };
    NoticeRepeat { pause_ms: random.u64(0..=80), format }
}

/// Plans a forged notice with the opposite status. If it were accepted, the order would show it.
fn plan_forged(reported: &[PlannedEvent]) -> PlannedNotice {
    let is_paid = reported.iter().any(|event| event.status == Status::Success);
    let event = PlannedEvent::new(if is_paid { Status::Failed } else { Status::Success });
    let (defects, retry_policy) = (vec![NoticeDefect::WrongKey], RetryPolicy::Once);
    PlannedNotice { defects, retry_policy, ..plain_notice(event) }
}
