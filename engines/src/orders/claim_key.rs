//! Owns the keys of claims: every use of the shared key space has a constructor here. Invariants:
//! claims of different uses or with different parts have different keys, because a shop's name is
//! never empty and has no `/`, and because a create request never gets a key of another use; the
//! text of a key never changes between versions, because a claim that is not found again leads to a
//! second create call.

use std::fmt;

use payfold_schemas::digest::Digest;
use payfold_schemas::ids::{PartnerCode, ShopName};

/// The prefix of the build journal's keys. A shop may have the same name.
const JOURNAL: &str = "generations/";
/// The prefix of the keys of reconciliation runs. A shop may have the same name.
const RUN: &str = "run/";
/// The prefix of the keys of the list of agreeing replicas. No shop's key starts with `/`.
const AGREEING_COPIES: &str = "/agreeing-copies/";

/// The key of a claim: its use and what is claimed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClaimKey(String);

/// A shop's Idempotency-Key that would make a claim key of another use. It must not be claimed. An
/// earlier version may have claimed a create request with it; `existing` returns the key to find
/// that claim.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the claim key {0} is reserved for another use")]
pub struct ReservedClaimKey(ClaimKey);

impl ReservedClaimKey {
    /// The key to look up, never to claim.
    pub fn existing(&self) -> &ClaimKey {
        &self.0
    }
}

impl ClaimKey {
    /// The key of a shop's create request: `SHOP/IDEMPOTENCY-KEY`. Errors: it is a key of another
    /// use.
    pub fn create_request(
        shop: &ShopName,
        idempotency_key: &str,
    ) -> Result<Self, ReservedClaimKey> {
        let key = Self(format!("{shop}/{idempotency_key}"));
        if key.is_reserved() { Err(ReservedClaimKey(key)) } else { Ok(key) }
    }

    /// The key of an entry of the build journal, counted from 1: `generations/NUMBER`.
    pub fn journal_entry(number: u64) -> Self {
        Self(format!("{JOURNAL}{number}"))
    }

    /// The key for making a build's tables: `generations/tables/BUILD`.
    pub fn table_making(build: u32) -> Self {
        Self(format!("{JOURNAL}tables/{build}"))
    }

    /// The key of a reconciliation run, `run/PARTNER/DAY/DIGEST/TIMES`: the partner's records of a
    /// day (`YYYY-MM-DD`), their digest, and how often they were compared before.
    pub fn reconciliation_run(
        partner: &PartnerCode,
        day: &str,
        records: Digest,
        times: usize,
    ) -> Self {
        assert!(!day.contains('/'), "a day is digits and hyphens");
        Self(format!("{RUN}{partner}/{day}/{records}/{times}"))
    }

    /// The key of an entry of the list of agreeing replicas, counted from 1:
    /// `/agreeing-copies/NUMBER`.
    pub fn agreeing_copies(number: u32) -> Self {
        Self(format!("{AGREEING_COPIES}{number}"))
    }

    /// The key's text, as it is stored.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the text could be a key of the journal, of making tables or of a reconciliation run,
    /// with any numbers.
    fn is_reserved(&self) -> bool {
        if let Some(rest) = self.0.strip_prefix(JOURNAL) {
            return is_number(rest.strip_prefix("tables/").unwrap_or(rest));
        }
        let Some(rest) = self.0.strip_prefix(RUN) else { return false };
        let parts: Vec<&str> = rest.split('/').collect();
        let [_partner, _day, records, times] = parts[..] else { return false };
        let is_digest = records.len() == 64 && records.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_digest && is_number(times)
    }
}

impl fmt::Display for ClaimKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Whether a stored key belongs to the list of agreeing replicas, which the first start writes.
#[cfg(feature = "cluster")]
pub(crate) fn names_agreeing_copies(key: &str) -> bool {
    key.starts_with(AGREEING_COPIES)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A claim by its use and parts.
    #[derive(Clone, Debug, PartialEq)]
    enum ClaimUse {
        CreateRequest(ShopName, String),
        JournalEntry(u64),
        TableMaking(u32),
        ReconciliationRun(PartnerCode, String, Digest, usize),
        AgreeingCopies(u32),
    }

    impl ClaimUse {
        fn key(&self) -> Result<ClaimKey, ReservedClaimKey> {
            match self {
                Self::CreateRequest(shop, key) => ClaimKey::create_request(shop, key),
                Self::JournalEntry(number) => Ok(ClaimKey::journal_entry(*number)),
                Self::TableMaking(build) => Ok(ClaimKey::table_making(*build)),
                Self::ReconciliationRun(partner, day, records, times) => {
                    Ok(ClaimKey::reconciliation_run(partner, day, *records, *times))
                }
                Self::AgreeingCopies(number) => Ok(ClaimKey::agreeing_copies(*number)),
            }
        }
    }

    /// Claims with short names and keys made of the characters of other uses' keys, so that
    /// collisions are likely.
    fn any_use() -> impl Strategy<Value = ClaimUse> {
        let shop = prop_oneof![
            Just("generations".to_owned()),
            Just("run".to_owned()),
            "[ab:.]{1,3}",
            "[!-~]{1,12}"
        ];
        let shop = shop.prop_filter_map("no shop", |name| ShopName::parse(&name).ok());
        let of_run = (0..3_u8, 0..3_usize).prop_map(|(records, times)| {
            format!("acme/2026-01-01/{}/{times}", Digest::of_bytes(&[records]))
        });
        let key =
            prop_oneof!["[0-9]{1,3}", "tables/[0-9]{0,2}", "[ab:/]{1,3}", "[ -~]{1,20}", of_run];
        let run = (0..3_u8, 0..3_usize).prop_map(|(records, times)| {
            let partner = PartnerCode::parse("acme").expect("a partner");
            let records = Digest::of_bytes(&[records]);
            ClaimUse::ReconciliationRun(partner, "2026-01-01".to_owned(), records, times)
        });
        prop_oneof![
            4 => (shop, key).prop_map(|(shop, key)| ClaimUse::CreateRequest(shop, key)),
            1 => (0..200_u64).prop_map(ClaimUse::JournalEntry),
            1 => (0..30_u32).prop_map(ClaimUse::TableMaking),
            1 => run,
            1 => (0..9_u32).prop_map(ClaimUse::AgreeingCopies),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn no_two_claims_have_one_key(all in proptest::collection::vec(any_use(), 2..40)) {
            for (at, one) in all.iter().enumerate() {
                for other in &all[at + 1..] {
                    if let (Ok(key), Ok(same)) = (one.key(), other.key()) {
                        prop_assert_eq!(key == same, one == other, "{:?} {:?}", one, other);
                    }
                }
            }
        }
    }

    #[test]
    fn keys_stay_the_same_and_few_are_reserved() {
        let create = |shop: &str, key: &str| {
            let made = ClaimKey::create_request(&ShopName::parse(shop).unwrap(), key);
            made.map(|key| key.to_string()).map_err(|reserved| reserved.existing().to_string())
        };
        for (shop, key, text) in [
            ("web", "order-17", "web/order-17"),
            ("web", "17", "web/17"),
            ("a:b", "c", "a:b/c"),
            ("a", "b:c", "a/b:c"),
            ("a", "b/c", "a/b/c"),
            ("generations", "order-17", "generations/order-17"),
            ("generations", "tables/", "generations/tables/"),
            ("generations", "1/", "generations/1/"),
        ] {
            assert_eq!(create(shop, key), Ok(text.to_owned()));
        }
        for key in ["1", "0", "007", "18446744073709551616", "tables/2"] {
            assert_eq!(create("generations", key), Err(format!("generations/{key}")));
        }
        let records = Digest::of_bytes(b"");
        let run = format!("acme/2026-01-01/{records}/0");
        assert_eq!(create("run", &run), Err(format!("run/{run}")));
        assert_eq!(create("run", "17"), Ok("run/17".to_owned()));
        assert_eq!(create("run", "a/b/c/0"), Ok("run/a/b/c/0".to_owned()));
        let acme = PartnerCode::parse("acme").unwrap();
        let key = ClaimKey::reconciliation_run(&acme, "2026-01-01", records, 0);
        assert_eq!(key.as_str(), format!("run/{run}"));
        assert_eq!(ClaimKey::journal_entry(1).as_str(), "generations/1");
        assert_eq!(ClaimKey::table_making(2).as_str(), "generations/tables/2");
        assert!(ShopName::parse("a/b").is_err() && ShopName::parse("").is_err());
    }
}
