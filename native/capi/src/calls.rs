//! The collectives.

use crate::arguments::{bad, bytes, bytes_mut, options, overlap, size, Chosen, RejoinOptions};
use crate::handle::{with, RejoinCommunicator};
use crate::numbers;
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::ids::Rank;
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

/// The input, or a copy where the output is written over it.
///
/// # Safety
/// As `bytes`.
pub(crate) unsafe fn input(
    data: *const c_void,
    length: usize,
    output: *const c_void,
    output_length: usize,
    copy: &mut Vec<u8>,
) -> Result<&[u8], Error> {
    // SAFETY: as this function's.
    let data_bytes = unsafe { bytes("input", data, length) }?;
    if !overlap(data, length, output, output_length) {
        return Ok(data_bytes);
    }
    copy.try_reserve_exact(length).map_err(|_| {
        bad(format!("input and output overlap, and there is no memory for a copy of the input's {length} bytes; keep them apart"))
    })?;
    copy.extend_from_slice(data_bytes);
    Ok(copy)
}

pub(crate) fn apart(
    operation: &str,
    one: *const c_void,
    length: usize,
    other: *const c_void,
    other_length: usize,
) -> Result<(), Error> {
    if overlap(one, length, other, other_length) {
        return Err(bad(format!("input and output of {operation} with a prepare function must not overlap")));
    }
    Ok(())
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
        let buffer = bytes_mut("buffer", buffer, size("buffer", count, element.size())?)?;
        match chosen.prepare() {
            None => rank.live()?.allreduce_bytes(buffer, element, reduction, &chosen.options),
            Some(mut prepare) => {
                rank.live()?.allreduce_bytes_prepared(buffer, element, reduction, &chosen.options, &mut prepare)
            }
        }
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
        let length = size("input", count, element.size())?;
        let output_length = size("output", output_count, element.size())?;
        let live = rank.live()?;
        match chosen.prepare() {
            None => {
                let mut copy = Vec::new();
                let input = input(data, length, output, output_length, &mut copy)?;
                let output = bytes_mut("output", output, output_length)?;
                live.reduce_scatter_bytes(input, output, element, reduction, &chosen.options)
            }
            Some(mut prepare) => {
                apart("reduce_scatter", data, length, output, output_length)?;
                let input = bytes_mut("input", data.cast_mut(), length)?;
                let output = bytes_mut("output", output, output_length)?;
                live.reduce_scatter_bytes_prepared(input, output, element, reduction, &chosen.options, &mut prepare)
            }
        }
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
    let part = order.segment(rank as usize, count, world as usize);
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
        match chosen.prepare() {
            None => rank.live()?.broadcast_bytes(buffer, element, Rank(root), &chosen.options),
            Some(mut prepare) => {
                rank.live()?.broadcast_bytes_prepared(buffer, element, Rank(root), &chosen.options, &mut prepare)
            }
        }
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
        match chosen.prepare() {
            None => {
                let mut copy = Vec::new();
                let input = input(data, length, output, output_length, &mut copy)?;
                live.allgather_bytes(input, bytes_mut("output", output, output_length)?, element, &chosen.options)
            }
            Some(mut prepare) => {
                apart("allgather", data, length, output, output_length)?;
                let input = bytes_mut("input", data.cast_mut(), length)?;
                let output = bytes_mut("output", output, output_length)?;
                live.allgather_bytes_prepared(input, output, element, &chosen.options, &mut prepare)
            }
        }
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
