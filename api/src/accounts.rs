//! Owns the call that lists our accounts at partners, with their keys and without any secret.

use payfold_partners::keys::Channel;
use payfold_schemas::ids::{KeyId, MerchantCode, PartnerCode};
use payfold_schemas::time::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::call::{Call, Nothing};

pub const ACCOUNTS: Call<Nothing, Accounts> = Call::get(
    "/v1/accounts",
    "Lists the accounts in force, with their keys and without any secret",
);

/// Accounts at partners.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Accounts {
    /// The accounts.
    pub accounts: Vec<AccountInForce>,
}

/// An account at a partner.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountInForce {
    /// The partner.
    pub partner: PartnerCode,
    /// Our merchant code at the partner.
    pub merchant_code: MerchantCode,
    /// Whether its notices are accepted.
    pub enabled: bool,
    /// The stage of the partner's profile: `draft`, `sandbox`, `frozen` or `live`.
    pub stage: String,
    /// The version of the partner's profile.
    pub profile_version: u32,
    /// The networks that its notices may come from; empty for any.
    pub allow_sources: Vec<String>,
    /// The most signed notices that it may send in a second; null without a limit of its own.
    pub rate_per_s: Option<u32>,
    /// Its keys, those of one channel together.
    pub keys: Vec<KeyInForce>,
}

/// A key of an account.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyInForce {
    /// The key's id.
    pub id: KeyId,
    /// What it is for.
    pub channel: Channel,
    /// When it begins to count.
    pub valid_from: Time,
    /// When it ends; null without an end.
    pub valid_until: Option<Time>,
}

/// The state of a key in its account at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyState {
    /// The valid key that began last. It signs our calls.
    Current,
    /// It is valid, and so is a newer key.
    Old,
    /// Its validity has not begun.
    Next,
    /// Its validity has ended.
    Ended,
}

impl KeyInForce {
    /// Whether it counts at this time.
    pub fn counts_at(&self, time: Time) -> bool {
        self.valid_from <= time && self.valid_until.is_none_or(|until| time < until)
    }

    /// Its state among the keys of its account.
    pub fn state_among(&self, keys: &[Self], now: Time) -> KeyState {
        // One that was retired before it began never begins.
        if self.valid_until.is_some_and(|until| until <= now.max(self.valid_from)) {
            KeyState::Ended
        } else if now < self.valid_from {
            KeyState::Next
        } else if self.replaced_at(keys, now).is_some() {
            KeyState::Old
        } else {
            KeyState::Current
        }
    }

    /// Since when a newer key of its channel counts; `None` if none does.
    pub fn replaced_at(&self, keys: &[Self], now: Time) -> Option<Time> {
        let newer = keys.iter().filter(|other| {
            other.channel == self.channel
                && other.valid_from > self.valid_from
                && other.counts_at(now)
        });
        newer.map(|newer| newer.valid_from).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_next_then_current_then_old_then_ended() {
        let at = |day: i64| Time::from_unix_ms(day * 24 * 3_600 * 1_000);
        let key = |id, channel, (from, until): (i64, Option<i64>)| KeyInForce {
            id: KeyId::parse(id).unwrap(),
            channel,
            valid_from: at(from),
            valid_until: until.map(at),
        };
        let keys = [
            key("a", Channel::Ipn, (2, Some(20))),
            key("b", Channel::Ipn, (10, None)),
            key("c", Channel::Create, (12, None)),
            key("d", Channel::Return, (25, Some(25))),
        ];
        use KeyState::{Current, Ended, Next, Old};
        for (day, states) in [
            (1, [Next, Next, Next, Ended]),
            (9, [Current, Next, Next, Ended]),
            (11, [Old, Current, Next, Ended]),
            (20, [Ended, Current, Current, Ended]),
        ] {
            let now = at(day);
            let found: Vec<_> = keys.iter().map(|key| key.state_among(&keys, now)).collect();
            assert_eq!(found, states, "{day}");
        }
        assert_eq!(keys[0].replaced_at(&keys, at(11)), Some(at(10)));
    }
}
