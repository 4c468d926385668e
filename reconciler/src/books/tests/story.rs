//! What may happen to a payment between this system and a partner's records, each kind with what has to be found of it.
//! The expectations are written down beside the story and never computed from orders and lines.

use std::collections::BTreeMap;

use chrono::{Days, NaiveDate};
use chrono_tz::Tz;
use payfold_schemas::digest::Digest;
use payfold_schemas::fact::{Create, Fact, Presentation, QueryAnswer, Session, SharedRef};
use payfold_schemas::finding::Code;
use payfold_schemas::ids::{EventRef, OrderId, ProviderRef, Reference};
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
    PaidTwice,
    SharedRef,
    NeverAskedFor,
    OtherAmountTold,
}

impl Kind {
    pub(super) const ALL: [Self; 31] = [
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

    fn created(self, at: Time, attempt: u32) -> (Time, Fact) {
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

    fn opened(self, at: Time) -> (Time, Fact) {
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
            Kind::PaidTwice | Kind::SharedRef | Kind::UnderAnotherOrder => self.two_orders(kind),
            Kind::SaysPaidOfFailed
            | Kind::SaysPaidOfPending
            | Kind::NeverAskedFor
            | Kind::OtherAmountTold => self.not_paid_here(kind),
            _ => self.changed(kind),
        }
    }

    fn sound(self, kind: Kind) -> Plot {
        let day = self.day();
        let at = self.paid_at(day);
        let line = self.line(Status::Success, at.plus_ms(self.drift_ms()));
        let created = self.created(at.plus_ms(-HOUR), 1);
        match kind {
            Kind::Unpaid => self.one(OrderState::Pending, vec![created, self.opened(at)]),
            Kind::Fails => {
                let failed = self.notice(Status::Failed, self.amount(), at);
                let plot = self.one(OrderState::Failed, vec![created, self.opened(at), failed]);
                plot.listed(day, self.line(Status::Failed, at)).agrees(day)
            }
            Kind::QueriedOnly => {
                let facts = vec![created, self.opened(at), self.answered(at)];
                let plot = self.one(OrderState::Paid, facts).listed(day, line).agrees(day);
                let plot = plot.moved(day, Status::Success, (self.currency(), self.amount()));
                Plot { noticed: vec![(day, false)], ..plot }
            }
            Kind::RefundedInParts => {
                let part = self.amount() / 3;
                let mut plot = self
                    .paid(self.paid_at(0), 0)
                    .listed(0, self.line(Status::Success, self.paid_at(0)));
                plot = plot.agrees(0).notices(0);
                for (day, minor, event) in
                    [(0, part, "e1"), (1, part, "e2"), (2, self.amount() - 2 * part, "e3")]
                {
                    let at = self.paid_at(day).plus_ms(4 * HOUR);
                    let notice = self.notice_of(
                        &self.reference(),
                        Status::Refunded,
                        (minor, None, event),
                        at,
                    );
                    plot.told[0].facts.push(notice);
                    let line = Line {
                        amount: minor,
                        event,
                        ..self.line(Status::Refunded, at.plus_ms(self.drift_ms()))
                    };
                    plot = plot.listed(day, line).agrees(day);
                    plot = plot.moved(day, Status::Refunded, (self.currency(), minor));
                }
                if self.roll(6, 2) == 0 {
                    // So long ago that only its lines lead to it.
                    plot.told[0].facts[0].0 = at.plus_ms(-20 * 24 * HOUR);
                }
                plot.told[0].state = OrderState::Refunded;
                plot
            }
            Kind::CreatedLongAgo => {
                let mut plot = self.paid(at, day).listed(day, line).agrees(day).notices(day);
                plot.told[0].facts[0].0 = at.plus_ms(-20 * 24 * HOUR);
                plot
            }
            _ => self.paid(at, day).listed(day, line).agrees(day).notices(day),
        }
    }

    /// The partner's line says something else, or is not there, or there too often.
    fn changed(self, kind: Kind) -> Plot {
        let day = self.day();
        let at = self.paid_at(day);
        let line = self.line(Status::Success, at.plus_ms(self.drift_ms()));
        let (mut plot, minor) = (self.paid(at, day), self.amount());
        let truth = vec![(day, line.clone())];
        let expect = |code, ours: &str, partners: &str| self.expect(day, code, (ours, partners));
        match kind {
            Kind::LineDropped => plot.expect.push(self.missing(day, Status::Success, minor)),
            Kind::OrderDropped => {
                plot = Plot::default().listed(day, line);
                plot.expect.push(expect(Code::MissingHere, "nothing", "SUCCESS"));
            }
            Kind::AmountChanged => {
                let other = minor - 7;
                plot = plot.listed(day, Line { amount: other, ..line });
                let found = expect(Code::AmountDiffers, &minor.to_string(), &other.to_string());
                plot.expect.push(Expect { at_risk: 7, ..found });
            }
            Kind::CurrencyChanged => {
                plot = plot.listed(day, Line { currency: "USD", ..line });
                let found = expect(Code::CurrencyDiffers, self.currency(), "USD");
                plot.expect.push(Expect { currency: Some("USD"), ..found });
            }
            Kind::RefChanged => {
                let other = format!("other{}", self.n);
                plot = plot.listed(day, Line { reference: other.clone(), ..line });
                let of_other = |found: Expect| Expect { reference: Some(other.clone()), ..found };
                plot.expect.extend(match self.by {
                    By::Order => {
                        vec![of_other(expect(Code::RefDiffers, &self.reference(), &other))]
                    }
                    By::Ref => vec![
                        self.missing(day, Status::Success, minor),
                        of_other(expect(Code::MissingHere, "nothing", "SUCCESS")),
                    ],
                });
            }
            Kind::SaysFailed => {
                plot = plot.listed(day, Line { kind: Status::Failed, ..line });
                plot.expect.push(expect(Code::StatusDiffers, "PAID", "FAILED"));
            }
            Kind::TimeChanged => {
                let later = at.plus_ms(HOUR + self.drift_ms());
                plot = plot.listed(day, Line { at: later, ..line }).agrees(day);
                let found = expect(Code::TimeDiffers, &at.to_string(), &later.to_string());
                plot.expect.push(Expect { at_risk: 0, ..found });
            }
            Kind::Repeated | Kind::RepeatedLater => {
                let more = 1 + i64::from(self.roll(6, 3));
                let apart = if kind == Kind::Repeated { 0 } else { 1_000 };
                plot = plot.listed(day, line.clone()).agrees(day);
                for n in 1..=more {
                    plot =
                        plot.listed(day, Line { at: line.at.plus_ms(n * apart), ..line.clone() });
                }
                let partners = format!("{} times", more + 1);
                let found = expect(Code::DuplicatedThere, "once", &partners);
                plot.expect.push(Expect { at_risk: more * minor, ..found });
            }
            other => panic!("{other:?} is told elsewhere"),
        }
        let plot = if kind == Kind::OrderDropped { plot } else { plot.notices(day) };
        let of_known = kind != Kind::RefChanged || self.by == By::Order;
        let is_listed = of_known && plot.lines.iter().any(|(_, line)| line.kind == Status::Success);
        let noticed = if is_listed { plot.noticed.clone() } else { Vec::new() };
        // Nothing the partner could mend is wrong where the order is missing here.
        let truth = if kind == Kind::OrderDropped { Some(Vec::new()) } else { Some(truth) };
        Plot { truth, noticed, ..plot }
    }
}

pub(super) fn amount(minor: i64) -> Amount {
    Amount::from_minor(minor).unwrap()
}

impl Plot {
    pub(super) fn listed(mut self, day: u64, line: Line) -> Self {
        self.lines.push((day, line));
        self
    }

    pub(super) fn agrees(mut self, day: u64) -> Self {
        *self.matched.entry(day).or_default() += 1;
        self
    }

    pub(super) fn notices(mut self, day: u64) -> Self {
        self.noticed.push((day, true));
        self
    }

    pub(super) fn moved(
        mut self,
        day: u64,
        status: Status,
        (currency, minor): (&'static str, i64),
    ) -> Self {
        self.moves.push((day, status, currency, minor));
        self
    }
}

mod others;

/// Two orders that know of each other.
pub(super) fn shared(reference: &str, other: &str) -> Fact {
    Fact::RefShared(SharedRef {
        provider_ref: ProviderRef::parse(reference).unwrap(),
        other_order: OrderId::parse(other).unwrap(),
    })
}
