//! Owns the sorting of more than fits into memory: values by key, in temporary files. Invariant: what comes out is what went
//! in, by key; a file that was cut meanwhile is an error, not an end.

use std::cmp::Ordering;
use std::io::{self, Read, Write};
use std::marker::PhantomData;
use std::path::Path;

use extsort::{ExternalSorter, Sortable};
use minicbor::{Decode, Encode};
use tempfile::TempDir;

/// So many values are sorted in memory at once: some 15 MB of orders.
const SEGMENT: usize = 40_000;
/// From so many files on they are merged over a heap.
const HEAP_FROM: usize = 16;
/// A key or value of more is none of ours.
const BYTES_MAX: u32 = 1 << 20;

type Compare = fn(&Packed, &Packed) -> Ordering;

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
        let folder = TempDir::with_prefix_in("sorting-", folder)?;
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
    fn a_folder_that_is_not_there_is_an_error() {
        assert!(Spool::<u64>::in_folder(Path::new("/nowhere/at/all")).is_err());
    }
}
