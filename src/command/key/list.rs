//! `payfold key list`: every key with its validity, how many notices it signed in the last 24
//! hours, and whether an old key is still used although a newer one is valid.

use std::collections::HashMap;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::Topic;
use payfold_engines::log::walk::Walk;
use payfold_kit::search;
use payfold_partners::document::{AccountEntry, KeyEntry};
use payfold_partners::keys::Channel;
use payfold_schemas::ids::{KeyId, MerchantCode, PartnerCode};
use payfold_schemas::record::Parts;
use payfold_schemas::time::Time;
use serde::Serialize;
use serde_json::Value;

use crate::args::{OutputArgs, OutputFormat};
use crate::command::block_on::block_on;
use crate::listing::{self, Row};
use crate::output;
use crate::settings::Loaded;
use crate::vault;
use crate::wiring::{self, Engines};

const DAY_MS: i64 = 24 * 3_600 * 1_000;
const PAGE: usize = 5_000;

/// The state of a key in its account at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum KeyState {
    /// The valid key that began last. It signs our calls.
    Current,
    /// It is valid, and so is a newer key.
    Old,
    /// Its validity has not begun.
    Next,
    /// Its validity has ended.
    Ended,
}

impl KeyState {
    fn of(account: &AccountEntry, key: &KeyEntry, now: Time) -> Self {
        if !key.is_valid_after(now) {
            return Self::Ended;
        }
        if now < key.valid_from {
            return Self::Next;
        }
        if replaced_at(account, key, now).is_some() { Self::Old } else { Self::Current }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct KeyRow<'a> {
    partner: &'a PartnerCode,
    merchant_code: &'a MerchantCode,
    key_id: &'a KeyId,
    channel: Channel,
    valid_from: Time,
    valid_until: Option<Time>,
    last_used: Option<Time>,
    /// `None`: the log could not be read.
    uses24h: Option<u64>,
    enabled: bool,
    state: KeyState,
    still_used: bool,
    serial: Option<&'a str>,
}

impl Row for KeyRow<'_> {
    const COLUMNS: &'static str = "partner merchant:merchantCode key_id channel valid_from \
        valid_until last_used uses_24h state";

    fn shown(&self, column: &str, _format: OutputFormat) -> Option<Value> {
        (column == "state" && self.still_used).then(|| "old, still used".into())
    }
}

/// Since when a newer key of the channel has been valid; `None` if there is none.
fn replaced_at(account: &AccountEntry, key: &KeyEntry, now: Time) -> Option<Time> {
    let newer = account.keys.iter().filter(|other| {
        other.channel == key.channel && other.valid_from > key.valid_from && other.is_valid_at(now)
    });
    newer.map(|newer| newer.valid_from).min()
}

#[derive(Clone, Copy)]
struct KeyUses {
    last: Time,
    count: u64,
}

type UsesByKey = HashMap<(PartnerCode, MerchantCode, KeyId), KeyUses>;

/// Prints the keys.
pub(super) fn run(
    loaded: &Loaded,
    partner: Option<&str>,
    output: &OutputArgs,
) -> anyhow::Result<()> {
    let document = vault::read(&loaded.settings)?;
    let now = SystemClock.now();
    let used = block_on(async {
        match wiring::is_new(&loaded.settings)? {
            true => Ok(UsesByKey::new()),
            false => uses_of_a_day(&wiring::open_to_read(&loaded.settings).await?, now).await,
        }
    });
    if let Err(error) = &used {
        output::error_line(&format!("it is unknown which keys are used: {error:#}"));
    }
    let is_asked = |account: &&AccountEntry| partner.is_none_or(|p| account.partner.as_str() == p);
    let rows = document.accounts.iter().filter(is_asked).flat_map(|account| {
        account.keys.iter().map(|key| {
            let name = (account.partner.clone(), account.merchant_code.clone(), key.id.clone());
            // Only notices are counted, and `ipn` keys sign them. A key of another channel may have
            // the same id.
            let is_counted = key.channel == Channel::Ipn;
            let uses = used.as_ref().ok().map(|used| used.get(&name).filter(|_| is_counted));
            row(account, key, uses, now)
        })
    });
    listing::print(output.output, rows)
}

fn row<'a>(
    account: &'a AccountEntry,
    key: &'a KeyEntry,
    uses: Option<Option<&KeyUses>>,
    now: Time,
) -> KeyRow<'a> {
    let state = KeyState::of(account, key, now);
    let last_used = uses.flatten().map(|uses| uses.last);
    let since = replaced_at(account, key, now).filter(|_| state == KeyState::Old);
    KeyRow {
        partner: &account.partner,
        merchant_code: &account.merchant_code,
        key_id: &key.id,
        channel: key.channel,
        valid_from: key.valid_from,
        valid_until: key.ends(),
        last_used,
        uses24h: uses.map(|uses| uses.map_or(0, |uses| uses.count)),
        enabled: account.enabled,
        state,
        still_used: since.is_some_and(|since| last_used.is_some_and(|last| last >= since)),
        serial: key.serial.as_deref(),
    }
}

/// How many notices of the last 24 hours each key signed, and when the last was received.
async fn uses_of_a_day(engines: &Engines, now: Time) -> anyhow::Result<UsesByKey> {
    let since = now.plus_ms(-DAY_MS);
    let mut uses = UsesByKey::new();
    let places = search::positions_before(&*engines.log, Topic::Intake, since).await?;
    let mut walk = Walk::from(&*engines.log, Topic::Intake, places);
    while let Some(page) = walk.next(PAGE).await? {
        for message in &page {
            let Some(Parts::Fact(fact)) =
                search::decode_undamaged(message)?.map(|record| record.parts)
            else {
                continue;
            };
            let Some(source) = fact.source.filter(|_| fact.received_at >= since) else { continue };
            let key = (fact.order.partner, fact.order.merchant_code, source.key_id);
            let entry = uses.entry(key).or_insert(KeyUses { last: fact.received_at, count: 0 });
            entry.count += 1;
            entry.last = entry.last.max(fact.received_at);
        }
    }
    Ok(uses)
}

#[cfg(test)]
mod tests {
    use payfold_partners::document::NewKey;
    use payfold_partners::secret::Secret;

    use super::*;

    #[test]
    fn a_key_is_next_then_current_then_old_then_ended() {
        let at = |second: i64| Time::from_unix_ms(second * 1_000);
        let merchant = MerchantCode::parse("SHOP").unwrap();
        let mut account = AccountEntry::new(PartnerCode::parse("acme").unwrap(), merchant);
        for (id, from) in [("a", 10), ("b", 20)] {
            account
                .add_key(NewKey {
                    id: KeyId::parse(id).unwrap(),
                    channel: Channel::Ipn,
                    secret: Secret::from_bytes(vec![id.as_bytes()[0]; 24]),
                    valid_from: at(from),
                    overlap_ms: 5_000,
                    created_at: at(0),
                })
                .unwrap();
        }
        let states = |now| {
            let of = |key: &KeyEntry| KeyState::of(&account, key, at(now));
            account.keys.iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(states(5), [KeyState::Next, KeyState::Next]);
        assert_eq!(states(15), [KeyState::Current, KeyState::Next]);
        assert_eq!(states(20), [KeyState::Old, KeyState::Current]);
        assert_eq!(states(25), [KeyState::Ended, KeyState::Current]);
        assert_eq!(replaced_at(&account, &account.keys[0], at(22)), Some(at(20)));
    }
}
