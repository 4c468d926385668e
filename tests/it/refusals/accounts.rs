//! Owns the system that refusals are tried on: its partners with their profiles, and its accounts,
//! each with a key that these tests know.

use std::collections::HashSet;
use std::rc::Rc;
use std::time::Duration;

use payfold_engines::log::Topic;
use payfold_partners::document::AccountEntry;
use payfold_partners::profile::DEFAULT_PROFILE;
use payfold_partners::vault::Vault;
use payfold_schemas::record::Record;

use crate::support::notice::Notice;
use crate::support::pair::{Inside, Pair};
use crate::support::sandbox::account_entry;
use crate::support::system::{Home, System, alone};
use crate::support::waits::within;

const PARTNERS: &str = r#"
[partners.acme]
profile = "default"
[partners.bolt]
profile = "default"
[partners.strict]
profile = "strict.toml"
[partners.nonced]
profile = "nonced.toml"
"#;

/// Partner, merchantCode, key id. The first can be found by notices that name no merchant.
const ACCOUNTS: [[&str; 3]; 9] = [
    ["acme", "SHOP", "main"],
    ["acme", "GONE", "gone"],
    ["acme", "777", "digits"],
    ["acme", "OTHER", "other"],
    ["bolt", "SHOP", "bolt"],
    ["bolt", "FAR", "far"],
    ["bolt", "RATED", "rated"],
    ["strict", "SHOP-S", "strict"],
    ["nonced", "SHOP-N", "nonced"],
];

/// A booted system with accounts.
pub struct Accounts {
    pub system: System,
}

impl Accounts {
    /// Boots one; `settings` are lines of `payfold.toml`.
    pub fn boot(settings: &str) -> Self {
        Self::boot_in(home(settings))
    }

    /// Boots one on these engines; none where they are left out.
    pub fn on(pair: Pair) -> Option<Self> {
        let home = pair.home()?;
        fill(&home, "");
        Some(Self::boot_in(home))
    }

    pub fn boot_in(home: Rc<Home>) -> Self {
        // Facts without a notice (X, K) would stand between the records these tests count. A test
        // counts the program's open files.
        Self { system: home.boot_as("ingest,projector", &[("PAYFOLD_DEBUGGABLE", "true")]) }
    }

    /// Waits until it has no open connection. An idle one is ended after 75 s, which no test may
    /// wait for.
    pub fn settle(&self) {
        let settled = || Some(()).filter(|()| connections(&self.system) == 0);
        within("no connection is left open", Duration::from_secs(45), settled);
    }

    /// A good notice of acme/SHOP.
    pub fn notice(&self, order: &str) -> Vec<u8> {
        Notice::paid("SHOP", order, "ref-1").signed(&secret("main"))
    }

    /// Every record of a topic, read beside the running system.
    pub fn records(&self, topic: Topic) -> Vec<Record> {
        let messages = Inside::of(self.system.home()).messages(topic);
        let decode = |value: &[u8]| Record::decode(value).expect("a record");
        messages.iter().map(|message| decode(&message.value)).collect()
    }
}

/// How many of the process's open files are TCP connections to its public listener, without those
/// to its own engines.
fn connections(system: &System) -> usize {
    let table = std::fs::read_to_string("/proc/self/net/tcp").expect("the kernel shows it");
    let port = format!(":{:04X}", system.public().port());
    let is_of_listener = |line: &&str| {
        let mut fields = line.split_whitespace().skip(1);
        let local = fields.next().unwrap_or_default();
        local.ends_with(&port) && fields.nth(1) != Some("0A")
    };
    let inode =
        |line: &str| line.split_whitespace().nth(9).map(|inode| format!("socket:[{inode}]"));
    let sockets: HashSet<_> = table.lines().filter(is_of_listener).filter_map(inode).collect();
    let open = std::fs::read_dir(format!("/proc/{}/fd", system.pid())).expect("it runs");
    let target = |entry: std::io::Result<std::fs::DirEntry>| {
        // A file that is closed meanwhile is not open.
        let target = entry.and_then(|entry| std::fs::read_link(entry.path())).unwrap_or_default();
        target.to_string_lossy().into_owned()
    };
    open.map(target).filter(|target| sockets.contains(target)).count()
}

/// A folder with partners, accounts and settings, where nothing runs yet.
pub fn home(settings: &str) -> Rc<Home> {
    let home = Home::new();
    fill(&home, settings);
    home
}

fn fill(home: &Home, settings: &str) {
    home.write("payfold.toml", &format!("{settings}{PARTNERS}"));
    let profile = |from: &str, to: &str| {
        assert!(DEFAULT_PROFILE.contains(from));
        DEFAULT_PROFILE.replacen(from, to, 1)
    };
    let strict = profile("unknown_fields = \"allow\"", "unknown_fields = \"refuse\"");
    home.write("strict.toml", &strict);
    home.write("nonced.toml", &profile("nonce = \"optional\"", "nonce = \"required\""));
    alone(|| {
        let mut vault = Vault::create(&home.data()).expect("the folder is new");
        for one in ACCOUNTS {
            vault.document_mut().add_account(account(one)).expect("it is new");
        }
        vault.save().expect("the folder can be written");
    });
}

fn account([partner, merchant, key]: [&str; 3]) -> AccountEntry {
    let mut account = account_entry([partner, merchant, key], &secret(key));
    account.enabled = merchant != "GONE";
    if merchant == "FAR" {
        account.allow_sources = vec!["203.0.113.0/24".parse().expect("a network")];
    }
    account.rate_per_s = (merchant == "RATED").then_some(5);
    account
}

/// The secret of a key.
pub fn secret(key: &str) -> String {
    format!("the secret of {key}, which only these tests know")
}

/// Every secret.
pub fn secrets() -> impl Iterator<Item = String> {
    ACCOUNTS.iter().map(|[_, _, key]| secret(key))
}
