//! Reductions by the caller's own functions.

use crate::arguments::{bytes, bytes_mut, options, overlap, text, RejoinOptions};
use crate::calls::{allreduce, reduce_scatter};
use crate::handle::{with, Rank, RejoinCommunicator};
use crate::numbers::bad;
use rejoin_agent::protocol::error::Error;
use rejoin_communicator::collectives::FoldError;
use rejoin_communicator::Folding;
use std::ffi::{c_char, c_void};

/// `rejoin_fold`: folds `count` elements into the accumulator.
pub type RejoinFold =
    unsafe extern "C" fn(user: *mut c_void, accumulator: *mut c_void, other: *const c_void, count: usize) -> i32;

/// `rejoin_fold_object`: folds serialized objects.
pub type RejoinFoldObject = unsafe extern "C" fn(
    user: *mut c_void,
    accumulator: *mut c_void,
    length: *mut usize,
    limit: usize,
    other: *const c_void,
    other_length: usize,
) -> i32;

/// The caller's pointer, which is handed to the caller's function in the caller's own thread.
#[derive(Clone, Copy)]
struct User(*mut c_void);

// SAFETY: nothing here looks behind it, and no other thread folds: a communicator works in the thread that calls it.
unsafe impl Send for User {}
// SAFETY: as above.
unsafe impl Sync for User {}

impl User {
    fn pointer(self) -> *mut c_void {
        self.0
    }
}

/// # Safety
/// The name is a text or NULL.
unsafe fn own(
    name: *const c_char,
    element_bytes: usize,
    fold: Option<RejoinFold>,
    user: *mut c_void,
) -> Result<Folding<'static>, Error> {
    let fold = fold.ok_or_else(|| bad("fold is NULL".into()))?;
    // SAFETY: as this function's.
    let name =
        unsafe { text("name", name) }?.ok_or_else(|| bad("name is NULL; it says which function it is".into()))?;
    let user = User(user);
    let whole = name.clone();
    Folding::custom(&name, element_bytes, move |accumulator: &mut [u8], other: &[u8]| {
        let count = accumulator.len() / element_bytes;
        // SAFETY: the header asks for a function that takes these, and neither unwinds nor jumps.
        match unsafe { fold(user.pointer(), accumulator.as_mut_ptr().cast(), other.as_ptr().cast(), count) } {
            0 => Ok(()),
            number => Err(FoldError(format!("`{whole}` returned {number} for {count} elements; expected 0"))),
        }
    })
}

/// See the header.
#[no_mangle]
#[allow(clippy::too_many_arguments)] // they are C's
pub unsafe extern "C" fn rejoin_allreduce_custom(
    communicator: *mut RejoinCommunicator,
    buffer: *mut c_void,
    count: usize,
    element_bytes: usize,
    name: *const c_char,
    fold: Option<RejoinFold>,
    user: *mut c_void,
    site: *const c_char,
    given: *const RejoinOptions,
) -> i32 {
    // SAFETY: the header asks for pointers to what it says.
    let call = |rank: &mut Rank| unsafe {
        let folding = own(name, element_bytes, fold, user)?;
        let chosen = options(site, given)?;
        allreduce(rank, (buffer, count), element_bytes, &folding, &chosen)
    };
    // SAFETY: as above.
    unsafe { with(communicator, call) }
}

/// See the header.
#[no_mangle]
#[allow(clippy::too_many_arguments)] // they are C's
pub unsafe extern "C" fn rejoin_reduce_scatter_custom(
    communicator: *mut RejoinCommunicator,
    data: *const c_void,
    count: usize,
    output: *mut c_void,
    output_count: usize,
    element_bytes: usize,
    name: *const c_char,
    fold: Option<RejoinFold>,
    user: *mut c_void,
    site: *const c_char,
    given: *const RejoinOptions,
) -> i32 {
    // SAFETY: the header asks for pointers to what it says.
    let call = |rank: &mut Rank| unsafe {
        let folding = own(name, element_bytes, fold, user)?;
        let chosen = options(site, given)?;
        reduce_scatter(rank, (data, count), (output, output_count), element_bytes, &folding, &chosen)
    };
    // SAFETY: as above.
    unsafe { with(communicator, call) }
}

/// See the header.
#[no_mangle]
#[allow(clippy::too_many_arguments)] // they are C's
pub unsafe extern "C" fn rejoin_allreduce_object(
    communicator: *mut RejoinCommunicator,
    object: *mut c_void,
    length: *mut usize,
    limit: usize,
    name: *const c_char,
    fold: Option<RejoinFoldObject>,
    user: *mut c_void,
    site: *const c_char,
    given: *const RejoinOptions,
) -> i32 {
    // SAFETY: the header asks for pointers to what it says.
    let call = |rank: &mut Rank| unsafe {
        let fold = fold.ok_or_else(|| bad("fold is NULL".into()))?;
        let name = text("name", name)?.ok_or_else(|| bad("name is NULL; it says which function it is".into()))?;
        let chosen = options(site, given)?;
        chosen.refuses_prepare("allreduce_object")?;
        if length.is_null() {
            return Err(bad("bytes is NULL; the object's length stands there".into()));
        }
        if overlap(object, limit, length.cast(), size_of::<usize>()) {
            return Err(bad("the object's room and its length overlap".into()));
        }
        let size = length.read();
        if size > limit {
            return Err(bad(format!("the object has {size} bytes; at most {limit}, the limit, are expected")));
        }
        let (user, whole) = (User(user), name.clone());
        let fold = move |accumulator: &mut Vec<u8>, other: &[u8]| {
            let mut length = accumulator.len();
            accumulator.resize(limit, 0);
            let (data, theirs) = (accumulator.as_mut_ptr().cast(), other.as_ptr().cast());
            let number = fold(user.pointer(), data, &mut length, limit, theirs, other.len());
            if number != 0 || length > limit {
                let said = format!(
                    "`{whole}` returned {number} with an object of {length} bytes; expected 0, and at most {limit}"
                );
                return Err(FoldError(said));
            }
            accumulator.truncate(length);
            Ok(())
        };
        let given = bytes("object", object, size)?;
        let mut objects = [given.to_vec()];
        rank.live()?.allreduce_objects(&mut objects, limit, &name, fold, &chosen.options)?;
        let [result] = &objects;
        bytes_mut("object", object, limit)?[..result.len()].copy_from_slice(result);
        length.write(result.len());
        Ok(())
    };
    // SAFETY: as above.
    unsafe { with(communicator, call) }
}
