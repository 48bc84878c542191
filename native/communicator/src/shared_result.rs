//! A result that its caller reads in the log.

use super::options::Typed;
use bytes::Bytes;
use std::marker::PhantomData;
use std::ops::Deref;

/// A result of a collective in memory that the log of results has too. It is read as a slice.
#[derive(Clone)]
pub struct SharedResult<T> {
    /// Whole elements, the first of which is aligned.
    bytes: Bytes,
    element: PhantomData<T>,
}

impl<T: Typed> SharedResult<T> {
    /// These bytes are whole elements: the length of a result is that of its call.
    pub(super) fn new(bytes: Bytes) -> Self {
        let is_aligned = bytes.as_ptr().align_offset(align_of::<T>()) == 0;
        // What was fetched from another process may begin anywhere in what came from there.
        let bytes = if is_aligned { bytes } else { aligned::<T>(&bytes) };
        SharedResult { bytes, element: PhantomData }
    }
}

impl<T: Typed> Deref for SharedResult<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        bytemuck::cast_slice(&self.bytes)
    }
}

impl<T: Typed + std::fmt::Debug> std::fmt::Debug for SharedResult<T> {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.deref().fmt(to)
    }
}

/// The bytes of elements, in memory of their own.
struct Elements<T>(Vec<T>);

impl<T: Typed> AsRef<[u8]> for Elements<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

fn aligned<T: Typed>(bytes: &[u8]) -> Bytes {
    let elements = bytes.chunks_exact(size_of::<T>()).map(bytemuck::pod_read_unaligned);
    Bytes::from_owner(Elements::<T>(elements.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_read_wherever_their_bytes_begin() {
        let bytes = Bytes::from([&[0; 3][..], bytemuck::cast_slice(&[1.5f64, -2.0])].concat());
        for start in 0..3 {
            let moved = Bytes::from([&vec![0; start][..], &bytes[3..]].concat()).slice(start..);
            assert_eq!(&*SharedResult::<f64>::new(moved), &[1.5, -2.0]);
        }
        assert!(SharedResult::<f64>::new(Bytes::new()).is_empty());
    }
}
