//! Owns the timeouts of a run, and the decision when a payment is finished. Pure; `now` is passed
//! in.

use payfold_schemas::time::Time;

use super::observations::{IpnAnswer, IpnDelivery, ReceivedReturn};

/// The timeouts of a run, in ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunTimeouts {
    /// From the start of waiting (after the create call and the first visit of the page) until the
    /// first event: an IPN, signed or not, a return, or an action of the certifier at the page.
    pub payer_ms: i64,
    /// From the first event until the first signed IPN.
    pub ipn_ms: i64,
    /// From the last IPN, if it was not acknowledged, until the next one.
    pub retry_ms: i64,
    /// From the first event until the browser's return.
    pub return_ms: i64,
    /// After the last event: for IPNs that should not be sent any more.
    pub quiet_ms: i64,
    /// How long an IPN is left without an answer; then it gets 504. The partner's own timeout
    /// should be shorter, or it never sees a missing answer.
    pub hang_ms: i64,
    /// Between two checks of a payment.
    pub poll_ms: u64,
}

impl Default for RunTimeouts {
    fn default() -> Self {
        Self {
            payer_ms: 10 * 60_000,
            ipn_ms: 2 * 60_000,
            retry_ms: 15 * 60_000,
            return_ms: 60_000,
            quiet_ms: 10_000,
            hang_ms: 60_000,
            poll_ms: 200,
        }
    }
}

/// The state of a payment that the run waits for.
pub(super) struct PaymentWait<'p> {
    /// When the waiting began: after the create call and the first visit of the page.
    pub(super) since: Time,
    /// When the certifier itself acted at the page; an action left to a person is not known.
    pub(super) acted_at: Option<Time>,
    /// Whether a browser return is expected.
    pub(super) return_expected: ReturnExpected,
    pub(super) deliveries: &'p [IpnDelivery],
    pub(super) returns: &'p [ReceivedReturn],
}

/// Whether a browser return is expected for a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReturnExpected {
    Yes,
    No,
}

impl PaymentWait<'_> {
    /// Whether the payment is finished: the timeout of every expected event has passed, and
    /// `quiet_ms` since the last event.
    pub(super) fn is_finished(&self, now: Time, timeouts: &RunTimeouts) -> bool {
        let received =
            self.deliveries.iter().map(|one| one.at).chain(self.returns.iter().map(|b| b.at));
        let mut times: Vec<_> = received.chain(self.acted_at).collect();
        times.sort_unstable();
        let (Some(first), Some(last)) = (times.first(), times.last()) else {
            return now > self.since.plus_ms(timeouts.payer_ms);
        };
        let mut until = last.plus_ms(timeouts.quiet_ms);
        let has_signed_ipn = (self.deliveries.iter()).any(|one| one.reading.is_notice());
        if !has_signed_ipn {
            until = until.max(first.plus_ms(timeouts.ipn_ms));
        }
        if self.return_expected == ReturnExpected::Yes && self.returns.is_empty() {
            until = until.max(first.plus_ms(timeouts.return_ms));
        }
        for (index, one) in self.deliveries.iter().enumerate() {
            let mut later = self.deliveries[index + 1..].iter();
            // Several IPNs may be in flight at once. The last one of a notice decides whether a
            // retry is still expected.
            if one.answer == IpnAnswer::Acknowledged || later.any(|later| later.may_repeat(one)) {
                continue;
            }
            let held_ms = if one.answer == IpnAnswer::NoAnswer { timeouts.hang_ms } else { 0 };
            until = until.max(one.at.plus_ms(timeouts.retry_ms + held_ms));
        }
        now > until
    }
}

#[cfg(test)]
mod tests {
    use payfold_schemas::digest::Digest;
    use payfold_schemas::ids::{OrderId, ProviderRef};
    use payfold_schemas::ipn::Status;
    use payfold_schemas::money::{Amount, Currency};

    use super::super::observations::{IpnReading, SignedIpn};
    use super::*;

    const TIMEOUTS: RunTimeouts = RunTimeouts {
        payer_ms: 1_000,
        ipn_ms: 100,
        retry_ms: 200,
        return_ms: 50,
        quiet_ms: 10,
        hang_ms: 30,
        poll_ms: 1,
    };

    fn at(ms: i64) -> Time {
        Time::from_unix_ms(ms)
    }

    fn delivery(ms: i64, answer: IpnAnswer) -> IpnDelivery {
        let reading = match answer {
            IpnAnswer::Refused(_) => IpnReading::Unsigned(None),
            _ => IpnReading::Inadmissible("why".to_owned()),
        };
        IpnDelivery { at: at(ms), digest: Digest::of_bytes(b""), reading, answer }
    }

    /// A notice of its own: with this signed text.
    fn event(ms: i64, signed: &str, answer: IpnAnswer) -> IpnDelivery {
        let ipn = SignedIpn {
            order_id: OrderId::parse("ord-1").unwrap(),
            provider_ref: ProviderRef::parse("ref-1").unwrap(),
            status: Status::Success,
            amount: Amount::from_minor(1).unwrap(),
            currency: Currency::parse("VND").unwrap(),
            paid_at: None,
            time: None,
            event_ref: None,
            refund_so_far: false,
            signed: Some(Digest::of_bytes(signed.as_bytes())),
            is_signed_anew: false,
        };
        IpnDelivery { reading: IpnReading::Signed(ipn), ..delivery(ms, answer) }
    }

    fn browser_return(ms: i64) -> ReceivedReturn {
        ReceivedReturn { at: at(ms), signed_for: None, parameters: Vec::new() }
    }

    /// The last ms at which a payment opened at 0 is not finished.
    fn finished_after(
        acted: Option<i64>,
        deliveries: &[IpnDelivery],
        returns: &[ReceivedReturn],
    ) -> i64 {
        let (acted_at, return_expected) = (acted.map(at), ReturnExpected::Yes);
        let waiting = PaymentWait { since: at(0), acted_at, return_expected, deliveries, returns };
        (0..3_000).find(|ms| waiting.is_finished(at(*ms), &TIMEOUTS)).unwrap() - 1
    }

    #[test]
    fn a_payment_is_finished_when_nothing_more_is_to_come() {
        use IpnAnswer::{Acknowledged, NoAnswer, Refused, Unavailable};
        assert_eq!(finished_after(None, &[], &[]), 1_000, "no payer");
        assert_eq!(finished_after(Some(5), &[], &[]), 105, "paid, and no IPN");
        assert_eq!(
            finished_after(Some(5), &[delivery(20, Acknowledged)], &[browser_return(6)]),
            30,
            "quiet"
        );
        assert_eq!(finished_after(Some(5), &[delivery(20, Acknowledged)], &[]), 55, "no return");
        assert_eq!(
            finished_after(Some(5), &[delivery(20, Unavailable)], &[browser_return(6)]),
            220,
            "no retry"
        );
        assert_eq!(
            finished_after(Some(5), &[delivery(20, NoAnswer)], &[browser_return(6)]),
            250,
            "no retry after no answer"
        );
        let retried = [delivery(20, Unavailable), delivery(90, Acknowledged)];
        assert_eq!(finished_after(Some(5), &retried, &[browser_return(6)]), 100);
        let other = [event(20, "captured", Unavailable), event(90, "paid", Acknowledged)];
        assert_eq!(
            finished_after(Some(5), &other, &[browser_return(6)]),
            220,
            "another event is no retry"
        );
        assert_eq!(
            finished_after(Some(5), &[delivery(20, Refused(401))], &[browser_return(6)]),
            220
        );
    }
}
