//! Schedules over bare TCP sockets, without frames, checks or recovery: what the engine can be measured against, and
//! where algorithms are compared.

use crate::samples;
use rejoin_collectives::choice::Choice;
use rejoin_collectives::schedules::{self, Allreduce};
use rejoin_collectives::{Buffers, Element, LinkMachine, Order, Reducer, Reduction, Schedule, WorldRank};
use rustix::event::{poll, PollFd, PollFlags};
use std::io::{ErrorKind, IoSlice, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Most bytes of one call of the kernel.
const MOST_BYTES: usize = 512 << 10;

/// After so long without any progress a peer must have died.
const WAIT_LIMIT: Duration = Duration::from_secs(20);

/// One rank's end.
pub struct FloorRanks {
    me: WorldRank,
    /// By rank; none for the own one.
    links: Vec<Option<TcpStream>>,
    choice: &'static Choice,
    /// The host of each rank, as a number.
    hosts: Vec<usize>,
    /// None: the one that the table says.
    algorithm: Option<Allreduce>,
    kept: Option<(usize, usize, Option<Allreduce>, Schedule)>,
    scratch: Vec<u8>,
    log: [Vec<u8>; 2],
    calls: usize,
}

/// Looks at the sockets before the thread sleeps. Between two of them others may use the core: two ranks that talk to
/// each other are often put on one core, and to sleep and be woken takes many times as long.
const YIELDS: usize = 500;

impl FloorRanks {
    /// Connects to the ranks below, and waits for those above.
    pub fn connect(
        me: WorldRank,
        listener: &TcpListener,
        addresses: &[SocketAddr],
        choice: &'static Choice,
    ) -> Result<Self, String> {
        let failed = |error: std::io::Error| error.to_string();
        let mut links: Vec<Option<TcpStream>> = (0..me.world).map(|_| None).collect();
        for (peer, address) in addresses.iter().enumerate().take(me.rank) {
            let mut link = TcpStream::connect(address).map_err(failed)?;
            link.write_all(&(me.rank as u64).to_le_bytes()).map_err(failed)?;
            links[peer] = Some(link);
        }
        for _ in me.rank + 1..me.world {
            let (mut link, _) = listener.accept().map_err(failed)?;
            let mut peer = [0; 8];
            link.read_exact(&mut peer).map_err(failed)?;
            links[u64::from_le_bytes(peer) as usize] = Some(link);
        }
        for link in links.iter().flatten() {
            link.set_nodelay(true).map_err(failed)?;
            link.set_nonblocking(true).map_err(failed)?;
        }
        let host = |address: &SocketAddr| addresses.iter().position(|first| first.ip() == address.ip()).unwrap_or(0);
        Ok(FloorRanks {
            me,
            links,
            choice,
            hosts: addresses.iter().map(host).collect(),
            algorithm: None,
            kept: None,
            scratch: Vec::new(),
            log: Default::default(),
            calls: 0,
        })
    }

    /// The algorithm of this name, or all of them; `None` for the one that the table says.
    pub fn algorithms(name: Option<&str>) -> Result<Vec<Option<Allreduce>>, String> {
        let all = Allreduce::ALL.iter().copied();
        match name {
            None => Ok(all.map(Some).collect()),
            Some("chosen") => Ok(vec![None]),
            Some(name) => match all.map(Some).filter(|&one| FloorRanks::name(one) == name).collect::<Vec<_>>() {
                none if none.is_empty() => Err(format!("no algorithm is called {name}: {:?}", Allreduce::ALL)),
                one => Ok(one),
            },
        }
    }

    /// What an algorithm is called here.
    pub fn name(algorithm: Option<Allreduce>) -> String {
        algorithm.map_or("chosen".into(), |algorithm| format!("{algorithm:?}").to_lowercase())
    }

    /// From now on this algorithm.
    pub fn choose(&mut self, algorithm: Option<Allreduce>) {
        self.algorithm = algorithm;
    }

    /// One call by this schedule. The result stays where it came into being until the call after the next one.
    pub fn run(&mut self, schedule: &Schedule, input: &[u8], reducer: &Reducer<'_>) -> Result<&[u8], String> {
        self.calls += 1;
        let result = &mut self.log[self.calls % 2];
        result.resize(schedule.result_bytes(), 0);
        if self.scratch.len() < schedule.scratch_bytes() {
            self.scratch.resize(schedule.scratch_bytes(), 0);
        }
        let mut buffers = Buffers { input, result, scratch: &mut self.scratch };
        drive(schedule, &mut buffers, reducer, &mut self.links)?;
        Ok(result)
    }

    fn allreduce(
        &mut self,
        input: &[u8],
        output: &mut [u8],
        element: Element,
        reduction: Reduction,
    ) -> Result<(), String> {
        let (count, size) = (input.len() / element.size(), element.size());
        let chosen = || self.choice.allreduce(&self.hosts, input.len(), false);
        // None: by hosts.
        let algorithm = self.algorithm.map_or_else(chosen, Some);
        let shape = (count, size, algorithm);
        let schedule = match self.kept.take() {
            Some((count, size, algorithm, schedule)) if (count, size, algorithm) == shape => schedule,
            _ => match algorithm {
                Some(algorithm) => schedules::allreduce(self.me, count, size, Order::Rank, algorithm),
                None => schedules::allreduce_by_hosts(self.me, &self.hosts, count, size, Order::Rank),
            },
        };
        let reducer = Reducer::new(reduction, element).map_err(|error| error.to_string())?;
        output.copy_from_slice(self.run(&schedule, input, &reducer)?);
        self.kept = Some((count, size, algorithm, schedule));
        Ok(())
    }
}

/// Moves the bytes until the schedule is finished.
fn drive(
    schedule: &Schedule,
    buffers: &mut Buffers<'_>,
    reducer: &Reducer<'_>,
    links: &mut [Option<TcpStream>],
) -> Result<(), String> {
    let world = links.len();
    let rank = schedule.world_rank().rank;
    let mut machine = LinkMachine::new(schedule);
    let mut full = vec![false; world];
    let mut looks = 0;
    loop {
        let mut moved = machine.work(schedule, buffers, reducer).map_err(|error| error.to_string())?;
        // Every rank begins with another peer, so that they don't all fall upon the same one.
        for peer in (1..world).map(|step| (rank + step) % world) {
            let Some(link) = &mut links[peer] else { continue };
            if !full[peer] {
                moved |= send(schedule, &mut machine, buffers, peer, link, &mut full[peer])?;
            }
            if let Some(wanted) = machine.wanted(schedule, peer) {
                let room = buffers.bytes_mut(wanted);
                let most = room.len().min(MOST_BYTES);
                match link.read(&mut room[..most]) {
                    Ok(0) => return Err(format!("rank {peer} has gone")),
                    Ok(count) => {
                        machine.received(schedule, peer, count);
                        moved = true;
                    }
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    Err(error) => return Err(format!("rank {peer}: {error}")),
                }
            }
        }
        if machine.is_finished() {
            return Ok(());
        }
        looks = if moved { 0 } else { looks + 1 };
        if looks > 0 && looks <= YIELDS {
            std::thread::yield_now();
        } else if looks > YIELDS {
            wait(schedule, &machine, links, &mut full)?;
            looks = 0;
        }
    }
}

/// Sends what can be sent to a peer now.
fn send(
    schedule: &Schedule,
    machine: &mut LinkMachine,
    buffers: &Buffers<'_>,
    peer: usize,
    link: &mut TcpStream,
    full: &mut bool,
) -> Result<bool, String> {
    let mut slices = [IoSlice::new(&[]); 16];
    let mut used = 0;
    let mut left = MOST_BYTES;
    for extent in machine.sendable(schedule, peer).take(slices.len()) {
        let bytes = buffers.bytes(extent);
        let now = bytes.len().min(left);
        slices[used] = IoSlice::new(&bytes[..now]);
        used += 1;
        left -= now;
        if left == 0 {
            break;
        }
    }
    if used == 0 {
        return Ok(false);
    }
    match link.write_vectored(&slices[..used]) {
        Ok(count) => {
            machine.sent(schedule, peer, count);
            Ok(true)
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            *full = true;
            Ok(false)
        }
        Err(error) => Err(format!("rank {peer}: {error}")),
    }
}

/// Sleeps until something can go on.
fn wait(
    schedule: &Schedule,
    machine: &LinkMachine,
    links: &[Option<TcpStream>],
    full: &mut [bool],
) -> Result<(), String> {
    let mut peers = Vec::with_capacity(links.len());
    let mut sockets = Vec::with_capacity(links.len());
    for (peer, link) in links.iter().enumerate() {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::IN, machine.wanted(schedule, peer).is_some());
        flags.set(PollFlags::OUT, full[peer] && machine.sendable(schedule, peer).next().is_some());
        if let (Some(link), false) = (link, flags.is_empty()) {
            peers.push(peer);
            sockets.push(PollFd::new(link, flags));
        }
    }
    let limit = WAIT_LIMIT.try_into().map_err(|_| "a limit that the kernel can't take")?;
    if poll(&mut sockets, Some(&limit)).map_err(|error| error.to_string())? == 0 {
        return Err(format!("nothing from {:?}", machine.awaited(schedule).collect::<Vec<_>>()));
    }
    for (peer, socket) in peers.into_iter().zip(sockets) {
        if socket.revents().contains(PollFlags::OUT) {
            full[peer] = false;
        }
    }
    Ok(())
}

impl samples::Allreduce for FloorRanks {
    fn sum(&mut self, input: &[f32], output: &mut [f32]) -> Result<(), String> {
        let (input, output) = (bytemuck::cast_slice(input), bytemuck::cast_slice_mut(output));
        self.allreduce(input, output, Element::F32, Reduction::Sum)
    }

    fn max(&mut self, values: &mut [f64]) -> Result<(), String> {
        let input = values.to_vec();
        let output = bytemuck::cast_slice_mut(values);
        self.allreduce(bytemuck::cast_slice(&input), output, Element::F64, Reduction::Max)
    }
}
