//! `payfold key list`: every key with its validity, how many notices it signed in the last 24
//! hours, and whether an old key is still used although a newer one is valid.

use std::collections::HashMap;

use payfold_api::accounts::{ACCOUNTS, AccountInForce, KeyInForce, KeyState};
use payfold_api::call::Nothing;
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

use crate::admin_client::AdminClient;
use crate::args::{Global, OutputArgs};
use crate::command::block_on::block_on;
use crate::data_dir::DataDir;
use crate::listing::{self, Cells, Row};
use crate::output;
use crate::settings::Loaded;
use crate::vault;
use crate::wiring::{self, Engines};

const DAY_MS: i64 = 24 * 3_600 * 1_000;
const PAGE: usize = 5_000;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct KeyRow {
    partner: PartnerCode,
    merchant_code: MerchantCode,
    key_id: KeyId,
    channel: Channel,
    valid_from: Time,
    valid_until: Option<Time>,
    last_used: Option<Time>,
    /// `None`: it is not known.
    uses24h: Option<u64>,
    enabled: bool,
    state: KeyState,
    still_used: bool,
    serial: Option<String>,
}

impl Row for KeyRow {
    const COLUMNS: &'static str = "partner merchant:merchantCode key_id channel valid_from \
        valid_until last_used uses_24h state";

    fn shown(&self, column: &str, _cells: Cells) -> Option<Value> {
        (column == "state" && self.still_used).then(|| "old, still used".into())
    }
}

#[derive(Clone, Copy)]
struct KeyUses {
    last: Time,
    count: u64,
}

type UsesByKey = HashMap<(PartnerCode, MerchantCode, KeyId), KeyUses>;

/// The keys of an account.
struct ListedAccount {
    partner: PartnerCode,
    merchant_code: MerchantCode,
    enabled: bool,
    keys: Vec<KeyInForce>,
    /// The serial numbers that partners know keys by.
    serials: Vec<((KeyId, Channel), String)>,
}

impl From<&AccountEntry> for ListedAccount {
    fn from(account: &AccountEntry) -> Self {
        let key = |key: &KeyEntry| KeyInForce {
            id: key.id.clone(),
            channel: key.channel,
            valid_from: key.valid_from,
            valid_until: key.ends(),
        };
        let serial = |key: &KeyEntry| Some(((key.id.clone(), key.channel), key.serial.clone()?));
        Self {
            partner: account.partner.clone(),
            merchant_code: account.merchant_code.clone(),
            enabled: account.enabled,
            keys: account.keys.iter().map(key).collect(),
            serials: account.keys.iter().filter_map(serial).collect(),
        }
    }
}

impl From<AccountInForce> for ListedAccount {
    fn from(account: AccountInForce) -> Self {
        let AccountInForce { partner, merchant_code, enabled, keys, .. } = account;
        Self { partner, merchant_code, enabled, keys, serials: Vec::new() }
    }
}

/// Prints the keys of a running system, if its address is given, or else those in the vault.
pub(super) fn run(
    global: &Global,
    loaded: &Loaded,
    partner: Option<&str>,
    output: &OutputArgs,
) -> anyhow::Result<()> {
    let now = SystemClock.now();
    let (accounts, uses): (Vec<ListedAccount>, _) = match global.admin_url {
        Some(_) => {
            let client = AdminClient::find(global, &DataDir::of(&loaded.settings))?;
            let accounts = client.call(&ACCOUNTS, &[], &Nothing {})?.accounts;
            output::error_line(
                "which keys were used is listed on the machine with the vault; metrics count it \
                 (payfold_ingest_key_uses_total)",
            );
            (accounts.into_iter().map(ListedAccount::from).collect(), None)
        }
        None => {
            let document = vault::read(&loaded.settings)?;
            (document.accounts.iter().map(ListedAccount::from).collect(), own_uses(loaded, now))
        }
    };
    let is_asked = |account: &&ListedAccount| partner.is_none_or(|p| account.partner.as_str() == p);
    let rows = accounts.iter().filter(is_asked).flat_map(|account| {
        account.keys.iter().map(|key| {
            let name = (account.partner.clone(), account.merchant_code.clone(), key.id.clone());
            // Only notices are counted, and `ipn` keys sign them. A key of another channel may have
            // the same id.
            let is_counted = key.channel == Channel::Ipn;
            let uses = uses.as_ref().map(|uses| uses.get(&name).filter(|_| is_counted));
            row(account, key, uses, now)
        })
    });
    listing::print(output.output, rows)
}

/// How the log says that keys were used; `None` if it can't be read, which is printed.
fn own_uses(loaded: &Loaded, now: Time) -> Option<UsesByKey> {
    let uses = block_on(async {
        match wiring::is_new(&loaded.settings)? {
            true => Ok(UsesByKey::new()),
            false => uses_of_a_day(&wiring::open_to_read(&loaded.settings).await?, now).await,
        }
    });
    uses.inspect_err(|error| {
        output::error_line(&format!("it is unknown which keys are used: {error:#}"));
    })
    .ok()
}

fn row(
    account: &ListedAccount,
    key: &KeyInForce,
    uses: Option<Option<&KeyUses>>,
    now: Time,
) -> KeyRow {
    let state = key.state_among(&account.keys, now);
    let last_used = uses.flatten().map(|uses| uses.last);
    let (name, mut serials) = ((key.id.clone(), key.channel), account.serials.iter());
    let since = key.replaced_at(&account.keys, now).filter(|_| state == KeyState::Old);
    KeyRow {
        partner: account.partner.clone(),
        merchant_code: account.merchant_code.clone(),
        key_id: key.id.clone(),
        channel: key.channel,
        valid_from: key.valid_from,
        valid_until: key.valid_until,
        last_used,
        uses24h: uses.map(|uses| uses.map_or(0, |uses| uses.count)),
        enabled: account.enabled,
        state,
        still_used: since.is_some_and(|since| last_used.is_some_and(|last| last >= since)),
        serial: serials.find(|(of, _)| *of == name).map(|(_, serial)| serial.clone()),
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
