//! Owns the bringing together of more than fits into memory: values are scattered over shards by the hash of their key, in
//! one temporary file without a name, and come back shard by shard, each sorted by key in memory.
//!
//! Invariants: what comes out is what went in, in an order that only the keys decide; two spools give equal keys in equal
//! order; memory is a block for each shard and the largest shard, open files are one; a file that was cut meanwhile is an
//! error, not an end.

use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use minicbor::{Decode, Encode};

use super::pile::changed;

/// With ten million values a shard has some 40,000: a few MB.
const SHARDS: usize = 256;
/// What a shard gathers before it is written; it may then take up twice as much.
const BLOCK: usize = 8 << 10;
/// So many threads take shards side by side.
pub(crate) const LANES: usize = 2;

/// Bytes of an entry's length, of its key's hash, and of its key's length; key and value follow.
const LENGTH: usize = 4;
const HASH: usize = 8;
const KEY_LENGTH: usize = 2;

/// A key in short: where two keys have one hash, that costs a comparison and no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct KeyHash(u64);

impl KeyHash {
    /// The same in each run of one program.
    pub(crate) fn of(key: &[u8]) -> Self {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        Self(hasher.finish())
    }

    fn shard(self) -> usize {
        usize::try_from(self.0 >> (u64::BITS - SHARDS.ilog2())).expect("a few bits fit")
    }
}

/// Where a value stands among the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place<'a> {
    pub(crate) hash: KeyHash,
    pub(crate) key: &'a [u8],
}

/// Takes values in any order.
pub(crate) struct Spool<T> {
    shards: Vec<Shard>,
    file: File,
    /// Where the file ends.
    end: u64,
    values: PhantomData<T>,
}

/// What came to one shard: what is written, and what is not yet.
#[derive(Default)]
struct Shard {
    written: Vec<Range<u64>>,
    gathered: Vec<u8>,
}

impl<T: Encode<()> + for<'b> Decode<'b, ()>> Spool<T> {
    /// Keeps what does not fit into memory in this folder. Errors: the folder's disk.
    pub(crate) fn in_folder(folder: &Path) -> io::Result<Self> {
        let file = tempfile::tempfile_in(folder)?;
        let shards = std::iter::repeat_with(Shard::default).take(SHARDS).collect();
        Ok(Self { shards, file, end: 0, values: PhantomData })
    }

    /// Takes a value. Errors: the folder's disk.
    pub(crate) fn push(&mut self, key: &[u8], value: &T) -> io::Result<()> {
        let hash = KeyHash::of(key);
        let key_length = u16::try_from(key.len()).map_err(io::Error::other)?;
        let shard = &mut self.shards[hash.shard()];
        let entry = shard.gathered.len();
        shard.gathered.extend_from_slice(&[0; LENGTH]);
        shard.gathered.extend_from_slice(&hash.0.to_be_bytes());
        shard.gathered.extend_from_slice(&key_length.to_be_bytes());
        shard.gathered.extend_from_slice(key);
        minicbor::encode(value, &mut shard.gathered).map_err(io::Error::other)?;
        let length = shard.gathered.len() - entry - LENGTH;
        let length = u32::try_from(length).map_err(io::Error::other)?;
        shard.gathered[entry..entry + LENGTH].copy_from_slice(&length.to_be_bytes());
        if shard.gathered.len() >= BLOCK {
            self.file.write_all_at(&shard.gathered, self.end)?;
            let from = self.end;
            self.end += u64::try_from(shard.gathered.len()).map_err(io::Error::other)?;
            shard.written.push(from..self.end);
            shard.gathered.clear();
        }
        Ok(())
    }

    /// All that was taken, for as many threads as there are lanes; a key is always in the same one. Errors: the disk.
    pub(crate) fn sorted(self) -> io::Result<[Sorted<T>; LANES]> {
        let file = [self.file.try_clone()?, self.file];
        let mut lanes = file.map(|file| Sorted {
            shards: Vec::with_capacity(SHARDS / LANES),
            file,
            bytes: Vec::new(),
            entries: Vec::new(),
            values: PhantomData,
        });
        // Taken from the end.
        for (number, shard) in self.shards.into_iter().enumerate().rev() {
            lanes[number % LANES].shards.push(shard);
        }
        Ok(lanes)
    }
}

/// Gives values back by hash and key.
pub(crate) struct Sorted<T> {
    /// Those to come; the next one last.
    shards: Vec<Shard>,
    file: File,
    /// The shard that is given out now.
    bytes: Vec<u8>,
    /// Its entries that are left, the next one last.
    entries: Vec<Entry>,
    values: PhantomData<T>,
}

/// Where an entry's key and value stand.
struct Entry {
    hash: KeyHash,
    key: usize,
    value: usize,
    end: usize,
}

impl<T: for<'b> Decode<'b, ()>> Sorted<T> {
    /// Where the next value stands. Errors: the disk.
    pub(crate) fn peek(&mut self) -> io::Result<Option<Place<'_>>> {
        while self.entries.is_empty() {
            let Some(shard) = self.shards.pop() else { return Ok(None) };
            self.load(shard)?;
        }
        Ok(self.entries.last().map(|entry| entry.place(&self.bytes)))
    }

    /// The next value. Errors: the disk.
    pub(crate) fn next(&mut self) -> io::Result<Option<T>> {
        self.peek()?;
        let Some(entry) = self.entries.pop() else { return Ok(None) };
        let value = &self.bytes[entry.value..entry.end];
        minicbor::decode(value).map(Some).map_err(io::Error::other)
    }

    fn load(&mut self, shard: Shard) -> io::Result<()> {
        self.bytes.clear();
        for range in shard.written {
            let (at, length) = (self.bytes.len(), range.end - range.start);
            let length = usize::try_from(length).map_err(io::Error::other)?;
            self.bytes.resize(at + length, 0);
            self.file.read_exact_at(&mut self.bytes[at..], range.start).map_err(cut)?;
        }
        self.bytes.extend_from_slice(&shard.gathered);
        let mut at = 0;
        while at < self.bytes.len() {
            let entry = Entry::read(&self.bytes, at).ok_or_else(changed)?;
            at = entry.end;
            self.entries.push(entry);
        }
        let bytes = &self.bytes;
        // Of one key in the order they came; nearly all are told apart by their hash.
        let order = |entry: &Entry| (entry.place(bytes), entry.key);
        let compare =
            |a: &Entry, b: &Entry| a.hash.cmp(&b.hash).then_with(|| order(a).cmp(&order(b)));
        self.entries.sort_unstable_by(|a, b| compare(b, a));
        Ok(())
    }
}

impl Entry {
    /// The entry at this place, if a whole one is there.
    fn read(bytes: &[u8], at: usize) -> Option<Self> {
        let (start, key_length) = (at + LENGTH, at + LENGTH + HASH);
        let key = key_length + KEY_LENGTH;
        let length = u32::from_be_bytes(bytes.get(at..start)?.try_into().ok()?);
        let hash = u64::from_be_bytes(bytes.get(start..key_length)?.try_into().ok()?);
        let of_key = u16::from_be_bytes(bytes.get(key_length..key)?.try_into().ok()?);
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        let value = key + usize::from(of_key);
        (value <= end && end <= bytes.len()).then_some(Self {
            hash: KeyHash(hash),
            key,
            value,
            end,
        })
    }

    fn place<'b>(&self, bytes: &'b [u8]) -> Place<'b> {
        Place { hash: self.hash, key: &bytes[self.key..self.value] }
    }
}

fn cut(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => {
            io::Error::other("a temporary file of this run has been cut")
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spool(folder: &Path, numbers: impl Iterator<Item = u64>) -> Spool<u64> {
        let mut spool = Spool::in_folder(folder).unwrap();
        for n in numbers {
            spool.push(format!("{n:09}").as_bytes(), &n).unwrap();
        }
        spool
    }

    fn owned(place: Option<Place<'_>>) -> Option<(KeyHash, Vec<u8>)> {
        place.map(|place| (place.hash, place.key.to_vec()))
    }

    fn all(lanes: [Sorted<u64>; LANES]) -> Vec<(KeyHash, Vec<u8>, u64)> {
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
    fn what_went_in_comes_out_in_an_order_the_keys_decide() {
        let folder = tempfile::tempdir().unwrap();
        for count in [0_u64, 1, 1_000, 200_000] {
            // 7919 is no divisor of these, so all are met, in disorder.
            let disorder = spool(folder.path(), (0..count).map(|n| n * 7_919 % count));
            let order = spool(folder.path(), 0..count);
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
        let mut spool = Spool::<u64>::in_folder(folder.path()).unwrap();
        for n in 0..3_000_u64 {
            spool.push(&(n % 700).to_be_bytes(), &n).unwrap();
        }
        for mut lane in spool.sorted().unwrap() {
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
            let spool = spool(folder.path(), 0..400_000);
            spoil(&spool.file);
            for mut lane in spool.sorted().unwrap() {
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
        assert!(found.contains("cut"), "{found}");
        let found = failure(&|file| file.write_all_at(&[255; 64], 0).unwrap()).unwrap();
        assert!(found.contains("changed"), "{found}");
    }

    #[test]
    fn nothing_is_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let one = spool(folder.path(), 0..400_000);
        let other = spool(folder.path(), 400_000..800_000);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        assert_eq!(all(one.sorted().unwrap()).len() + all(other.sorted().unwrap()).len(), 800_000);
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        assert!(Spool::<u64>::in_folder(Path::new("/nowhere/at/all")).is_err());
    }
}
