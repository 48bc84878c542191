//! A small library that makes socket calls as XGBoost's does, so that they can be served in place.

use libloading::os::unix::{Library, RTLD_NOW};
use std::io;
use std::net::TcpStream;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::sync::OnceLock;

type SendAll = unsafe extern "C" fn(i32, *const u8, usize) -> i32;
type ReceiveAll = unsafe extern "C" fn(i32, *mut u8, usize) -> i32;
type ReceiveOnce = unsafe extern "C" fn(i32, *mut u8, usize) -> i64;
type SendOnce = unsafe extern "C" fn(i32, *const u8, usize) -> i64;
type CallsOfOthers = unsafe extern "C" fn() -> i64;
type Close = unsafe extern "C" fn(i32) -> i32;

struct Probe {
    send_all: SendAll,
    receive_all: ReceiveAll,
    receive_once: ReceiveOnce,
    send_once: SendOnce,
    close: Close,
    calls_of_others: CallsOfOthers,
    _library: Library,
}

fn probe() -> &'static Probe {
    static PROBE: OnceLock<Probe> = OnceLock::new();
    PROBE.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let source = folder.path().join("probe.c");
        std::fs::write(&source, include_str!("probe.c")).expect("the folder can be written");
        let library = folder.path().join("libxgboost_probe.so");
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let mut compile = std::process::Command::new(compiler);
        compile.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source);
        let flags = match super::program() {
            name if name.starts_with("missing_slot") => {
                compile.arg("-DCLOSES_BY_ITSELF");
                RTLD_NOW
            }
            name if name.starts_with("foreign_slot") => {
                compile.arg("-DSENDS_THROUGH_OTHERS");
                let others = folder.path().join("libothers.so");
                let mut first = std::process::Command::new(compile.get_program());
                first.args(["-shared", "-fPIC", "-O1", "-DIS_OTHERS", "-o"]).arg(&others).arg(&source);
                assert!(first.status().expect("a C compiler").success(), "the other library doesn't compile");
                compile.arg(&others);
                RTLD_NOW | libc::RTLD_DEEPBIND
            }
            _ => RTLD_NOW,
        };
        assert!(compile.status().expect("a C compiler").success(), "the probe doesn't compile");
        // SAFETY: the library has no initialisers, and the functions have these signatures.
        unsafe {
            let library = Library::open(Some(&library), flags).expect("the probe loads");
            let send_all = *library.get::<SendAll>(b"probe_send_all").expect("it is there");
            let receive_all = *library.get::<ReceiveAll>(b"probe_receive_all").expect("it is there");
            let receive_once = *library.get::<ReceiveOnce>(b"probe_receive_once").expect("it is there");
            let send_once = *library.get::<SendOnce>(b"probe_send_once").expect("it is there");
            let close = *library.get::<Close>(b"probe_close").expect("it is there");
            let calls_of_others = *library.get::<CallsOfOthers>(b"probe_calls_of_others").expect("it is there");
            Probe { send_all, receive_all, receive_once, send_once, close, calls_of_others, _library: library }
        }
    })
}

fn result(code: i32) -> io::Result<()> {
    match code {
        0 => Ok(()),
        -1 => Err(io::ErrorKind::UnexpectedEof.into()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

pub fn send_all(stream: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: pointer and length are a slice's.
    result(unsafe { (probe().send_all)(stream.as_raw_fd(), bytes.as_ptr(), bytes.len()) })
}

pub fn receive_all(stream: &TcpStream, room: &mut [u8]) -> io::Result<()> {
    // SAFETY: pointer and length are a slice's.
    result(unsafe { (probe().receive_all)(stream.as_raw_fd(), room.as_mut_ptr(), room.len()) })
}

/// One call on a socket that doesn't block.
pub fn receive_once(stream: &TcpStream, room: &mut [u8]) -> io::Result<usize> {
    // SAFETY: pointer and length are a slice's.
    let count = unsafe { (probe().receive_once)(stream.as_raw_fd(), room.as_mut_ptr(), room.len()) };
    usize::try_from(count).map_err(|_| io::Error::from_raw_os_error(-count as i32))
}

/// One call on a socket that doesn't block.
pub fn send_once(stream: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: pointer and length are a slice's.
    let count = unsafe { (probe().send_once)(stream.as_raw_fd(), bytes.as_ptr(), bytes.len()) };
    usize::try_from(count).map_err(|_| io::Error::from_raw_os_error(-count as i32))
}

/// How often the other library's `send` was called, in a program whose name begins with `foreign_slot`.
pub fn calls_of_others() -> u64 {
    // SAFETY: it only reads a number.
    unsafe { (probe().calls_of_others)() }.unsigned_abs()
}

pub fn close(stream: TcpStream) {
    // SAFETY: nobody has the descriptor any more.
    unsafe { (probe().close)(stream.into_raw_fd()) };
}
