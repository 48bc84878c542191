//! Ports for daemons that a test starts.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// So many ports that nobody listens at, below those that kernels give to connections, and others at each call.
pub fn free_ports(count: usize) -> Vec<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let of_process = (std::process::id() % 800) as u16 * 10;
    let all = std::iter::repeat_with(|| 20_000 + (of_process + NEXT.fetch_add(1, Ordering::Relaxed)) % 10_000);
    all.take(10_000).filter(|port| TcpListener::bind(("0.0.0.0", *port)).is_ok()).take(count).collect()
}
