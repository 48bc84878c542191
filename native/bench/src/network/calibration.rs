//! How the network really is: small messages to and fro, and one long stream.

use super::namespaces::enter;
use super::Host;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Instant;

const ROUND_TRIPS: usize = 50;
const STREAM_BYTES: usize = 32 << 20;

/// What was seen.
pub struct Seen {
    /// Median.
    pub round_trip_micros: f64,
    /// Of one stream, from its first to its last byte.
    pub megabits: f64,
}

/// Measures between two hosts.
///
/// # Errors
/// When they can't reach each other.
pub fn measure(one: &Host, other: &Host) -> Result<Seen, String> {
    let (address, host) = (one.address, one.clone());
    let (sender, port) = std::sync::mpsc::channel();
    let server = thread::spawn(move || {
        enter(&host)?;
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, 0)).map_err(text)?;
        let _ = sender.send(listener.local_addr().map_err(text)?.port());
        let (mut link, _) = listener.accept().map_err(text)?;
        link.set_nodelay(true).map_err(text)?;
        for _ in 0..ROUND_TRIPS {
            link.read_exact(&mut [0]).and_then(|()| link.write_all(&[0])).map_err(text)?;
        }
        let mut buffer = vec![0; 1 << 16];
        let mut left = STREAM_BYTES;
        while left > 0 {
            left -= link.read(&mut buffer).map_err(text)?.clamp(1, left);
        }
        link.write_all(&[0]).map_err(text)
    });
    let host = other.clone();
    let client = thread::spawn(move || {
        enter(&host)?;
        let port = port.recv().map_err(text)?;
        let mut link = TcpStream::connect((address, port)).map_err(text)?;
        link.set_nodelay(true).map_err(text)?;
        let mut times = Vec::new();
        for _ in 0..ROUND_TRIPS {
            let start = Instant::now();
            link.write_all(&[0]).and_then(|()| link.read_exact(&mut [0])).map_err(text)?;
            times.push(start.elapsed().as_secs_f64() * 1e6);
        }
        times.sort_by(f64::total_cmp);
        let start = Instant::now();
        link.write_all(&vec![0; STREAM_BYTES]).and_then(|()| link.read_exact(&mut [0])).map_err(text)?;
        let megabits = STREAM_BYTES as f64 * 8.0 / start.elapsed().as_secs_f64() / 1e6;
        Ok(Seen { round_trip_micros: times[times.len() / 2], megabits })
    });
    let panicked = |_| "a thread of the calibration panicked".to_string();
    let seen = client.join().map_err(panicked)?;
    seen.and_then(|seen| server.join().map_err(panicked)?.map(|()| seen))
}

fn text(error: impl std::fmt::Display) -> String {
    format!("calibration: {error}")
}
