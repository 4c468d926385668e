//! Owns the rate limits: per source address before the signature is verified, per account after it.
//! An account has a rate for the facts it stores, for what is quarantined, and for what stores
//! nothing, and the same apart for what no key has signed. Also owns the decision which address a
//! request comes from behind trusted proxies.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;
use std::sync::Arc;

use governor::clock::DefaultClock;
use governor::state::keyed::DefaultKeyedStateStore;
use governor::{Quota, RateLimiter};
use ipnet::IpNet;
use payfold_partners::verified::VerifiedNotice;

use crate::refusal::Refusal;

type KeyedLimiter<K> = RateLimiter<K, DefaultKeyedStateStore<K>, DefaultClock>;

/// The limiter forgets idle addresses once it remembers more than this.
const ADDRESSES_MAX: usize = 100_000;

/// The rate limits and trusted proxies of one process.
pub struct Limits {
    addresses: Option<KeyedLimiter<IpAddr>>,
    accounts: KeyedLimiter<((usize, Sender), NonZeroU32, Charge)>,
    trusted_proxies: Arc<[IpNet]>,
}

impl Limits {
    /// `address_rate_per_s`: requests per second from one source address; 0 is no limit.
    pub fn new(address_rate_per_s: u32, trusted_proxies: Vec<IpNet>) -> Self {
        let addresses = NonZeroU32::new(address_rate_per_s)
            .map(|rate| RateLimiter::keyed(Quota::per_second(rate)));
        // A governor limiter has one quota for all keys, but accounts have different rates. Every
        // account therefore gets RATE_UNIT permits per second, and one notice costs RATE_UNIT /
        // rate.
        let unit = NonZeroU32::new(RATE_UNIT).expect("not zero");
        let accounts = RateLimiter::keyed(Quota::per_second(unit));
        Self { addresses, accounts, trusted_proxies: trusted_proxies.into() }
    }

    /// Counts a request from this address. Errors: `rate_limited`.
    pub(crate) fn check_address_rate(&self, address: Option<IpAddr>) -> Result<(), Refusal> {
        let Some(limiter) = &self.addresses else { return Ok(()) };
        // All requests without a known address share one bucket.
        let key = address.unwrap_or(UNKNOWN_ADDRESS);
        if limiter.len() > ADDRESSES_MAX {
            limiter.retain_recent();
        }
        limiter
            .check_key(&key)
            .map_err(|_| Refusal::rate_limited("of one address").of_address(address))
    }

    /// Counts a notice of an account, by its index, with this rate of facts. `None` is no limit.
    /// Errors: `rate_limited`.
    pub(crate) fn check_account_rate(
        &self,
        account: (usize, Sender),
        rate_per_s: Option<u32>,
        charge: Charge,
    ) -> Result<(), Refusal> {
        let Some(rate) = rate_per_s.and_then(NonZeroU32::new) else { return Ok(()) };
        let per_s = match charge {
            Charge::Fact => rate.get(),
            Charge::Kept | Charge::Replay => rate.get().saturating_mul(OTHERS_PER_FACT),
        };
        let cost = NonZeroU32::new((RATE_UNIT / per_s).max(1)).expect("at least one");
        match self.accounts.check_key_n(&(account, rate, charge), cost) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Refusal::rate_limited("of the account")),
        }
    }

    /// The address a request comes from. That is the peer, or behind a trusted proxy the last
    /// address in X-Forwarded-For (its lines joined by commas) that is no trusted proxy.
    pub(crate) fn source_address(
        &self,
        peer: Option<IpAddr>,
        forwarded_for: &str,
    ) -> Option<IpAddr> {
        let trusted =
            |address: &IpAddr| self.trusted_proxies.iter().any(|net| net.contains(address));
        let peer = peer?.to_canonical();
        if !trusted(&peer) {
            return Some(peer);
        }
        let hops = forwarded_for.rsplit(',').map(|hop| hop.trim().parse::<IpAddr>());
        let mut source = peer;
        for hop in hops {
            // An unreadable hop ends the chain: the hops before it can be forged.
            let Ok(address) = hop else { break };
            let address = address.to_canonical();
            source = address;
            if !trusted(&address) {
                break;
            }
        }
        Some(source)
    }

    /// Whether `source_address` reads the X-Forwarded-For header at all.
    pub(crate) fn has_trusted_proxies(&self) -> bool {
        !self.trusted_proxies.is_empty()
    }
}

/// Who may have sent a notice of an account. Those who can't sign take nothing from those who can.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sender {
    /// A holder of one of its keys.
    KeyHolder,
    /// Anybody: the notice is not signed, and its profile accepts that.
    Anybody,
}

impl Sender {
    pub(crate) fn of(notice: &VerifiedNotice) -> Self {
        if notice.is_unsigned() { Self::Anybody } else { Self::KeyHolder }
    }
}

/// What a notice of an account costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Charge {
    /// It is a new fact.
    Fact,
    /// It is stored in quarantine.
    Kept,
    /// It stores nothing: it is a replay, or ignored, or there is no room for it.
    Replay,
}

/// An account may send so many notices of each other charge for each fact.
const OTHERS_PER_FACT: u32 = 10;

/// Stands for an unknown source address. No account lists it as allowed.
pub(crate) const UNKNOWN_ADDRESS: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Permits per second of every account.
const RATE_UNIT: u32 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refusal::RefusalCode;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_source_is_the_last_hop_that_is_no_trusted_proxy() {
        let limits = Limits::new(0, vec!["10.0.0.0/8".parse().unwrap()]);
        let source = |peer, forwarded| limits.source_address(Some(ip(peer)), forwarded);
        assert_eq!(source("203.0.113.9", "1.1.1.1"), Some(ip("203.0.113.9")));
        assert_eq!(source("10.0.0.1", "1.1.1.1, 203.0.113.9"), Some(ip("203.0.113.9")));
        assert_eq!(source("10.0.0.1", "203.0.113.9, 10.0.0.2"), Some(ip("203.0.113.9")));
        assert_eq!(source("10.0.0.1", "rubbish, 10.0.0.2"), Some(ip("10.0.0.2")));
        assert_eq!(source("10.0.0.1", ""), Some(ip("10.0.0.1")));
        assert_eq!(source("::ffff:10.0.0.1", "203.0.113.9"), Some(ip("203.0.113.9")));
    }

    #[test]
    fn rates_are_limited_per_address_and_per_account() {
        let limits = Limits::new(2, vec![]);
        let one = Some(ip("203.0.113.9"));
        assert!(limits.check_address_rate(one).is_ok());
        assert!(limits.check_address_rate(one).is_ok());
        // An address gets a permit back every 500 ms, the account every 200 ms.
        let refused = (0..20).find_map(|_| limits.check_address_rate(one).err()).expect("a limit");
        assert_eq!((refused.code, refused.address), (RefusalCode::RateLimited, one));
        assert!(limits.check_address_rate(Some(ip("203.0.113.10"))).is_ok());
        // The rates of one account do not touch each other.
        let begun = std::time::Instant::now();
        for (sender, charge, rate) in [
            (Sender::Anybody, Charge::Fact, 5),
            (Sender::KeyHolder, Charge::Fact, 5),
            (Sender::KeyHolder, Charge::Kept, 50),
            (Sender::KeyHolder, Charge::Replay, 50),
        ] {
            let account = (1, sender);
            let passes = |_: &usize| limits.check_account_rate(account, Some(5), charge).is_ok();
            let passed = (0..200).filter(passes).count();
            let back = usize::try_from(begun.elapsed().as_millis()).expect("few") * rate / 1_000;
            assert!((rate..=rate + back).contains(&passed), "{account:?} {charge:?}: {passed}");
        }
        assert!(limits.check_account_rate((2, Sender::KeyHolder), None, Charge::Fact).is_ok());
    }
}
