//! Owns how long a run waits, and when a payment is over: pure, `now` is passed in.

use payfold_schemas::time::Time;

use super::seen::{Answered, Delivery, Reading, Return};

/// How long a run waits for what, ms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For a payer: until anything at all comes of a page.
    pub payer_ms: i64,
    /// For the first IPN, once something else says that a payment has ended.
    pub ipn_ms: i64,
    /// For an IPN that was not acknowledged to come again.
    pub retry_ms: i64,
    /// For the browser, once the payment has ended.
    pub return_ms: i64,
    /// After the last thing that came: for what should not come any more.
    pub quiet_ms: i64,
    /// How long an IPN is left without an answer; its sender's own time-out should be shorter.
    pub hang_ms: i64,
    /// Between two looks.
    pub look_ms: u64,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            payer_ms: 10 * 60_000,
            ipn_ms: 2 * 60_000,
            retry_ms: 15 * 60_000,
            return_ms: 60_000,
            quiet_ms: 10_000,
            hang_ms: 60_000,
            look_ms: 200,
        }
    }
}

/// What is known of a payment while it is waited for.
pub(super) struct Waiting<'p> {
    /// When its session was opened.
    pub(super) since: Time,
    /// When the certifier acted at its page.
    pub(super) acted_at: Option<Time>,
    /// Whether a browser should come back.
    pub(super) comes_back: ComesBack,
    pub(super) deliveries: &'p [Delivery],
    pub(super) returns: &'p [Return],
}

/// Whether a browser should come back from a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ComesBack {
    Yes,
    No,
}

impl Waiting<'_> {
    /// Whether nothing more is waited for.
    pub(super) fn is_over(&self, now: Time, patience: &Patience) -> bool {
        let came =
            self.deliveries.iter().map(|one| one.at).chain(self.returns.iter().map(|b| b.at));
        let mut signs: Vec<_> = came.chain(self.acted_at).collect();
        signs.sort_unstable();
        let (Some(first), Some(last)) = (signs.first(), signs.last()) else {
            return now > self.since.plus_ms(patience.payer_ms);
        };
        let mut until = last.plus_ms(patience.quiet_ms);
        let told = (self.deliveries.iter()).any(|one| matches!(one.reading, Reading::Signed(_)));
        if !told {
            until = until.max(first.plus_ms(patience.ipn_ms));
        }
        if self.comes_back == ComesBack::Yes && self.returns.is_empty() {
            until = until.max(first.plus_ms(patience.return_ms));
        }
        // Several IPNs may be on their way at once: the last one of all says whether one is still to come.
        if let Some(one) = self.deliveries.last().filter(|one| one.answered != Answered::Taken) {
            let held_ms = if one.answered == Answered::Silent { patience.hang_ms } else { 0 };
            until = until.max(one.at.plus_ms(patience.retry_ms + held_ms));
        }
        now > until
    }
}

#[cfg(test)]
mod tests {
    use payfold_schemas::digest::Digest;

    use super::super::seen::Told;
    use super::*;

    const PATIENCE: Patience = Patience {
        payer_ms: 1_000,
        ipn_ms: 100,
        retry_ms: 200,
        return_ms: 50,
        quiet_ms: 10,
        hang_ms: 30,
        look_ms: 1,
    };

    fn at(ms: i64) -> Time {
        Time::from_unix_ms(ms)
    }

    fn delivery(ms: i64, answered: Answered) -> Delivery {
        let reading = match answered {
            Answered::Refused(_) => Reading::Unsigned(None),
            _ => Reading::Signed(Told::default()),
        };
        Delivery { at: at(ms), digest: Digest::of_bytes(b""), reading, answered }
    }

    fn back(ms: i64) -> Return {
        Return { at: at(ms), signed_for: None, parameters: Vec::new() }
    }

    /// The first ms after which a payment opened at 0 is over.
    fn over(acted: Option<i64>, deliveries: &[Delivery], returns: &[Return]) -> i64 {
        let (acted_at, comes_back) = (acted.map(at), ComesBack::Yes);
        let waiting = Waiting { since: at(0), acted_at, comes_back, deliveries, returns };
        (0..3_000).find(|ms| waiting.is_over(at(*ms), &PATIENCE)).unwrap() - 1
    }

    #[test]
    fn a_payment_is_over_when_nothing_more_is_to_come() {
        use Answered::{Busy, Refused, Silent, Taken};
        assert_eq!(over(None, &[], &[]), 1_000, "nobody paid");
        assert_eq!(over(Some(5), &[], &[]), 105, "paid, and no IPN");
        assert_eq!(over(Some(5), &[delivery(20, Taken)], &[back(6)]), 30, "quiet");
        assert_eq!(over(Some(5), &[delivery(20, Taken)], &[]), 55, "no return");
        assert_eq!(over(Some(5), &[delivery(20, Busy)], &[back(6)]), 220, "no retry");
        assert_eq!(over(Some(5), &[delivery(20, Silent)], &[back(6)]), 250, "none either");
        let retried = [delivery(20, Busy), delivery(90, Taken)];
        assert_eq!(over(Some(5), &retried, &[back(6)]), 100);
        assert_eq!(over(Some(5), &[delivery(20, Refused(401))], &[back(6)]), 220);
    }
}
