//! Whether the other end of a connection is within reach, where something is on its way there.
//!
//! Linux sends no keepalive while anything is unacknowledged or unsent (`tcp_keepalive_timer`), and then gives a
//! connection up after a quarter of an hour only (RFC 1122, 4.2.3.5: R2). `TCP_USER_TIMEOUT` is no way out: it ends a
//! connection, too, whose other end answers each probe and has no room, because its rank computes.
//!
//! So what is asked is what the kernel has heard (`TCP_INFO`): it has sent something again, or asked for room, and not
//! one segment has come since. A kernel answers for a process that is frozen or computes, and by keepalives of its own
//! where it has nothing to send.

use crate::WaitLimit;
use mio::net::TcpStream;
use std::time::{Duration, Instant};

/// As long as an idle link's keepalive takes.
const LIMIT: Duration = Duration::from_secs(30);

/// How long a look is good for.
const BETWEEN_LOOKS: Duration = Duration::from_millis(500);

/// What the kernel says of a connection.
#[derive(Clone, Copy, Debug)]
struct Heard {
    /// Segments that have come, empty ones too. Wraps around.
    segments: u32,
    /// Bytes were sent again, or it was asked for room or a sign of life, and no answer is here yet.
    unanswered: bool,
}

/// What is known of one connection.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    segments: u32,
    /// Since something was not answered, and nothing came.
    unanswered: Option<WaitLimit>,
    looked: Option<Instant>,
}

impl Silence {
    /// Whether the other end has been out of reach for so long that the connection is of no more use.
    pub(crate) fn look(&mut self, socket: &TcpStream, now: Instant) -> bool {
        if self.looked.is_some_and(|looked| now < looked + BETWEEN_LOOKS) {
            return false;
        }
        self.looked = Some(now);
        heard(socket).is_some_and(|heard| self.hear(heard, now))
    }

    fn hear(&mut self, heard: Heard, now: Instant) -> bool {
        if !heard.unanswered || heard.segments != self.segments {
            (self.segments, self.unanswered) = (heard.segments, None);
        }
        if heard.unanswered && self.unanswered.is_none() {
            self.unanswered = Some(WaitLimit::new(LIMIT, now));
        }
        self.unanswered.as_mut().is_some_and(|limit| limit.left(now).is_none())
    }
}

/// `None` where the kernel doesn't say: before Linux 4.2, and elsewhere.
#[cfg(all(target_os = "linux", any(target_env = "gnu", target_env = "musl")))]
fn heard(socket: &TcpStream) -> Option<Heard> {
    use std::mem::{offset_of, size_of, MaybeUninit};
    use std::os::fd::AsRawFd;
    let mut info = MaybeUninit::<libc::tcp_info>::zeroed();
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: the kernel writes at most `length` bytes, which are there, and says how many it wrote.
    #[allow(unsafe_code)]
    let result = unsafe {
        let into = info.as_mut_ptr().cast();
        libc::getsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, libc::TCP_INFO, into, &mut length)
    };
    let needed = offset_of!(libc::tcp_info, tcpi_segs_in) + size_of::<u32>();
    if result != 0 || (length as usize) < needed {
        return None;
    }
    // SAFETY: numbers only; what the kernel has not written is zero.
    #[allow(unsafe_code)]
    let info = unsafe { info.assume_init() };
    Some(Heard { segments: info.tcpi_segs_in, unanswered: info.tcpi_retransmits > 0 || info.tcpi_probes > 0 })
}

#[cfg(not(all(target_os = "linux", any(target_env = "gnu", target_env = "musl"))))]
fn heard(_socket: &TcpStream) -> Option<Heard> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use socket2::{SockFilter, SockRef};
    use std::io::{Read, Write};

    /// At which look of one a second it is given up.
    fn given_up(kernel: impl Fn(u32) -> (u32, bool)) -> Option<u32> {
        let (mut silence, began) = (Silence::default(), Instant::now());
        (0..2000).find(|second| {
            let (segments, unanswered) = kernel(*second);
            silence.hear(Heard { segments, unanswered }, began + Duration::from_secs(1) * *second)
        })
    }

    #[test]
    fn a_connection_is_given_up_when_nothing_at_all_has_come_since_a_try_was_not_answered() {
        assert_eq!(given_up(|_| (7, true)), Some(30));
        assert_eq!(given_up(|second| (second.min(100), second >= 100)), Some(130), "cut in the middle");
        assert_eq!(given_up(|_| (7, false)), None, "idle");
        assert_eq!(given_up(|second| (second, true)), None, "frozen, but its kernel answers each probe");
        assert_eq!(given_up(|second| (second / 15, true)), None, "a probe was lost, and its keepalive comes");
    }

    #[test]
    fn time_in_which_nobody_looked_is_no_silence() {
        let (mut silence, began) = (Silence::default(), Instant::now());
        let nothing = Heard { segments: 7, unanswered: true };
        assert!(!silence.hear(nothing, began));
        assert!(!silence.hear(nothing, began + Duration::from_secs(7200)));
    }

    /// Two ends of a connection.
    fn ends() -> (TcpStream, TcpStream) {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let one = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let other = listener.accept().unwrap().0;
        let streams = [one, other].map(|stream| {
            stream.set_nonblocking(true).unwrap();
            TcpStream::from_std(stream)
        });
        streams.into()
    }

    fn until(what: &str, mut holds: impl FnMut() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !holds() {
            assert!(Instant::now() < deadline, "{what}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_kernel_tells_a_path_that_drops_everything_from_an_end_that_reads_nothing() {
        let (mut one, mut other) = ends();
        // A filter that takes no byte: what comes is dropped before it counts.
        let drops = [SockFilter::new(0x06, 0, 0, 0)];
        SockRef::from(&other).attach_filter(&drops).unwrap();
        let before = heard(&one).unwrap();
        one.write_all(b"nobody hears this").unwrap();
        until("it is sent again, and not answered", || heard(&one).unwrap().unanswered);
        assert_eq!(heard(&one).unwrap().segments, before.segments);
        SockRef::from(&other).detach_filter().unwrap();
        let mut heard_there = [0; 17];
        until("the path is mended", || other.read(&mut heard_there).is_ok());
        until("it is answered", || !heard(&one).unwrap().unanswered);
        // Now the other end has no room: it answers each time that it is asked for some.
        while one.write(&[7; 1 << 16]).is_ok() {}
        until("it is asked for room", || heard(&one).unwrap().unanswered || one.write(&[7; 1 << 16]).is_err());
        let asked = heard(&one).unwrap().segments;
        until("each probe is answered", || heard(&one).unwrap().segments > asked);
    }
}
