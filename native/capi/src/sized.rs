//! Structs of C's that begin with their size, of this header or of another one.

use crate::numbers::bad;
use rejoin_agent::protocol::error::Error;
use std::mem::MaybeUninit;

/// A struct whose first field is its size, so that later headers may add to its end.
///
/// # Safety
/// It is `repr(C)`, any of its fields may be all zeros, which is its default, and `FIELDS` are all
/// of them in their order.
pub(crate) unsafe trait Sized_: Copy {
    const NAME: &'static str;
    /// Where each begins, and its bytes.
    const FIELDS: &'static [(usize, usize)];
}

/// Says of a struct what its name and its fields are.
macro_rules! fields {
    ($type:ty, $name:literal: $($field:ident),* $(,)?) => {
        // SAFETY: the fields are numbers and pointers, and NULL and 0 are the defaults in the header.
        unsafe impl crate::sized::Sized_ for $type {
            const NAME: &'static str = $name;
            const FIELDS: &'static [(usize, usize)] =
                &[$((std::mem::offset_of!($type, $field), crate::sized::bytes_of(|it: &$type| it.$field))),*];
        }
    };
}

pub(crate) use fields;

/// Of a field by its getter.
pub(crate) const fn bytes_of<T, F: Copy>(_: fn(&T) -> F) -> usize {
    size_of::<F>()
}

/// Whatever says that it is so much longer than today's is no struct of a later header.
const MOST_SURPLUS: usize = 4096;

/// A struct by pointer, of this header or of another one. What a shorter one lacks is the default;
/// what a longer one has besides has to be all zeros, as this library knows nothing of it.
///
/// # Safety
/// It is NULL, or points to as many bytes as it says.
pub(crate) unsafe fn sized<T: Sized_>(pointer: *const T) -> Result<Option<T>, Error> {
    if pointer.is_null() {
        return Ok(None);
    }
    let (what, known) = (T::NAME, size_of::<T>());
    // SAFETY: the size comes first in each of these structs.
    let seen = unsafe { pointer.cast::<usize>().read() };
    let is_cut = T::FIELDS.iter().any(|(begins, bytes)| *begins < seen && seen < begins + bytes);
    if seen < size_of::<usize>() || is_cut || seen > known + MOST_SURPLUS {
        return Err(bad(format!(
            "{what} says that its size is {seen}; this library's is {known}, and no other one's is {seen}. Begin with \
             {}_INIT",
            what.to_uppercase()
        )));
    }
    let mut whole = MaybeUninit::<T>::zeroed();
    // SAFETY: so many bytes are there by its own word, and all zeros are a T.
    let (whole, surplus) = unsafe {
        std::ptr::copy_nonoverlapping(pointer.cast::<u8>(), whole.as_mut_ptr().cast(), seen.min(known));
        let surplus = pointer.cast::<u8>().add(seen.min(known));
        (whole.assume_init(), std::slice::from_raw_parts(surplus, seen.saturating_sub(known)))
    };
    match surplus.iter().position(|byte| *byte != 0) {
        None => Ok(Some(whole)),
        Some(at) => Err(bad(format!(
            "{what} has {seen} bytes, of which this library knows the first {known}, and byte {} is set: the program \
             asks for something that this library ({}) hasn't. Leave that field at its default, or use the library \
             that came with the program's rejoin.h",
            known + at,
            env!("CARGO_PKG_VERSION"),
        ))),
    }
}
