//! Owns what `payfold check` says of the vault: whether it opens, whether every account has a key that counts, and
//! whether keys overlap as long as their partners send notices again.

use payfold_engines::clock::{Clock, SystemClock};
use payfold_partners::directory::{Directory, Problem};
use payfold_partners::document::{AccountEntry, KeyEntry, VaultDocument};
use payfold_partners::keys::Channel;
use payfold_partners::profile::Profile;
use payfold_partners::sealing::BodyKeys;
use payfold_partners::validity;
use payfold_partners::vault::VaultPlace;
use payfold_schemas::time::Time;

use super::Row;
use crate::command::return_keys;
use crate::error::is_there;
use crate::settings::Loaded;
use crate::{keys, vault};

/// How long before its end a key without a successor is warned of: a partner takes days to give out a new certificate.
const SOON_MS: i64 = 14 * 24 * 3_600 * 1_000;

/// The rows of the vault.
pub(super) fn rows(loaded: &Loaded) -> Vec<Row> {
    let place = match vault::place(&loaded.settings) {
        Ok(place) => place,
        Err(error) => return vec![Row::of_error("vault", &error, "see payfold init")],
    };
    if let VaultPlace::File { vault, identity } = &place {
        match (is_there(vault), is_there(identity)) {
            (Err(error), _) | (_, Err(error)) => {
                return vec![Row::of_error("vault", &error, "see the message")];
            }
            (Ok(true), _) => {}
            (Ok(false), Ok(true)) => {
                let detail = format!("{} is missing beside its identity", vault.display());
                return vec![Row::failed("vault", detail, "put it back from its backup")];
            }
            (Ok(false), Ok(false)) => {
                let detail = "will be made at the first run or by payfold key add";
                return vec![Row::ok("vault", detail)];
            }
        }
    }
    let document = match place.read() {
        Ok(document) => document,
        Err(error) => {
            let fix = "the system would not start with it, and one that runs keeps its old keys";
            return vec![Row::failed("vault", error.to_string(), fix)];
        }
    };
    let mut profiles = keys::profiles(&loaded.settings).unwrap_or_default();
    if loaded.is_demo() {
        profiles.extend(crate::demo::profile());
    }
    let overlaps = overlaps(&profiles, &document, SystemClock.now());
    let bodies = bodies(&document, &place, SystemClock.now());
    let accounts = accounts(profiles, &document, &place);
    accounts.into_iter().chain(overlaps).chain(bodies).collect()
}

/// Accounts whose notices are sealed and whose next month has no key. The running system makes those of an age file.
fn bodies(document: &VaultDocument, place: &VaultPlace, now: Time) -> Option<Row> {
    let lacks = |account: &&AccountEntry| BodyKeys::of(account).lacks_next(now);
    let lacking = document.accounts.iter().filter(lacks);
    let names: Vec<_> = lacking.map(AccountEntry::name).collect();
    let is_dir = matches!(place, VaultPlace::Dir(_));
    (is_dir && !names.is_empty()).then(|| {
        Row::warn(
            "bodies",
            format!("no key of bodies begins next month for {}", names.join(" ")),
            "put a file PARTNER.MERCHANT.body.KEYID with valid_from there; until then this month's key goes on, and its \
             erasure takes the next month along",
        )
    })
}

fn accounts(profiles: Vec<Profile>, document: &VaultDocument, place: &VaultPlace) -> Vec<Row> {
    let now = SystemClock.now();
    // Keys of another channel verify no notice.
    let counts = |account: &AccountEntry| {
        account.keys.iter().any(|key| key.channel == Channel::Ipn && key.counts_at(now))
    };
    let without = document.accounts.iter().filter(|account| account.enabled && !counts(account));
    let without: Vec<String> = without
        .map(|account| {
            let ipn = account.keys.iter().filter(|key| key.channel == Channel::Ipn);
            let (name, keys) = (account.name(), validity::of_entries(ipn));
            format!("no key of {name} is valid at {now} (it has {keys})")
        })
        .collect();
    if !without.is_empty() {
        return vec![Row::failed(
            "vault",
            without.join("; "),
            "check the clock (timedatectl); if it is right, payfold key add PARTNER",
        )];
    }
    let directory = match Directory::build(profiles, document) {
        Ok(directory) => directory,
        Err(problems) => return problems.iter().map(of_problem).collect(),
    };
    let count = document.accounts.len();
    let at = match place {
        VaultPlace::File { vault, .. } => vault.display(),
        VaultPlace::Dir(dir) => dir.display(),
    };
    let row = Row::ok("vault", format!("{at}: {count} accounts, each with a key that counts now"));
    std::iter::once(row).chain(calls(&directory, now)).chain(returns(&directory)).collect()
}

/// Accounts whose payers can post a signed return as a notice.
fn returns(directory: &Directory) -> Option<Row> {
    let sharing = return_keys::sharing(directory);
    let detail = return_keys::problem(&sharing)?;
    Some(Row::warn("returns", detail, return_keys::fix(&sharing)))
}

/// Accounts whose calls need a private key or a certificate that is missing, or soon will be.
fn calls(directory: &Directory, now: Time) -> Vec<Row> {
    let mut rows = Vec::new();
    for account in directory.accounts().iter().filter(|account| account.is_enabled()) {
        for channel in account.call_channels() {
            let (name, channel) = (account.name(), (channel, channel.name()));
            let Some(until) = account.keys_of(channel.0).covered_until(now) else { continue };
            let detail = if until <= now {
                let keys = account.keys_of(channel.0).keys().iter();
                format!(
                    "{name} has no key of channel {} that counts now ({now}; it has {}): its partner can't be called",
                    channel.1,
                    validity::of_keys(keys)
                )
            } else if until < now.plus_ms(SOON_MS) {
                format!("the last key of {name} of channel {} ends at {until}", channel.1)
            } else {
                continue;
            };
            let fix =
                format!("payfold key add PARTNER --channel {} --secret-file FILE.pem", channel.1);
            rows.push(Row::warn("calls", detail, fix));
        }
    }
    rows
}

/// Messages of accounts say what is wrong, and behind a semicolon how it is mended.
fn of_problem(problem: &Problem) -> Row {
    let said = problem.to_string();
    let (detail, fix) =
        said.split_once("; ").unwrap_or((&said, "the system would not start with it"));
    Row::failed("vault", detail, fix)
}

/// Of keys still to end, those that end sooner after the next began than their partner sends notices again. Where files
/// are written by hand nothing else looks at it.
fn overlaps(profiles: &[Profile], document: &VaultDocument, now: Time) -> Option<Row> {
    let mut short = Vec::new();
    for account in &document.accounts {
        let profile = profiles.iter().find(|profile| *profile.partner() == account.partner);
        let horizon_ms = profile.map_or(0, Profile::retry_horizon_ms);
        let is_short = |old: &&KeyEntry| {
            let Some(until) = old.valid_until.filter(|until| *until > now) else { return false };
            account.keys.iter().any(|new| {
                let follows = new.channel == old.channel && new.valid_from > old.valid_from;
                follows && until < new.valid_from.plus_ms(horizon_ms)
            })
        };
        let ipn = account.keys.iter().filter(|key| key.channel == Channel::Ipn);
        let of = account.name();
        short.extend(ipn.filter(is_short).map(|key| format!("{of} {}", key.id)));
    }
    (!short.is_empty()).then(|| {
        Row::warn(
            "overlaps",
            format!("{} end sooner than the partner sends old notices again", short.join(", ")),
            "give them longer beside the new key, unless they have leaked (retry_horizon_s of the profile)",
        )
    })
}
