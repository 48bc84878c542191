//! From one version to the next.

use crate::arguments::{bytes, site_of, text};
use crate::handle::{with, RejoinCommunicator};
use crate::numbers::{self, bad};
use crate::quiet::catch;
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::ids::Rank;
use std::ffi::{c_char, c_void};

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_load(
    communicator: *mut RejoinCommunicator,
    version: *mut u32,
    model: *mut *const c_void,
    length: *mut usize,
) -> i32 {
    // SAFETY: the header asks for pointers to what it says.
    let call = |rank: &mut crate::handle::Rank| unsafe {
        if version.is_null() || model.is_null() || length.is_null() {
            return Err(bad("version, model or bytes is NULL; results are written there".into()));
        }
        let (loaded, bytes) = rank.live()?.load()?;
        rank.model = bytes;
        version.write(loaded.0);
        model.write(rank.model.as_ref().map_or(std::ptr::null(), |bytes| bytes.as_ptr().cast()));
        length.write(rank.model.as_ref().map_or(0, |bytes| bytes.len()));
        Ok(())
    };
    // SAFETY: as above.
    unsafe { with(communicator, call) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_checkpoint(
    communicator: *mut RejoinCommunicator,
    model: *const c_void,
    length: usize,
    site: *const c_char,
) -> i32 {
    // SAFETY: the header asks for pointers to what it says.
    let call = |rank: &mut crate::handle::Rank| unsafe {
        let site = site_of(site)?;
        let model = bytes("model", model, length)?;
        rank.live()?.checkpoint_at(model, site).map(drop)
    };
    // SAFETY: as above.
    unsafe { with(communicator, call) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_load_own(
    communicator: *mut RejoinCommunicator,
    own: *mut *const c_void,
    length: *mut usize,
) -> i32 {
    // SAFETY: the header asks for pointers to what it says.
    let call = |rank: &mut crate::handle::Rank| unsafe {
        if own.is_null() || length.is_null() {
            return Err(bad("own or bytes is NULL; results are written there".into()));
        }
        rank.own = rank.live()?.load_own()?;
        own.write(rank.own.as_ref().map_or(std::ptr::null(), |bytes| bytes.as_ptr().cast()));
        length.write(rank.own.as_ref().map_or(0, |bytes| bytes.len()));
        Ok(())
    };
    // SAFETY: as above.
    unsafe { with(communicator, call) }
}

/// What `rejoin_former` is in the header.
#[repr(C)]
pub struct RejoinFormer {
    /// The number of ranks; 0: there was no other world.
    pub world: u32,
    /// Which rank it was, or -1.
    pub rank: i64,
    /// Whose own models it is given.
    pub given: *const u32,
    /// How many.
    pub given_count: usize,
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_former_world(communicator: *mut RejoinCommunicator, former: *mut RejoinFormer) -> i32 {
    // SAFETY: the header asks for pointers to what it says.
    let call = |rank: &mut crate::handle::Rank| unsafe {
        let into = former.as_mut().ok_or_else(|| bad("former is NULL; what is known is written there".into()))?;
        let known = rank.live()?.former();
        rank.given = known.iter().flat_map(|former| &former.given).map(|rank| rank.0).collect();
        *into = RejoinFormer {
            world: known.as_ref().map_or(0, |former| former.world),
            rank: known.and_then(|former| former.rank).map_or(-1, |rank| rank.0.into()),
            given: rank.given.as_ptr(),
            given_count: rank.given.len(),
        };
        Ok(())
    };
    // SAFETY: as above.
    unsafe { with(communicator, call) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_load_own_of(
    communicator: *mut RejoinCommunicator,
    of: u32,
    own: *mut *const c_void,
    length: *mut usize,
) -> i32 {
    // SAFETY: the header asks for pointers to what it says.
    let call = |rank: &mut crate::handle::Rank| unsafe {
        if own.is_null() || length.is_null() {
            return Err(bad("own or bytes is NULL; results are written there".into()));
        }
        let bytes = rank.live()?.load_own_of(Rank(of))?;
        own.write(bytes.as_ref().map_or(std::ptr::null(), |bytes| bytes.as_ptr().cast()));
        length.write(bytes.as_ref().map_or(0, |bytes| bytes.len()));
        // The same bytes as before, if it was asked for before.
        rank.own_of.extend(bytes.map(|bytes| (of, bytes)));
        Ok(())
    };
    // SAFETY: as above.
    unsafe { with(communicator, call) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_checkpoint_with_own(
    communicator: *mut RejoinCommunicator,
    model: *const c_void,
    length: usize,
    own: *const c_void,
    own_length: usize,
    site: *const c_char,
) -> i32 {
    // SAFETY: the header asks for pointers to what it says.
    let call = |rank: &mut crate::handle::Rank| unsafe {
        let site = site_of(site)?;
        let (model, own) = (bytes("model", model, length)?, bytes("own", own, own_length)?);
        rank.live()?.checkpoint_with_own_at(model, own, site).map(drop)
    };
    // SAFETY: as above.
    unsafe { with(communicator, call) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_finish(
    communicator: *mut RejoinCommunicator,
    model: *const c_void,
    length: usize,
) -> i32 {
    // SAFETY: the header asks for pointers to what it says.
    let call = |rank: &mut crate::handle::Rank| unsafe {
        let model = bytes("model", model, length)?;
        let ended = rank.live()?.end(model);
        if !matches!(&ended, Err(error) if error.code.goes_back()) {
            drop(rank.take("this communicator has reported its end")?);
        }
        ended
    };
    // SAFETY: as above.
    unsafe { with(communicator, call) }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_print(communicator: *const RejoinCommunicator, said: *const c_char) -> i32 {
    // SAFETY: the header asks for a handle and a text that are right, or NULL.
    let print = || unsafe {
        match (communicator.as_ref(), text("text", said)) {
            (Some(handle), Ok(said)) => handle.print(&said.unwrap_or_default()),
            _ => numbers::status(Code::BadArgument),
        }
    };
    catch(print).unwrap_or_else(|_| numbers::status(Code::Internal))
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_abandon(
    communicator: *mut RejoinCommunicator,
    status: i32,
    reason: *const c_char,
) -> i32 {
    // SAFETY: the header asks for pointers to what it says.
    let call = |rank: &mut crate::handle::Rank| unsafe {
        let expected = "the number of a failure, as REJOIN_TRAINING_FAILED or REJOIN_IO";
        let code = numbers::code(status).ok_or_else(|| numbers::unknown("status", status.into(), expected))?;
        let reason = text("reason", reason)?.unwrap_or_else(|| "the program gave no reason".into());
        rank.take("this communicator was abandoned")?.abandon(Error::new(code, reason));
        Ok(())
    };
    // SAFETY: as above.
    unsafe { with(communicator, call) }
}
