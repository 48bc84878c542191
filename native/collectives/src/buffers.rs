//! The three buffers of a collective at one rank.

/// One of the three buffers of a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Buffer {
    /// What the caller gave. It is read, never written.
    Input,
    /// Where the result comes into being.
    Result,
    /// Room for what others sent and what is needed only meanwhile. Its contents don't matter before or after.
    Scratch,
}

/// A run of bytes in one of the buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Extent {
    /// The buffer that the bytes are in.
    pub buffer: Buffer,
    /// The first byte.
    pub start: usize,
    /// How many bytes.
    pub length: usize,
}

impl Extent {
    /// This run.
    pub const fn new(buffer: Buffer, start: usize, length: usize) -> Self {
        Extent { buffer, start, length }
    }

    /// The byte after the last one.
    pub const fn end(self) -> usize {
        self.start + self.length
    }

    /// `length` bytes of it from `offset` on.
    pub(crate) const fn part(self, offset: usize, length: usize) -> Self {
        debug_assert!(offset + length <= self.length);
        Extent { buffer: self.buffer, start: self.start + offset, length }
    }
}

/// The buffers themselves, borrowed from their owner, each exactly as long as the schedule says.
#[derive(Debug)]
pub struct Buffers<'b> {
    /// See [`Buffer::Input`].
    pub input: &'b [u8],
    /// See [`Buffer::Result`].
    pub result: &'b mut [u8],
    /// See [`Buffer::Scratch`].
    pub scratch: &'b mut [u8],
}

impl Buffers<'_> {
    /// The bytes of a run, to be sent.
    ///
    /// # Panics
    /// When the run isn't within its buffer.
    pub fn bytes(&self, extent: Extent) -> &[u8] {
        let buffer = match extent.buffer {
            Buffer::Input => self.input,
            Buffer::Result => &*self.result,
            Buffer::Scratch => &*self.scratch,
        };
        &buffer[extent.start..extent.end()]
    }

    /// The bytes of a run, to be received into.
    ///
    /// # Panics
    /// When the run isn't within its buffer, or is in the input, which is never written.
    pub fn bytes_mut(&mut self, extent: Extent) -> &mut [u8] {
        let buffer = match extent.buffer {
            Buffer::Input => panic!("the caller's input is never written"),
            Buffer::Result => &mut *self.result,
            Buffer::Scratch => &mut *self.scratch,
        };
        &mut buffer[extent.start..extent.end()]
    }
}
