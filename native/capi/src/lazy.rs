//! Checkpoints whose bytes are made when a rank needs them.

use crate::arguments::{bytes, site_of};
use crate::handle::{with, Rank, RejoinCommunicator};
use crate::numbers::bad;
use parking_lot::Mutex;
use rejoin_agent::protocol::error::{Code, Error};
use std::ffi::{c_char, c_void};

/// `rejoin_bytes`: what a supplier hands over.
pub struct RejoinBytes(Option<Vec<u8>>);

/// `rejoin_supplier`: makes the model's bytes from a snapshot.
pub type RejoinSupplier = unsafe extern "C" fn(user: *mut c_void, into: *mut RejoinBytes) -> i32;

/// `rejoin_release`: frees the snapshot.
pub type RejoinRelease = unsafe extern "C" fn(user: *mut c_void);

/// The caller's snapshot, which is released when no rank can ask for it any more.
struct Snapshot {
    supplier: RejoinSupplier,
    release: Option<RejoinRelease>,
    user: *mut c_void,
    /// Asked by one at a time.
    asked: Mutex<()>,
}

// SAFETY: the header says that supplier and release are called by a thread of the library, and one at a time.
unsafe impl Send for Snapshot {}
// SAFETY: as above.
unsafe impl Sync for Snapshot {}

impl Snapshot {
    fn supply(&self) -> Result<Vec<u8>, Error> {
        let _one_at_a_time = self.asked.lock();
        let mut into = RejoinBytes(None);
        // SAFETY: the header asks for a function that takes these, and neither unwinds nor jumps.
        let number = unsafe { (self.supplier)(self.user, &mut into) };
        match into.0 {
            Some(bytes) if number == 0 => Ok(bytes),
            made => {
                let what = if made.is_some() { "bytes" } else { "no bytes" };
                let text =
                    format!("the supplier of a checkpoint gave {what} and returned {number}; expected bytes and 0");
                Err(Error::new(Code::Io, text))
            }
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if let Some(release) = self.release {
            // SAFETY: as the supplier; this is the last call.
            unsafe { release(self.user) };
        }
    }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_supply(into: *mut RejoinBytes, data: *const c_void, length: usize) {
    // SAFETY: the header asks for what the supplier was given, and for so many bytes.
    unsafe {
        if let (Some(into), Ok(data)) = (into.as_mut(), bytes("data", data, length)) {
            into.0 = Some(data.to_vec());
        }
    }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_checkpoint_lazy(
    communicator: *mut RejoinCommunicator,
    supplier: Option<RejoinSupplier>,
    release: Option<RejoinRelease>,
    user: *mut c_void,
    site: *const c_char,
) -> i32 {
    // SAFETY: the header asks for pointers to what it says.
    let call = |rank: &mut Rank| unsafe {
        let supplier = supplier.ok_or_else(|| bad("supplier is NULL".into()))?;
        let snapshot = Snapshot { supplier, release, user, asked: Mutex::new(()) };
        rank.live()?.checkpoint_lazy_at(move || snapshot.supply(), site_of(site)?).map(drop)
    };
    // SAFETY: as above.
    unsafe { with(communicator, call) }
}
