//! The switch: packets wait until a line of this bandwidth would have let them through, and until they have travelled.

use super::namespaces::enter;
use super::Host;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// Large frames: the switch costs time per packet, which the ranks have to share the cores with.
const MTU: u16 = 9000;

/// Bytes that wait at most at a host's end of a line, in either direction; more are dropped.
const BUFFER_BYTES: u64 = 2 << 20;

/// What a host's line is like.
#[derive(Clone, Copy)]
pub struct LinkShape {
    /// In each direction.
    pub megabits: u64,
    /// From host to host.
    pub delay: Duration,
}

impl LinkShape {
    fn takes(&self, bytes: usize) -> Duration {
        Duration::from_nanos(bytes as u64 * 8 * 1000 / self.megabits.max(1))
    }

    /// How long a full buffer takes.
    fn most_waiting(&self) -> Duration {
        self.takes(BUFFER_BYTES as usize)
    }
}

/// Runs until the process ends.
pub struct Switch {
    dropped: Arc<AtomicU64>,
}

struct Packet {
    due: Instant,
    bytes: Vec<u8>,
}

/// What is on the way to a host.
struct Port {
    address: Ipv4Addr,
    /// Until when its line is in use, and where packets go.
    incoming: Mutex<(Instant, Sender<Packet>)>,
}

impl Switch {
    /// Gives each host a device with its address, and begins to pass packets on.
    ///
    /// # Errors
    /// When a device can't be made.
    pub fn start(hosts: &[Host], line: LinkShape) -> Result<Switch, String> {
        let switch = Switch { dropped: Arc::default() };
        let now = Instant::now();
        let (mut ports, mut ends) = (Vec::new(), Vec::new());
        for host in hosts {
            let (sender, receiver) = channel();
            ports.push(Port { address: host.address, incoming: Mutex::new((now, sender)) });
            ends.push((Arc::new(device(host)?), receiver));
        }
        let ports = Arc::new(ports);
        for (device, receiver) in ends {
            let (ports, dropped) = (ports.clone(), switch.dropped.clone());
            let reads = device.clone();
            thread::spawn(move || take_in(&reads, &ports, line, &dropped));
            thread::spawn(move || give_out(&device, &receiver));
        }
        Ok(switch)
    }

    /// Packets for which no buffer had room.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// A device in the host's namespace.
fn device(host: &Host) -> Result<tun::Device, String> {
    let host = host.clone();
    let made = thread::spawn(move || {
        enter(&host)?;
        let mut configuration = tun::Configuration::default();
        configuration.tun_name("rejoin0").address(host.address).netmask(Ipv4Addr::new(255, 255, 255, 0)).mtu(MTU).up();
        tun::create(&configuration).map_err(|error| format!("a TUN device in {}: {error}", host.name))
    });
    made.join().map_err(|_| "the thread that makes a device panicked".to_string())?
}

fn take_in(device: &tun::Device, ports: &[Port], line: LinkShape, dropped: &AtomicU64) {
    let mut buffer = vec![0; usize::from(MTU) + 64];
    let mut busy = Instant::now();
    while let Ok(length) = device.recv(&mut buffer) {
        let bytes = &buffer[..length];
        let Some(port) = destination(bytes).and_then(|to| ports.iter().find(|port| port.address == to)) else {
            continue;
        };
        let now = Instant::now();
        // The sender's own line ...
        if busy.saturating_duration_since(now) > line.most_waiting() {
            dropped.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        busy = busy.max(now) + line.takes(length);
        let there = busy + line.delay;
        // ... and the receiver's, which others use too.
        let Ok(mut incoming) = port.incoming.lock() else { return };
        if incoming.0.saturating_duration_since(there) > line.most_waiting() {
            dropped.fetch_add(1, Ordering::Relaxed);
            continue;
        }
        // What comes alone has filled the line while it came.
        let due = there.max(incoming.0 + line.takes(length));
        incoming.0 = due;
        if incoming.1.send(Packet { due, bytes: bytes.to_vec() }).is_err() {
            return;
        }
    }
}

fn give_out(device: &tun::Device, packets: &Receiver<Packet>) {
    for packet in packets {
        let left = packet.due.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            thread::sleep(left);
        }
        if device.send(&packet.bytes).is_err() {
            return;
        }
    }
}

/// Where an IPv4 packet is to go.
fn destination(packet: &[u8]) -> Option<Ipv4Addr> {
    let address: [u8; 4] = packet.get(16..20)?.try_into().ok()?;
    (packet[0] >> 4 == 4).then(|| Ipv4Addr::from(address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_goes_where_its_header_says() {
        let mut packet = [0; 24];
        packet[0] = 0x45;
        packet[16..20].copy_from_slice(&[10, 77, 0, 3]);
        assert_eq!(destination(&packet), Some(Ipv4Addr::new(10, 77, 0, 3)));
        packet[0] = 0x60;
        assert_eq!(destination(&packet), None, "IPv6 has no place here");
        assert_eq!(destination(&packet[..19]), None);
    }

    #[test]
    fn a_gigabit_line_takes_twelve_microseconds_for_1500_bytes() {
        let line = LinkShape { megabits: 1000, delay: Duration::ZERO };
        assert_eq!(line.takes(1500), Duration::from_micros(12));
    }
}
