//! Owns what the partner is told at its start: whose gateway it plays, for whom, and how patient it is.

use std::path::PathBuf;

use payfold_partners::profile::Profile;
use payfold_partners::secret::Secret;
use payfold_schemas::ids::MerchantCode;

/// An account at this partner.
#[derive(Clone, Debug)]
pub struct SandboxAccount {
    /// Its code.
    pub merchant_code: MerchantCode,
    /// What it and we sign with.
    pub key: Secret,
}

/// Everything the partner is told.
#[derive(Clone, Debug)]
pub struct SandboxSettings {
    /// How it signs and what its create call looks like; must have `[create]`.
    pub profile: Profile,
    /// Its accounts; at least one.
    pub accounts: Vec<SandboxAccount>,
    /// Where browsers reach it, `http://127.0.0.1:8082`.
    pub public_url: String,
    /// What chance starts from. With the same seed the same description gets the same trouble.
    pub seed: u64,
    /// Where its books and its create calls are appended, one JSON object a line; none are kept without.
    pub records: Option<PathBuf>,
    /// How long a payer has, ms.
    pub session_ms: i64,
    /// The same where the trouble is about a session's end.
    pub short_session_ms: i64,
    /// How long after an order's deadline a late notice comes, ms.
    pub late_ms: i64,
    /// When a notice that was not taken is sent again.
    pub retry: RetrySchedule,
    /// How long a notice waits for its answer before it is sent again, ms.
    pub answer_ms: u64,
    /// Notices on their way at the same time.
    pub sends_max: usize,
    /// Payments that are remembered; over it the oldest are forgotten.
    pub payments_max: usize,
    /// Payments with notices still to send; over it a create call gets 429.
    pub unfinished_max: usize,
    /// How long after its session's end a payment is remembered, ms.
    pub keep_ms: i64,
}

impl SandboxSettings {
    /// These accounts with everything else as usual.
    pub fn new(profile: Profile, accounts: Vec<SandboxAccount>, public_url: &str) -> Self {
        Self {
            profile,
            accounts,
            public_url: public_url.trim_end_matches('/').to_owned(),
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

/// When a notice that was not taken is sent again: after twice the pause before, until it is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetrySchedule {
    /// The first pause, ms.
    pub first_ms: u64,
    /// No pause is longer, ms.
    pub longest_ms: u64,
    /// How often a notice is sent in all.
    pub attempts_max: u32,
}

impl Default for RetrySchedule {
    /// Six minutes and a half in all: longer than a restart of the other side takes.
    fn default() -> Self {
        Self { first_ms: 200, longest_ms: 30_000, attempts_max: 20 }
    }
}

impl RetrySchedule {
    /// The pause after this attempt, from 1.
    pub fn pause_ms(&self, attempt: u32) -> u64 {
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
