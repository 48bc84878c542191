//! Bytes that begin where numbers may.

use rejoin_protocol::error::{Code, Error};
use std::io::{self, Read};
use std::ops::Deref;

/// Bytes whose first one lies at a multiple of 8, so that the numbers of a page in them are read
/// where they are.
#[derive(Debug)]
pub struct Buffer {
    words: Vec<u64>,
    length: usize,
}

impl Buffer {
    /// A copy of these bytes.
    ///
    /// # Errors
    /// `OUT_OF_SPACE` when there is no memory for it.
    pub fn copy_of(bytes: &[u8]) -> Result<Buffer, Error> {
        let mut buffer = Buffer::zeroed(bytes.len())?;
        buffer.bytes_mut().copy_from_slice(bytes);
        Ok(buffer)
    }

    /// The next bytes of a reader, so many as asked for.
    pub(crate) fn read(from: &mut impl Read, length: usize) -> Result<io::Result<Buffer>, Error> {
        let mut buffer = Buffer::zeroed(length)?;
        Ok(from.read_exact(buffer.bytes_mut()).map(|()| buffer))
    }

    fn zeroed(length: usize) -> Result<Buffer, Error> {
        let count = length.div_ceil(size_of::<u64>());
        let mut words: Vec<u64> = Vec::new();
        words.try_reserve_exact(count).map_err(|_| {
            let text =
                format!("a page has {length} bytes, and there is no memory for them; free some, and read it again");
            Error::new(Code::OutOfSpace, text)
        })?;
        words.resize(count, 0);
        Ok(Buffer { words, length })
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.length]
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.length]
    }
}
