//! Owns the bytes of a file: they are counted and hashed as stored, and unpacked if they are gzip.
//! The first bytes say whether a file is gzip; its name is not used.

use std::io::{self, Cursor, Read};

use flate2::read::MultiGzDecoder;
use payfold_schemas::digest::Digest;
use sha2::{Digest as _, Sha256};

use crate::records::types::UnfitFile;

/// The first bytes of a gzip member (RFC 1952).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Counts and hashes the stored bytes while they are read.
pub(super) struct HashingReader<'s> {
    source: &'s mut dyn Read,
    hasher: Sha256,
    bytes: u64,
}

impl<'s> HashingReader<'s> {
    pub(super) fn new(source: &'s mut dyn Read) -> Self {
        Self { source, hasher: Sha256::new(), bytes: 0 }
    }

    /// Reads the rest, and returns the digest and the number of all stored bytes. Errors:
    /// `UnfitFile`.
    pub(super) fn finish(mut self) -> Result<(Digest, u64), UnfitFile> {
        io::copy(&mut self, &mut io::sink()).map_err(|error| unreadable(&error))?;
        Ok((Digest::from_bytes(self.hasher.finalize().into()), self.bytes))
    }
}

impl Read for HashingReader<'_> {
    /// Fills the buffer unless the source ends. A decoder's output before a damaged place depends
    /// on the pieces that it gets; full buffers make the result independent of how bytes arrive.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut count = 0;
        while count < buffer.len() {
            match self.source.read(&mut buffer[count..]) {
                Ok(0) => break,
                Ok(more) => count += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.hasher.update(&buffer[..count]);
        self.bytes += u64::try_from(count).unwrap_or(u64::MAX);
        Ok(count)
    }
}

/// The bytes of a file after unpacking.
pub(super) struct UnpackedSource<'s> {
    bytes: Box<dyn Read + 's>,
    is_packed: bool,
}

impl<'s> UnpackedSource<'s> {
    /// Reads the first bytes to see whether the file is gzip. Errors: `UnfitFile`.
    pub(super) fn open(stored: &'s mut HashingReader<'_>) -> Result<Self, UnfitFile> {
        let mut head = Vec::with_capacity(GZIP.len());
        let first = u64::try_from(GZIP.len()).unwrap_or(0);
        stored.take(first).read_to_end(&mut head).map_err(|error| unreadable(&error))?;
        let is_packed = head == GZIP;
        let whole = Cursor::new(head).chain(stored);
        let bytes: Box<dyn Read + 's> =
            if is_packed { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) };
        Ok(Self { bytes, is_packed })
    }

    /// Reads into a buffer and returns the number of bytes, 0 at the end. Errors: `UnfitFile`.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, UnfitFile> {
        loop {
            match self.bytes.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broken(&error)),
                Ok(count) => return Ok(count),
            }
        }
    }

    fn broken(&self, error: &io::Error) -> UnfitFile {
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        match error.kind() {
            UnexpectedEof if self.is_packed => {
                UnfitFile::whole("the gzip data is cut off; fetch the file again")
            }
            InvalidData | InvalidInput if self.is_packed => UnfitFile::whole(format!(
                "the gzip data is damaged ({error}); fetch the file again"
            )),
            _ => unreadable(error),
        }
    }
}

fn unreadable(error: &io::Error) -> UnfitFile {
    UnfitFile::whole(format!("the file can't be read: {error}"))
}
