//! Owns the external sort: more values than fit into memory, grouped by key. Values are distributed
//! over shards by the hash of their key, in one temporary file without a name. They come back shard
//! by shard, each shard sorted by hash and key in memory.
//!
//! Invariants: all values that went in come out, in an order that depends on the keys only. Two
//! sorts give their keys in the same order, so they can be joined. Memory is one block for each
//! shard plus the largest shard. There is one open file. If the file was cut or changed meanwhile,
//! reading it is an error, never an early end.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use minicbor::{Decode, Encode};

use super::spill_file::changed_file_error;

/// With ten million values a shard holds some 40,000 of them: a few MB.
const SHARDS: usize = 256;
/// Bytes a shard buffers before they are written. The last entry may be larger than the rest of the
/// block, so a buffer can be about twice as large.
const BLOCK: usize = 8 << 10;
/// Threads that read sorted shards side by side; each reads one lane of shards.
pub(crate) const LANES: usize = 2;

/// Sizes of an entry's header fields, in bytes. An entry is its length, its key's hash, its key's
/// length, the key, and the value.
const LENGTH: usize = 4;
const HASH: usize = 8;
const KEY_LENGTH: usize = 2;

/// A 64-bit hash of a key. Two keys with one hash cost a comparison of the keys; they are never
/// mixed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KeyHash(u64);

impl KeyHash {
    /// Hashes a key. The hash is the same in every process of one program version, which is enough
    /// for a temporary file.
    pub(crate) fn of(key: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        Self(hasher.finish())
    }

    fn shard(self) -> usize {
        usize::try_from(self.0 >> (u64::BITS - SHARDS.ilog2())).expect("a few bits fit")
    }
}

/// What values are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SortKey<'a> {
    pub(crate) hash: KeyHash,
    pub(crate) key: &'a [u8],
}

/// Collects values in any order and gives them back sorted.
pub(crate) struct ExternalSort<T> {
    shards: Vec<SortShard>,
    file: File,
    /// Length of the file, in bytes.
    end: u64,
    values: PhantomData<T>,
}

/// The entries of one shard: ranges of the file, and what is not written yet.
#[derive(Default)]
struct SortShard {
    written: Vec<Range<u64>>,
    buffered: Vec<u8>,
}

impl<T: Encode<()> + for<'b> Decode<'b, ()>> ExternalSort<T> {
    /// An empty sort with a temporary file in this folder. Errors: the file cannot be made.
    pub(crate) fn in_folder(folder: &Path) -> io::Result<Self> {
        let file = tempfile::tempfile_in(folder)?;
        let shards = std::iter::repeat_with(SortShard::default).take(SHARDS).collect();
        Ok(Self { shards, file, end: 0, values: PhantomData })
    }

    /// Adds a value. Errors: the disk; a key of more than 65,535 bytes.
    pub(crate) fn push(&mut self, key: &[u8], value: &T) -> io::Result<()> {
        let hash = KeyHash::of(key);
        let key_length = u16::try_from(key.len()).map_err(io::Error::other)?;
        let shard = &mut self.shards[hash.shard()];
        let entry = shard.buffered.len();
        shard.buffered.extend_from_slice(&[0; LENGTH]);
        shard.buffered.extend_from_slice(&hash.0.to_be_bytes());
        shard.buffered.extend_from_slice(&key_length.to_be_bytes());
        shard.buffered.extend_from_slice(key);
        minicbor::encode(value, &mut shard.buffered).map_err(io::Error::other)?;
        let length = shard.buffered.len() - entry - LENGTH;
        let length = u32::try_from(length).map_err(io::Error::other)?;
        shard.buffered[entry..entry + LENGTH].copy_from_slice(&length.to_be_bytes());
        if shard.buffered.len() >= BLOCK {
            self.file.write_all_at(&shard.buffered, self.end)?;
            let from = self.end;
            self.end += u64::try_from(shard.buffered.len()).map_err(io::Error::other)?;
            shard.written.push(from..self.end);
            shard.buffered.clear();
        }
        Ok(())
    }

    /// All values, sorted, one stream for each lane. A key is always in the same lane. Errors: the
    /// disk.
    pub(crate) fn sorted(self) -> io::Result<[SortedLane<T>; LANES]> {
        let file = [self.file.try_clone()?, self.file];
        let mut lanes = file.map(|file| SortedLane {
            shards: Vec::with_capacity(SHARDS / LANES),
            file,
            bytes: Vec::new(),
            entries: Vec::new(),
            values: PhantomData,
        });
        // `peek` pops shards from the end, so the last shard is pushed first.
        for (number, shard) in self.shards.into_iter().enumerate().rev() {
            lanes[number % LANES].shards.push(shard);
        }
        Ok(lanes)
    }
}

/// One lane of sorted values.
pub(crate) struct SortedLane<T> {
    /// Shards not loaded yet; the next one is the last.
    shards: Vec<SortShard>,
    file: File,
    /// The bytes of the loaded shard.
    bytes: Vec<u8>,
    /// Entries of the loaded shard not returned yet; the next one is the last.
    entries: Vec<SortEntry>,
    values: PhantomData<T>,
}

/// Offsets of an entry's key and value in the loaded shard.
struct SortEntry {
    hash: KeyHash,
    key: usize,
    value: usize,
    end: usize,
}

impl<T: for<'b> Decode<'b, ()>> SortedLane<T> {
    /// The sort key of the next value; `None` at the end. Errors: the disk.
    pub(crate) fn peek(&mut self) -> io::Result<Option<SortKey<'_>>> {
        while self.entries.is_empty() {
            let Some(shard) = self.shards.pop() else { return Ok(None) };
            self.load_shard(shard)?;
        }
        Ok(self.entries.last().map(|entry| entry.sort_key(&self.bytes)))
    }

    /// Returns the next value; `None` at the end. Errors: the disk; a value that can't be decoded.
    pub(crate) fn next(&mut self) -> io::Result<Option<T>> {
        self.peek()?;
        let Some(entry) = self.entries.pop() else { return Ok(None) };
        let value = &self.bytes[entry.value..entry.end];
        minicbor::decode(value).map(Some).map_err(io::Error::other)
    }

    fn load_shard(&mut self, shard: SortShard) -> io::Result<()> {
        self.bytes.clear();
        for range in shard.written {
            let (at, length) = (self.bytes.len(), range.end - range.start);
            let length = usize::try_from(length).map_err(io::Error::other)?;
            self.bytes.resize(at + length, 0);
            self.file.read_exact_at(&mut self.bytes[at..], range.start).map_err(explain_cut)?;
        }
        self.bytes.extend_from_slice(&shard.buffered);
        let mut at = 0;
        while at < self.bytes.len() {
            let entry = SortEntry::read(&self.bytes, at).ok_or_else(changed_file_error)?;
            at = entry.end;
            self.entries.push(entry);
        }
        let bytes = &self.bytes;
        // Entries of one key keep the order they came in. The hashes differ nearly always, so they
        // are compared first.
        let order = |entry: &SortEntry| (entry.sort_key(bytes), entry.key);
        let compare = |a: &SortEntry, b: &SortEntry| {
            a.hash.cmp(&b.hash).then_with(|| order(a).cmp(&order(b)))
        };
        self.entries.sort_unstable_by(|a, b| compare(b, a));
        Ok(())
    }
}

impl SortEntry {
    /// Parses the entry at this offset; `None` if the bytes don't hold a whole one.
    fn read(bytes: &[u8], at: usize) -> Option<Self> {
        let (start, key_length) = (at + LENGTH, at + LENGTH + HASH);
        let key = key_length + KEY_LENGTH;
        let length = u32::from_be_bytes(bytes.get(at..start)?.try_into().ok()?);
        let hash = u64::from_be_bytes(bytes.get(start..key_length)?.try_into().ok()?);
        let key_bytes = u16::from_be_bytes(bytes.get(key_length..key)?.try_into().ok()?);
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        let value = key + usize::from(key_bytes);
        (value <= end && end <= bytes.len()).then_some(Self {
            hash: KeyHash(hash),
            key,
            value,
            end,
        })
    }

    fn sort_key<'b>(&self, bytes: &'b [u8]) -> SortKey<'b> {
        SortKey { hash: self.hash, key: &bytes[self.key..self.value] }
    }
}

fn explain_cut(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            io::Error::other("a temporary file of this run was truncated")
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled_sort(folder: &Path, numbers: impl Iterator<Item = u64>) -> ExternalSort<u64> {
        let mut sort = ExternalSort::in_folder(folder).unwrap();
        for n in numbers {
            sort.push(format!("{n:09}").as_bytes(), &n).unwrap();
        }
        sort
    }

    fn owned(sort_key: Option<SortKey<'_>>) -> Option<(KeyHash, Vec<u8>)> {
        sort_key.map(|sort_key| (sort_key.hash, sort_key.key.to_vec()))
    }

    fn all(lanes: [SortedLane<u64>; LANES]) -> Vec<(KeyHash, Vec<u8>, u64)> {
        let mut all = Vec::new();
        for mut lane in lanes {
            while let Some((hash, key)) = owned(lane.peek().unwrap()) {
                all.push((hash, key, lane.next().unwrap().unwrap()));
            }
            assert!(lane.next().unwrap().is_none());
        }
        all
    }

    #[test]
    fn all_values_come_out_in_an_order_the_keys_decide() {
        let folder = tempfile::tempdir().unwrap();
        for count in [0_u64, 1, 1_000, 200_000] {
            // 7919 divides none of the counts, so every number comes up once, out of order.
            let disorder = filled_sort(folder.path(), (0..count).map(|n| n * 7_919 % count));
            let order = filled_sort(folder.path(), 0..count);
            let is_in_file = disorder.end > 0;
            let (one, other) = (all(disorder.sorted().unwrap()), all(order.sorted().unwrap()));
            assert_eq!(one, other);
            assert_eq!(is_in_file, count > 100_000);
            assert!(one.iter().all(|(_, key, n)| *key == format!("{n:09}").as_bytes()));
            let mut values: Vec<u64> = one.into_iter().map(|(_, _, n)| n).collect();
            values.sort_unstable();
            assert_eq!(values, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn each_lane_ascends_and_equal_keys_come_as_they_came() {
        let folder = tempfile::tempdir().unwrap();
        let mut sort = ExternalSort::<u64>::in_folder(folder.path()).unwrap();
        for n in 0..3_000_u64 {
            sort.push(&(n % 700).to_be_bytes(), &n).unwrap();
        }
        for mut lane in sort.sorted().unwrap() {
            let mut before = None;
            while let Some((hash, key)) = owned(lane.peek().unwrap()) {
                let now = Some((hash, key, lane.next().unwrap().unwrap()));
                assert!(before < now, "{before:?} {now:?}");
                before = now;
            }
        }
    }

    #[test]
    fn a_file_that_was_cut_or_overwritten_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let failure = |spoil: &dyn Fn(&File)| {
            let sort = filled_sort(folder.path(), 0..400_000);
            spoil(&sort.file);
            for mut lane in sort.sorted().unwrap() {
                loop {
                    match lane.next() {
                        Ok(Some(_)) => {}
                        Ok(None) => break,
                        Err(error) => return Some(error.to_string()),
                    }
                }
            }
            None
        };
        assert_eq!(failure(&|_| {}), None);
        let found = failure(&|file| file.set_len(100_000).unwrap()).unwrap();
        assert!(found.contains("truncated"), "{found}");
        let found = failure(&|file| file.write_all_at(&[255; 64], 0).unwrap()).unwrap();
        assert!(found.contains("changed"), "{found}");
    }

    #[test]
    fn no_file_is_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let one = filled_sort(folder.path(), 0..400_000);
        let other = filled_sort(folder.path(), 400_000..800_000);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert_eq!(all(one.sorted().unwrap()).len() + all(other.sorted().unwrap()).len(), 800_000);
    }

    #[test]
    fn a_missing_folder_is_an_error() {
        assert!(ExternalSort::<u64>::in_folder(Path::new("/nowhere/at/all")).is_err());
    }
}
