//! What may happen to a payment between this system and a partner's records, each kind with what has to be found of it.
//! The expectations are written down beside the story and never computed from orders and lines.

mod lines;
mod others;

use std::collections::BTreeMap;

use chrono::{Days, NaiveDate};
use chrono_tz::Tz;
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::{Create, Fact, Presentation, QueryAnswer, Session};
use payfold_schemas::finding::Code;
use payfold_schemas::ids::{EventRef, ProviderRef, Reference};
use payfold_schemas::ipn::{Ipn, IpnPolicy, MoneyContent, Status};
use payfold_schemas::money::{Amount, Currency};
use payfold_schemas::order::OrderState;
use payfold_schemas::time::Time;

use super::bed::Told;
use crate::books::judge::By;
use crate::books::rules::day_bounds;

pub(super) const MINUTE: i64 = 60_000;
pub(super) const HOUR: i64 = 60 * MINUTE;

/// The days a world plays on: some before and some after one of them, in a zone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calendar {
    pub(super) zone: Tz,
    pub(super) first: NaiveDate,
}

impl Calendar {
    pub(super) fn date(self, day: u64) -> NaiveDate {
        self.first.checked_add_days(Days::new(day)).unwrap()
    }

    /// So long after the day's beginning; before its end where that is negative.
    pub(super) fn at(self, day: u64, ms: i64) -> Time {
        let (from, until) = day_bounds(self.date(day), self.zone);
        if ms < 0 { until.plus_ms(ms) } else { from.plus_ms(ms) }
    }
}

/// One line of the partner's file of a day.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub(super) order: String,
    pub(super) reference: String,
    pub(super) kind: Status,
    pub(super) amount: i64,
    pub(super) currency: &'static str,
    pub(super) at: Time,
    pub(super) event: &'static str,
}

impl Line {
    pub(super) fn csv(&self) -> String {
        let Self { order, reference, kind, amount, currency, at, event } = self;
        format!("{order},{reference},{kind},{amount},{currency},{at},{event}")
    }
}

/// A finding that has to stand at the end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Expect {
    pub(super) day: String,
    pub(super) code: Code,
    pub(super) order: Option<String>,
    pub(super) reference: Option<String>,
    pub(super) field: &'static str,
    pub(super) ours: String,
    pub(super) partners: String,
    pub(super) at_risk: i64,
    pub(super) currency: Option<&'static str>,
}

/// Money of ours that the day's totals hold: the day, what, how much.
pub(super) type Move = (u64, Status, &'static str, i64);

/// What a story comes to.
#[derive(Clone, Debug, Default)]
pub(super) struct Plot {
    pub(super) told: Vec<Told>,
    /// By the day whose file they stand in.
    pub(super) lines: Vec<(u64, Line)>,
    /// The lines as they would stand there had nothing gone wrong, if that can be mended by the partner at all.
    pub(super) truth: Option<Vec<(u64, Line)>>,
    pub(super) expect: Vec<Expect>,
    /// Lines that agree, by day.
    pub(super) matched: BTreeMap<u64, u64>,
    /// Those of them that are a neighbouring day's.
    pub(super) cut_off: BTreeMap<u64, u64>,
    pub(super) moves: Vec<Move>,
    /// SUCCESS lines of orders that are known: the day, and whether a notice told anything.
    pub(super) noticed: Vec<(u64, bool)>,
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Agrees,
    Unpaid,
    Fails,
    QueriedOnly,
    RefundedInParts,
    CreatedLongAgo,
    LineDropped,
    OrderDropped,
    AmountChanged,
    CurrencyChanged,
    RefChanged,
    SaysFailed,
    SaysPaidOfFailed,
    SaysPaidOfPending,
    TimeChanged,
    Repeated,
    RepeatedLater,
    LeftToNextDay,
    QueriedNextDay,
    LeftAndLost,
    ListedEarly,
    ListedDaysLater,
    UnderAnotherOrder,
    RefundNotListed,
    PartNotListed,
    RefundsNotTold,
    RefundAmountChanged,
    OnlyRefundTold,
    OnlyRefundToldOtherAmount,
    OnlyPartRefundTold,
    PaidTwice,
    SharedRef,
    NeverAskedFor,
    OtherAmountTold,
}

impl Kind {
    pub(super) const ALL: [Self; 34] = [
        Self::Agrees,
        Self::Unpaid,
        Self::Fails,
        Self::QueriedOnly,
        Self::RefundedInParts,
        Self::CreatedLongAgo,
        Self::LineDropped,
        Self::OrderDropped,
        Self::AmountChanged,
        Self::CurrencyChanged,
        Self::RefChanged,
        Self::SaysFailed,
        Self::SaysPaidOfFailed,
        Self::SaysPaidOfPending,
        Self::TimeChanged,
        Self::Repeated,
        Self::RepeatedLater,
        Self::LeftToNextDay,
        Self::QueriedNextDay,
        Self::LeftAndLost,
        Self::ListedEarly,
        Self::ListedDaysLater,
        Self::UnderAnotherOrder,
        Self::RefundNotListed,
        Self::PartNotListed,
        Self::RefundsNotTold,
        Self::RefundAmountChanged,
        Self::OnlyRefundTold,
        Self::OnlyRefundToldOtherAmount,
        Self::OnlyPartRefundTold,
        Self::PaidTwice,
        Self::SharedRef,
        Self::NeverAskedFor,
        Self::OtherAmountTold,
    ];
}

/// Where and when a story plays, and what it draws.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scene {
    pub(super) calendar: Calendar,
    pub(super) by: By,
    pub(super) n: usize,
    pub(super) dice: u32,
}

impl Scene {
    fn roll(self, which: u32, sides: u32) -> u32 {
        self.dice.rotate_left(which * 5) % sides
    }

    fn order(self) -> String {
        format!("o{}", self.n)
    }

    fn reference(self) -> String {
        format!("r{}", self.n)
    }

    fn currency(self) -> &'static str {
        ["VND", "EUR", "KWD"][self.roll(1, 3) as usize]
    }

    fn amount(self) -> i64 {
        1_000 + i64::from(self.roll(2, 50_000))
    }

    /// One of the three days.
    fn day(self) -> u64 {
        u64::from(self.roll(3, 3))
    }

    /// In the middle of a day.
    fn paid_at(self, day: u64) -> Time {
        self.calendar.at(day, 9 * HOUR + i64::from(self.roll(4, 240)) * MINUTE)
    }

    /// The partner's clock goes a little differently.
    fn drift_ms(self) -> i64 {
        i64::from(self.roll(5, 600)) * 1_000 - 299_000
    }

    pub(super) fn created(self, at: Time, attempt: u32) -> (Time, Fact) {
        let create = Create {
            amount: amount(self.amount()),
            currency: Currency::parse(self.currency()).unwrap(),
            reference: Reference::parse(&format!("basket {}", self.n)).unwrap(),
            attempt,
            deadline: Time::from_unix_ms(4_000_000_000_000),
        };
        (at, Fact::CreateRequested(create))
    }

    fn answered(self, at: Time) -> (Time, Fact) {
        let answer = QueryAnswer {
            provider_ref: ProviderRef::parse(&self.reference()).unwrap(),
            status: Status::Success,
            amount: amount(self.amount()),
            currency: Currency::parse(self.currency()).unwrap(),
        };
        (at, Fact::QueryAnswered(answer))
    }

    pub(super) fn opened(self, at: Time) -> (Time, Fact) {
        let far = Time::from_unix_ms(4_000_000_000_000);
        let session = Session {
            provider_ref: ProviderRef::parse(&self.reference()).unwrap(),
            presentation: Presentation::QrPayload("qr".into()),
            expires_at: far,
            deadline: far,
            create: Digest::of_bytes(b"C"),
        };
        (at, Fact::SessionOpened(session))
    }

    pub(super) fn notice(self, status: Status, minor: i64, at: Time) -> (Time, Fact) {
        let paid_at = (status == Status::Success).then_some(at);
        self.notice_of(&self.reference(), status, (minor, paid_at, ""), at)
    }

    pub(super) fn notice_of(
        self,
        reference: &str,
        status: Status,
        (minor, paid_at, event): (i64, Option<Time>, &str),
        at: Time,
    ) -> (Time, Fact) {
        let money = MoneyContent {
            amount: amount(minor),
            currency: Currency::parse(self.currency()).unwrap(),
            paid_at,
            event_ref: (!event.is_empty()).then(|| EventRef::parse(event).unwrap()),
        };
        let ipn = Ipn {
            provider_ref: ProviderRef::parse(reference).unwrap(),
            status,
            money,
            timestamp: Some(at),
            nonce: None,
            policy: IpnPolicy::default(),
        };
        (at.plus_ms(1_500), Fact::Ipn(ipn))
    }

    pub(super) fn line(self, kind: Status, at: Time) -> Line {
        Line {
            order: self.order(),
            reference: self.reference(),
            kind,
            amount: self.amount(),
            currency: self.currency(),
            at,
            event: "",
        }
    }

    /// An expectation about this story's order and ref, at the whole amount.
    fn expect(self, day: u64, code: Code, (ours, partners): (&str, &str)) -> Expect {
        let field = match code {
            Code::AmountDiffers => "amount",
            Code::CurrencyDiffers => "currency",
            Code::RefDiffers | Code::DuplicatedThere | Code::RefOnTwoOrders => "providerRef",
            Code::TimeDiffers | Code::OtherDay => "paidAt",
            Code::ReferencePaidTwice => "reference",
            _ => "status",
        };
        Expect {
            day: self.calendar.date(day).to_string(),
            code,
            order: Some(self.order()),
            reference: Some(self.reference()),
            field,
            ours: ours.to_owned(),
            partners: partners.to_owned(),
            at_risk: self.amount(),
            currency: Some(self.currency()),
        }
    }

    /// What is missing there.
    fn missing(self, day: u64, status: Status, minor: i64) -> Expect {
        let ours = format!("{status} {minor} {}", self.currency());
        let expect = self.expect(day, Code::MissingThere, (&ours, "nothing"));
        Expect { at_risk: minor, ..expect }
    }

    fn one(self, state: OrderState, facts: Vec<(Time, Fact)>) -> Plot {
        Plot { told: vec![Told { id: self.order(), state, facts }], ..Plot::default() }
    }

    /// Paid then, as both sides say so far; no line yet.
    fn paid(self, at: Time, day: u64) -> Plot {
        let created = at.plus_ms(-10 * MINUTE);
        let facts = vec![
            self.created(created, 1),
            self.opened(created.plus_ms(900)),
            self.notice(Status::Success, self.amount(), at),
        ];
        let plot = self.one(OrderState::Paid, facts);
        plot.moved(day, Status::Success, (self.currency(), self.amount()))
    }

    /// The whole story.
    pub(super) fn tell(self, kind: Kind) -> Plot {
        match kind {
            Kind::Agrees
            | Kind::Unpaid
            | Kind::Fails
            | Kind::QueriedOnly
            | Kind::RefundedInParts
            | Kind::CreatedLongAgo => self.sound(kind),
            Kind::LeftToNextDay
            | Kind::QueriedNextDay
            | Kind::LeftAndLost
            | Kind::ListedEarly
            | Kind::ListedDaysLater => self.at_a_border(kind),
            Kind::RefundNotListed
            | Kind::PartNotListed
            | Kind::RefundsNotTold
            | Kind::RefundAmountChanged => self.refunded(kind),
            Kind::OnlyRefundTold | Kind::OnlyRefundToldOtherAmount | Kind::OnlyPartRefundTold => {
                self.begins_with_a_refund(kind)
            }
            Kind::PaidTwice | Kind::SharedRef | Kind::UnderAnotherOrder => self.two_orders(kind),
            Kind::SaysPaidOfFailed
            | Kind::SaysPaidOfPending
            | Kind::NeverAskedFor
            | Kind::OtherAmountTold => self.not_paid_here(kind),
            _ => self.changed(kind),
        }
    }
}

pub(super) fn amount(minor: i64) -> Amount {
    Amount::from_minor(minor).unwrap()
}
