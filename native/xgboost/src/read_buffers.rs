//! Read buffers that are used again. A training writes and drops the same amount of log in every round; buffers that go
//! back to the system each time would cost a page fault for every 4 KiB that a worker says.

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;

/// Room of a buffer. The pieces of a log are parts of it, so it is free again when all of them are.
pub(crate) const READ_BUFFER_BYTES: usize = 256 << 10;

/// Idle buffers, the latest used on top.
#[derive(Debug)]
pub(crate) struct ReadBuffers {
    idle: Mutex<Vec<BytesMut>>,
    most: usize,
}

impl ReadBuffers {
    /// Keeps at most so many bytes of idle buffers.
    pub(crate) fn new(most_bytes: u64) -> Self {
        ReadBuffers { idle: Mutex::default(), most: (most_bytes / READ_BUFFER_BYTES as u64) as usize }
    }

    /// An empty buffer with room for [`READ_BUFFER_BYTES`].
    pub(crate) fn take(&self) -> BytesMut {
        self.idle.lock().pop().unwrap_or_else(|| BytesMut::with_capacity(READ_BUFFER_BYTES))
    }

    /// Takes back the buffers that these pieces, in the order in which they were read, are parts of; those of which
    /// another holder has a part still are left to it.
    pub(crate) fn give_back(&self, pieces: impl Iterator<Item = Bytes>) {
        let mut idle = self.idle.lock();
        let mut first: Option<Bytes> = None;
        let mut end = std::ptr::null();
        for piece in pieces {
            if first.is_some() && piece.as_ptr() == end {
                end = piece.as_ptr_range().end;
                continue;
            }
            end = piece.as_ptr_range().end;
            if let Some(before) = first.replace(piece) {
                self.keep(&mut idle, before);
            }
        }
        if let Some(last) = first {
            self.keep(&mut idle, last);
        }
    }

    fn keep(&self, idle: &mut Vec<BytesMut>, first: Bytes) {
        if idle.len() >= self.most {
            return;
        }
        if let Ok(mut whole) = first.try_into_mut() {
            whole.clear();
            if whole.capacity() >= READ_BUFFER_BYTES {
                idle.push(whole);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(chunk: &mut BytesMut, lengths: &[usize]) -> Vec<Bytes> {
        let cut = |length: &usize| {
            chunk.extend_from_slice(&vec![1; *length]);
            chunk.split().freeze()
        };
        lengths.iter().map(cut).collect()
    }

    #[test]
    fn a_buffer_comes_back_when_all_its_pieces_do() {
        let read_buffers = ReadBuffers::new(1 << 20);
        let mut chunk = read_buffers.take();
        let place = chunk.as_ptr();
        let all = pieces(&mut chunk, &[8, 100_000, 8]);
        drop(chunk);
        read_buffers.give_back(all.into_iter());
        let again = read_buffers.take();
        assert_eq!((again.as_ptr(), again.len()), (place, 0));
        assert!(again.capacity() >= READ_BUFFER_BYTES);
        assert_ne!(read_buffers.take().as_ptr(), place);
    }

    #[test]
    fn a_buffer_that_somebody_else_uses_is_left_to_him() {
        let read_buffers = ReadBuffers::new(1 << 20);
        let mut chunk = read_buffers.take();
        let place = chunk.as_ptr();
        let all = pieces(&mut chunk, &[8, 8]);
        drop(chunk);
        let other = all[1].clone();
        read_buffers.give_back(all.into_iter());
        assert_ne!(read_buffers.take().as_ptr(), place);
        assert_eq!(other[..], [1; 8]);
    }

    #[test]
    fn no_more_is_kept_than_was_said() {
        let read_buffers = ReadBuffers::new(2 * READ_BUFFER_BYTES as u64);
        let mut taken: Vec<BytesMut> = (0..4).map(|_| read_buffers.take()).collect();
        let all: Vec<Bytes> = taken.iter_mut().flat_map(|chunk| pieces(chunk, &[10])).collect();
        drop(taken);
        read_buffers.give_back(all.into_iter());
        assert_eq!(read_buffers.idle.lock().len(), 2);
    }
}
