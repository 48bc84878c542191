//! Where a job's tracker listens.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::str::FromStr;

/// Where it listens.
#[derive(Clone, Copy, Debug)]
pub struct Listen {
    /// The address, which other hosts reach it at.
    pub address: IpAddr,
    /// The port; any if it isn't given.
    pub port: Option<u16>,
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Listen, String> {
        let whole = text.parse::<std::net::SocketAddr>().ok().map(|at| (at.ip(), Some(at.port())));
        let given = whole.or_else(|| text.parse::<IpAddr>().ok().map(|address| (address, None)));
        let (address, port) = given.ok_or("expected an address, or one with a port, as 10.0.0.7 or 10.0.0.7:4711")?;
        if address.is_unspecified() {
            return Err("expected the address that other hosts reach, since the join file names it".into());
        }
        Ok(Listen { address, port: port.filter(|port| *port != 0) })
    }
}

/// The address of this host on the way to others; no packet is sent for it. Of a host without one the loopback's.
pub fn own_address() -> IpAddr {
    // Reserved for documentation (RFC 5737): it is on no way but the usual one.
    const ELSEWHERE: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);
    let found = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
        socket.connect(ELSEWHERE)?;
        socket.local_addr()
    });
    found.map_or(Ipv4Addr::LOCALHOST.into(), |address| address.ip())
}
