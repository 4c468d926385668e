//! Owns what metrics tell of keys: until when each counts, until when an account is covered, and whether the vault in
//! force is the one that is there. Read when metrics are, from what is in force then.

use std::sync::Arc;

use arc_swap::ArcSwap;
use payfold_engines::clock::Clock;
use payfold_partners::directory::{Account, Directory};
use payfold_partners::keys::{Channel, KeySet};
use payfold_schemas::time::Time;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, IntCounterVec, IntGauge, Opts, Registry};

/// Until when keys count.
pub struct KeyTimes {
    directory: Arc<ArcSwap<Directory>>,
    clock: Arc<dyn Clock>,
    /// What the gauges are called; those that are read are made anew each time, so that none outlives its key.
    named: [GaugeVec; 2],
}

impl KeyTimes {
    /// Registers them. Errors: a name that is registered already.
    pub fn register(
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
            "When a key that counts, or will, ends, unix seconds; none for a key without an end.",
        ),
        &["partner", "merchant", "channel", "key_id"],
    )?;
    let covered_until = GaugeVec::new(
        Opts::new(
            "payfold_key_covered_until_timestamp_seconds",
            "When an account has no key of a channel any more, unix seconds; none where one has no end.",
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

/// The channels an account has keys of, without those that borrow another's.
fn own_keys(account: &Account) -> impl Iterator<Item = (Channel, &KeySet)> {
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

/// How the vault's changes fare.
pub struct VaultMetrics {
    reloads: IntCounterVec,
    stale: IntGauge,
}

impl VaultMetrics {
    /// Makes and registers them. Errors: a name that is registered already.
    pub fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let reloads = IntCounterVec::new(
            Opts::new(
                "payfold_vault_reloads_total",
                "Changes of the vault, by whether they were taken.",
            ),
            &["result"],
        )?;
        let stale = IntGauge::new(
            "payfold_vault_stale",
            "1 while the vault has a change that can't be taken and the old keys are in force.",
        )?;
        for result in ["taken", "refused"] {
            reloads.with_label_values(&[result]);
        }
        registry.register(Box::new(reloads.clone()))?;
        registry.register(Box::new(stale.clone()))?;
        Ok(Self { reloads, stale })
    }

    /// A change is in force.
    pub fn taken(&self) {
        self.reloads.with_label_values(&["taken"]).inc();
        self.stale.set(0);
    }

    /// A change can't be taken; told once for each change, however often it is tried.
    pub fn refused(&self) {
        self.reloads.with_label_values(&["refused"]).inc();
        self.stale.set(1);
    }

    /// The vault is again what is in force: the change that could not be taken is gone.
    pub fn undone(&self) {
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
    fn metrics_tell_when_keys_and_accounts_end() {
        let partner = PartnerCode::parse("acme").unwrap();
        let now = Time::from_unix_ms(SystemClock.now().unix_ms() / 1_000 * 1_000);
        let mut document = VaultDocument::default();
        for (merchant, ends) in [("ENDS", true), ("STAYS", false), ("OFF", true)] {
            let merchant = MerchantCode::parse(merchant).unwrap();
            let mut account = AccountEntry::new(partner.clone(), merchant.clone());
            for (id, from) in [("old", -1_000_000), ("new", -1_000)] {
                let secret =
                    Secret::from_bytes(format!("{merchant} {id} of 24 bytes or more").into());
                let (id, created_at) = (KeyId::parse(id).unwrap(), now);
                let valid_from = now.plus_ms(from);
                let channel = Channel::Ipn;
                account
                    .add_key(NewKey {
                        id,
                        channel,
                        secret,
                        valid_from,
                        overlap_ms: 61_000,
                        created_at,
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
