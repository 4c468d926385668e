//! Owns the profiles that the checks know: the shipped ones, the templates, and some of kinds that
//! neither has. Each has two directories of one account: with a known key, and with a key that has
//! signed nothing.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use payfold_partners::directory::Directory;
use payfold_partners::document::{AccountEntry, KeyEntry, VaultDocument};
use payfold_partners::keys::Channel;
use payfold_partners::profile::{Profile, SHIPPED, STARTERS};
use payfold_partners::secret::Secret;
use payfold_schemas::ids::{KeyId, MerchantCode, PartnerCode};
use payfold_schemas::time::Time;

use super::{OTHER_SECRET, SECRET};

/// The account's name at every partner.
pub const MERCHANT: &str = "SHOP";

/// An AES-256 key.
const OPENING: &[u8; 32] = b"0123456789abcdef0123456789abcdef";

/// The partner's code in every directory.
pub const PARTNER: &str = "acme";

const OWN: [(&str, &str); 6] = [
    ("items", include_str!("profiles/items.toml")),
    ("list", include_str!("profiles/list.toml")),
    ("headers", include_str!("profiles/headers.toml")),
    ("sealed", include_str!("profiles/sealed.toml")),
    ("form", include_str!("profiles/url-encoded.toml")),
    ("digest", include_str!("profiles/digest.toml")),
];

/// One profile, and its two directories.
#[derive(Debug)]
pub struct Known {
    /// The name in messages.
    pub name: &'static str,
    /// The account has the known key.
    pub ours: Directory,
    /// The account has the other key.
    pub strangers: Directory,
}

/// Every known profile. A new profile is added at the end, because the files of the corpus select
/// a profile by its index.
pub static KNOWN: LazyLock<Vec<Known>> = LazyLock::new(|| {
    let shipped = SHIPPED.map(|shipped| (shipped.name, shipped.profile));
    let starters = STARTERS.map(|starter| (starter.name, starter.profile));
    let all = shipped.into_iter().chain(starters).chain(OWN);
    // The checks have no private key for `rsa`, so its notices can't be signed.
    let all = all.filter(|(name, _)| *name != "rsa");
    all.map(|(name, text)| Known {
        name,
        ours: build(name, text, SECRET),
        strangers: build(name, text, OTHER_SECRET),
    })
    .collect()
});

/// The known profile that a byte selects.
pub fn chosen(selector: u8) -> &'static Known {
    &KNOWN[usize::from(selector) % KNOWN.len()]
}

fn build(name: &str, text: &str, secret: &str) -> Directory {
    let partner = PartnerCode::parse(PARTNER).expect("a partner code");
    let profile = Profile::parse(&partner, text).unwrap_or_else(|error| panic!("{name}: {error}"));
    directory(profile, text, secret).unwrap_or_else(|problem| panic!("{name}: {problem}"))
}

/// A directory of a profile with one account, which has this key and a value for every constant.
/// Errors: the problems of the directory.
pub fn directory(profile: Profile, text: &str, secret: &str) -> Result<Directory, String> {
    let merchant = MerchantCode::parse(MERCHANT).expect("a merchant code");
    let mut account = AccountEntry::new(profile.partner().clone(), merchant);
    account.keys =
        vec![key("k", Channel::Ipn, secret.as_bytes()), key("open", Channel::Unwrap, OPENING)];
    account.constants = constants(text);
    let vault = VaultDocument { accounts: vec![account], ..VaultDocument::default() };
    Directory::build(vec![profile], &vault).map_err(|problems| format!("{problems:?}"))
}

/// A value for every constant a profile has.
fn constants(text: &str) -> BTreeMap<String, String> {
    let table: toml::Table = toml::from_str(text).unwrap_or_default();
    let names = table.get("constants").and_then(toml::Value::as_table);
    names.into_iter().flatten().map(|(name, _)| (name.clone(), "A-7".to_owned())).collect()
}

fn key(id: &str, channel: Channel, secret: &[u8]) -> KeyEntry {
    KeyEntry {
        id: KeyId::parse(id).expect("a key id"),
        channel,
        serial: None,
        secret: Secret::from_bytes(secret.to_vec()),
        valid_from: Time::from_unix_ms(0),
        valid_until: None,
        created_at: Time::from_unix_ms(0),
    }
}
