//! Owns the schedule of queries about an order: a list of delays after a start time. Pure. Which
//! query is next follows from the order's own times and the present time alone. So a restart loses
//! nothing, and a listing can show what the reconciler will do.

use std::time::Duration;

use payfold_schemas::time::Time;

/// The most queries about one order.
const QUERIES_MAX: usize = 64;
/// The longest delay, ms: 60 days. Partners' records of a payment don't change after that.
pub(crate) const DELAY_MS_MAX: i64 = 60 * 24 * 3_600 * 1_000;
const DELAY_MAX: Duration = Duration::from_millis(DELAY_MS_MAX.unsigned_abs());

/// The delays after which an order is asked about, ms, ascending; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule(Vec<i64>);

/// The delays are no schedule: too few or too many, out of range or not ascending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it takes 1 to {QUERIES_MAX} times from 1ms to 60days, each later than the one before, such as \
     [\"1m\", \"1h\"]"
)]
pub struct ScheduleError;

impl Schedule {
    /// A schedule of these delays. Errors: `ScheduleError`.
    pub fn new(delays: &[Duration]) -> Result<Self, ScheduleError> {
        let in_range = |delay: &Duration| *delay >= Duration::from_millis(1) && *delay <= DELAY_MAX;
        let ascending = delays.windows(2).all(|pair| pair[0] < pair[1]);
        if !(1..=QUERIES_MAX).contains(&delays.len()) || !ascending || !delays.iter().all(in_range)
        {
            return Err(ScheduleError);
        }
        let ms = |delay: &Duration| i64::try_from(delay.as_millis()).map_err(|_| ScheduleError);
        delays.iter().map(ms).collect::<Result<_, _>>().map(Self)
    }

    /// Each delay, ms, with half its distance from the delay before. A query that is early or late
    /// by no more than that can't be confused with its neighbour.
    pub(crate) fn delays_with_half_gaps(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        let before = std::iter::once(0).chain(self.0.iter().copied());
        self.0.iter().zip(before).map(|(delay, before)| (*delay, (delay - before) / 2))
    }

    /// When the next query after `now` is due, counted from `since`; `None` after the last.
    pub fn next_due(&self, since: Time, now: Time) -> Option<Time> {
        self.0.iter().map(|delay| since.plus_ms(*delay)).find(|due| *due > now)
    }

    /// How many queries were due by `now`, counted from `since`.
    pub fn due_count(&self, since: Time, now: Time) -> usize {
        self.0.iter().filter(|delay| since.plus_ms(**delay) <= now).count()
    }

    /// How many queries there are in all.
    pub fn query_count(&self) -> usize {
        self.0.len()
    }

    /// When the last query is due, counted from `since`.
    pub fn last_due(&self, since: Time) -> Time {
        since.plus_ms(self.0.last().copied().unwrap_or(0))
    }
}

impl Default for Schedule {
    /// After 1 minute, 5 and 30 minutes, 2 and 12 hours, then daily for 7 days.
    fn default() -> Self {
        let minutes = [1, 5, 30, 120, 720].into_iter().chain((1..=7).map(|day| day * 1_440));
        Self(minutes.map(|minutes| minutes * 60_000).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::testkit::at;

    fn schedule(seconds: &[u64]) -> Result<Schedule, ScheduleError> {
        Schedule::new(&seconds.iter().map(|s| Duration::from_secs(*s)).collect::<Vec<_>>())
    }

    #[test]
    fn the_default_schedule_has_twelve_queries_in_a_week() {
        let default = Schedule::default();
        let (since, mut now, mut dues) = (at("10:00"), at("10:00"), Vec::new());
        while let Some(due) = default.next_due(since, now) {
            dues.push(due.nanos_since(since) / 60_000_000_000);
            assert_eq!(default.due_count(since, now), dues.len() - 1);
            now = due;
        }
        assert_eq!(dues, [1, 5, 30, 120, 720, 1440, 2880, 4320, 5760, 7200, 8640, 10080]);
        assert_eq!(
            (default.due_count(since, now), default.query_count(), default.last_due(since)),
            (12, 12, now)
        );
        assert_eq!(default.due_count(since, since.plus_ms(59_999)), 0);
    }

    #[test]
    fn delays_out_of_range_or_order_are_refused() {
        assert!(schedule(&[1]).is_ok() && schedule(&[1, 2, 5_184_000]).is_ok());
        for wrong in [&[][..], &[0], &[2, 1], &[1, 1], &[5_184_001], &[1; 65]] {
            assert_eq!(schedule(wrong), Err(ScheduleError), "{wrong:?}");
        }
        assert!(schedule(&(1..=64).collect::<Vec<_>>()).is_ok());
        assert!(schedule(&(1..=65).collect::<Vec<_>>()).is_err());
    }

    #[test]
    fn half_gaps_reach_half_way_to_the_delay_before() {
        let delays: Vec<_> = schedule(&[2, 10, 11]).unwrap().delays_with_half_gaps().collect();
        assert_eq!(delays, [(2_000, 1_000), (10_000, 4_000), (11_000, 500)]);
    }
}
