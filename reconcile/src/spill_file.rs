//! Owns the spill file: a run writes the values that it detects to temporary files until its
//! conclusion, so memory does not grow with the number of differences. Invariant: the values are
//! read unchanged and in the order they were written. If a file was cut meanwhile, reading it is an
//! error, never an early end.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The longest value, in bytes: 16 MiB. A longer length in a file is corruption.
const VALUE_BYTES_MAX: u32 = 1 << 24;

/// Collects values. Its files have no names, so a killed process leaves none behind.
#[derive(Debug)]
pub(crate) struct SpillFile<T> {
    folder: PathBuf,
    writer: Option<BufWriter<File>>,
    /// Files appended from other spill files.
    appended: Vec<BufWriter<File>>,
    count: u64,
    values: PhantomData<T>,
}

/// Reads the values back, in the order they were written.
pub(crate) struct SpillReader<T> {
    files: std::vec::IntoIter<BufWriter<File>>,
    reader: Option<BufReader<File>>,
    left: u64,
    values: PhantomData<T>,
}

impl<T: Serialize + DeserializeOwned> SpillFile<T> {
    /// An empty spill file. The first value makes a temporary file in this folder.
    pub(crate) fn in_folder(folder: &Path) -> Self {
        let folder = folder.to_owned();
        Self { folder, writer: None, appended: Vec::new(), count: 0, values: PhantomData }
    }

    /// Appends a value. Errors: the disk.
    pub(crate) fn push(&mut self, value: &T) -> io::Result<()> {
        let file = match &mut self.writer {
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

    /// Appends the values of another spill file.
    pub(crate) fn append(&mut self, other: Self) {
        self.appended.extend(other.writer);
        self.appended.extend(other.appended);
        self.count += other.count;
    }

    /// The number of values.
    pub(crate) fn len(&self) -> u64 {
        self.count
    }

    /// Reads all values, from the first one on.
    pub(crate) fn values(self) -> SpillReader<T> {
        let files: Vec<_> = self.writer.into_iter().chain(self.appended).collect();
        SpillReader {
            files: files.into_iter(),
            reader: None,
            left: self.count,
            values: PhantomData,
        }
    }
}

impl<T: DeserializeOwned> SpillReader<T> {
    fn read_value(&mut self) -> io::Result<Option<T>> {
        loop {
            if let Some(reader) = &mut self.reader
                && !io::BufRead::fill_buf(reader)?.is_empty()
            {
                let mut length = [0; 4];
                reader.read_exact(&mut length)?;
                let length = u32::from_be_bytes(length);
                if length > VALUE_BYTES_MAX {
                    return Err(changed_file_error());
                }
                let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
                reader.read_exact(&mut bytes)?;
                self.left = self.left.saturating_sub(1);
                return Ok(Some(serde_json::from_slice(&bytes)?));
            }
            let Some(file) = self.files.next() else {
                return if self.left == 0 { Ok(None) } else { Err(changed_file_error()) };
            };
            let mut file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.rewind()?;
            self.reader = Some(BufReader::new(file));
        }
    }
}

impl<T: DeserializeOwned> Iterator for SpillReader<T> {
    type Item = io::Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        let value = self.read_value();
        if value.is_err() {
            // After an error nothing can be read, so the iterator ends.
            (self.reader, self.left) = (None, 0);
            self.files = Vec::new().into_iter();
        }
        value.transpose()
    }
}

/// The error for a temporary file that does not hold what was written.
pub(crate) fn changed_file_error() -> io::Error {
    io::Error::other("a temporary file of this run has changed meanwhile")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled_spill(folder: &Path, numbers: std::ops::Range<u64>) -> SpillFile<(u64, String)> {
        let mut spill = SpillFile::in_folder(folder);
        numbers.for_each(|n| spill.push(&(n, format!("number {n}"))).unwrap());
        spill
    }

    #[test]
    fn values_come_back_in_order_and_no_file_is_left_behind() {
        let folder = tempfile::tempdir().unwrap();
        let mut all = filled_spill(folder.path(), 0..5_000);
        all.append(filled_spill(folder.path(), 5_000..5_000));
        all.append(filled_spill(folder.path(), 5_000..9_000));
        assert_eq!((all.len(), std::fs::read_dir(folder.path()).unwrap().count()), (9_000, 0));
        let back: Vec<_> = all.values().map(Result::unwrap).collect();
        assert_eq!(back, (0..9_000).map(|n| (n, format!("number {n}"))).collect::<Vec<_>>());
        assert_eq!(filled_spill(folder.path(), 0..0).values().count(), 0);
    }

    #[test]
    fn a_file_that_was_cut_is_an_error_and_then_an_end() {
        let folder = tempfile::tempdir().unwrap();
        for bytes in [0, 10, 1_000] {
            let mut spill = filled_spill(folder.path(), 0..100);
            let file = spill.writer.as_mut().unwrap();
            file.flush().unwrap();
            file.get_ref().set_len(bytes).unwrap();
            let mut values = spill.values();
            assert!(values.find(Result::is_err).is_some());
            assert!(values.next().is_none());
        }
    }

    #[test]
    fn a_missing_folder_is_an_error() {
        let mut spill = SpillFile::in_folder(Path::new("/nowhere/at/all"));
        assert!(spill.push(&1_u8).is_err());
    }
}
