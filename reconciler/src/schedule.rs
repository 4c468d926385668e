//! Owns when an order is asked about: so long after the time its questions count from, and then no more. Pure, and the
//! same for everybody: which question is next follows from the order's own times, so a restart loses nothing and a
//! listing knows what the role does.

use std::time::Duration;

use payfold_schemas::time::Time;

/// More questions about one order help nobody.
const TIMES_MAX: usize = 64;
/// Nobody's books change after that, ms.
pub(crate) const AFTER_MS_MAX: i64 = 60 * 24 * 3_600 * 1_000;
const AFTER_MAX: Duration = Duration::from_millis(AFTER_MS_MAX.unsigned_abs());

/// The times after which an order is asked about, ascending; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule(Vec<i64>);

/// Why durations are no schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it takes 1 to {TIMES_MAX} times from 1ms to 60days, each later than the one before, such as [\"1m\", \"1h\"]"
)]
pub struct ScheduleError;

impl Schedule {
    /// Asks so long after. Errors: `ScheduleError`.
    pub fn new(after: &[Duration]) -> Result<Self, ScheduleError> {
        let in_range = |after: &Duration| *after >= Duration::from_millis(1) && *after <= AFTER_MAX;
        let ascending = after.windows(2).all(|pair| pair[0] < pair[1]);
        if !(1..=TIMES_MAX).contains(&after.len()) || !ascending || !after.iter().all(in_range) {
            return Err(ScheduleError);
        }
        let ms = |after: &Duration| i64::try_from(after.as_millis()).map_err(|_| ScheduleError);
        after.iter().map(ms).collect::<Result<_, _>>().map(Self)
    }

    /// Each time, ms, with half the way back to the one before: who is asked so much early or late is asked once.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (i64, i64)> + '_ {
        let before = std::iter::once(0).chain(self.0.iter().copied());
        self.0.iter().zip(before).map(|(after, before)| (*after, (after - before) / 2))
    }

    /// When the next question is due after `now`, for who counts from `since`; none when all are asked.
    pub fn next(&self, since: Time, now: Time) -> Option<Time> {
        self.0.iter().map(|after| since.plus_ms(*after)).find(|due| *due > now)
    }

    /// How many were due by `now`.
    pub fn asked(&self, since: Time, now: Time) -> usize {
        self.0.iter().filter(|after| since.plus_ms(**after) <= now).count()
    }

    /// How many there are.
    pub fn times(&self) -> usize {
        self.0.len()
    }

    /// When the last one is due.
    pub fn ends(&self, since: Time) -> Time {
        since.plus_ms(self.0.last().copied().unwrap_or(0))
    }
}

impl Default for Schedule {
    /// One minute, five, half an hour, two hours, twelve, then daily, seven times.
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
    fn the_usual_one_asks_twelve_times_in_a_week() {
        let usual = Schedule::default();
        let (since, mut now, mut dues) = (at("10:00"), at("10:00"), Vec::new());
        while let Some(due) = usual.next(since, now) {
            dues.push(due.nanos_since(since) / 60_000_000_000);
            assert_eq!(usual.asked(since, now), dues.len() - 1);
            now = due;
        }
        assert_eq!(dues, [1, 5, 30, 120, 720, 1440, 2880, 4320, 5760, 7200, 8640, 10080]);
        assert_eq!((usual.asked(since, now), usual.times(), usual.ends(since)), (12, 12, now));
        assert_eq!(usual.asked(since, since.plus_ms(59_999)), 0);
    }

    #[test]
    fn what_is_no_schedule_is_refused() {
        assert!(schedule(&[1]).is_ok() && schedule(&[1, 2, 5_184_000]).is_ok());
        for wrong in [&[][..], &[0], &[2, 1], &[1, 1], &[5_184_001], &[1; 65]] {
            assert_eq!(schedule(wrong), Err(ScheduleError), "{wrong:?}");
        }
        assert!(schedule(&(1..=64).collect::<Vec<_>>()).is_ok());
        assert!(schedule(&(1..=65).collect::<Vec<_>>()).is_err());
    }

    #[test]
    fn half_the_way_back_lies_behind_the_time_before() {
        let slots: Vec<_> = schedule(&[2, 10, 11]).unwrap().slots().collect();
        assert_eq!(slots, [(2_000, 1_000), (10_000, 4_000), (11_000, 500)]);
    }
}
