//! What only the kernel knows of a socket. All `unsafe` of this crate is here.

use bytes::{BufMut, BytesMut};
use mio::net::TcpStream;
use socket2::SockRef;
use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// The TCP connections that this process has, by (own address, other end's address).
///
/// Loopback is open to every user of the host, and XGBoost can't prove a secret. But both ends of a worker's
/// connections are in this process, so a connection whose other end is not among its open files is a stranger's.
///
/// Only Linux lists a process's open files. Elsewhere nothing is found, [`OwnConnections::known`] is false, and the
/// token in the task id is the only guard.
#[derive(Debug, Default)]
pub(crate) struct OwnConnections {
    by_ends: HashMap<(SocketAddr, SocketAddr), RawFd>,
}

impl OwnConnections {
    /// Looks at every open file of this process: two system calls per file, microseconds in total.
    #[cfg(target_os = "linux")]
    pub(crate) fn scan() -> io::Result<Self> {
        let mut by_ends = HashMap::new();
        for entry in std::fs::read_dir("/proc/self/fd")? {
            let Some(fd) = entry?.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok()) else { continue };
            if let Some(ends) = ends_of(fd) {
                by_ends.insert(ends, fd);
            }
        }
        Ok(OwnConnections { by_ends })
    }

    /// Nothing can be found on this platform.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn scan() -> io::Result<Self> {
        Ok(OwnConnections::default())
    }

    /// Whether this platform can say.
    pub(crate) fn known() -> bool {
        cfg!(target_os = "linux")
    }

    /// The file of the connection's end whose own address is `own`, if it is in this process.
    pub(crate) fn find(&self, own: SocketAddr, other: SocketAddr) -> Option<RawFd> {
        self.by_ends.get(&(own, other)).copied()
    }
}

/// Both addresses of a connected socket; `None` if the file is none, or is gone.
pub(crate) fn ends_of(fd: RawFd) -> Option<(SocketAddr, SocketAddr)> {
    if fd < 0 {
        return None;
    }
    // SAFETY: the descriptor is only asked for its addresses. If another thread closes or reuses it meanwhile, the
    // answer is about another file, or an error; nothing is changed either way, and callers compare the addresses.
    let file = unsafe { BorrowedFd::borrow_raw(fd) };
    let socket = SockRef::from(&file);
    let own = socket.local_addr().ok()?.as_socket()?;
    let other = socket.peer_addr().ok()?.as_socket()?;
    Some((own, other))
}

/// Bytes written into a socket that its other end has not acknowledged yet.
#[cfg(target_os = "linux")]
pub(crate) fn unacknowledged(fd: RawFd) -> io::Result<u64> {
    question(fd, libc::TIOCOUTQ)
}

/// Bytes that have arrived at a socket and were not read yet.
pub(crate) fn unread(fd: RawFd) -> io::Result<u64> {
    question(fd, libc::FIONREAD)
}

fn question(fd: RawFd, request: libc::Ioctl) -> io::Result<u64> {
    let mut answer: libc::c_int = 0;
    // SAFETY: both requests in this module write one int through the pointer, which is valid for the call.
    let result = unsafe { libc::ioctl(fd, request, &mut answer as *mut libc::c_int) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(answer.max(0) as u64)
}

/// Sends an acknowledgement that is being held back: the other end's count of unacknowledged bytes
/// becomes exact, and an end that waits for it (XGBoost's bootstrap sends small pieces without
/// TCP_NODELAY) goes on 40 ms earlier.
pub(crate) fn acknowledge(stream: &TcpStream) {
    // A failure means that the connection is gone, which the next read shows.
    #[cfg(target_os = "linux")]
    let _ = SockRef::from(stream).set_tcp_quickack(true);
    #[cfg(not(target_os = "linux"))]
    let _ = stream;
}

/// The same for a socket that is known by its number.
#[cfg(target_os = "linux")]
pub(crate) fn acknowledge_file(fd: RawFd) {
    if fd >= 0 {
        // SAFETY: as in `ends_of`. Should the number be another file's by now, a socket sends an acknowledgement early,
        // and any other file gives an error.
        let file = unsafe { BorrowedFd::borrow_raw(fd) };
        let _ = SockRef::from(&file).set_tcp_quickack(true);
    }
}

/// Reads at most `limit` bytes behind what `buffer` holds, without filling the space with zeros first. 0 is the end of
/// the stream.
pub(crate) fn read_into(stream: &TcpStream, buffer: &mut BytesMut, limit: usize) -> io::Result<usize> {
    let space: &mut [MaybeUninit<u8>] = buffer.spare_capacity_mut();
    let most = space.len().min(limit);
    let count = SockRef::from(stream).recv(&mut space[..most])?;
    // SAFETY: the kernel has filled the first `count` bytes of the spare capacity.
    unsafe { buffer.advance_mut(count) };
    Ok(count)
}

/// For system calls that the standard library doesn't have.
pub(crate) fn descriptor(stream: &TcpStream) -> RawFd {
    stream.as_raw_fd()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;

    fn pair() -> (std::net::TcpStream, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let a = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (b, _) = listener.accept().unwrap();
        (a, b)
    }

    #[test]
    fn an_own_connection_is_found_by_its_ends_and_a_closed_one_is_not() {
        let (a, b) = pair();
        let ends = (a.local_addr().unwrap(), a.peer_addr().unwrap());
        assert_eq!(OwnConnections::scan().unwrap().find(ends.0, ends.1), Some(a.as_raw_fd()));
        assert_eq!(ends_of(a.as_raw_fd()), Some(ends));
        drop((a, b));
        assert_eq!(OwnConnections::scan().unwrap().find(ends.0, ends.1), None);
    }

    #[test]
    fn counts_tell_what_is_on_its_way() {
        let (mut a, b) = pair();
        a.write_all(&[7; 1000]).unwrap();
        let mut b = TcpStream::from_std({
            b.set_nonblocking(true).unwrap();
            b
        });
        assert_eq!(unread(descriptor(&b)).unwrap(), 1000);
        let mut buffer = BytesMut::with_capacity(4096);
        assert_eq!(read_into(&b, &mut buffer, 600).unwrap(), 600);
        assert_eq!(unread(descriptor(&b)).unwrap(), 400);
        let mut rest = [0; 400];
        b.read_exact(&mut rest).unwrap();
        acknowledge(&b);
        assert_eq!(unacknowledged(a.as_raw_fd()).unwrap(), 0);
        assert_eq!(&buffer[..], &[7; 600]);
    }
}
