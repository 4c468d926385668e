//! The stories around midnight, of refunds, of two orders, and of orders without a payment here.

use payfold_schemas::fact::{Fact, SharedRef};
use payfold_schemas::finding::Code;
use payfold_schemas::ids::{OrderId, ProviderRef};
use payfold_schemas::ipn::Status;
use payfold_schemas::order::OrderState;

use super::{ExpectedFinding, HOUR, Kind, MINUTE, RecordLine, StoryContext, StoryData};
use crate::comparer::MatchKey;
use crate::tests::testbed::TestOrder;

impl StoryContext {
    pub(super) fn at_a_border(self, kind: Kind) -> StoryData {
        // One of the two midnights between the three days.
        let day = u64::from(self.roll(7, 2));
        let seconds = i64::from(self.roll(8, 100)) * 1_000;
        let (before, after) =
            (self.calendar.at(day, -1_000 - seconds), self.calendar.at(day + 1, seconds));
        match kind {
            Kind::LeftToNextDay => {
                let plot =
                    self.paid(before, day).listed(day + 1, self.line(Status::Success, after));
                plot.agrees(day + 1).notices(day + 1).cut_off(day + 1)
            }
            Kind::LeftAndLost => {
                let mut plot = self.paid(before, day);
                plot.expect.push(self.missing(day, Status::Success, self.amount()));
                let truth = vec![(day + 1, self.line(Status::Success, after))];
                StoryData { truth: Some(truth), ..plot }
            }
            Kind::QueriedNextDay => {
                // The payment is undated: it is of the day that lists it, and `CUT_OFF` on the day
                // of the order.
                let facts = vec![self.created(before, 1), self.answered(after)];
                let line = self.line(Status::Success, after);
                let plot = self.one(OrderState::Paid, facts).listed(day + 1, line).agrees(day + 1);
                let money = (self.currency(), self.amount());
                let plot = plot.moved(day, Status::Success, money);
                let plot = plot.moved(day + 1, Status::Success, money);
                StoryData { noticed: vec![(day + 1, false)], ..plot }
            }
            Kind::ListedEarly => {
                let plot =
                    self.paid(after, day + 1).listed(day, self.line(Status::Success, before));
                plot.agrees(day).notices(day).cut_off(day)
            }
            _ => {
                // Paid on the first day, listed on the last one.
                let at = self.paid_at(0);
                let line = self.line(Status::Success, at);
                let mut plot = self.paid(at, 0).listed(2, line.clone()).agrees(2).notices(2);
                let stated = (at.to_string(), at.to_string());
                let found = self.expect(2, Code::OtherDay, (&stated.0, &stated.1));
                plot.expect.push(ExpectedFinding { at_risk: 0, ..found });
                StoryData { truth: Some(vec![(0, line)]), ..plot }
            }
        }
    }

    pub(super) fn refunded(self, kind: Kind) -> StoryData {
        let day = self.day();
        let (at, minor) = (self.paid_at(day), self.amount());
        let back = at.plus_ms(3 * HOUR + 17 * MINUTE);
        let success = self.line(Status::Success, at.plus_ms(self.drift_ms()));
        let mut plot = self.paid(at, day).listed(day, success.clone()).agrees(day).notices(day);
        let refund = |minor| RecordLine { amount: minor, ..self.line(Status::Refunded, back) };
        let mut truth = vec![(day, success)];
        let refunds = |plot: StoryData, state, minor| {
            let mut plot = plot.moved(day, Status::Refunded, (self.currency(), minor));
            plot.orders[0].facts.push(self.notice(Status::Refunded, minor, back.plus_ms(minor)));
            plot.orders[0].state = state;
            plot
        };
        match kind {
            Kind::RefundNotListed => {
                plot = refunds(plot, OrderState::Refunded, minor);
                plot.expect.push(self.missing(day, Status::Refunded, minor));
                truth.push((day, refund(minor)));
            }
            Kind::PartNotListed => {
                // Two partial refunds, of which the records list one or none.
                let (one, other) = (minor / 4, minor / 3);
                plot = refunds(refunds(plot, OrderState::Paid, one), OrderState::Paid, other);
                plot.expect.push(self.missing(day, Status::Refunded, other));
                if self.roll(6, 2) == 0 {
                    plot = plot.listed(day, refund(one)).agrees(day);
                } else {
                    plot.expect.push(self.missing(day, Status::Refunded, one));
                }
                truth.extend([(day, refund(one)), (day, refund(other))]);
            }
            Kind::RefundsNotNotified => {
                for part in [minor / 4, minor / 3] {
                    plot = plot.listed(day, refund(part));
                    let says = format!("REFUNDED {part}");
                    let found = self.expect(day, Code::StatusDiffers, ("PAID", &says));
                    plot.expect.push(ExpectedFinding { at_risk: part, ..found });
                }
            }
            _ => {
                let (stated, listed) = (minor / 4, minor / 3);
                plot = refunds(plot, OrderState::Paid, stated).listed(day, refund(listed));
                let says = (stated.to_string(), listed.to_string());
                let found = self.expect(day, Code::AmountDiffers, (&says.0, &says.1));
                plot.expect.push(ExpectedFinding { at_risk: listed - stated, ..found });
                truth.push((day, refund(stated)));
            }
        }
        StoryData { truth: Some(truth), ..plot }
    }

    /// The notice of the payment is lost: this system knows the money only by the notice of its
    /// refund.
    pub(super) fn begins_with_a_refund(self, kind: Kind) -> StoryData {
        let day = self.day();
        let (at, minor) = (self.paid_at(day), self.amount());
        let back = at.plus_ms(3 * HOUR);
        let is_whole = kind != Kind::OnlyPartRefundKnown;
        let returned = if is_whole { minor } else { minor / 3 };
        let state = if is_whole { OrderState::Refunded } else { OrderState::Pending };
        let created = at.plus_ms(-10 * MINUTE);
        let facts = vec![
            self.created(created, 1),
            self.opened(created.plus_ms(900)),
            self.notice(Status::Refunded, returned, back),
        ];
        let success = self.line(Status::Success, at.plus_ms(self.drift_ms()));
        let refund = RecordLine { amount: returned, ..self.line(Status::Refunded, back) };
        let money = self.currency();
        let plot = self.one(state, facts).listed(day, refund.clone()).agrees(day).notices(day);
        let mut plot = plot.moved(day, Status::Refunded, (money, returned));
        match kind {
            Kind::OnlyRefundKnown => {
                let plot = plot.moved(day, Status::Success, (money, minor));
                plot.listed(day, success).agrees(day)
            }
            Kind::OnlyRefundKnownOtherAmount => {
                plot = plot.moved(day, Status::Success, (money, minor));
                plot = plot.listed(day, RecordLine { amount: 1, ..success.clone() });
                let found = self.expect(day, Code::AmountDiffers, (&minor.to_string(), "1"));
                plot.expect.push(ExpectedFinding { at_risk: minor - 1, ..found });
                StoryData { truth: Some(vec![(day, success), (day, refund)]), ..plot }
            }
            _ => {
                // A partial refund does not make the order paid: its payment is still missing here.
                plot = plot.listed(day, success);
                plot.expect.push(self.expect(day, Code::StatusDiffers, ("PENDING", "SUCCESS")));
                StoryData { truth: Some(vec![(day, refund)]), ..plot }
            }
        }
    }

    pub(super) fn two_orders(self, kind: Kind) -> StoryData {
        let day = self.day();
        let (at, minor) = (self.paid_at(day), self.amount());
        let line = self.line(Status::Success, at);
        let second = format!("{}-2", self.order());
        let plot = self.paid(at, day);
        match kind {
            Kind::UnderAnotherOrder => {
                let mut plot =
                    plot.listed(day, RecordLine { order: second.clone(), ..line.clone() });
                let ours = format!("of order {}", self.order());
                let of_second = |found: ExpectedFinding| ExpectedFinding {
                    order: Some(second.clone()),
                    ..found
                };
                match self.by {
                    MatchKey::Order => {
                        plot.expect.push(self.missing(day, Status::Success, minor));
                        let found = self.expect(day, Code::RefOnTwoOrders, (&ours, "SUCCESS"));
                        plot.expect.push(of_second(found));
                    }
                    MatchKey::Ref => {
                        plot = plot.agrees(day).notices(day);
                        let theirs = format!("of order {second}");
                        let found =
                            self.expect(day, Code::RefOnTwoOrders, ("of this order", &theirs));
                        plot.expect.push(found);
                    }
                }
                StoryData { truth: Some(vec![(day, line)]), ..plot }
            }
            Kind::PaidTwice => {
                let other = format!("{}-2", self.reference());
                let facts = vec![
                    self.created(at, 2),
                    self.notice_of(&other, Status::Success, (minor, Some(at), ""), at),
                ];
                let mut plot = plot.moved(day, Status::Success, (self.currency(), minor));
                plot.orders.push(TestOrder { id: second.clone(), state: OrderState::Paid, facts });
                let of_second =
                    RecordLine { order: second.clone(), reference: other, ..line.clone() };
                plot = plot.listed(day, line).listed(day, of_second);
                plot = plot.agrees(day).agrees(day).notices(day).notices(day);
                let ours = format!("paid as {}, {second}", self.order());
                let found = self.expect(day, Code::ReferencePaidTwice, (&ours, "one payment"));
                plot.expect.push(ExpectedFinding { order: None, reference: None, ..found });
                plot
            }
            _ => self.shared_ref(plot, (day, line)),
        }
    }

    /// Both orders are paid under one ref, which both know.
    fn shared_ref(self, mut plot: StoryData, (day, line): (u64, RecordLine)) -> StoryData {
        let (at, minor) = (line.at, self.amount());
        let second = format!("{}-2", self.order());
        let facts = vec![
            self.created(at, 1),
            self.notice(Status::Success, minor, at),
            (at, shared(&self.reference(), &self.order())),
        ];
        plot = plot.moved(day, Status::Success, (self.currency(), minor));
        plot.orders[0].facts.push((at, shared(&self.reference(), &second)));
        plot.orders.push(TestOrder { id: second.clone(), state: OrderState::Paid, facts });
        if self.by == MatchKey::Ref {
            // Listed once: the line is matched with the order it names, and is missing for the
            // other.
            plot.expect.push(self.missing(day, Status::Success, minor));
            let ours = format!("also of order {}", self.order());
            let found = self.expect(day, Code::RefOnTwoOrders, (&ours, "of this order"));
            plot.expect.push(ExpectedFinding { order: Some(second.clone()), ..found });
            let line = RecordLine { order: second, ..line };
            return plot.listed(day, line).agrees(day).notices(day);
        }
        for (order, other) in [(self.order(), &second), (second.clone(), &self.order())] {
            plot = plot.listed(day, RecordLine { order: order.clone(), ..line.clone() });
            plot = plot.agrees(day).notices(day);
            let ours = format!("also of order {other}");
            let found = self.expect(day, Code::RefOnTwoOrders, (&ours, "of this order"));
            plot.expect.push(ExpectedFinding { order: Some(order), ..found });
        }
        plot
    }

    pub(super) fn not_paid_here(self, kind: Kind) -> StoryData {
        let day = self.day();
        let (at, minor) = (self.paid_at(day), self.amount());
        let created = self.created(at.plus_ms(-HOUR), 1);
        let line = self.line(Status::Success, at);
        let (state, facts) = match kind {
            Kind::SaysPaidOfFailed => {
                let failed = self.notice(Status::Failed, minor, at);
                (OrderState::Failed, vec![created, self.opened(at), failed])
            }
            Kind::SaysPaidOfPending => (OrderState::Pending, vec![created, self.opened(at)]),
            Kind::NeverRequested => {
                (OrderState::Unmatched, vec![self.notice(Status::Success, minor, at)])
            }
            _ => {
                let stated = self.notice(Status::Success, minor + 5, at);
                (OrderState::Pending, vec![created, self.opened(at), stated])
            }
        };
        let mut plot = self.one(state, facts).listed(day, line);
        plot.noticed.push((day, kind != Kind::SaysPaidOfPending));
        if kind == Kind::OtherAmountNotified {
            let stated = (minor + 5).to_string();
            let found = self.expect(day, Code::AmountDiffers, (&stated, &minor.to_string()));
            plot.expect.push(ExpectedFinding { at_risk: 5, ..found });
        } else {
            let found = self.expect(day, Code::StatusDiffers, (state.as_str(), "SUCCESS"));
            plot.expect.push(found);
        }
        StoryData { truth: Some(Vec::new()), ..plot }
    }
}

impl StoryData {
    fn cut_off(mut self, day: u64) -> Self {
        *self.cut_off.entry(day).or_default() += 1;
        self
    }
}

/// The fact that another order has the same ref.
fn shared(reference: &str, other: &str) -> Fact {
    Fact::RefShared(SharedRef {
        provider_ref: ProviderRef::parse(reference).unwrap(),
        other_order: OrderId::parse(other).unwrap(),
    })
}
