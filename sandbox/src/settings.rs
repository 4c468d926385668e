//! Owns the settings of the simulated partner: profile, accounts, timeouts and limits.

use std::path::PathBuf;

use payfold_partners::document::AccountEntry;
use payfold_partners::profile::Profile;

/// The settings of a simulated partner.
#[derive(Clone, Debug)]
pub struct SandboxSettings {
    /// The profile of notices and calls; its `[create]` must be a call.
    pub profile: Profile,
    /// The accounts with the keys that both sides sign with; at least one.
    pub accounts: Vec<AccountEntry>,
    /// The base URL that browsers use, such as `http://127.0.0.1:8082`.
    pub public_url: String,
    /// Where notices go if the create call does not say it: a URL.
    pub notice_url: Option<String>,
    /// The seed of random choices. With an equal seed, equal descriptions get equal faults.
    pub seed: u64,
    /// The records file for outcomes and create calls, as JSON lines. `None` records nothing.
    pub records: Option<PathBuf>,
    /// The length of a session, in ms.
    pub session_ms: i64,
    /// The length of a session for troubles about its end, in ms.
    pub short_session_ms: i64,
    /// How long after an order's deadline a late notice is sent, in ms.
    pub late_ms: i64,
    /// The retries of notices that are not acknowledged.
    pub retry: RetrySchedule,
    /// The timeout of one attempt to send a notice, in ms.
    pub answer_ms: u64,
    /// The most concurrent requests with notices.
    pub sends_max: usize,
    /// The most remembered payments. Above it the oldest are removed.
    pub payments_max: usize,
    /// The most payments with notices still to send. Above it a create call gets 429.
    pub unfinished_max: usize,
    /// How long a payment is remembered after the end of its session, in ms.
    pub keep_ms: i64,
}

impl SandboxSettings {
    /// Settings with these values and the defaults for all others.
    pub fn new(profile: Profile, accounts: Vec<AccountEntry>, public_url: &str) -> Self {
        Self {
            profile,
            accounts,
            public_url: public_url.trim_end_matches('/').to_owned(),
            notice_url: None,
            seed: 0,
            records: None,
            session_ms: 15 * 60 * 1_000,
            short_session_ms: 2_000,
            late_ms: 2_000,
            retry: RetrySchedule::default(),
            answer_ms: 10_000,
            sends_max: 128,
            payments_max: 100_000,
            unfinished_max: 50_000,
            keep_ms: 2 * 60 * 60 * 1_000,
        }
    }
}

/// The retry schedule of notices: each pause is twice the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetrySchedule {
    /// The first pause, in ms.
    pub first_ms: u64,
    /// The longest pause, in ms.
    pub longest_ms: u64,
    /// The most attempts of a notice.
    pub attempts_max: u32,
}

impl Default for RetrySchedule {
    /// Six and a half minutes in total: longer than a restart of the receiver.
    fn default() -> Self {
        Self { first_ms: 200, longest_ms: 30_000, attempts_max: 20 }
    }
}

impl RetrySchedule {
    /// The pause after an attempt, in ms. Attempts count from 1.
    pub(crate) fn pause_ms(&self, attempt: u32) -> u64 {
        let doubled = 1_u64.checked_shl(attempt.saturating_sub(1)).unwrap_or(u64::MAX);
        self.first_ms.saturating_mul(doubled).min(self.longest_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let schedule = RetrySchedule { first_ms: 100, longest_ms: 1_000, attempts_max: 9 };
        let pauses: Vec<_> =
            [1, 2, 3, 4, 5, 64, 65, u32::MAX].map(|attempt| schedule.pause_ms(attempt)).into();
        assert_eq!(pauses, [100, 200, 400, 800, 1_000, 1_000, 1_000, 1_000]);
        let usual = RetrySchedule::default();
        let all: u64 = (1..usual.attempts_max).map(|attempt| usual.pause_ms(attempt)).sum();
        assert!((300_000..500_000).contains(&all), "{all}");
    }
}
