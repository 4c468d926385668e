//! Owns the rates: of a source address before the signature is looked at, of an account after it.
//! And which address a request comes from when trusted proxies stand before us.

use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;
use std::sync::Arc;

use governor::clock::DefaultClock;
use governor::state::keyed::DefaultKeyedStateStore;
use governor::{Quota, RateLimiter};
use ipnet::IpNet;

use crate::refusal::{Code, Refusal};

type Keyed<K> = RateLimiter<K, DefaultKeyedStateStore<K>, DefaultClock>;

/// Addresses the limiter remembers before it forgets the idle ones.
const ADDRESSES_MAX: usize = 100_000;

/// The limits of one ingest role. Cheap when none is set.
pub struct Limits {
    addresses: Option<Keyed<IpAddr>>,
    accounts: Keyed<(usize, NonZeroU32)>,
    trusted_proxies: Arc<[IpNet]>,
}

impl Limits {
    /// `address_rate_per_s`: requests a second of one source address; 0 is no limit.
    pub fn new(address_rate_per_s: u32, trusted_proxies: Vec<IpNet>) -> Self {
        let addresses = NonZeroU32::new(address_rate_per_s)
            .map(|rate| RateLimiter::keyed(Quota::per_second(rate)));
        // The quota of an account is in its key's cell count: one permit of a bucket of a million a second
        // is worth a million divided by the account's rate.
        let unit = NonZeroU32::new(RATE_UNIT).expect("not zero");
        let accounts = RateLimiter::keyed(Quota::per_second(unit));
        Self { addresses, accounts, trusted_proxies: trusted_proxies.into() }
    }

    /// Lets a request of this address pass. Errors: `rate_limited`.
    pub fn pass_address(&self, address: Option<IpAddr>) -> Result<(), Refusal> {
        let Some(limiter) = &self.addresses else { return Ok(()) };
        // Whoever hides its address shares one bucket with all who do.
        let address = address.unwrap_or(NOBODY);
        if limiter.len() > ADDRESSES_MAX {
            limiter.retain_recent();
        }
        limiter.check_key(&address).map_err(|_| Refusal::retry(Code::RateLimited, 1))
    }

    /// Lets a notice of this account pass. Errors: `rate_limited`.
    pub fn pass_account(&self, index: usize, rate_per_s: Option<u32>) -> Result<(), Refusal> {
        let Some(rate) = rate_per_s.and_then(NonZeroU32::new) else { return Ok(()) };
        let cost = NonZeroU32::new((RATE_UNIT / rate.get()).max(1)).expect("at least one");
        match self.accounts.check_key_n(&(index, rate), cost) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Refusal::retry(Code::RateLimited, 1)),
        }
    }

    /// The address a request comes from: the peer, or behind trusted proxies the last address of
    /// X-Forwarded-For (its lines joined by commas) that is none of them.
    pub fn source(&self, peer: Option<IpAddr>, forwarded_for: &str) -> Option<IpAddr> {
        let trusted =
            |address: &IpAddr| self.trusted_proxies.iter().any(|net| net.contains(address));
        let peer = peer?.to_canonical();
        if !trusted(&peer) {
            return Some(peer);
        }
        let hops = forwarded_for.rsplit(',').map(|hop| hop.trim().parse::<IpAddr>());
        let mut source = peer;
        for hop in hops {
            // What can't be read ends the chain: nothing left of it can be believed.
            let Ok(address) = hop else { break };
            let address = address.to_canonical();
            source = address;
            if !trusted(&address) {
                break;
            }
        }
        Some(source)
    }

    /// Whether `source` needs the X-Forwarded-For header at all.
    pub fn has_trusted_proxies(&self) -> bool {
        !self.trusted_proxies.is_empty()
    }
}

/// Stands for an address that is not known; in no list.
pub const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

const RATE_UNIT: u32 = 1_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn the_source_is_the_last_hop_nobody_of_ours_vouches_against() {
        let limits = Limits::new(0, vec!["10.0.0.0/8".parse().unwrap()]);
        let source = |peer, forwarded| limits.source(Some(ip(peer)), forwarded);
        assert_eq!(source("203.0.113.9", "1.1.1.1"), Some(ip("203.0.113.9")));
        assert_eq!(source("10.0.0.1", "1.1.1.1, 203.0.113.9"), Some(ip("203.0.113.9")));
        assert_eq!(source("10.0.0.1", "203.0.113.9, 10.0.0.2"), Some(ip("203.0.113.9")));
        assert_eq!(source("10.0.0.1", "rubbish, 10.0.0.2"), Some(ip("10.0.0.2")));
        assert_eq!(source("10.0.0.1", ""), Some(ip("10.0.0.1")));
        assert_eq!(source("::ffff:10.0.0.1", "203.0.113.9"), Some(ip("203.0.113.9")));
    }

    #[test]
    fn rates_are_held_by_address_and_by_account() {
        let limits = Limits::new(2, vec![]);
        let one = Some(ip("203.0.113.9"));
        assert!(limits.pass_address(one).is_ok());
        assert!(limits.pass_address(one).is_ok());
        // One comes back every 500 ms, to the account's every 200 ms.
        let refused = (0..20).find_map(|_| limits.pass_address(one).err());
        assert_eq!(refused.expect("a limit").code, Code::RateLimited);
        assert!(limits.pass_address(Some(ip("203.0.113.10"))).is_ok());
        let begun = std::time::Instant::now();
        let passed = (0..20).filter(|_| limits.pass_account(1, Some(5)).is_ok()).count();
        let back = usize::try_from(begun.elapsed().as_millis() / 200).expect("few");
        assert!((5..=5 + back).contains(&passed), "{passed}");
        assert!(limits.pass_account(2, None).is_ok());
    }
}
