//! Owns the hash chain over a partition of `intake`: each record's head is a digest of the
//! head before it, its offset, its key and its stored value. A stored head proves that no byte up
//! to it was changed, removed, inserted or swapped. Without a stored head nothing is proven, so
//! heads must be kept where a person with write access to the log can't change them.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::digest::Digest;
use crate::position::Position;

/// No record has this key.
const RESUMED_KEY: &str = "\0resumed";
const GENESIS_TAG: &[u8] = b"payfold.chain.v1\0";

/// The head of a partition after some record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Head(Digest);

impl Head {
    /// The head before the first record of a partition of the log with this id.
    pub fn genesis(log_id: [u8; 16], partition: u32) -> Self {
        let mut hasher = Sha256::new_with_prefix(GENESIS_TAG);
        hasher.update(log_id);
        hasher.update(partition.to_be_bytes());
        Self(Digest::from_bytes(hasher.finalize().into()))
    }

    /// The head after a record of which only the value's digest is known. A store that was made
    /// before heads existed continues from it. It proves nothing about earlier records.
    pub fn resumed(log_id: [u8; 16], position: Position, value: Digest) -> Self {
        let genesis = Self::genesis(log_id, position.partition);
        genesis.after(position, RESUMED_KEY, value.as_bytes())
    }

    /// Makes a head from its stored digest.
    pub fn kept(digest: Digest) -> Self {
        Self(digest)
    }

    /// The digest to store.
    pub fn digest(self) -> Digest {
        self.0
    }

    /// The head after one more record, which is at `position` with this key and stored value.
    #[must_use]
    pub fn after(self, position: Position, key: &str, value: &[u8]) -> Self {
        let length = u64::try_from(key.len()).expect("a key has some bytes");
        let mut hasher = Sha256::new_with_prefix(self.0.as_bytes());
        hasher.update(position.offset.to_be_bytes());
        // The length keeps a byte from moving between key and value.
        hasher.update(length.to_be_bytes());
        hasher.update(key);
        hasher.update(value);
        Self(Digest::from_bytes(hasher.finalize().into()))
    }
}

impl std::fmt::Display for Head {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(records: &[(u64, &str, &[u8])]) -> Head {
        records.iter().fold(Head::genesis([7; 16], 3), |head, (offset, key, value)| {
            head.after(Position { partition: 3, offset: *offset }, key, value)
        })
    }

    #[test]
    fn every_change_moves_the_head() {
        let whole = head(&[(1, "a", b"one"), (2, "b", b"two"), (3, "a", b"three")]);
        assert_eq!(whole, head(&[(1, "a", b"one"), (2, "b", b"two"), (3, "a", b"three")]));
        for (what, changed) in [
            ("a byte", head(&[(1, "a", b"one"), (2, "b", b"twp"), (3, "a", b"three")])),
            ("a record less", head(&[(1, "a", b"one"), (3, "a", b"three")])),
            ("less and closed up", head(&[(1, "a", b"one"), (2, "a", b"three")])),
            ("a swap", head(&[(1, "b", b"two"), (2, "a", b"one"), (3, "a", b"three")])),
            ("another key", head(&[(1, "a", b"one"), (2, "a", b"two"), (3, "a", b"three")])),
            ("key into value", head(&[(1, "ao", b"ne"), (2, "b", b"two"), (3, "a", b"three")])),
            ("another place", head(&[(1, "a", b"one"), (2, "b", b"two"), (4, "a", b"three")])),
            ("the tail", head(&[(1, "a", b"one"), (2, "b", b"two")])),
        ] {
            assert_ne!(whole, changed, "{what}");
        }
    }

    #[test]
    fn another_log_and_another_partition_begin_with_another_head() {
        let here = Head::genesis([7; 16], 3);
        assert_ne!(here, Head::genesis([8; 16], 3));
        assert_ne!(here, Head::genesis([7; 16], 4));
    }

    /// Heads are stored outside of this program, so their computation may not change under one tag.
    #[test]
    fn a_known_head_stays() {
        assert_eq!(
            head(&[(1, "acme/SHOP/a", b"value")]).to_string(),
            "4e7e17ddfe3b4b50351c2b3af2c130a51b5ccc593b21ac365f9f4e898900b830"
        );
    }
}
