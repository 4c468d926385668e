//! The stories: what may happen to a payment between this system and a partner's records, each with
//! the findings it must lead to. The expectations are written beside the story, never computed from
//! orders and lines.

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

use super::testbed::TestOrder;
use crate::comparer::MatchKey;
use crate::day_rules::day_bounds;

pub(super) const MINUTE: i64 = 60_000;
pub(super) const HOUR: i64 = 60 * MINUTE;

/// The days of a world, in a zone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calendar {
    pub(super) zone: Tz,
    pub(super) first: NaiveDate,
}

impl Calendar {
    pub(super) fn date(self, day: u64) -> NaiveDate {
        self.first.checked_add_days(Days::new(day)).unwrap()
    }

    /// A time this long after the beginning of a day; if negative, before its end.
    pub(super) fn at(self, day: u64, ms: i64) -> Time {
        let (from, until) = day_bounds(self.date(day), self.zone);
        if ms < 0 { until.plus_ms(ms) } else { from.plus_ms(ms) }
    }
}

/// One line of a day's records file.
#[derive(Clone, Debug)]
pub(super) struct RecordLine {
    pub(super) order: String,
    pub(super) reference: String,
    pub(super) kind: Status,
    pub(super) amount: i64,
    pub(super) currency: &'static str,
    pub(super) at: Time,
    pub(super) event: &'static str,
}

impl RecordLine {
    pub(super) fn csv(&self) -> String {
        let Self { order, reference, kind, amount, currency, at, event } = self;
        format!("{order},{reference},{kind},{amount},{currency},{at},{event}")
    }
}

/// A finding that has to be uncleared at the end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ExpectedFinding {
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

/// Money of ours in a day's control totals: day, status, currency, minor units.
pub(super) type ExpectedMoney = (u64, Status, &'static str, i64);

/// A story's orders and lines, and what a run must make of them.
#[derive(Clone, Debug, Default)]
pub(super) struct StoryData {
    pub(super) orders: Vec<TestOrder>,
    /// Each line with the day of the file that has it.
    pub(super) lines: Vec<(u64, RecordLine)>,
    /// The correct lines; `None` if the partner can't correct the error.
    pub(super) truth: Option<Vec<(u64, RecordLine)>>,
    pub(super) expect: Vec<ExpectedFinding>,
    /// Numbers of matched lines, by day.
    pub(super) matched: BTreeMap<u64, u64>,
    /// Numbers of matched lines of a neighbouring day, by day.
    pub(super) cut_off: BTreeMap<u64, u64>,
    pub(super) moves: Vec<ExpectedMoney>,
    /// SUCCESS lines of known orders: the day, and whether the order has a notice.
    pub(super) noticed: Vec<(u64, bool)>,
}

/// The kinds of stories.
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
    RefundsNotNotified,
    RefundAmountChanged,
    OnlyRefundKnown,
    OnlyRefundKnownOtherAmount,
    OnlyPartRefundKnown,
    PaidTwice,
    SharedRef,
    NeverRequested,
    OtherAmountNotified,
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
        Self::RefundsNotNotified,
        Self::RefundAmountChanged,
        Self::OnlyRefundKnown,
        Self::OnlyRefundKnownOtherAmount,
        Self::OnlyPartRefundKnown,
        Self::PaidTwice,
        Self::SharedRef,
        Self::NeverRequested,
        Self::OtherAmountNotified,
    ];
}

/// The context of a story: when it happens, how records are matched, and its random number.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoryContext {
    pub(super) calendar: Calendar,
    pub(super) by: MatchKey,
    pub(super) n: usize,
    pub(super) dice: u32,
}

impl StoryContext {
    fn roll(self, which: u32, sides: u32) -> u32 {
        self.dice.rotate_left(which * 5) % sides
    }

    fn order(self) -> String {
        format!("o{}", self.n)
    }

    pub(super) fn reference(self) -> String {
        format!("r{}", self.n)
    }

    pub(super) fn currency(self) -> &'static str {
        ["VND", "EUR", "KWD"][self.roll(1, 3) as usize]
    }

    pub(super) fn amount(self) -> i64 {
        1_000 + i64::from(self.roll(2, 50_000))
    }

    /// One of the three days, at random.
    fn day(self) -> u64 {
        u64::from(self.roll(3, 3))
    }

    /// A time in the middle of a day.
    fn paid_at(self, day: u64) -> Time {
        self.calendar.at(day, 9 * HOUR + i64::from(self.roll(4, 240)) * MINUTE)
    }

    /// The difference of the partner's clock, ms.
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

    pub(super) fn line(self, kind: Status, at: Time) -> RecordLine {
        RecordLine {
            order: self.order(),
            reference: self.reference(),
            kind,
            amount: self.amount(),
            currency: self.currency(),
            at,
            event: "",
        }
    }

    /// An expected finding about this story's order and ref, with the whole amount at risk.
    fn expect(self, day: u64, code: Code, (ours, partners): (&str, &str)) -> ExpectedFinding {
        let field = match code {
            Code::AmountDiffers => "amount",
            Code::CurrencyDiffers => "currency",
            Code::RefDiffers | Code::DuplicatedThere | Code::RefOnTwoOrders => "providerRef",
            Code::TimeDiffers | Code::OtherDay => "paidAt",
            Code::ReferencePaidTwice => "reference",
            _ => "status",
        };
        ExpectedFinding {
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

    /// An expected finding of a line that is missing.
    fn missing(self, day: u64, status: Status, minor: i64) -> ExpectedFinding {
        let ours = format!("{status} {minor} {}", self.currency());
        let expect = self.expect(day, Code::MissingThere, (&ours, "nothing"));
        ExpectedFinding { at_risk: minor, ..expect }
    }

    fn one(self, state: OrderState, facts: Vec<(Time, Fact)>) -> StoryData {
        StoryData {
            orders: vec![TestOrder { id: self.order(), state, facts }],
            ..StoryData::default()
        }
    }

    /// An order paid at this time, with no line yet.
    fn paid(self, at: Time, day: u64) -> StoryData {
        let created = at.plus_ms(-10 * MINUTE);
        let facts = vec![
            self.created(created, 1),
            self.opened(created.plus_ms(900)),
            self.notice(Status::Success, self.amount(), at),
        ];
        let plot = self.one(OrderState::Paid, facts);
        plot.moved(day, Status::Success, (self.currency(), self.amount()))
    }

    /// The orders, lines and expectations of a story.
    pub(super) fn build(self, kind: Kind) -> StoryData {
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
            | Kind::RefundsNotNotified
            | Kind::RefundAmountChanged => self.refunded(kind),
            Kind::OnlyRefundKnown
            | Kind::OnlyRefundKnownOtherAmount
            | Kind::OnlyPartRefundKnown => self.begins_with_a_refund(kind),
            Kind::PaidTwice | Kind::SharedRef | Kind::UnderAnotherOrder => self.two_orders(kind),
            Kind::SaysPaidOfFailed
            | Kind::SaysPaidOfPending
            | Kind::NeverRequested
            | Kind::OtherAmountNotified => self.not_paid_here(kind),
            _ => self.changed(kind),
        }
    }
}

pub(super) fn amount(minor: i64) -> Amount {
    Amount::from_minor(minor).unwrap()
}
