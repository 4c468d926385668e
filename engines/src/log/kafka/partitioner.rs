//! Owns the partition of a key: the one that Kafka's Java client chooses, over the number of
//! partitions in the log's markers. The broker's present number is not used, because partitions
//! that were added later would move the keys. Pure. Source: Apache Kafka's `Utils.murmur2`
//! (MurmurHash2 by Austin Appleby, 32 bit, seed 0x9747b28c) and
//! `BuiltInPartitioner.partitionForKey`.

use crate::log::Topic;

const SEED: u32 = 0x9747_b28c;
const MULTIPLIER: u32 = 0x5bd1_e995;
const SHIFT: u32 = 24;

/// How many partitions each topic has in its newest log epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PartitionCounts([u32; Topic::ALL.len()]);

impl PartitionCounts {
    /// Takes the counts of the topics in the order of `Topic::ALL`. Panics if one is 0.
    pub(super) const fn new(counts: [u32; Topic::ALL.len()]) -> Self {
        let [intake, orders, findings, quarantine] = counts;
        assert!(
            intake > 0 && orders > 0 && findings > 0 && quarantine > 0,
            "every topic has a partition"
        );
        Self(counts)
    }

    /// How many partitions a topic has.
    pub(super) fn count(&self, topic: Topic) -> u32 {
        self.0[topic.index()]
    }

    /// Kafka's number of the partition that a key of a topic belongs to.
    pub(super) fn partition_of_key(&self, topic: Topic, key: &str) -> i32 {
        let number = (murmur2(key.as_bytes()) & 0x7fff_ffff) % self.count(topic);
        i32::try_from(number).expect("it has 31 bits")
    }
}

/// Hashes a key's bytes.
fn murmur2(bytes: &[u8]) -> u32 {
    let length = u32::try_from(bytes.len()).expect("no message is that long");
    let mut hash = SEED ^ length;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mut mixed = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        mixed ^= mixed >> SHIFT;
        hash = hash.wrapping_mul(MULTIPLIER) ^ mixed.wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        for (byte, shift) in rest.iter().zip([0, 8, 16]) {
            hash ^= u32::from(*byte) << shift;
        }
        hash = hash.wrapping_mul(MULTIPLIER);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Computed by `org.apache.kafka.common.utils.Utils.murmur2` of kafka-clients 4.1.0; six of
    /// them are in Kafka's own test.
    const OF_JAVA: [(&str, i32); 14] = [
        ("", 275_646_681),
        ("a", -1_563_381_124),
        ("ab", 316_155_434),
        ("abc", 479_470_107),
        ("abcd", -1_323_649_548),
        ("21", -973_932_308),
        ("foobar", -790_332_482),
        ("a-little-bit-long-string", -985_981_536),
        ("a-little-bit-longer-string", -1_486_304_829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
        ("acme/SHOP/ord-0192f8a0-7c11-7000-8000-000000000001", -1_381_276_024),
        ("acme/SHOP", 691_278_349),
        ("payfold", 761_456_213),
        ("\u{e9}\u{ff}", -1_748_483_581),
    ];

    #[test]
    fn keys_hash_as_kafkas_java_client_hashes_them() {
        for (key, hash) in OF_JAVA {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
        let every_byte: Vec<u8> = (0..=255).collect();
        assert_eq!(murmur2(&every_byte).cast_signed(), -1_948_347_274);
    }

    #[test]
    fn a_keys_partition_depends_on_the_count_of_its_topic() {
        let counts = PartitionCounts::new([8, 12, 1, 8]);
        let order = "acme/SHOP/ord-0192f8a0-7c11-7000-8000-000000000001";
        let placed = Topic::ALL.map(|topic| counts.partition_of_key(topic, order));
        assert_eq!(placed, [0, 4, 0, 0]);
        assert_eq!(counts.partition_of_key(Topic::Intake, "abcd"), 4);
        assert_eq!(counts.partition_of_key(Topic::Orders, "abcd"), 8);
    }
}
