//! Owns the bytes of a file: they are counted and hashed as stored, and unpacked if they are gzip.
//! The first bytes say whether a file is gzip; its name is not used.

use std::cell::Cell;
use std::io::{self, Cursor, Read};
use std::rc::Rc;

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
    /// The number of bytes so far; an `UnpackedSource` compares it with its own.
    bytes: Rc<Cell<u64>>,
}

impl<'s> HashingReader<'s> {
    pub(super) fn new(source: &'s mut dyn Read) -> Self {
        Self { source, hasher: Sha256::new(), bytes: Rc::default() }
    }

    /// Reads the rest, and returns the digest and the number of all stored bytes. Errors:
    /// `UnfitFile`.
    pub(super) fn finish(mut self) -> Result<(Digest, u64), UnfitFile> {
        io::copy(&mut self, &mut io::sink()).map_err(|error| unreadable(&error))?;
        Ok((Digest::from_bytes(self.hasher.finalize().into()), self.bytes.get()))
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
        self.bytes.set(self.bytes.get() + u64::try_from(count).unwrap_or(u64::MAX));
        Ok(count)
    }
}

/// Up to this size a file may be packed as tightly as gzip can.
const UNPACKED_FREE_BYTES: u64 = 16 << 20;
/// Records are packed 10 to 40 times smaller than they are. gzip can pack zeros 1000 times smaller.
const PACKED_RATIO_MAX: u64 = 200;

/// The bytes of a file after unpacking.
pub(super) struct UnpackedSource<'s> {
    bytes: Box<dyn Read + 's>,
    is_packed: bool,
    /// The number of bytes read so far, and of those that were unpacked for them.
    read: u64,
    stored: Rc<Cell<u64>>,
}

impl<'s> UnpackedSource<'s> {
    /// Reads the first bytes to see whether the file is gzip. Errors: `UnfitFile`.
    pub(super) fn open(stored: &'s mut HashingReader<'_>) -> Result<Self, UnfitFile> {
        let mut head = Vec::with_capacity(GZIP.len());
        let first = u64::try_from(GZIP.len()).unwrap_or(0);
        stored.take(first).read_to_end(&mut head).map_err(|error| unreadable(&error))?;
        let (is_packed, counted) = (head == GZIP, Rc::clone(&stored.bytes));
        let whole = Cursor::new(head).chain(stored);
        let bytes: Box<dyn Read + 's> =
            if is_packed { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) };
        Ok(Self { bytes, is_packed, read: 0, stored: counted })
    }

    /// Reads into a buffer and returns the number of bytes, 0 at the end. Errors: `UnfitFile`, also
    /// for a small file that unpacks without end.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, UnfitFile> {
        loop {
            match self.bytes.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broken(&error)),
                Ok(count) => {
                    self.read += u64::try_from(count).unwrap_or(u64::MAX);
                    return self.check_size().map(|()| count);
                }
            }
        }
    }

    fn check_size(&self) -> Result<(), UnfitFile> {
        let most = self.stored.get().saturating_mul(PACKED_RATIO_MAX).max(UNPACKED_FREE_BYTES);
        if !self.is_packed || self.read <= most {
            return Ok(());
        }
        Err(UnfitFile::whole(format!(
            "the gzip data unpacks to over {PACKED_RATIO_MAX} times its size, as no records do: \
             ask the partner whether the file is theirs; if it is, unpack it and compare with that"
        )))
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
