use socket2::SockRef;
use std::os::fd::AsFd;
use std::time::Duration;

/// Ends a connection at once, with a reset (RFC 9293, 3.10.5): what the kernel still holds is dropped, and calls on the
/// other end fail. A listener ends with all connections that wait at it. The socket is of no more use; its owner drops
/// it.
///
/// A process that was forked off this one (Python's `multiprocessing`) holds the connection too, so that closing the
/// socket here would not end it: the connection itself is dissolved first.
pub fn reset(socket: impl AsFd) {
    // If either fails the connection is gone already, or the system can't dissolve it; then closing it has to do.
    let _ = SockRef::from(&socket).set_linger(Some(Duration::ZERO));
    let _ = rustix::net::connect_unspec(socket);
}
