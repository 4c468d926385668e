//! Owns the checks of the vault: it opens, every enabled account has a valid key, and keys overlap
//! for as long as their partners send notices again.

use payfold_engines::clock::{Clock, SystemClock};
use payfold_partners::directory::{Directory, DirectoryProblem, SHARED_SCHEMES_MAX};
use payfold_partners::document::{AccountEntry, KeyEntry, VaultDocument};
use payfold_partners::keys::Channel;
use payfold_partners::profile::Profile;
use payfold_partners::sealing::BodyKeys;
use payfold_partners::validity;
use payfold_partners::vault::VaultPlace;
use payfold_schemas::time::Time;

use super::row::CheckRow;
use crate::command::return_keys;
use crate::error::is_there;
use crate::settings::Loaded;
use crate::{keys, vault};

/// How long before its end a key without a successor is reported (14 days): a partner takes days to
/// issue a new certificate.
const SOON_MS: i64 = 14 * 24 * 3_600 * 1_000;

/// The rows of the vault.
pub(super) fn rows(loaded: &Loaded) -> Vec<CheckRow> {
    let place = match vault::place(&loaded.settings) {
        Ok(place) => place,
        Err(error) => {
            return vec![CheckRow::of_error(
                "vault",
                &error,
                "correct vault; payfold init explains it",
            )];
        }
    };
    if let VaultPlace::File { vault, identity } = &place {
        match (is_there(vault), is_there(identity)) {
            (Err(error), _) | (_, Err(error)) => {
                return vec![CheckRow::of_error("vault", &error, "see the message")];
            }
            (Ok(true), _) => {}
            (Ok(false), Ok(true)) => {
                let detail = format!("{} is missing, but its identity exists", vault.display());
                return vec![CheckRow::failed("vault", detail, "restore it from its backup")];
            }
            (Ok(false), Ok(false)) => {
                let detail = "will be created by the first run or by payfold key add";
                return vec![CheckRow::ok("vault", detail)];
            }
        }
    }
    let document = match place.read() {
        Ok(document) => document,
        Err(error) => {
            let fix = "restore the vault from its backup: the system can't start with this one, \
                and a running one keeps its old keys";
            return vec![CheckRow::failed("vault", error.to_string(), fix)];
        }
    };
    let profiles = keys::profiles_in_force(&loaded.settings, loaded.origin()).unwrap_or_default();
    let overlaps = overlaps(&profiles, &document, SystemClock.now());
    let bodies = bodies(&document, &place, SystemClock.now());
    let accounts = accounts(profiles, &document, &place);
    accounts.into_iter().chain(overlaps).chain(bodies).collect()
}

/// Reports sealed accounts without a key for the next month, if the vault is a directory. A running
/// system creates these keys in an age file.
fn bodies(document: &VaultDocument, place: &VaultPlace, now: Time) -> Option<CheckRow> {
    let lacks = |account: &&AccountEntry| BodyKeys::of(account).lacks_next(now);
    let lacking = document.accounts.iter().filter(lacks);
    let names: Vec<_> = lacking.map(AccountEntry::name).collect();
    let is_dir = matches!(place, VaultPlace::Dir(_));
    (is_dir && !names.is_empty()).then(|| {
        CheckRow::warn(
            "bodies",
            format!("no key that seals notices begins next month for {}", names.join(" ")),
            "add a file PARTNER.MERCHANT.body.KEYID with valid_from to the directory; without it \
             this month's key also seals the next month, and its erasure erases both",
        )
    })
}

fn accounts(profiles: Vec<Profile>, document: &VaultDocument, place: &VaultPlace) -> Vec<CheckRow> {
    let now = SystemClock.now();
    // Keys of another channel verify no notice.
    let counts = |account: &AccountEntry| {
        account.keys.iter().any(|key| key.channel == Channel::Ipn && key.is_valid_at(now))
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
        return vec![CheckRow::failed(
            "vault",
            without.join("; "),
            match place {
                VaultPlace::File { .. } => {
                    "payfold key add PARTNER --merchant MERCHANT --secret-file FILE, with the \
                     partner's secret; if a key should be valid, check the clock (timedatectl)"
                }
                VaultPlace::Dir(_) => {
                    "add a key file PARTNER.MERCHANT.ipn.KEYID with the partner's secret; if a \
                     key should be valid, check the clock (timedatectl)"
                }
            },
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
    let row = CheckRow::ok("vault", format!("{at}: {count} accounts, each with a valid key"));
    let rows = std::iter::once(row).chain(calls(&directory, now)).chain(returns(&directory));
    rows.chain(shared_path(&directory)).collect()
}

/// Reports partners that the shared path does not try.
fn shared_path(directory: &Directory) -> Option<CheckRow> {
    let left_out = directory.left_out_of_shared_path();
    (!left_out.is_empty()).then(|| {
        CheckRow::warn(
            "shared path",
            format!(
                "POST /api/payment/ipn tries {SHARED_SCHEMES_MAX} custom schemes, the first by \
                 their partners' codes, and answers 401 to the notices of {}",
                left_out.join(" ")
            ),
            "let these partners send to /api/payment/ipn/PARTNER",
        )
    })
}

/// Reports accounts with payers who can post a signed return as a notice.
fn returns(directory: &Directory) -> Option<CheckRow> {
    let sharing = return_keys::sharing(directory);
    let detail = return_keys::problem(&sharing)?;
    Some(CheckRow::warn("returns", detail, return_keys::fix(&sharing)))
}

/// Reports accounts with calls that need a private key or certificate that is missing or ends
/// soon.
fn calls(directory: &Directory, now: Time) -> Vec<CheckRow> {
    let mut rows = Vec::new();
    for account in directory.accounts().iter().filter(|account| account.is_enabled()) {
        for channel in account.call_channels() {
            let (name, channel) = (account.name(), (channel, channel.name()));
            let Some(until) = account.keys_of(channel.0).covered_until(now) else { continue };
            let detail = if until <= now {
                let keys = account.keys_of(channel.0).keys().iter();
                format!(
                    "{name} has no key of channel {} that is valid now ({now}; it has {}), so its \
                     partner can't be called",
                    channel.1,
                    validity::of_keys(keys)
                )
            } else if until < now.plus_ms(SOON_MS) {
                format!("the last key of {name} for channel {} ends at {until}", channel.1)
            } else {
                continue;
            };
            let fix =
                format!("payfold key add PARTNER --channel {} --secret-file FILE.pem", channel.1);
            rows.push(CheckRow::warn("calls", detail, fix));
        }
    }
    rows
}

/// A row from a problem of accounts. The problem's text has the fix after a semicolon.
fn of_problem(problem: &DirectoryProblem) -> CheckRow {
    let said = problem.to_string();
    let (detail, fix) =
        said.split_once("; ").unwrap_or((&said, "correct it; the system can't start with it"));
    CheckRow::failed("vault", detail, fix)
}

/// Reports keys that end too soon after their successor began: their partner still sends notices
/// again that they signed. `key add` refuses such an overlap, but nothing else checks files that
/// are written by hand.
fn overlaps(profiles: &[Profile], document: &VaultDocument, now: Time) -> Option<CheckRow> {
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
        CheckRow::warn(
            "overlaps",
            format!("{} end before the partner stops sending old notices again", short.join(", ")),
            "end them later, unless they have leaked: the new key plus retry_horizon_s of the \
             profile",
        )
    })
}
