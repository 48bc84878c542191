//! The collectives.

use crate::arguments::{bytes, bytes_mut, options, overlap, size, Chosen, RejoinOptions};
use crate::handle::{with, RejoinCommunicator};
use crate::numbers;
use crate::numbers::bad;
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::ids::Rank;
use rejoin_communicator::{Folding, Input, Prepare};
use std::ffi::{c_char, c_void};

impl Chosen {
    /// The prepare function as Rust's. Its user pointer is only handed on, in the caller's own thread.
    pub(crate) fn prepare(&self) -> Option<impl FnMut(&mut [u8]) -> Result<(), Error>> {
        let (function, user) = self.prepare?;
        Some(move |buffer: &mut [u8]| {
            // SAFETY: the header asks for a function that takes these, and neither unwinds nor jumps.
            match unsafe { function(user, buffer.as_mut_ptr().cast(), buffer.len()) } {
                0 => Ok(()),
                other => Err(Error::new(
                    Code::TrainingFailed,
                    format!("the prepare function of a buffer of {} bytes returned {other}; expected 0", buffer.len()),
                )),
            }
        })
    }

    pub(crate) fn refuses_prepare(&self, operation: &str) -> Result<(), Error> {
        match self.prepare {
            Some(_) => Err(bad(format!("{operation} takes no prepare function"))),
            None => Ok(()),
        }
    }
}

/// The caller's input, there or prepared, beside an output of its own. The input is copied where
/// the output is written over it: one that is prepared must not be.
///
/// # Safety
/// As `bytes` and `bytes_mut`.
pub(crate) unsafe fn beside<'a>(
    operation: &str,
    (data, length): (*const c_void, usize),
    (output, output_length): (*mut c_void, usize),
    prepare: Option<&'a mut Prepare<'a>>,
    copy: &'a mut Vec<u8>,
) -> Result<(Input<'a>, &'a mut [u8]), Error> {
    let overlaps = overlap(data, length, output, output_length);
    if overlaps && prepare.is_some() {
        return Err(bad(format!("input and output of {operation} with a prepare function must not overlap")));
    }
    // SAFETY: as this function's, here and below.
    let there = || unsafe { bytes("input", data, length) };
    let input = match prepare {
        // SAFETY: see above.
        Some(_) => Input::of(unsafe { bytes_mut("input", data.cast_mut(), length) }?, prepare),
        None if !overlaps => Input::Ready(there()?),
        None => {
            copy.try_reserve_exact(length).map_err(|_| {
                bad(format!(
                    "input and output overlap, and there is no memory for a copy of the input's {length} \
                             bytes; keep them apart"
                ))
            })?;
            copy.extend_from_slice(there()?);
            Input::Ready(copy)
        }
    };
    // SAFETY: see above.
    Ok((input, unsafe { bytes_mut("output", output, output_length) }?))
}

/// An allreduce in place.
///
/// # Safety
/// As `options` and `bytes_mut`.
pub(crate) unsafe fn allreduce(
    rank: &mut crate::handle::Rank,
    (buffer, count): (*mut c_void, usize),
    element_bytes: usize,
    folding: &Folding<'_>,
    chosen: &Chosen,
) -> Result<(), Error> {
    // SAFETY: as this function's.
    let buffer = unsafe { bytes_mut("buffer", buffer, size("buffer", count, element_bytes)?) }?;
    let mut prepare = chosen.prepare();
    let input = Input::of(buffer, prepare.as_mut().map(|prepare| prepare as _));
    let result = rank.live()?.allreduce_bytes(input, folding, &chosen.options)?;
    buffer.copy_from_slice(&result);
    Ok(())
}

/// A reduce-scatter of so many elements.
///
/// # Safety
/// As `options` and [`beside`].
pub(crate) unsafe fn reduce_scatter(
    rank: &mut crate::handle::Rank,
    (data, count): (*const c_void, usize),
    (output, output_count): (*mut c_void, usize),
    element_bytes: usize,
    folding: &Folding<'_>,
    chosen: &Chosen,
) -> Result<(), Error> {
    let input = (data, size("input", count, element_bytes)?);
    let output = (output, size("output", output_count, element_bytes)?);
    let (live, mut prepare, mut copy) = (rank.live()?, chosen.prepare(), Vec::new());
    let prepare = prepare.as_mut().map(|prepare| prepare as _);
    // SAFETY: as this function's.
    let (input, output) = unsafe { beside("reduce_scatter", input, output, prepare, &mut copy) }?;
    live.reduce_scatter_bytes(input, output, folding, &chosen.options)
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_allreduce(
    communicator: *mut RejoinCommunicator,
    buffer: *mut c_void,
    count: usize,
    element: i32,
    reduction: i32,
    site: *const c_char,
    given: *const RejoinOptions,
) -> i32 {
    // SAFETY: the header asks for pointers to what it says.
    let call = |rank: &mut crate::handle::Rank| unsafe {
        let (element, reduction) = (numbers::element(element)?, numbers::reduction(reduction)?);
        let chosen = options(site, given)?;
        allreduce(rank, (buffer, count), element.size(), &Folding::known(element, reduction)?, &chosen)
    };
    // SAFETY: as above.
    unsafe { with(communicator, call) }
}

/// See the header.
#[no_mangle]
#[allow(clippy::too_many_arguments)] // they are C's
pub unsafe extern "C" fn rejoin_reduce_scatter(
    communicator: *mut RejoinCommunicator,
    data: *const c_void,
    count: usize,
    output: *mut c_void,
    output_count: usize,
    element: i32,
    reduction: i32,
    site: *const c_char,
    given: *const RejoinOptions,
) -> i32 {
    // SAFETY: the header asks for pointers to what it says.
    let call = |rank: &mut crate::handle::Rank| unsafe {
        let (element, reduction) = (numbers::element(element)?, numbers::reduction(reduction)?);
        let chosen = options(site, given)?;
        let (input, output, folding) = ((data, count), (output, output_count), Folding::known(element, reduction)?);
        reduce_scatter(rank, input, output, element.size(), &folding, &chosen)
    };
    // SAFETY: as above.
    unsafe { with(communicator, call) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_part(
    rank: u32,
    world: u32,
    count: usize,
    order: i32,
    first: *mut usize,
    length: *mut usize,
) -> i32 {
    let Ok(order) = numbers::order(order) else { return numbers::status(Code::BadArgument) };
    if rank >= world || first.is_null() || length.is_null() {
        return numbers::status(Code::BadArgument);
    }
    let part = order.chunk(rank as usize, count, world as usize);
    // SAFETY: they point to room for a number each.
    unsafe {
        first.write(part.start);
        length.write(part.len());
    }
    numbers::OK
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_broadcast(
    communicator: *mut RejoinCommunicator,
    buffer: *mut c_void,
    count: usize,
    element: i32,
    root: u32,
    site: *const c_char,
    given: *const RejoinOptions,
) -> i32 {
    // SAFETY: the header asks for pointers to what it says.
    let call = |rank: &mut crate::handle::Rank| unsafe {
        let element = numbers::element(element)?;
        let chosen = options(site, given)?;
        let buffer = bytes_mut("buffer", buffer, size("buffer", count, element.size())?)?;
        let mut prepare = chosen.prepare();
        let input = Input::of(buffer, prepare.as_mut().map(|prepare| prepare as _));
        if let Some(result) = rank.live()?.broadcast_bytes(input, element, Rank(root), &chosen.options)? {
            buffer.copy_from_slice(&result);
        }
        Ok(())
    };
    // SAFETY: as above.
    unsafe { with(communicator, call) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_allgather(
    communicator: *mut RejoinCommunicator,
    data: *const c_void,
    count: usize,
    output: *mut c_void,
    element: i32,
    site: *const c_char,
    given: *const RejoinOptions,
) -> i32 {
    // SAFETY: the header asks for pointers to what it says.
    let call = |rank: &mut crate::handle::Rank| unsafe {
        let element = numbers::element(element)?;
        let chosen = options(site, given)?;
        let live = rank.live()?;
        let length = size("input", count, element.size())?;
        let output_length = size("output", length, live.world() as usize)?;
        let (mut prepare, mut copy) = (chosen.prepare(), Vec::new());
        let prepare = prepare.as_mut().map(|prepare| prepare as _);
        let (input, output) = beside("allgather", (data, length), (output, output_length), prepare, &mut copy)?;
        live.allgather_bytes(input, output, element, &chosen.options)
    };
    // SAFETY: as above.
    unsafe { with(communicator, call) }
}

/// See the header.
#[no_mangle]
#[allow(clippy::too_many_arguments)] // they are C's
pub unsafe extern "C" fn rejoin_allgather_v(
    communicator: *mut RejoinCommunicator,
    data: *const c_void,
    count: usize,
    element: i32,
    output: *mut *const c_void,
    counts: *mut *const usize,
    site: *const c_char,
    given: *const RejoinOptions,
) -> i32 {
    // SAFETY: the header asks for pointers to what it says.
    let call = |rank: &mut crate::handle::Rank| unsafe {
        let element = numbers::element(element)?;
        let chosen = options(site, given)?;
        chosen.refuses_prepare("allgather_v")?;
        if output.is_null() || counts.is_null() {
            return Err(bad("output or counts is NULL; pointers are written there".into()));
        }
        let input = bytes("input", data, size("input", count, element.size())?)?;
        let (all, mut lengths) = rank.live()?.allgather_v_bytes(input, element, &chosen.options)?;
        lengths.iter_mut().for_each(|length| *length /= element.size());
        let (all, lengths) = rank.gathered.insert((all, lengths));
        output.write(all.as_ptr().cast());
        counts.write(lengths.as_ptr());
        Ok(())
    };
    // SAFETY: as above.
    unsafe { with(communicator, call) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_barrier(
    communicator: *mut RejoinCommunicator,
    site: *const c_char,
    given: *const RejoinOptions,
) -> i32 {
    // SAFETY: the header asks for pointers to what it says.
    let call = |rank: &mut crate::handle::Rank| unsafe {
        let chosen = options(site, given)?;
        chosen.refuses_prepare("barrier")?;
        rank.live()?.barrier_with(&chosen.options)
    };
    // SAFETY: as above.
    unsafe { with(communicator, call) }
}
