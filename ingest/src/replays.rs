//! Owns what ingest remembers of notices, so that a replay is known: of those that are durable, to answer it and not
//! to store it again; of those that came outside their time, to believe each once about our clock.
//! Invariants: a notice counts as durable only once its record is; what is not remembered (forgotten, displaced, not known
//! since a restart) is stored, never refused; memory is of a fixed size, and nothing is allocated for a notice.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};

use payfold_schemas::record::NoticeRequest;
use payfold_schemas::time::Time;

use crate::admit::Admitted;
use crate::genuine::Signer;
use crate::refusal::Code;

/// A stored fact is remembered as long as the default profile lets its timestamp pass: 300 s ahead to 300 s behind.
const FACT_LIFETIME_MS: i64 = 600_000;
/// A quarantined notice is remembered for a day: its replays must not use up the account's bytes hour after hour.
const QUARANTINED_LIFETIME_MS: i64 = 24 * 3_600_000;
/// A notice says something of our clock once in a day.
const OUTSIDE_LIFETIME_MS: i64 = 24 * 3_600_000;
/// 262,144 facts, 6 MiB.
const FACT_SETS: usize = 512;
/// 32,768 quarantined notices, 768 KiB.
const QUARANTINED_SETS: usize = 64;
/// As many notices outside their time, kept or not.
const OUTSIDE_SETS: usize = 64;
const SHARDS: usize = 64;
/// How many notices of one set are remembered at once.
const WAYS: usize = 8;

/// What a key of an account signed in a notice.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub(crate) struct SignedPart {
    /// The signature of the default scheme; of a custom scheme, the digest of the signed text.
    pub(crate) text: [u8; 32],
    /// Whether all that decides money is in that text. If not, two notices with one text may say different things.
    pub(crate) covers_all: bool,
    /// The notice's place in the array it came in.
    pub(crate) item: Option<u32>,
}

/// Names a notice by all that is signed in it and all that decides: 128 bits of a hash with a key of this process, which
/// nobody outside can foresee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoticeIdentity([u64; 2]);

impl NoticeIdentity {
    /// Half of it: enough to distinguish a few notices.
    pub(crate) fn half(self) -> u64 {
        self.0[0]
    }
}

/// The notices this process remembers.
pub struct Replays {
    keyed: RandomState,
    facts: RememberedNotices,
    quarantined: RememberedNotices,
    outside: RememberedNotices,
}

impl Default for Replays {
    fn default() -> Self {
        Self {
            keyed: RandomState::new(),
            facts: RememberedNotices::new(FACT_SETS, FACT_LIFETIME_MS),
            quarantined: RememberedNotices::new(QUARANTINED_SETS, QUARANTINED_LIFETIME_MS),
            outside: RememberedNotices::new(OUTSIDE_SETS, OUTSIDE_LIFETIME_MS),
        }
    }
}

impl Replays {
    /// The identity of a fact: its key, what it signed, the order, and the whole notice as it is stored, normalised.
    pub(crate) fn fact(
        &self,
        signer: &Signer,
        signed: &SignedPart,
        admitted: &Admitted,
    ) -> NoticeIdentity {
        self.identity(&(&signer.key_id, signed, &admitted.order, &admitted.ipn))
    }

    /// The identity of a notice that is no fact: its account, its key, what it signed, and what it is refused with. Where
    /// the signature doesn't cover all that decides, only the same request is the same notice.
    pub(crate) fn refused(
        &self,
        signer: &Signer,
        signed: &SignedPart,
        code: Code,
        (request, raw): (&NoticeRequest, &[u8]),
    ) -> NoticeIdentity {
        let Signer { account, key_id } = signer;
        let account = (account.partner(), account.merchant_code());
        let whole = (!signed.covers_all).then_some((&request.target, &request.headers, raw));
        self.identity(&(account, key_id, signed, code, whole))
    }

    fn identity(&self, content: &impl Hash) -> NoticeIdentity {
        let mut hasher = self.keyed.build_hasher();
        content.hash(&mut hasher);
        let first = hasher.finish();
        hasher.write_u64(first);
        NoticeIdentity([first, hasher.finish()])
    }

    /// The facts that are durable.
    pub(crate) fn facts(&self) -> &RememberedNotices {
        &self.facts
    }

    /// The notices in quarantine that are durable.
    pub(crate) fn quarantined(&self) -> &RememberedNotices {
        &self.quarantined
    }

    /// The notices that came outside their time, durable or not.
    pub(crate) fn outside(&self) -> &RememberedNotices {
        &self.outside
    }
}

/// A table of identities of a fixed size: of each set the one that ends first gives way.
pub(crate) struct RememberedNotices {
    lifetime_ms: i64,
    shards: Box<[Mutex<Box<[Set]>>]>,
}

/// Notices, and until when each counts; an empty place counts until 0. A notice that is not remembered, as nearly all are
/// not, is looked for in two cache lines.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Set {
    identities: [NoticeIdentity; WAYS],
    until_ms: [i64; WAYS],
}

const NOTHING: Set = Set { identities: [NoticeIdentity([0; 2]); WAYS], until_ms: [0; WAYS] };

impl RememberedNotices {
    fn new(sets_per_shard: usize, lifetime_ms: i64) -> Self {
        let shard = || Mutex::new(vec![NOTHING; sets_per_shard].into_boxed_slice());
        Self { lifetime_ms, shards: (0..SHARDS).map(|_| shard()).collect() }
    }

    /// Whether this notice is remembered.
    pub(crate) fn holds(&self, identity: NoticeIdentity, now: Time) -> bool {
        // A time further away than the lifetime is of a clock that was set back since.
        let counts = |until_ms: i64| {
            let left_ms = until_ms.saturating_sub(now.unix_ms());
            0 < left_ms && left_ms <= self.lifetime_ms
        };
        self.in_set(identity, |set| set.find(identity).is_some_and(|way| counts(set.until_ms[way])))
    }

    /// Remembers a notice from now on.
    pub(crate) fn remember(&self, identity: NoticeIdentity, now: Time) {
        let until_ms = now.unix_ms().saturating_add(self.lifetime_ms);
        self.in_set(identity, |set| {
            let oldest = || (0..WAYS).min_by_key(|way| set.until_ms[*way]);
            let way = set.find(identity).or_else(oldest).expect("a set has places");
            set.identities[way] = identity;
            set.until_ms[way] = until_ms;
        });
    }

    fn in_set<T>(&self, identity: NoticeIdentity, act: impl FnOnce(&mut Set) -> T) -> T {
        let [shard, set] = identity.0;
        let mut sets =
            self.shards[place(shard, SHARDS)].lock().unwrap_or_else(PoisonError::into_inner);
        let set = place(set, sets.len());
        act(&mut sets[set])
    }
}

impl Set {
    fn find(&self, identity: NoticeIdentity) -> Option<usize> {
        self.identities.iter().position(|known| *known == identity)
    }
}

/// A number below `count`, which is at least 1.
fn place(number: u64, count: usize) -> usize {
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
    fn a_notice_is_remembered_for_its_lifetime_from_its_storing_on() {
        let (table, one) = (table(4), identity(7));
        assert!(!table.holds(one, NOW), "nothing is durable yet");
        table.remember(one, NOW);
        for (ms, holds) in [(0, true), (999, true), (1_000, false), (-1, false)] {
            assert_eq!(table.holds(one, NOW.plus_ms(ms)), holds, "{ms}");
        }
        assert!(!table.holds(NoticeIdentity([7, 8]), NOW), "half an identity is another notice");
        table.remember(one, NOW.plus_ms(500));
        assert!(table.holds(one, NOW.plus_ms(1_499)));
    }

    #[test]
    fn a_full_set_forgets_what_ends_first_and_nothing_else() {
        let table = table(1);
        let of_set = |number: u64| identity(number * SHARDS as u64);
        for number in 0..9 {
            table.remember(of_set(number), NOW.plus_ms(number as i64));
        }
        let held: Vec<_> = (0..9).filter(|n| table.holds(of_set(*n), NOW.plus_ms(10))).collect();
        assert_eq!(held, [1, 2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn more_notices_than_there_are_places_for_take_those_of_others() {
        let replays = Replays::default();
        let identity = |number: u64| replays.identity(&number);
        for number in 0..300_000 {
            replays.facts().remember(identity(number), NOW);
        }
        let held = (0..300_000).filter(|n| replays.facts().holds(identity(*n), NOW)).count();
        assert!((200_000..=SHARDS * FACT_SETS * WAYS).contains(&held), "{held}");
        assert_ne!(identity(1), Replays::default().identity(&1_u64), "nobody can foresee it");
    }
}
