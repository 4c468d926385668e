//! Owns the memory of notices that recognises replays. A fact is remembered by its content, a
//! quarantined notice by its bytes, so that a replay is answered and not stored again.
//! Out-of-window notices are remembered, so that each signature counts once as evidence about this
//! host's clock. Invariants: a notice counts as durable only after its record is. A notice that is
//! not remembered (expired, displaced, or from before a restart) is stored again, never refused.
//! Memory has a fixed size, and no notice allocates.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use payfold_partners::verified::VerifiedNotice;
use payfold_schemas::ids::KeyId;
use payfold_schemas::notice_source::RecordedRequest;
use payfold_schemas::time::Time;

use crate::admit::AdmittedNotice;

/// A stored fact is remembered as long as the default profile accepts its timestamp: from 300 s
/// before it to 300 s after it.
const FACT_LIFETIME_MS: i64 = 600_000;
/// A quarantined notice is remembered for a day. Otherwise its replays would use up the account's
/// budget every hour.
const QUARANTINED_LIFETIME_MS: i64 = 24 * 3_600_000;
/// A signature is evidence about this host's clock once per day.
const OUTSIDE_LIFETIME_MS: i64 = 24 * 3_600_000;
/// The most notices that are quarantined per signature and day. They differ in unsigned bytes only:
/// a sender with one signed notice can make any number of them, a partner sends few.
const VARIANTS_MAX: u8 = 8;
/// Sets per shard: 262,144 facts, 6 MiB.
const FACT_SETS: usize = 512;
/// Sets per shard: 32,768 quarantined notices, 768 KiB.
const QUARANTINED_SETS: usize = 64;
/// Sets per shard: 32,768 variants of quarantined notices, two identities each.
const VARIANT_SETS: usize = 128;
/// Sets per shard: 32,768 out-of-window notices.
const OUTSIDE_SETS: usize = 64;
/// Each shard has a lock of its own.
const SHARDS: usize = 64;
/// Notices per set.
const WAYS: usize = 8;

/// A quarantined notice: what its record holds.
#[derive(Clone, Copy, Debug, Hash)]
pub(crate) struct KeptNotice<'a> {
    /// The account's name.
    pub(crate) account: &'a str,
    /// The key that signed it.
    pub(crate) key_id: &'a KeyId,
    /// The code of its refusal.
    pub(crate) code: &'a str,
    /// The request around its body, with its index in the body's array.
    pub(crate) request: &'a RecordedRequest,
    /// The body.
    pub(crate) raw: &'a [u8],
}

/// Identifies a remembered notice: a 128-bit hash. The hash key is random per process, so that a
/// sender can't construct collisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct NoticeIdentity([u64; 2]);

impl NoticeIdentity {
    /// The first half: enough to distinguish a few notices.
    pub(crate) fn first_half(self) -> u64 {
        self.0[0]
    }
}

/// A place reserved among the variants of a notice, for bytes on their way to quarantine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Variant {
    place: NoticeIdentity,
    kept: NoticeIdentity,
}

/// Why a notice is not stored in quarantine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// The account's hourly budget is used up.
    Budget,
    /// As many notices as may differ in unsigned bytes only are stored.
    Variants,
}

/// The notices that this process remembers.
pub struct Replays {
    hash_key: RandomState,
    facts: RememberedNotices,
    quarantined: RememberedNotices,
    variants: RememberedNotices,
    out_of_window: RememberedNotices,
}

impl Default for Replays {
    fn default() -> Self {
        Self {
            hash_key: RandomState::new(),
            facts: RememberedNotices::new(FACT_SETS, FACT_LIFETIME_MS),
            quarantined: RememberedNotices::new(QUARANTINED_SETS, QUARANTINED_LIFETIME_MS),
            variants: RememberedNotices::new(VARIANT_SETS, QUARANTINED_LIFETIME_MS),
            out_of_window: RememberedNotices::new(OUTSIDE_SETS, OUTSIDE_LIFETIME_MS),
        }
    }
}

impl Replays {
    /// The identity of a fact: its key, its signed content, the order, and the whole normalised
    /// notice as stored.
    pub(crate) fn identify_fact(
        &self,
        notice: &VerifiedNotice,
        admitted: &AdmittedNotice,
    ) -> NoticeIdentity {
        self.hash_identity(&(notice.key_id(), notice.signed(), &admitted.order, &admitted.ipn))
    }

    /// The identity of a notice in quarantine: all that its record holds.
    pub(crate) fn identify_kept(&self, kept: KeptNotice<'_>) -> NoticeIdentity {
        self.hash_identity(&kept)
    }

    /// The identity of what a key of an account has signed.
    pub(crate) fn identify_signed(&self, notice: &VerifiedNotice) -> NoticeIdentity {
        let account = notice.account();
        let account = (account.partner(), account.merchant_code());
        self.hash_identity(&(account, notice.key_id(), notice.signed()))
    }

    /// The identity that all quarantined variants of a notice share: what its key has signed, and
    /// its index if that is a whole array.
    pub(crate) fn identify_variants(&self, notice: &VerifiedNotice) -> NoticeIdentity {
        let item = notice.item().filter(|_| notice.shares_signature());
        self.hash_identity(&(self.identify_signed(notice).0, item))
    }

    /// Reserves a place among the variants of a notice for these bytes. `Ok(None)` if they have one
    /// already: an earlier delivery of them is on its way, or was given up by its sender. Errors:
    /// all places are taken.
    pub(crate) fn reserve_variant(
        &self,
        variants: NoticeIdentity,
        kept: NoticeIdentity,
        now: Time,
    ) -> Result<Option<Variant>, NoRoom> {
        if !self.variants.add(kept, now) {
            return Ok(None);
        }
        let mut places = (0..VARIANTS_MAX).map(|place| self.variant(variants, place));
        match places.find(|place| self.variants.add(*place, now)) {
            Some(place) => Ok(Some(Variant { place, kept })),
            None => {
                self.variants.forget(kept);
                Err(NoRoom::Variants)
            }
        }
    }

    /// Frees the place of a variant that could not be stored.
    pub(crate) fn release_variant(&self, variant: Variant) {
        self.variants.forget(variant.place);
        self.variants.forget(variant.kept);
    }

    /// Forgets bytes in quarantine, and frees a place among the `variants` of their notice.
    pub(crate) fn forget_kept(
        &self,
        kept: NoticeIdentity,
        variants: Option<NoticeIdentity>,
        now: Time,
    ) {
        self.quarantined.forget(kept);
        self.variants.forget(kept);
        let places =
            variants.map(|variants| (0..VARIANTS_MAX).map(move |n| self.variant(variants, n)));
        let taken = |place: &NoticeIdentity| self.variants.contains(*place, now);
        if let Some(last) = places.into_iter().flatten().rfind(taken) {
            self.variants.forget(last);
        }
    }

    fn variant(&self, variants: NoticeIdentity, place: u8) -> NoticeIdentity {
        self.hash_identity(&(variants.0, place))
    }

    fn hash_identity(&self, content: &impl Hash) -> NoticeIdentity {
        let mut hasher = self.hash_key.build_hasher();
        content.hash(&mut hasher);
        let first = hasher.finish();
        hasher.write_u64(first);
        NoticeIdentity([first, hasher.finish()])
    }

    /// The durable facts.
    pub(crate) fn facts(&self) -> &RememberedNotices {
        &self.facts
    }

    /// The durable notices in quarantine.
    pub(crate) fn quarantined(&self) -> &RememberedNotices {
        &self.quarantined
    }

    /// The out-of-window notices, durable or not.
    pub(crate) fn out_of_window(&self) -> &RememberedNotices {
        &self.out_of_window
    }
}

/// A table of identities with a fixed size. In a full set, a new identity displaces the one that
/// expires first.
pub(crate) struct RememberedNotices {
    lifetime_ms: i64,
    shards: Box<[Mutex<Box<[IdentitySet]>>]>,
}

/// The identities of one set and their expiry times, in Unix ms. An empty slot has the expiry time
/// 0. The alignment makes the search for an unknown identity, by far the most frequent, read two
/// cache lines only.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct IdentitySet {
    identities: [NoticeIdentity; WAYS],
    until_ms: [i64; WAYS],
}

const EMPTY_SET: IdentitySet =
    IdentitySet { identities: [NoticeIdentity([0; 2]); WAYS], until_ms: [0; WAYS] };

impl RememberedNotices {
    fn new(sets_per_shard: usize, lifetime_ms: i64) -> Self {
        let shard = || Mutex::new(vec![EMPTY_SET; sets_per_shard].into_boxed_slice());
        Self { lifetime_ms, shards: (0..SHARDS).map(|_| shard()).collect() }
    }

    /// Whether this notice is remembered at `now`.
    pub(crate) fn contains(&self, identity: NoticeIdentity, now: Time) -> bool {
        self.with_set(identity, |set| self.is_valid(set, identity, now))
    }

    /// Remembers a notice for the table's lifetime, counted from `now`.
    pub(crate) fn remember(&self, identity: NoticeIdentity, now: Time) {
        let until_ms = now.unix_ms().saturating_add(self.lifetime_ms);
        self.with_set(identity, |set| set.insert(identity, until_ms));
    }

    /// Remembers a notice. Returns `false` if it is remembered already.
    pub(crate) fn add(&self, identity: NoticeIdentity, now: Time) -> bool {
        self.with_set(identity, |set| {
            let is_new = !self.is_valid(set, identity, now);
            if is_new {
                set.insert(identity, now.unix_ms().saturating_add(self.lifetime_ms));
            }
            is_new
        })
    }

    /// Forgets a notice: a replay of it is stored again.
    fn forget(&self, identity: NoticeIdentity) {
        self.with_set(identity, |set| {
            if let Some(way) = set.find(identity) {
                set.until_ms[way] = 0;
            }
        });
    }

    fn is_valid(&self, set: &IdentitySet, identity: NoticeIdentity, now: Time) -> bool {
        set.find(identity).is_some_and(|way| {
            // More than a lifetime left means that this host's clock was set back since: not valid.
            let left_ms = set.until_ms[way].saturating_sub(now.unix_ms());
            0 < left_ms && left_ms <= self.lifetime_ms
        })
    }

    fn with_set<T>(
        &self,
        identity: NoticeIdentity,
        action: impl FnOnce(&mut IdentitySet) -> T,
    ) -> T {
        let [shard, set] = identity.0;
        let mut sets =
            self.shards[reduce_index(shard, SHARDS)].lock().unwrap_or_else(PoisonError::into_inner);
        let set = reduce_index(set, sets.len());
        action(&mut sets[set])
    }
}

impl IdentitySet {
    fn find(&self, identity: NoticeIdentity) -> Option<usize> {
        self.identities.iter().position(|known| *known == identity)
    }

    /// Adds an identity, in place of the one that expires first if the set is full.
    fn insert(&mut self, identity: NoticeIdentity, until_ms: i64) {
        let oldest = || (0..WAYS).min_by_key(|way| self.until_ms[*way]);
        let way = self.find(identity).or_else(oldest).expect("a set has slots");
        self.identities[way] = identity;
        self.until_ms[way] = until_ms;
    }
}

/// Reduces a hash to an index below `count`, which is at least 1.
fn reduce_index(number: u64, count: usize) -> usize {
    let count = u64::try_from(count).expect("a count fits");
    usize::try_from(number % count).expect("it is below a count that fits")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_unix_ms(1_769_853_600_000);

    fn table(sets_per_shard: usize) -> RememberedNotices {
        RememberedNotices::new(sets_per_shard, 1_000)
    }

    fn identity(number: u64) -> NoticeIdentity {
        NoticeIdentity([number, number])
    }

    #[test]
    fn a_notice_is_remembered_for_the_tables_lifetime() {
        let (table, one) = (table(4), identity(7));
        assert!(!table.contains(one, NOW), "nothing is durable yet");
        table.remember(one, NOW);
        for (ms, expected) in [(0, true), (999, true), (1_000, false), (-1, false)] {
            assert_eq!(table.contains(one, NOW.plus_ms(ms)), expected, "{ms}");
        }
        assert!(!table.contains(NoticeIdentity([7, 8]), NOW), "half an identity is another notice");
        table.remember(one, NOW.plus_ms(500));
        assert!(table.contains(one, NOW.plus_ms(1_499)));
    }

    #[test]
    fn a_notice_has_a_few_variants_at_a_time() {
        let replays = Replays::default();
        let reserve = |bytes| replays.reserve_variant(identity(1), identity(bytes), NOW);
        let taken: Vec<_> = (100..108).map(reserve).collect();
        assert!(taken.iter().all(|variant| matches!(variant, Ok(Some(_)))), "{taken:?}");
        assert_eq!(reserve(108), Err(NoRoom::Variants));
        assert_eq!(reserve(103), Ok(None), "these bytes have their place");
        assert_eq!(reserve(108), Err(NoRoom::Variants), "a refused one leaves nothing");
        let other = replays.reserve_variant(identity(2), identity(200), NOW);
        assert!(matches!(other, Ok(Some(_))), "another notice has its own places");
        let Ok(Some(first)) = taken[0] else { panic!("{taken:?}") };
        replays.release_variant(first);
        assert!(matches!(reserve(108), Ok(Some(_))), "the place of what could not be stored");
        assert_eq!(reserve(100), Err(NoRoom::Variants));
        replays.quarantined().remember(identity(101), NOW);
        replays.forget_kept(identity(101), Some(identity(1)), NOW);
        assert!(!replays.quarantined().contains(identity(101), NOW));
        assert!(matches!(reserve(101), Ok(Some(_))), "the place of what was dismissed");
        assert_eq!(reserve(100), Err(NoRoom::Variants));
    }

    #[test]
    fn a_full_set_forgets_only_the_identity_that_expires_first() {
        let table = table(1);
        let of_set = |number: u64| identity(number * SHARDS as u64);
        for number in 0..9 {
            table.remember(of_set(number), NOW.plus_ms(number as i64));
        }
        let held: Vec<_> = (0..9).filter(|n| table.contains(of_set(*n), NOW.plus_ms(10))).collect();
        assert_eq!(held, [1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn a_full_table_forgets_older_notices() {
        let replays = Replays::default();
        let identity = |number: u64| replays.hash_identity(&number);
        for number in 0..300_000 {
            replays.facts().remember(identity(number), NOW);
        }
        let held = (0..300_000).filter(|n| replays.facts().contains(identity(*n), NOW)).count();
        assert!((200_000..=SHARDS * FACT_SETS * WAYS).contains(&held), "{held}");
        assert_ne!(
            identity(1),
            Replays::default().hash_identity(&1_u64),
            "each process has its own hash key"
        );
    }
}
