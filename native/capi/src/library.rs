//! What needs no handle.

use crate::arguments::{bytes, text};
use crate::numbers::{self, code, status, OK, OVER};
use crate::quiet::{catch, prepare};
use rejoin_agent::protocol::error::Code;
use std::ffi::{c_char, c_void, CStr, CString};
use std::sync::OnceLock;

const VERSION: &CStr = match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
    Ok(version) => version,
    Err(_) => c"unknown",
};

/// See the header.
#[no_mangle]
pub extern "C" fn rejoin_library_version() -> *const c_char {
    VERSION.as_ptr()
}

/// See the header.
#[no_mangle]
pub extern "C" fn rejoin_status_name(number: i32) -> *const c_char {
    static NAMES: OnceLock<Vec<CString>> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        let known = (1..OVER).map_while(code).map(|code| CString::new(code.name()).unwrap_or_default());
        known.collect()
    });
    match number {
        OK => c"OK".as_ptr(),
        OVER => c"OVER".as_ptr(),
        other => usize::try_from(other)
            .ok()
            .and_then(|other| names.get(other.checked_sub(1)?))
            .map_or(c"UNKNOWN".as_ptr(), |name| name.as_ptr()),
    }
}

/// See the header.
#[no_mangle]
pub extern "C" fn rejoin_status_will_repeat(number: i32) -> i32 {
    code(number).is_some_and(Code::will_repeat).into()
}

/// See the header.
#[no_mangle]
pub extern "C" fn rejoin_element_bytes(element: i32) -> usize {
    numbers::element(element).map_or(0, |element| element.size())
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_log_level(level: *const c_char) -> i32 {
    prepare();
    // SAFETY: the header asks for a text or NULL.
    let level = unsafe { text("level", level) };
    match catch(|| rejoin_agent::logging::level(&level?.unwrap_or_default())) {
        Ok(Ok(())) => OK,
        Ok(Err(error)) => status(error.code),
        Err(_) => status(Code::Internal),
    }
}

/// See the header.
#[no_mangle]
pub unsafe extern "C" fn rejoin_digest(data: *const c_void, length: usize, digest: *mut c_char) {
    // SAFETY: the header asks for so many bytes, and for room for 33.
    unsafe {
        let Ok(bytes) = bytes("data", data, length) else { return digest.write(0) };
        let text = format!("{:032x}", rejoin_agent::digest(bytes));
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), digest, text.len());
        digest.add(text.len()).write(0);
    }
}
