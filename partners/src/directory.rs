//! Owns the directory: an immutable snapshot of profiles and accounts, and the accounts that a
//! notice may be from. No route contains a disabled account. On the shared route
//! (`/api/payment/ipn`) the limits of the default profile apply to every body, so that a refusal
//! does not reveal which accounts exist.

pub(crate) mod account;
mod by_merchant;
pub(crate) mod key_count;
pub(crate) mod problem;
pub(crate) mod route;
mod shared_keys;
mod too_many;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use payfold_schemas::ids::{KeyId, MerchantCode, PartnerCode};
use payfold_schemas::notice_source::RecordedRequest;
use payfold_schemas::sealed::Delivery;
use payfold_schemas::time::Time;

use self::account::account;
use crate::directory::key_count::KeyCount;
use crate::directory::route::Route;
use crate::document::VaultDocument;
use crate::field::Field;
use crate::key_window::early_begins;
use crate::keys::{Key, KeySet};
use crate::limits::BodyLimits;
use crate::mac::MacKey;
use crate::notice::Notice;
use crate::profile::Profile;
use crate::scheme::refusal_work::RefusalWork;
use crate::sealing::{BodyKeys, SealError, UnsealedBody};

pub use self::account::Account;
pub use self::by_merchant::SHARED_SCHEMES_MAX;
pub use self::problem::DirectoryProblem;
pub use self::route::UNNAMED_TRIED_MAX;

/// The fewest HMACs that a refusal computes, so that its time does not reveal which accounts exist.
#[derive(Clone, Debug, Default)]
struct HmacCost {
    /// For a notice that names a merchant.
    named: KeyCount,
    /// For a notice that names none.
    unnamed: KeyCount,
}

/// The shipped default profile: compiled once, not for each directory.
static DEFAULT: LazyLock<Profile> =
    LazyLock::new(|| Profile::default_for(&PartnerCode::parse("default").expect("a partner code")));

/// An immutable snapshot of all profiles and accounts.
#[derive(Debug)]
pub struct Directory {
    accounts: Vec<Arc<Account>>,
    shared: Route,
    partners: HashMap<Box<str>, Route>,
    unknown: Route,
    shared_schemes: Vec<Box<str>>,
    work: HmacCost,
    default_profile: Profile,
    dummy_key: MacKey,
}

/// The accounts that a notice may be from, and the fewest HMACs that refusing it computes.
pub(crate) struct Candidates<'d> {
    pub(crate) accounts: &'d [Arc<Account>],
    pub(crate) hmacs_min: usize,
}

impl Directory {
    /// Builds a directory from profiles and a vault. Errors: every problem that is found, each with
    /// what to do about it.
    pub fn build(
        profiles: Vec<Profile>,
        vault: &VaultDocument,
    ) -> Result<Self, Vec<DirectoryProblem>> {
        let mut problems = shared_keys::of_one_merchant(vault);
        let mut by_partner = HashMap::new();
        for profile in profiles {
            let partner = profile.partner().clone();
            if by_partner.insert(partner.clone(), Arc::new(profile)).is_some() {
                problems.push(DirectoryProblem(format!(
                    "partner {partner} has two profiles; keep one"
                )));
            }
        }
        let mut directory = Self::empty();
        for (partner, profile) in &by_partner {
            let (limits, profile) = (Some(profile.limits()), Some(Arc::clone(profile)));
            let route = Route { limits, profile, ..Route::default() };
            directory.partners.insert(partner.as_str().into(), route);
        }
        for (index, entry) in vault.accounts.iter().enumerate() {
            match account(index, entry, &by_partner) {
                Ok(account) => {
                    if entry.enabled {
                        directory.route_to(&account);
                    }
                    directory.accounts.push(account);
                }
                Err(problem) => problems.push(problem),
            }
        }
        problems.extend(too_many::accounts(&directory.partners));
        problems.extend(shared_keys::of_two_accounts(&directory.accounts, vault));
        directory.work = directory.work_of_routes();
        for route in directory.partners.values_mut() {
            // A route of the default scheme spends `HmacCost` instead.
            let profile = route.profile.as_ref().filter(|profile| !profile.is_default_scheme());
            if let Some(profile) = profile {
                route.work = RefusalWork::compute(profile.scheme(), &route.all);
            }
        }
        directory.shared_schemes = by_merchant::shared_schemes(&directory.partners);
        if problems.is_empty() { Ok(directory) } else { Err(problems) }
    }

    fn empty() -> Self {
        Self {
            accounts: Vec::new(),
            shared: Route::default(),
            partners: HashMap::new(),
            unknown: Route::default(),
            shared_schemes: Vec::new(),
            work: HmacCost::default(),
            default_profile: DEFAULT.clone(),
            dummy_key: MacKey::new(&[]),
        }
    }

    fn route_to(&mut self, account: &Arc<Account>) {
        // A custom scheme has its own path. On the shared path it is tried `by_merchant`, after the
        // keys of the default scheme.
        if account.profile().is_default_scheme() {
            self.shared.add(account);
        }
        self.partners.entry(account.partner().as_str().into()).or_default().add(account);
    }

    /// The enabled account with these codes.
    pub fn account(
        &self,
        partner: &PartnerCode,
        merchant_code: &MerchantCode,
    ) -> Option<&Arc<Account>> {
        let mut enabled = self.accounts.iter().filter(|account| account.is_enabled());
        enabled.find(|a| a.partner() == partner && *a.merchant_code() == *merchant_code)
    }

    /// The profile of a partner; `None` if the vault has no account there.
    pub fn profile_of(&self, partner: &PartnerCode) -> Option<&Arc<Profile>> {
        let account = self.accounts().iter().find(|account| account.partner() == partner)?;
        Some(account.profile())
    }

    /// Every account, enabled or disabled, in the order of the vault.
    pub fn accounts(&self) -> &[Arc<Account>] {
        &self.accounts
    }

    /// The shipped default profile, which applies to notices from unknown partners.
    pub(crate) fn default_profile(&self) -> &Profile {
        &self.default_profile
    }

    /// A key of no account, for HMACs that only take time.
    pub(crate) fn dummy_key(&self) -> &MacKey {
        &self.dummy_key
    }

    /// The limits on a body on this route; `None` is the shared route.
    pub fn limits(&self, route_partner: Option<&str>) -> BodyLimits {
        self.route(route_partner).limits.unwrap_or(self.default_profile.limits())
    }

    /// The accounts that a notice on this route may be from. A notice that names no merchant is
    /// tried against the first accounts of its route, so that a small deployment can still
    /// authenticate it.
    pub(crate) fn candidates(
        &self,
        route_partner: Option<&str>,
        notice: &Notice<'_>,
        now: Time,
    ) -> Candidates<'_> {
        let route = self.route(route_partner);
        let name = notice.signing_value(Field::MerchantCode).unwrap_or_default();
        if name.trim().is_empty() {
            let hmacs_min = self.work.unnamed.most_at(now).max(1);
            return Candidates { accounts: route.unnamed(), hmacs_min };
        }
        Candidates { accounts: route.named(name), hmacs_min: self.work.named.most_at(now).max(1) }
    }

    /// The enabled accounts of the default scheme with this merchantCode, at any partner.
    pub(crate) fn named(&self, merchant_code: &str) -> &[Arc<Account>] {
        self.shared.named(merchant_code)
    }

    /// The profile of the partner in a path.
    pub fn profile(&self, partner: &str) -> Option<&Arc<Profile>> {
        self.partners.get(partner)?.profile.as_ref()
    }

    /// The enabled accounts of the partner in a path.
    pub(crate) fn of_partner(&self, partner: &str) -> &[Arc<Account>] {
        self.route(Some(partner)).all.as_slice()
    }

    /// The route of the partner in a path. An unknown partner has a route without accounts.
    pub(crate) fn route_of(&self, partner: &str) -> &Route {
        self.route(Some(partner))
    }

    fn route(&self, route_partner: Option<&str>) -> &Route {
        match route_partner {
            None => &self.shared,
            Some(partner) => self.partners.get(partner).unwrap_or(&self.unknown),
        }
    }

    fn work_of_routes(&self) -> HmacCost {
        let mut cost = HmacCost::default();
        let add = |count: &mut KeyCount, accounts: &[Arc<Account>]| {
            let keys = || accounts.iter().map(|account| account.keys());
            let early = keys().flat_map(|keys| early_begins(keys.keys(), Key::window));
            count.add(keys().map(KeySet::valid_at_once_max).sum(), early);
        };
        for route in self.partners.values().chain([&self.shared]) {
            route.by_merchant.values().for_each(|accounts| add(&mut cost.named, accounts));
            add(&mut cost.unnamed, route.unnamed());
        }
        cost
    }

    /// The request and body of a record as received, unsealed if necessary. `account` is
    /// `partner/merchantCode`, enabled or not. Errors: `SealError`.
    pub fn open_body(
        &self,
        account: &str,
        recorded: (Delivery<'_>, &RecordedRequest),
        sealed: (Option<&KeyId>, &[u8]),
    ) -> Result<UnsealedBody, SealError> {
        let none = BodyKeys::default();
        let account = self.accounts().iter().find(|known| known.name() == account);
        account.map_or(&none, |account| account.body_keys()).open_body(recorded, sealed)
    }

    /// The partners with a custom scheme that a notice on the shared route may be from, in the
    /// order in which they are tried.
    pub(crate) fn found_by_merchant(&self) -> impl Iterator<Item = &str> {
        self.shared_schemes.iter().map(AsRef::as_ref).take(SHARED_SCHEMES_MAX)
    }

    /// The partners with such a scheme that are refused on the shared path, because it tries no
    /// more.
    pub fn left_out_of_shared_path(&self) -> Vec<&str> {
        self.shared_schemes.iter().map(AsRef::as_ref).skip(SHARED_SCHEMES_MAX).collect()
    }
}

#[cfg(test)]
mod tests {
    use payfold_schemas::ids::KeyId;
    use payfold_schemas::time::Time;

    use super::*;
    use crate::document::{AccountEntry, NewKey};
    use crate::keys::Channel;
    use crate::secret::Secret;

    fn profile(partner: &str) -> Profile {
        Profile::default_for(&PartnerCode::parse(partner).unwrap())
    }

    fn entry(partner: &str, merchant: &str, secret: &str) -> AccountEntry {
        let merchant = MerchantCode::parse(merchant).unwrap();
        let mut entry = AccountEntry::new(PartnerCode::parse(partner).unwrap(), merchant);
        let (id, at) = (KeyId::parse("k").unwrap(), Time::from_unix_ms(0));
        let secret = Secret::from_bytes(secret.repeat(24).into_bytes());
        let key = NewKey {
            id,
            channel: Channel::Ipn,
            secret,
            valid_from: at,
            overlap_ms: 0,
            created_at: at,
        };
        entry.add_key(key).unwrap();
        entry
    }

    fn vault(accounts: Vec<AccountEntry>) -> VaultDocument {
        VaultDocument { accounts, ..VaultDocument::default() }
    }

    #[test]
    fn every_problem_is_reported_at_once() {
        let mut short = entry("acme", "SHORT", "c");
        short.keys[0].secret = Secret::from_bytes(vec![1; 5]);
        let accounts = vec![
            entry("acme", "SHOP", "a"),
            entry("bolt", "SHOP", "a"),
            entry("acme", "OTHER", "a"),
            entry("cord", "SHOP", "b"),
            short,
        ];
        let profiles = vec![profile("acme"), profile("bolt"), profile("bolt")];
        let problems = Directory::build(profiles, &vault(accounts)).unwrap_err();
        let texts: Vec<_> = problems.iter().map(DirectoryProblem::to_string).collect();
        assert_eq!(
            texts,
            [
                "accounts acme/SHOP and bolt/SHOP share a secret; ask one partner for another",
                "partner bolt has two profiles; keep one",
                "account cord/SHOP: no profile for partner cord; put [partners.cord] into \
                 payfold.toml and restart",
                "account acme/SHORT: key k has 5 bytes, 24 or more are needed; ask the partner for \
                 a longer one",
            ]
        );
    }

    #[test]
    fn an_account_keeps_its_index() {
        let mut disabled = entry("acme", "GONE", "g");
        disabled.enabled = false;
        let accounts = vec![disabled, entry("acme", "SHOP", "a")];
        let directory = Directory::build(vec![profile("acme")], &vault(accounts)).unwrap();
        let places: Vec<_> =
            directory.accounts().iter().map(|a| (a.index(), a.merchant_code().as_str())).collect();
        assert_eq!(places, [(0, "GONE"), (1, "SHOP")]);
    }

    #[test]
    fn no_signing_key_decrypts() {
        let (id, at) = (KeyId::parse("u").unwrap(), Time::from_unix_ms(0));
        let mut wrapped = entry("acme", "WRAPPED", "w");
        let secret = Secret::from_bytes(vec![7; 16]);
        let key = NewKey {
            id,
            channel: Channel::Unwrap,
            secret,
            valid_from: at,
            overlap_ms: 0,
            created_at: at,
        };
        wrapped.add_key(key).unwrap();
        let accounts = vec![entry("acme", "SHOP", "a"), wrapped];
        let directory = Directory::build(vec![profile("acme")], &vault(accounts)).unwrap();
        let [shop, wrapped] = directory.accounts() else { panic!("two accounts") };
        let ids = |account: &Account, channel| {
            let keys = account.keys_of(channel).keys().iter();
            keys.map(|key| key.id().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(ids(shop, Channel::Return), ["k"]);
        assert_eq!(ids(shop, Channel::Unwrap), [""; 0]);
        assert_eq!(ids(wrapped, Channel::Unwrap), ["u"]);
        assert_eq!(ids(wrapped, Channel::Ipn), ["k"]);
    }

    #[test]
    fn a_source_is_allowed_by_its_networks() {
        let mut listed = entry("acme", "SHOP", "a");
        listed.allow_sources =
            ["203.0.113.0/24", "2001:db8::/32"].map(|net| net.parse().unwrap()).into();
        let accounts = vec![listed, entry("acme", "OPEN", "o")];
        let directory = Directory::build(vec![profile("acme")], &vault(accounts)).unwrap();
        for (source, allowed) in [
            ("203.0.113.7", true),
            ("203.0.114.7", false),
            ("::ffff:203.0.113.7", true),
            ("2001:db8:1::1", true),
            ("2001:db9::1", false),
        ] {
            let source = source.parse().unwrap();
            assert_eq!(directory.accounts()[0].allows_source(source), allowed, "{source}");
            assert!(directory.accounts()[1].allows_source(source));
        }
    }

    #[test]
    fn the_shared_route_has_the_default_limits() {
        let text = crate::profile::DEFAULT_PROFILE.replace("depth = 8", "depth = 9");
        let large = Profile::parse(&PartnerCode::parse("acme").unwrap(), &text).unwrap();
        let accounts = vec![entry("acme", "SHOP", "a")];
        let directory = Directory::build(vec![large, profile("bolt")], &vault(accounts)).unwrap();
        let depth = |route| directory.limits(route).depth;
        assert_eq!((depth(None), depth(Some("acme"))), (8, 9));
        assert_eq!((depth(Some("bolt")), depth(Some("absent"))), (8, 8));
    }

    #[test]
    fn a_forged_notice_costs_as_many_hmacs_as_the_account_with_the_most_keys() {
        let mut rotating = entry("acme", "SHOP", "a");
        let at = Time::from_unix_ms(1);
        let secret = Secret::from_bytes(vec![1; 24]);
        let id = KeyId::parse("next").unwrap();
        let key = NewKey {
            id,
            channel: Channel::Ipn,
            secret,
            valid_from: at,
            overlap_ms: 1,
            created_at: at,
        };
        rotating.add_key(key).unwrap();
        let others = (0..12).map(|n| entry("acme", &format!("SHOP-{n}"), "b"));
        let accounts = others.chain([rotating, entry("bolt", "SHOP", "c")]).collect();
        let profiles = vec![profile("acme"), profile("bolt")];
        let directory = Directory::build(profiles, &vault(accounts)).unwrap();
        for route in [None, Some("acme"), Some("bolt"), Some("absent")] {
            for (body, hmacs) in [
                ("{\"merchantCode\":\"SHOP\"}", 3),
                ("{\"merchantCode\":\"NONE\"}", 3),
                ("{}", UNNAMED_TRIED_MAX),
            ] {
                let notice = Notice::parse(body.as_bytes(), directory.limits(route)).unwrap();
                let candidates = directory.candidates(route, &notice, at);
                assert_eq!(candidates.hmacs_min, hmacs, "{route:?} {body}");
                let before = at.plus_ms(-1);
                let early = directory.candidates(route, &notice, before).hmacs_min - hmacs;
                // The account with the new key is not among those that are tried without a name.
                assert_eq!(early, usize::from(body != "{}"), "{route:?} {body}");
                let keys = candidates.accounts.iter().map(|a| a.keys().valid_at_once_max());
                assert!(keys.sum::<usize>() <= hmacs);
            }
        }
    }
}
