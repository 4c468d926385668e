//! Owns the bytes of a file as they are stored: counted, hashed, unpacked where they are gzip. What gzip is, is told by
//! its first bytes and never by a name.

use std::io::{self, Cursor, Read};

use flate2::read::MultiGzDecoder;
use payfold_schemas::digest::Digest;
use sha2::{Digest as _, Sha256};

use super::Unfit;

const GZIP: [u8; 2] = [0x1f, 0x8b];

/// What is read of a file, counted and hashed as it goes by.
pub(super) struct Counted<'s> {
    source: &'s mut dyn Read,
    hasher: Sha256,
    bytes: u64,
}

impl<'s> Counted<'s> {
    pub(super) fn new(source: &'s mut dyn Read) -> Self {
        Self { source, hasher: Sha256::new(), bytes: 0 }
    }

    /// The digest and the number of all bytes; what nobody has read is read now. Errors: `Unfit`.
    pub(super) fn finish(mut self) -> Result<(Digest, u64), Unfit> {
        io::copy(&mut self, &mut io::sink()).map_err(|error| unreadable(&error))?;
        Ok((Digest::from_bytes(self.hasher.finalize().into()), self.bytes))
    }
}

impl Read for Counted<'_> {
    /// Fills the buffer unless the source ends. In which pieces bytes arrive must not decide what is said of a file, and
    /// what a decoder makes out before it meets damage goes by the pieces it is given.
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

/// A file's text as bytes, unpacked.
pub(super) struct Source<'s> {
    bytes: Box<dyn Read + 's>,
    is_packed: bool,
}

impl<'s> Source<'s> {
    /// Looks at the first bytes. Errors: `Unfit`.
    pub(super) fn open(stored: &'s mut Counted<'_>) -> Result<Self, Unfit> {
        let mut head = Vec::with_capacity(GZIP.len());
        let first = u64::try_from(GZIP.len()).unwrap_or(0);
        stored.take(first).read_to_end(&mut head).map_err(|error| unreadable(&error))?;
        let is_packed = head == GZIP;
        let whole = Cursor::new(head).chain(stored);
        let bytes: Box<dyn Read + 's> =
            if is_packed { Box::new(MultiGzDecoder::new(whole)) } else { Box::new(whole) };
        Ok(Self { bytes, is_packed })
    }

    /// Reads into a buffer; 0 at the end. Errors: `Unfit`.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Unfit> {
        loop {
            match self.bytes.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.broken(&error)),
                Ok(count) => return Ok(count),
            }
        }
    }

    fn broken(&self, error: &io::Error) -> Unfit {
        use io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
        match error.kind() {
            UnexpectedEof if self.is_packed => {
                Unfit::whole("the gzip data is cut off; fetch the file again")
            }
            InvalidData | InvalidInput if self.is_packed => {
                Unfit::whole(format!("the gzip data is damaged ({error}); fetch the file again"))
            }
            _ => unreadable(error),
        }
    }
}

fn unreadable(error: &io::Error) -> Unfit {
    Unfit::whole(format!("the file can't be read: {error}"))
}
