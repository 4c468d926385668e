//! Owns `payfold key list`: every key with its times, how often it signed a notice in the last day, and whether an old
//! key is still used although a newer one has begun.

use std::collections::HashMap;

use payfold_engines::clock::{Clock, SystemClock};
use payfold_engines::log::Topic;
use payfold_partners::document::{AccountEntry, KeyEntry};
use payfold_partners::keys::Channel;
use payfold_schemas::ids::{KeyId, MerchantCode, PartnerCode};
use payfold_schemas::record::Parts;
use payfold_schemas::time::Time;
use serde_json::json;

use crate::args::OutputArgs;
use crate::command::block_on;
use crate::output::{self, Listing};
use crate::settings::Loaded;
use crate::walk::Walk;
use crate::wiring::Engines;
use crate::{search, vault};

const COLUMNS: [&str; 9] = [
    "partner",
    "merchant",
    "key_id",
    "channel",
    "valid_from",
    "valid_until",
    "last_used",
    "uses_24h",
    "state",
];
const DAY_MS: i64 = 24 * 3_600 * 1_000;
const PAGE: usize = 5_000;

/// Where a key stands in its account at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Of those that count the one that began last: what signs.
    Current,
    /// It counts, and so does one that began after it.
    Old,
    /// It has not begun.
    Next,
    /// It counts no more.
    Ended,
}

impl State {
    fn of(account: &AccountEntry, key: &KeyEntry, now: Time) -> Self {
        if now < key.valid_from {
            return Self::Next;
        }
        if !key.counts_at(now) {
            return Self::Ended;
        }
        if replaced_at(account, key, now).is_some() { Self::Old } else { Self::Current }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Old => "old",
            Self::Next => "next",
            Self::Ended => "ended",
        }
    }
}

/// Since when a newer key has counted beside this one.
fn replaced_at(account: &AccountEntry, key: &KeyEntry, now: Time) -> Option<Time> {
    let newer = account.keys.iter().filter(|other| {
        other.channel == key.channel && other.valid_from > key.valid_from && other.counts_at(now)
    });
    newer.map(|newer| newer.valid_from).min()
}

#[derive(Clone, Copy)]
struct Uses {
    last: Time,
    count: u64,
}

type Used = HashMap<(PartnerCode, MerchantCode, KeyId), Uses>;

/// Prints them.
pub(super) fn run(
    loaded: &Loaded,
    partner: Option<&str>,
    output: &OutputArgs,
) -> anyhow::Result<()> {
    let document = vault::read(&loaded.settings)?;
    let now = SystemClock.now();
    let used = block_on(async {
        match Engines::open_to_read(&loaded.settings).await {
            Ok(engines) => uses_of_a_day(&engines, now).await,
            Err(_) => Ok(Used::new()),
        }
    })?;
    let mut listing = Listing::new(output.output, &COLUMNS);
    let is_asked = |account: &&AccountEntry| partner.is_none_or(|p| account.partner.as_str() == p);
    for account in document.accounts.iter().filter(is_asked) {
        for key in &account.keys {
            let name = (account.partner.clone(), account.merchant_code.clone(), key.id.clone());
            // Notices alone are counted, and they are signed with keys of this channel.
            let uses = used.get(&name).filter(|_| key.channel == Channel::Ipn);
            row(&mut listing, account, key, (uses, now))?;
        }
    }
    listing.print()
}

fn row(
    listing: &mut Listing<'_>,
    account: &AccountEntry,
    key: &KeyEntry,
    (uses, now): (Option<&Uses>, Time),
) -> anyhow::Result<()> {
    let state = State::of(account, key, now);
    let last_used = uses.map(|uses| uses.last);
    let count = uses.map_or(0, |uses| uses.count);
    let since = replaced_at(account, key, now).filter(|_| state == State::Old);
    let still_used = since.is_some_and(|since| last_used.is_some_and(|last| last >= since));
    let object = json!({
        "partner": account.partner, "merchantCode": account.merchant_code, "keyId": key.id,
        "channel": key.channel, "validFrom": key.valid_from, "validUntil": key.ends(),
        "lastUsed": last_used, "uses24h": count, "enabled": account.enabled,
        "state": state.name(), "stillUsed": still_used, "serial": key.serial,
    });
    let or_none = |time: Option<Time>| time.map_or("-".to_owned(), output::time);
    let cells = vec![
        account.partner.to_string(),
        account.merchant_code.to_string(),
        key.id.to_string(),
        key.channel.name().to_owned(),
        output::time(key.valid_from),
        or_none(key.ends()),
        or_none(last_used),
        count.to_string(),
        if still_used { "old, still used".to_owned() } else { state.name().to_owned() },
    ];
    listing.row(cells, &object)
}

/// How often each key signed what the log took in the last day, and when last.
async fn uses_of_a_day(engines: &Engines, now: Time) -> anyhow::Result<Used> {
    let since = now.plus_ms(-DAY_MS);
    let mut uses = Used::new();
    let places = search::before_time(&*engines.log, Topic::Intake, since).await?;
    let mut walk = Walk::from(&*engines.log, Topic::Intake, places);
    while let Some(page) = walk.next(PAGE).await? {
        for message in &page {
            let Some(Parts::Fact(fact)) = search::readable(message)?.map(|record| record.parts)
            else {
                continue;
            };
            let Some(source) = fact.source.filter(|_| fact.received_at >= since) else { continue };
            let key = (fact.order.partner, fact.order.merchant_code, source.key_id);
            let entry = uses.entry(key).or_insert(Uses { last: fact.received_at, count: 0 });
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
            let of = |key: &KeyEntry| State::of(&account, key, at(now)).name();
            account.keys.iter().map(of).collect::<Vec<_>>()
        };
        assert_eq!(states(5), ["next", "next"]);
        assert_eq!(states(15), ["current", "next"]);
        assert_eq!(states(20), ["old", "current"]);
        assert_eq!(states(25), ["ended", "current"]);
        assert_eq!(replaced_at(&account, &account.keys[0], at(22)), Some(at(20)));
    }
}
