//! Allreduce in a ring of blocking sockets, without frames, checks or recovery: a rank that waits sleeps in
//! its `recv`, as in the networks that trainers bring along. N-1 steps fold a slice each, N-1 steps
//! pass the folded slices on.

use crate::samples::Allreduce;
use rejoin_collectives::WorldRank;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::time::Duration;

/// So much is sent before as much is received: less than the sockets hold, or all would wait for room.
const PIECE_BYTES: usize = 32 << 10;

/// After so long without a byte a peer must have died.
const WAIT_LIMIT: Duration = Duration::from_secs(20);

/// One rank's end.
pub struct RingRanks {
    me: WorldRank,
    /// To the next rank, and from the one before.
    next: TcpStream,
    previous: TcpStream,
    came: Vec<u8>,
}

impl RingRanks {
    /// Connects to the next rank, and waits for the one before.
    pub fn connect(me: WorldRank, listener: &TcpListener, addresses: &[SocketAddr]) -> Result<Self, String> {
        let failed = |error: std::io::Error| error.to_string();
        let next = TcpStream::connect(addresses[(me.rank + 1) % me.world]).map_err(failed)?;
        let (previous, _) = listener.accept().map_err(failed)?;
        for link in [&next, &previous] {
            link.set_nodelay(true).map_err(failed)?;
            link.set_read_timeout(Some(WAIT_LIMIT)).map_err(failed)?;
            link.set_write_timeout(Some(WAIT_LIMIT)).map_err(failed)?;
        }
        Ok(RingRanks { me, next, previous, came: Vec::new() })
    }

    /// The elements of the slice that this rank sends in a step; in the same step it receives the one before.
    fn slice(&self, step: usize, count: usize) -> Range<usize> {
        let world = self.me.world;
        let number = (self.me.rank + 2 * world - step) % world;
        number * count / world..(number + 1) * count / world
    }

    /// Sends these bytes while as many as `room` has come into it.
    fn exchange(&mut self, bytes: &[u8], room: &mut [u8]) -> Result<(), String> {
        let (mut pieces, mut rooms) = (bytes.chunks(PIECE_BYTES), room.chunks_mut(PIECE_BYTES));
        loop {
            let (piece, room) = (pieces.next(), rooms.next());
            if piece.is_none() && room.is_none() {
                return Ok(());
            }
            self.next.write_all(piece.unwrap_or_default()).map_err(|error| error.to_string())?;
            self.previous.read_exact(room.unwrap_or_default()).map_err(|error| error.to_string())?;
        }
    }

    fn allreduce<T: bytemuck::Pod>(&mut self, values: &mut [T], fold: impl Fn(T, T) -> T) -> Result<(), String> {
        let (world, count) = (self.me.world, values.len());
        let mut came = std::mem::take(&mut self.came);
        for step in 0..2 * (world - 1) {
            let (sent, taken) = (self.slice(step, count), self.slice(step + 1, count));
            let sent: Vec<T> = values[sent].to_vec();
            came.resize(size_of_val(&values[taken.clone()]), 0);
            self.exchange(bytemuck::cast_slice(&sent), &mut came)?;
            for (value, came) in values[taken].iter_mut().zip(came.chunks_exact(size_of::<T>())) {
                let came = bytemuck::pod_read_unaligned(came);
                *value = if step < world - 1 { fold(*value, came) } else { came };
            }
        }
        self.came = came;
        Ok(())
    }
}

impl Allreduce for RingRanks {
    fn sum(&mut self, input: &[f32], output: &mut [f32]) -> Result<(), String> {
        output.copy_from_slice(input);
        self.allreduce(output, |left, right| left + right)
    }

    fn max(&mut self, values: &mut [f64]) -> Result<(), String> {
        self.allreduce(values, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rank_has_the_sum_of_few_elements_and_of_more_than_the_sockets_hold() {
        for (world, count) in [(2, 3), (3, 1), (3, 1 << 20)] {
            let listeners: Vec<_> = (0..world).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
            let addresses: Vec<_> = listeners.iter().map(|listener| listener.local_addr().unwrap()).collect();
            std::thread::scope(|scope| {
                for (rank, listener) in listeners.iter().enumerate() {
                    let addresses = &addresses;
                    scope.spawn(move || {
                        let mut ranks = RingRanks::connect(WorldRank::new(rank, world), listener, addresses).unwrap();
                        let input: Vec<f32> = (0..count).map(|place| (place % 7 + rank) as f32).collect();
                        let mut output = vec![0.0; count];
                        ranks.sum(&input, &mut output).unwrap();
                        let others = (world * (world - 1) / 2) as f32;
                        let wrong = (0..count).find(|&place| output[place] != (place % 7 * world) as f32 + others);
                        assert_eq!(wrong, None, "rank {rank} of {world}, {count} elements");
                    });
                }
            });
        }
    }
}
