//! Owns the keeping of what a run finds until it is concluded: values in temporary files, in the order they came, so that
//! memory does not grow with what differs. Invariant: what comes out is what went in; a file that was cut meanwhile is an
//! error, not an end.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// A value of more is none of ours.
const BYTES_MAX: u32 = 1 << 24;

/// Takes values. Its files have no names: a killed process leaves none.
#[derive(Debug)]
pub(crate) struct Pile<T> {
    folder: PathBuf,
    writing: Option<BufWriter<File>>,
    /// Those of other piles.
    others: Vec<BufWriter<File>>,
    count: u64,
    values: PhantomData<T>,
}

/// Gives them back.
pub(crate) struct Taken<T> {
    files: std::vec::IntoIter<BufWriter<File>>,
    reading: Option<BufReader<File>>,
    left: u64,
    values: PhantomData<T>,
}

impl<T: Serialize + DeserializeOwned> Pile<T> {
    /// Keeps its files in this folder; makes one when there is something to keep.
    pub(crate) fn in_folder(folder: &Path) -> Self {
        let folder = folder.to_owned();
        Self { folder, writing: None, others: Vec::new(), count: 0, values: PhantomData }
    }

    /// Takes a value. Errors: the folder's disk.
    pub(crate) fn push(&mut self, value: &T) -> io::Result<()> {
        let file = match &mut self.writing {
            Some(file) => file,
            none => none.insert(BufWriter::new(tempfile::tempfile_in(&self.folder)?)),
        };
        let bytes = serde_json::to_vec(value)?;
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        file.write_all(&length.to_be_bytes())?;
        file.write_all(&bytes)?;
        self.count += 1;
        Ok(())
    }

    /// Takes what another pile has, behind its own.
    pub(crate) fn take(&mut self, other: Self) {
        self.others.extend(other.writing);
        self.others.extend(other.others);
        self.count += other.count;
    }

    /// How many values there are.
    pub(crate) fn len(&self) -> u64 {
        self.count
    }

    /// All values.
    pub(crate) fn values(self) -> Taken<T> {
        let files: Vec<_> = self.writing.into_iter().chain(self.others).collect();
        Taken { files: files.into_iter(), reading: None, left: self.count, values: PhantomData }
    }
}

impl<T: DeserializeOwned> Taken<T> {
    fn value(&mut self) -> io::Result<Option<T>> {
        loop {
            if let Some(reading) = &mut self.reading
                && !io::BufRead::fill_buf(reading)?.is_empty()
            {
                let mut length = [0; 4];
                reading.read_exact(&mut length)?;
                let length = u32::from_be_bytes(length);
                if length > BYTES_MAX {
                    return Err(changed());
                }
                let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
                reading.read_exact(&mut bytes)?;
                self.left = self.left.saturating_sub(1);
                return Ok(Some(serde_json::from_slice(&bytes)?));
            }
            let Some(file) = self.files.next() else {
                return if self.left == 0 { Ok(None) } else { Err(changed()) };
            };
            let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.rewind()?;
            self.reading = Some(BufReader::new(file));
        }
    }
}

impl<T: DeserializeOwned> Iterator for Taken<T> {
    type Item = io::Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        let value = self.value();
        if value.is_err() {
            // Told once; behind it nothing can be read.
            (self.reading, self.left) = (None, 0);
            self.files = Vec::new().into_iter();
        }
        value.transpose()
    }
}

/// What a file of ours that is not as it was written is an error of.
pub(crate) fn changed() -> io::Error {
    io::Error::other("a temporary file of this run has changed meanwhile")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pile(folder: &Path, numbers: std::ops::Range<u64>) -> Pile<(u64, String)> {
        let mut pile = Pile::in_folder(folder);
        numbers.for_each(|n| pile.push(&(n, format!("number {n}"))).unwrap());
        pile
    }

    #[test]
    fn values_come_back_as_they_came_and_nothing_is_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let mut all = pile(folder.path(), 0..5_000);
        all.take(pile(folder.path(), 5_000..5_000));
        all.take(pile(folder.path(), 5_000..9_000));
        assert_eq!((all.len(), std::fs::read_dir(folder.path()).unwrap().count()), (9_000, 0));
        let back: Vec<_> = all.values().map(Result::unwrap).collect();
        assert_eq!(back, (0..9_000).map(|n| (n, format!("number {n}"))).collect::<Vec<_>>());
        assert_eq!(pile(folder.path(), 0..0).values().count(), 0);
    }

    #[test]
    fn a_file_that_was_cut_is_an_error_and_then_an_end() {
        let folder = tempfile::tempdir().unwrap();
        for bytes in [0, 10, 1_000] {
            let mut pile = pile(folder.path(), 0..100);
            let file = pile.writing.as_mut().unwrap();
            file.flush().unwrap();
            file.get_ref().set_len(bytes).unwrap();
            let mut values = pile.values();
            assert!(values.find(Result::is_err).is_some());
            assert!(values.next().is_none());
        }
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error() {
        let mut pile = Pile::in_folder(Path::new("/nowhere/at/all"));
        assert!(pile.push(&1_u8).is_err());
    }
}
