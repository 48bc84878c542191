//! Where links of other processes arrive.

use mio::net::{TcpListener, TcpStream};
use rejoin_protocol::error::{Code, Error};
use socket2::{Domain, Protocol, Socket, Type};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

/// Connections that the kernel holds until they are accepted; it may be set to hold fewer. An end that
/// comes when there is no room comes again a second later.
const BACKLOG: i32 = 4096;

/// The ports that may be listened on, both ends included; 0 to 0 lets the operating system choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// Whichever port the operating system gives.
    pub const EPHEMERAL: PortRange = PortRange { first: 0, last: 0 };

    /// The ports from `first` to `last`.
    ///
    /// # Errors
    /// `BAD_ARGUMENT` when there is none, or when only one end is 0.
    pub fn new(first: u16, last: u16) -> Result<Self, Error> {
        if first > last || (first == 0 && last != 0) {
            return Err(not_a_range(&format!("{first}-{last}")));
        }
        Ok(PortRange { first, last })
    }
}

/// `0`, one port, or `first-last`.
impl FromStr for PortRange {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.trim().parse(), last.trim().parse()) {
            (Ok(first), Ok(last)) => PortRange::new(first, last),
            _ => Err(not_a_range(text)),
        }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            write!(f, "{}", self.first)
        } else {
            write!(f, "{}-{}", self.first, self.last)
        }
    }
}

/// A listening socket. Nonblocking; register [`Listener::socket`] for readability.
#[derive(Debug)]
pub struct Listener {
    socket: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Listens on the first free port of the range, on one of this machine's addresses. `setting` is what the user has
    /// to change if there is none, by its name without a prefix.
    ///
    /// # Errors
    /// `IO`: all ports are taken, or the address isn't this machine's.
    pub fn bind(host: IpAddr, ports: PortRange, setting: &str) -> Result<Listener, Error> {
        for port in ports.first..=ports.last {
            match listen(SocketAddr::new(host, port)) {
                Ok((socket, address)) => return Ok(Listener { socket, address }),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse && ports != PortRange::EPHEMERAL => {}
                Err(error) => {
                    return Err(Error::new(
                        Code::Io,
                        format!(
                        "can't listen on {host}, port {port}: {error}; expected one of this machine's addresses and \
                             a port that this user may listen on ({setting})"
                    ),
                    ))
                }
            }
        }
        let count = u32::from(ports.last) - u32::from(ports.first) + 1;
        Err(Error::new(
            Code::Io,
            format!(
                "can't listen on {host}: all {count} ports of {ports} are taken; give {setting} a wider range (each \
                 executor on a host needs a port of its own, and the driver one), or 0 to let the system choose"
            ),
        ))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The socket, to register it.
    pub fn socket(&mut self) -> &mut TcpListener {
        &mut self.socket
    }

    /// The next connection, for [`crate::Link::accept`]; `None` when there is none now.
    ///
    /// # Errors
    /// When the process has no more file descriptors, for instance. The connection stays and no new event comes for
    /// it: try again a little later, not at once.
    pub fn accept(&self) -> io::Result<Option<(TcpStream, SocketAddr)>> {
        loop {
            match self.socket.accept() {
                Ok(connection) => return Ok(Some(connection)),
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(None),
                    // It was there and is gone.
                    io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted => {}
                    _ => return Err(error),
                },
            }
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Ports of connections that ended a moment ago may be taken again; one that is listened on may not.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    let socket = TcpListener::from_std(socket.into());
    let address = socket.local_addr()?;
    Ok((socket, address))
}

fn not_a_range(seen: &str) -> Error {
    Error::new(
        Code::BadArgument,
        format!("expected ports as 0, port or first-last (1 to 65535, first not above last), saw {seen:?}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn a_range_is_read_as_it_is_written() -> Result<(), Error> {
        assert_eq!("0".parse::<PortRange>()?, PortRange::EPHEMERAL);
        assert_eq!("40000".parse::<PortRange>()?, PortRange::new(40000, 40000)?);
        assert_eq!(" 40000 - 40010 ".parse::<PortRange>()?, PortRange::new(40000, 40010)?);
        assert_eq!(PortRange::new(40000, 40010)?.to_string(), "40000-40010");
        assert_eq!(PortRange::EPHEMERAL.to_string(), "0");
        Ok(())
    }

    #[test]
    fn what_is_not_a_range_is_refused_with_what_was_seen() {
        for text in ["", "-", "5-4", "0-7", "70000", "1-2-3", "http"] {
            let error = text.parse::<PortRange>().expect_err(text);
            assert_eq!(error.code, Code::BadArgument);
            assert!(error.message.contains(&format!("{text:?}")) || text.contains('-'), "{error}");
        }
    }

    #[test]
    fn a_range_without_a_free_port_is_named_with_the_setting() -> Result<(), Error> {
        let taken = Listener::bind(HOST, PortRange::EPHEMERAL, "agent.ports")?;
        let port = taken.address().port();
        let error = Listener::bind(HOST, PortRange::new(port, port)?, "agent.ports").expect_err("it is taken");
        assert_eq!(error.code, Code::Io);
        assert!(error.message.contains(&format!("all 1 ports of {port} are taken")), "{error}");
        assert!(error.message.contains("127.0.0.1") && error.message.contains("agent.ports"), "{error}");
        Ok(())
    }

    #[test]
    fn a_taken_port_is_passed_over() -> Result<(), Error> {
        // Another process may take the next port at any time, so several first ports are tried.
        for _ in 0..20 {
            let taken = Listener::bind(HOST, PortRange::EPHEMERAL, "ports")?;
            let port = taken.address().port();
            if port > 65000 {
                continue;
            }
            let next = Listener::bind(HOST, PortRange::new(port, port + 50)?, "ports")?;
            assert!(next.address().port() > port);
            return Ok(());
        }
        Err(Error::new(Code::Internal, "the system gave only ports above 65000"))
    }

    #[test]
    fn an_address_of_another_machine_is_named() {
        let host = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));
        let error = Listener::bind(host, PortRange::EPHEMERAL, "agent.ports").expect_err("not ours");
        assert!(error.message.contains("192.0.2.1"), "{error}");
    }
}
