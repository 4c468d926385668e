//! Owns the metrics of keys and of the vault: when each key ends, until when an account is covered
//! by keys, and whether the latest change of the vault is in force. Values are computed at each
//! scrape.

use std::sync::Arc;

use arc_swap::ArcSwap;
use payfold_engines::clock::Clock;
use payfold_partners::directory::{Account, Directory};
use payfold_partners::keys::{Channel, KeySet};
use payfold_schemas::time::Time;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{
    GaugeVec, IntCounterVec, IntGauge, Opts, Registry, register_int_counter_vec_with_registry,
    register_int_gauge_with_registry,
};

/// Collects when keys end, from the directory in force at the scrape.
pub(crate) struct KeyTimes {
    directory: Arc<ArcSwap<Directory>>,
    clock: Arc<dyn Clock>,
    /// Empty gauges that only describe the metrics. Each scrape builds new gauges, so that no value
    /// outlives its key.
    named: [GaugeVec; 2],
}

impl KeyTimes {
    /// Registers the collector. Errors: a metric of that name exists.
    pub(crate) fn register(
        registry: &Registry,
        directory: Arc<ArcSwap<Directory>>,
        clock: Arc<dyn Clock>,
    ) -> Result<(), prometheus::Error> {
        registry.register(Box::new(Self { directory, clock, named: gauges()? }))
    }
}

fn gauges() -> Result<[GaugeVec; 2], prometheus::Error> {
    let valid_until = GaugeVec::new(
        Opts::new(
            "payfold_key_valid_until_timestamp_seconds",
            "When a current or future key ends, unix seconds; absent for a key without an end.",
        ),
        &["partner", "merchant", "channel", "key_id"],
    )?;
    let covered_until = GaugeVec::new(
        Opts::new(
            "payfold_key_covered_until_timestamp_seconds",
            "When an account's last key of a channel ends, unix seconds; absent if one has no end.",
        ),
        &["partner", "merchant", "channel"],
    )?;
    Ok([valid_until, covered_until])
}

impl Collector for KeyTimes {
    fn desc(&self) -> Vec<&Desc> {
        self.named.iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Ok(gauges) = gauges() else { return Vec::new() };
        let now = self.clock.now();
        for account in
            self.directory.load().accounts().iter().filter(|account| account.is_enabled())
        {
            for (channel, keys) in own_keys(account) {
                set(&gauges, account, (channel, keys), now);
            }
        }
        gauges.iter().flat_map(Collector::collect).collect()
    }
}

/// The channels of an account that have keys of their own, without those that fall back to another
/// channel's.
pub(crate) fn own_keys(account: &Account) -> impl Iterator<Item = (Channel, &KeySet)> {
    Channel::ALL
        .into_iter()
        .map(|channel| (channel, account.keys_of(channel)))
        .filter(|(channel, keys)| keys.keys().first().is_some_and(|key| key.channel() == *channel))
}

fn set(
    [valid_until, covered_until]: &[GaugeVec; 2],
    account: &Account,
    (channel, keys): (Channel, &KeySet),
    now: Time,
) {
    let (partner, merchant) = (account.partner().as_str(), account.merchant_code().as_str());
    for key in keys.keys() {
        if let Some(until) = key.valid_until().filter(|until| *until > now) {
            let labels = [partner, merchant, channel.name(), key.id().as_str()];
            valid_until.with_label_values(&labels).set(seconds(until));
        }
    }
    if let Some(until) = keys.covered_until(now) {
        covered_until.with_label_values(&[partner, merchant, channel.name()]).set(seconds(until));
    }
}

fn seconds(time: Time) -> f64 {
    time.unix_ms() as f64 / 1e3
}

/// Counts applied and refused changes of the vault.
pub(crate) struct VaultMetrics {
    reloads: IntCounterVec,
    stale: IntGauge,
}

impl VaultMetrics {
    /// Makes and registers the metrics. Errors: a metric of that name exists.
    pub(crate) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let reloads = register_int_counter_vec_with_registry!(
            "payfold_vault_reloads_total",
            "Changes of the vault, by result: applied or refused.",
            &["result"],
            registry
        )?;
        let stale = register_int_gauge_with_registry!(
            "payfold_vault_stale",
            "1 while the vault has a change that can't be applied and the old keys stay in force.",
            registry
        )?;
        for result in ["applied", "refused"] {
            reloads.with_label_values(&[result]);
        }
        Ok(Self { reloads, stale })
    }

    /// Counts an applied change.
    pub(crate) fn taken(&self) {
        self.reloads.with_label_values(&["applied"]).inc();
        self.stale.set(0);
    }

    /// Counts a refused change. Callers report each change once, however often it is tried.
    pub(crate) fn refused(&self) {
        self.reloads.with_label_values(&["refused"]).inc();
        self.stale.set(1);
    }

    /// Notes that the refused change was reverted: the vault's content is in force again.
    pub(crate) fn undone(&self) {
        self.stale.set(0);
    }
}

#[cfg(test)]
mod tests {
    use payfold_engines::clock::SystemClock;
    use payfold_partners::document::{AccountEntry, NewKey, VaultDocument};
    use payfold_partners::profile::Profile;
    use payfold_partners::secret::Secret;
    use payfold_schemas::ids::{KeyId, MerchantCode, PartnerCode};
    use prometheus::{Encoder, TextEncoder};

    use super::*;

    #[test]
    fn metrics_show_when_keys_and_accounts_end() {
        let partner = PartnerCode::parse("acme").unwrap();
        let now = Time::from_unix_ms(SystemClock.now().unix_ms() / 1_000 * 1_000);
        let mut document = VaultDocument::default();
        for (merchant, ends) in [("ENDS", true), ("STAYS", false), ("OFF", true)] {
            let merchant = MerchantCode::parse(merchant).unwrap();
            let mut account = AccountEntry::new(partner.clone(), merchant.clone());
            for (id, from) in [("old", -1_000_000), ("new", -1_000)] {
                let secret =
                    Secret::from_bytes(format!("{merchant} {id} of 24 bytes or more").into());
                let id = KeyId::parse(id).unwrap();
                let valid_from = now.plus_ms(from);
                let channel = Channel::Ipn;
                account
                    .add_key(NewKey {
                        id,
                        channel,
                        secret,
                        valid_from,
                        overlap_ms: 61_000,
                        created_at: valid_from,
                    })
                    .unwrap();
            }
            if ends {
                account.retire_key(&KeyId::parse("new").unwrap(), now.plus_ms(90_000)).unwrap();
            }
            account.enabled = merchant.as_str() != "OFF";
            document.add_account(account).unwrap();
        }
        let directory = Directory::build(vec![Profile::default_for(&partner)], &document).unwrap();
        let registry = Registry::new();
        let directory = Arc::new(ArcSwap::from_pointee(directory));
        KeyTimes::register(&registry, directory, Arc::new(SystemClock)).unwrap();
        let mut text = Vec::new();
        TextEncoder::new().encode(&registry.gather(), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("payfold")).collect();
        let at = |ms| seconds(now.plus_ms(ms));
        let [old, new] = [at(60_000), at(90_000)];
        let name = |what: &str| format!("_key_{what}_until_timestamp_seconds");
        let key = |merchant: &str, id: &str, until: f64| {
            let labels = format!("key_id=\"{id}\",merchant=\"{merchant}\",partner=\"acme\"");
            format!("{}{{channel=\"ipn\",{labels}}} {until}", name("valid"))
        };
        let labels = "channel=\"ipn\",merchant=\"ENDS\",partner=\"acme\"";
        let covered = format!("{}{{{labels}}} {new}", name("covered"));
        let expected =
            [covered, key("ENDS", "new", new), key("ENDS", "old", old), key("STAYS", "old", old)];
        assert_eq!(lines, expected);
    }
}
