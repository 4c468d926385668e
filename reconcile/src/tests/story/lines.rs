//! The stories without an error, and those with one wrong line.

use payfold_schemas::finding::Code;
use payfold_schemas::ipn::Status;
use payfold_schemas::order::OrderState;

use super::{ExpectedFinding, HOUR, Kind, RecordLine, StoryContext, StoryData};
use crate::comparer::MatchKey;

impl StoryData {
    pub(super) fn listed(mut self, day: u64, line: RecordLine) -> Self {
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

impl StoryContext {
    pub(super) fn sound(self, kind: Kind) -> StoryData {
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
                StoryData { noticed: vec![(day, false)], ..plot }
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
                    plot.orders[0].facts.push(notice);
                    let line = RecordLine {
                        amount: minor,
                        event,
                        ..self.line(Status::Refunded, at.plus_ms(self.drift_ms()))
                    };
                    plot = plot.listed(day, line).agrees(day);
                    plot = plot.moved(day, Status::Refunded, (self.currency(), minor));
                }
                if self.roll(6, 2) == 0 {
                    // Created before the lookback, so only a line leads to it.
                    plot.orders[0].facts[0].0 = at.plus_ms(-20 * 24 * HOUR);
                }
                plot.orders[0].state = OrderState::Refunded;
                plot
            }
            Kind::CreatedLongAgo => {
                let mut plot = self.paid(at, day).listed(day, line).agrees(day).notices(day);
                plot.orders[0].facts[0].0 = at.plus_ms(-20 * 24 * HOUR);
                plot
            }
            _ => self.paid(at, day).listed(day, line).agrees(day).notices(day),
        }
    }

    /// Stories with a wrong, missing or repeated line.
    pub(super) fn changed(self, kind: Kind) -> StoryData {
        let day = self.day();
        let at = self.paid_at(day);
        let line = self.line(Status::Success, at.plus_ms(self.drift_ms()));
        let (mut plot, minor) = (self.paid(at, day), self.amount());
        let truth = vec![(day, line.clone())];
        let expect = |code, ours: &str, partners: &str| self.expect(day, code, (ours, partners));
        match kind {
            Kind::LineDropped => plot.expect.push(self.missing(day, Status::Success, minor)),
            Kind::OrderDropped => {
                plot = StoryData::default().listed(day, line);
                plot.expect.push(expect(Code::MissingHere, "nothing", "SUCCESS"));
            }
            Kind::AmountChanged => {
                let other = minor - 7;
                plot = plot.listed(day, RecordLine { amount: other, ..line });
                let found = expect(Code::AmountDiffers, &minor.to_string(), &other.to_string());
                plot.expect.push(ExpectedFinding { at_risk: 7, ..found });
            }
            Kind::CurrencyChanged => {
                plot = plot.listed(day, RecordLine { currency: "USD", ..line });
                let found = expect(Code::CurrencyDiffers, self.currency(), "USD");
                plot.expect.push(ExpectedFinding { currency: Some("USD"), ..found });
            }
            Kind::RefChanged => {
                let other = format!("other{}", self.n);
                plot = plot.listed(day, RecordLine { reference: other.clone(), ..line });
                let of_other = |found: ExpectedFinding| ExpectedFinding {
                    reference: Some(other.clone()),
                    ..found
                };
                plot.expect.extend(match self.by {
                    MatchKey::Order => {
                        vec![of_other(expect(Code::RefDiffers, &self.reference(), &other))]
                    }
                    MatchKey::Ref => vec![
                        self.missing(day, Status::Success, minor),
                        of_other(expect(Code::MissingHere, "nothing", "SUCCESS")),
                    ],
                });
            }
            Kind::SaysFailed => {
                plot = plot.listed(day, RecordLine { kind: Status::Failed, ..line });
                plot.expect.push(expect(Code::StatusDiffers, "PAID", "FAILED"));
            }
            Kind::TimeChanged => {
                let later = at.plus_ms(HOUR + self.drift_ms());
                plot = plot.listed(day, RecordLine { at: later, ..line }).agrees(day);
                let found = expect(Code::TimeDiffers, &at.to_string(), &later.to_string());
                plot.expect.push(ExpectedFinding { at_risk: 0, ..found });
            }
            Kind::Repeated | Kind::RepeatedLater => {
                let more = 1 + i64::from(self.roll(6, 3));
                let apart = if kind == Kind::Repeated { 0 } else { 1_000 };
                plot = plot.listed(day, line.clone()).agrees(day);
                for n in 1..=more {
                    plot = plot
                        .listed(day, RecordLine { at: line.at.plus_ms(n * apart), ..line.clone() });
                }
                let partners = format!("{} times", more + 1);
                let found = expect(Code::DuplicatedThere, "once", &partners);
                plot.expect.push(ExpectedFinding { at_risk: more * minor, ..found });
            }
            other => panic!("{other:?} is built elsewhere"),
        }
        let plot = if kind == Kind::OrderDropped { plot } else { plot.notices(day) };
        let of_known = kind != Kind::RefChanged || self.by == MatchKey::Order;
        let is_listed = of_known && plot.lines.iter().any(|(_, line)| line.kind == Status::Success);
        let noticed = if is_listed { plot.noticed.clone() } else { Vec::new() };
        // The order is missing here, so the partner has nothing to correct.
        let truth = if kind == Kind::OrderDropped { Some(Vec::new()) } else { Some(truth) };
        StoryData { truth, noticed, ..plot }
    }
}
