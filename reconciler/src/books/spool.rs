//! Owns the sorting of more than fits into memory: values by key, in temporary files. Invariant: what comes out is what went
//! in, by key; a file that was cut meanwhile is an error, not an end.

use std::cmp::Ordering;
use std::io::{self, Read, Write};
use std::marker::PhantomData;
use std::path::Path;
use std::time::Duration;

use extsort::{ExternalSorter, Sortable};
use minicbor::{Decode, Encode};
use tempfile::TempDir;

/// So many values are sorted in memory at once: some 5 MB of orders.
const SEGMENT: usize = 16_000;
/// From so many files on they are merged over a heap.
const HEAP_FROM: usize = 16;
/// A key or value of more is none of ours.
const BYTES_MAX: u32 = 1 << 20;

type Compare = fn(&Packed, &Packed) -> Ordering;

/// What every temporary folder's name begins with.
const PREFIX: &str = "sorting-";
/// No run takes so long: what is older is left from a process that was killed.
const LEFT_AFTER: Duration = Duration::from_secs(24 * 3_600);

/// Takes away what killed processes have left in a folder; others may be at work there.
pub(crate) fn clear_left(folder: &Path) {
    let is_old = |entry: &std::fs::DirEntry| {
        let modified = entry.metadata().and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|modified| modified.elapsed().ok());
        entry.file_name().to_string_lossy().starts_with(PREFIX)
            && age.is_some_and(|age| age > LEFT_AFTER)
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(is_old) {
        // What can't be taken away is in nobody's way.
        let _ = std::fs::remove_dir_all(entry.path());
    }
}

/// A key and its value, encoded: two bytes with the key's length, the key, the value.
struct Packed(Box<[u8]>);

impl Packed {
    fn key(&self) -> &[u8] {
        let length = usize::from(u16::from_be_bytes([self.0[0], self.0[1]]));
        &self.0[2..2 + length]
    }

    fn value(&self) -> &[u8] {
        &self.0[2 + self.key().len()..]
    }
}

impl Sortable for Packed {
    fn encode<W: Write>(&self, writer: &mut W) -> io::Result<()> {
        let length = u32::try_from(self.0.len()).map_err(io::Error::other)?;
        writer.write_all(&length.to_be_bytes())?;
        writer.write_all(&self.0)
    }

    fn decode<R: Read>(reader: &mut R) -> io::Result<Self> {
        let mut length = [0; 4];
        reader.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length);
        if length > BYTES_MAX {
            return Err(io::Error::other("a temporary file of this run has changed meanwhile"));
        }
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        reader.read_exact(&mut bytes)?;
        Ok(Self(bytes.into_boxed_slice()))
    }
}

/// Takes values in any order.
pub(crate) struct Spool<T> {
    sorter: extsort::PushExternalSorter<Packed, Compare>,
    folder: TempDir,
    count: u64,
    values: PhantomData<T>,
}

/// Gives them back by key.
pub(crate) struct Sorted<T> {
    items: extsort::SortedIterator<Packed, Compare>,
    /// Gone with this.
    _folder: TempDir,
    left: u64,
    values: PhantomData<T>,
}

impl<T: Encode<()> + for<'b> Decode<'b, ()>> Spool<T> {
    /// Keeps its temporary files in a folder of its own in this one. Errors: the folder's disk.
    pub(crate) fn in_folder(folder: &Path) -> io::Result<Self> {
        let folder = TempDir::with_prefix_in(PREFIX, folder)?;
        let sorter = ExternalSorter::new()
            .with_segment_size(SEGMENT)
            .with_heap_iter_segment_count(HEAP_FROM)
            .with_sort_dir(folder.path().to_owned());
        let compare: Compare = |a, b| a.key().cmp(b.key());
        Ok(Self { sorter: sorter.pushed_by(compare), folder, count: 0, values: PhantomData })
    }

    /// Takes a value. Errors: the folder's disk.
    pub(crate) fn push(&mut self, key: &[u8], value: &T) -> io::Result<()> {
        let length = u16::try_from(key.len()).map_err(io::Error::other)?;
        let mut packed = Vec::with_capacity(2 + key.len() + 160);
        packed.extend_from_slice(&length.to_be_bytes());
        packed.extend_from_slice(key);
        minicbor::encode(value, &mut packed).map_err(io::Error::other)?;
        self.count += 1;
        self.sorter.push(Packed(packed.into_boxed_slice()))
    }

    /// All that was taken, by key. Errors: the folder's disk.
    pub(crate) fn sorted(self) -> io::Result<Sorted<T>> {
        let (items, left) = (self.sorter.done()?, self.count);
        Ok(Sorted { items, _folder: self.folder, left, values: PhantomData })
    }
}

/// So many sortings side by side: what they give is compared on as many threads.
pub(crate) const LANES: usize = 2;

/// Sortings side by side; a key is always in the same one.
pub(crate) struct Lanes<T>([Spool<T>; LANES]);

impl<T: Encode<()> + for<'b> Decode<'b, ()>> Lanes<T> {
    /// As `Spool::in_folder`.
    pub(crate) fn in_folder(folder: &Path) -> io::Result<Self> {
        Ok(Self([Spool::in_folder(folder)?, Spool::in_folder(folder)?]))
    }

    /// As `Spool::push`.
    pub(crate) fn push(&mut self, key: &[u8], value: &T) -> io::Result<()> {
        let sum = key.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
        self.0[usize::from(sum) % LANES].push(key, value)
    }

    /// As `Spool::sorted`, lane by lane.
    pub(crate) fn sorted(self) -> io::Result<[Sorted<T>; LANES]> {
        let [one, other] = self.0;
        Ok([one.sorted()?, other.sorted()?])
    }
}

impl<T: for<'b> Decode<'b, ()>> Iterator for Sorted<T> {
    type Item = io::Result<(Vec<u8>, T)>;

    fn next(&mut self) -> Option<Self::Item> {
        let Some(packed) = self.items.next() else {
            let lost = std::mem::take(&mut self.left);
            let problem = || io::Error::other("a temporary file of this run has been cut");
            return (lost > 0).then(|| Err(problem()));
        };
        self.left = self.left.saturating_sub(1);
        Some(packed.and_then(|packed| {
            let value = minicbor::decode(packed.value()).map_err(io::Error::other)?;
            Ok((packed.key().to_vec(), value))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_by_key_from_memory_and_from_files() {
        let folder = tempfile::tempdir().unwrap();
        for count in [0_u64, 1, 1_000, 250_000] {
            let mut spool = Spool::<u64>::in_folder(folder.path()).unwrap();
            // 7919 is no divisor of these, so all are met, in disorder.
            for n in (0..count).map(|n| n * 7_919 % count) {
                spool.push(format!("{n:09}").as_bytes(), &n).unwrap();
            }
            let values: Vec<u64> = spool.sorted().unwrap().map(|item| item.unwrap().1).collect();
            assert_eq!(values, (0..count).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_file_that_was_cut_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::<u64>::in_folder(folder.path()).unwrap();
        for n in 0..150_000_u64 {
            spool.push(&n.to_be_bytes(), &n).unwrap();
        }
        let sorted = spool.sorted().unwrap();
        let inner = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
        for segment in std::fs::read_dir(inner).unwrap() {
            let file = std::fs::File::options().write(true).open(segment.unwrap().path()).unwrap();
            file.set_len(100_000).unwrap();
        }
        assert!(sorted.last().unwrap().is_err());
    }

    #[test]
    fn nothing_is_left_behind_and_no_two_get_in_each_others_way() {
        let folder = tempfile::tempdir().unwrap();
        let sorted = |from: u64| {
            let mut spool = Spool::<u64>::in_folder(folder.path()).unwrap();
            (from..from + 150_000).for_each(|n| spool.push(&n.to_be_bytes(), &n).unwrap());
            spool.sorted().unwrap()
        };
        let (one, other) = (sorted(0), sorted(1_000_000));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2);
        assert_eq!(one.map(|item| item.unwrap().1).sum::<u64>(), (0..150_000_u64).sum::<u64>());
        assert_eq!(other.map(|item| item.unwrap().1).min(), Some(1_000_000));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_process_left_is_taken_away_after_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let made = |name: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir(&path).unwrap();
            path
        };
        let long_ago = std::time::SystemTime::UNIX_EPOCH + LEFT_AFTER;
        let aged = |path: &Path| std::fs::File::open(path).unwrap().set_modified(long_ago).unwrap();
        let [old, young, other] = ["sorting-old", "sorting-young", "other"].map(made);
        aged(&old);
        aged(&other);
        clear_left(folder.path());
        assert_eq!((old.exists(), young.exists(), other.exists()), (false, true, true));
        clear_left(Path::new("/nowhere/at/all"));
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        assert!(Spool::<u64>::in_folder(Path::new("/nowhere/at/all")).is_err());
    }
}
