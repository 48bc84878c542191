//! A worker that speaks XGBoost's side of the protocol, and "trains" by exchanging bytes that can be foreseen.

use super::World;
use rejoin_protocol::channel::PhaseMark;
use rejoin_protocol::error::Error;
use rejoin_protocol::ids::{Incarnation, MemberId, Phase, Rank, Version};
use rejoin_xgboost::{Bridge, WireVariant};
use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread::JoinHandle;

const MAGIC: i32 = 0xff99;

/// How far `init` goes before the worker stops and waits to be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Connected to the tracker.
    Connected,
    /// Has said hello.
    Greeted,
    /// Has the next rank, and waits for the previous one.
    Ring,
    /// Through.
    Through,
}

fn text(value: &str) -> Vec<u8> {
    [&(value.len() as i32).to_le_bytes(), value.as_bytes()].concat()
}

fn read_text(stream: &mut TcpStream) -> io::Result<String> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut bytes = vec![0; i32::from_le_bytes(length) as usize];
    stream.read_exact(&mut bytes)?;
    String::from_utf8(bytes).map_err(io::Error::other)
}

/// Finds `"name":<number>`.
fn number(text: &str, name: &str) -> u32 {
    let at = text.find(&format!("\"{name}\"")).unwrap_or_else(|| panic!("{name} in {text}"));
    let digits = text[at..].split_once(':').expect("a value").1;
    digits
        .chars()
        .skip_while(|c| *c == ' ')
        .take_while(char::is_ascii_digit)
        .collect::<String>()
        .parse()
        .expect("a number")
}

pub fn argument(arguments: &[(String, String)], name: &str) -> String {
    arguments.iter().find(|(key, _)| key == name).unwrap_or_else(|| panic!("{name} in {arguments:?}")).1.clone()
}

/// A connection to "the tracker", greeted.
pub fn tracker(arguments: &[(String, String)], token: &str) -> io::Result<TcpStream> {
    let port: u16 = argument(arguments, "dmlc_tracker_port").parse().expect("a port");
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.write_all(&MAGIC.to_le_bytes())?;
    let mut magic = [0; 4];
    stream.read_exact(&mut magic)?;
    assert_eq!(i32::from_le_bytes(magic), MAGIC);
    stream.write_all(&text(&format!(r#"{{"world_size":-1,"rank":-1,"task_id":"{token}"}}"#)))?;
    Ok(stream)
}

/// A connected worker.
pub struct Worker {
    pub rank: u32,
    pub channels: BTreeMap<u32, TcpStream>,
    arguments: Vec<(String, String)>,
}

impl Worker {
    /// XGBoost's `init`, as in `comm.cc`.
    pub fn init(arguments: Vec<(String, String)>, variant: WireVariant) -> io::Result<Worker> {
        let token = argument(&arguments, "dmlc_task_id");
        let mut to_tracker = tracker(&arguments, &token)?;
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        to_tracker.write_all(&text(&format!(r#"{{"cmd":1,"port":{port},"error_port":1}}"#)))?;
        let world = number(&read_text(&mut to_tracker)?, "world_size");
        let next_info = read_text(&mut to_tracker)?;
        let (next, next_port) = (number(&next_info, "rank"), number(&next_info, "port"));
        let rank = (next + world - 1) % world;
        let mut ring_next = TcpStream::connect(("127.0.0.1", next_port as u16))?;
        let mut ring_previous = listener.accept()?.0;
        let mut channels = BTreeMap::new();
        if world > 1 {
            let mut host = [0; 64];
            host[..9].copy_from_slice(b"127.0.0.1");
            allgather(rank, world, &host, &mut ring_next, &mut ring_previous)?;
            let ports = allgather(rank, world, &(next_port as i32).to_le_bytes(), &mut ring_next, &mut ring_previous)?;
            // Slot k describes rank k + 1.
            let port_of =
                |peer: u32| i32::from_le_bytes(ports[((peer + world - 1) % world) as usize][..].try_into().unwrap());
            assert_eq!(port_of(rank), i32::from(port), "the port given for the worker itself");
            let previous = (rank + world - 1) % world;
            if variant == WireVariant::From33 {
                if next == previous {
                    channels.insert(next, if rank < next { ring_next } else { ring_previous });
                } else {
                    channels.insert(next, ring_next);
                    channels.insert(previous, ring_previous);
                }
            }
            let wanted = peers(variant, world, rank);
            for peer in wanted.iter().copied().filter(|peer| *peer > rank) {
                if let std::collections::btree_map::Entry::Vacant(entry) = channels.entry(peer) {
                    let mut stream = TcpStream::connect(("127.0.0.1", port_of(peer) as u16))?;
                    stream.write_all(&(rank as i32).to_le_bytes())?;
                    entry.insert(stream);
                }
            }
            let missing = wanted.iter().filter(|peer| !channels.contains_key(peer)).count();
            for _ in 0..missing {
                let (mut stream, _) = listener.accept()?;
                let mut name = [0; 4];
                stream.read_exact(&mut name)?;
                channels.insert(i32::from_le_bytes(name) as u32, stream);
            }
            assert_eq!(channels.keys().copied().collect::<Vec<_>>(), wanted);
        }
        channels.values().for_each(|stream| stream.set_nodelay(true).expect("a live socket"));
        Ok(Worker { rank, channels, arguments })
    }

    /// XGBoost's `shutdown`.
    pub fn shutdown(self) -> io::Result<()> {
        let mut stream = tracker(&self.arguments, &argument(&self.arguments, "dmlc_task_id"))?;
        stream.write_all(&text(r#"{"cmd":2}"#))
    }

    /// One lock-step exchange with every peer.
    pub fn exchange(&mut self, phase: Phase, step: u32, shape: &Shape) -> io::Result<()> {
        let rank = self.rank;
        for (peer, stream) in &mut self.channels {
            let mut bytes = shape.message(rank, *peer, phase, step);
            if let Some(spoil) =
                shape.spoil.filter(|spoil| spoil.rank == rank && spoil.phase == phase && spoil.step == step)
            {
                let at = spoil.byte % bytes.len();
                bytes[at] ^= 1;
            }
            stream.write_all(&bytes)?;
        }
        for (peer, stream) in &mut self.channels {
            let wanted = shape.message(*peer, rank, phase, step);
            let mut got = vec![0; wanted.len()];
            stream.read_exact(&mut got)?;
            assert!(got == wanted, "rank {rank}: {phase} step {step} from rank {peer} is not what it sent");
        }
        Ok(())
    }
}

fn allgather(
    rank: u32,
    world: u32,
    own: &[u8],
    next: &mut TcpStream,
    previous: &mut TcpStream,
) -> io::Result<Vec<Vec<u8>>> {
    let mut slots = vec![vec![0; own.len()]; world as usize];
    slots[rank as usize] = own.to_vec();
    for step in 0..world {
        next.write_all(&slots[((rank + world - step) % world) as usize])?;
        previous.read_exact(&mut slots[((rank + 2 * world - step - 1) % world) as usize])?;
    }
    Ok(slots)
}

pub fn peers(variant: WireVariant, world: u32, rank: u32) -> Vec<u32> {
    let parent = |r: u32| r & r.wrapping_sub(1);
    let neighbours = |a: u32, b: u32| (a + 1) % world == b || (b + 1) % world == a || parent(a.max(b)) == a.min(b);
    (0..world).filter(|p| *p != rank && (variant == WireVariant::Until32 || neighbours(rank, *p))).collect()
}

/// A byte that one rank gets wrong.
#[derive(Clone, Copy, Debug)]
pub struct Spoil {
    pub rank: u32,
    pub phase: Phase,
    pub step: u32,
    pub byte: usize,
}

/// What a training looks like.
#[derive(Clone, Debug)]
pub struct Shape {
    pub variant: WireVariant,
    pub boot_steps: u32,
    pub versions: u32,
    pub steps: u32,
    /// Lengths of messages go up to this.
    pub most: usize,
    pub spoil: Option<Spoil>,
}

impl Shape {
    pub fn new(variant: WireVariant) -> Self {
        Shape { variant, boot_steps: 5, versions: 6, steps: 12, most: 40_000, spoil: None }
    }

    pub fn steps_of(&self, phase: Phase) -> u32 {
        if phase == Phase::Boot {
            self.boot_steps
        } else {
            self.steps
        }
    }

    /// How many bytes a rank sends in a phase.
    fn bytes_of(&self, phase: Phase, rank: u32, channels: &BTreeMap<u32, TcpStream>) -> u64 {
        let steps = (0..self.steps_of(phase)).flat_map(|step| channels.keys().map(move |peer| (*peer, step)));
        steps.map(|(peer, step)| self.message(rank, peer, phase, step).len() as u64).sum()
    }

    /// Bytes that differ from channel to channel, phase to phase, step to step; mostly few, sometimes many.
    pub fn message(&self, from: u32, to: u32, phase: Phase, step: u32) -> Vec<u8> {
        let number = match phase {
            Phase::Boot => 1000,
            Phase::Version(v) => v.0,
        };
        let seed = (((from * 31 + to) * 1009 + number) * 257 + step) as usize;
        let length = match seed % 5 {
            0 => 1 + seed % self.most,
            1 => 1 + seed % (self.most / 20 + 1),
            _ => 8,
        };
        (0..length).map(|i| (i.wrapping_mul(seed | 1) >> 3) as u8).collect()
    }

    pub fn mark(&self, phase: Phase) -> PhaseMark {
        match phase {
            Phase::Boot => PhaseMark { round: 0, checkpoint: 0 },
            Phase::Version(v) => PhaseMark { round: v.0 * 2, checkpoint: u128::from(v.0) * 77 },
        }
    }
}

/// Where a worker dies.
#[derive(Clone, Copy, Debug)]
pub struct Death {
    pub phase: Phase,
    pub step: u32,
}

/// How a worker ended.
#[derive(Debug)]
pub enum End {
    Done,
    Died,
    Failed(io::Error),
    Refused(Error),
}

/// Runs one incarnation from boot to its end or death.
pub fn train(
    bridge: &Arc<Bridge>,
    rank: u32,
    incarnation: Incarnation,
    start: u32,
    shape: &Shape,
    death: Option<Death>,
    entered: impl Fn(u32),
) -> End {
    let refused = |error| End::Refused(error);
    let arguments = match bridge.communicator(MemberId { rank: Rank(rank), incarnation }, shape.variant) {
        Ok(arguments) => arguments,
        Err(error) => return refused(error),
    };
    let mut worker = match Worker::init(arguments, shape.variant) {
        Ok(worker) => worker,
        Err(cause) => return End::Failed(cause),
    };
    assert_eq!(worker.rank, rank);
    let versions = (start..shape.versions).map(|v| Phase::Version(Version(v)));
    for phase in std::iter::once(Phase::Boot).chain(versions) {
        if phase != Phase::Boot {
            if let Err(error) = bridge.enter(MemberId { rank: Rank(rank), incarnation }, phase, shape.mark(phase)) {
                return refused(error);
            }
        }
        if let Phase::Version(version) = phase {
            entered(version.0);
        }
        for step in 0..shape.steps_of(phase) {
            if death.is_some_and(|death| death.phase == phase && death.step == step) {
                return End::Died;
            }
            if let Err(cause) = worker.exchange(phase, step, shape) {
                return End::Failed(cause);
            }
        }
        // Peers may be ahead of it by now.
        match bridge.sent(MemberId { rank: Rank(rank), incarnation }) {
            Ok(sent) => assert_eq!(sent, shape.bytes_of(phase, rank, &worker.channels), "rank {rank} in {phase}"),
            Err(error) => return refused(error),
        }
    }
    let last = Phase::Version(Version(shape.versions));
    if let Err(error) = bridge.enter(MemberId { rank: Rank(rank), incarnation }, last, shape.mark(last)) {
        return refused(error);
    }
    match worker.shutdown() {
        Ok(()) => End::Done,
        Err(cause) => End::Failed(cause),
    }
}

/// The same on a thread of its own, in the rank's present incarnation.
pub fn spawn(world: &World, rank: u32, start: u32, shape: &Shape, death: Option<Death>) -> JoinHandle<End> {
    let (bridge, incarnation, shape) = (world.agent(rank).bridge.clone(), world.incarnation(rank), shape.clone());
    let (notes, entered) = (world.agent(rank).notes.clone(), world.entered.clone());
    std::thread::spawn(move || {
        let end = train(&bridge, rank, incarnation, start, &shape, death, |version| {
            entered.lock().insert(rank, version);
        });
        if let End::Failed(cause) = &end {
            // Shown when the test fails.
            println!("rank {rank} failed with {cause}; its bridge said {:?}", notes.all());
        }
        if matches!(end, End::Done) {
            bridge.retire(MemberId { rank: Rank(rank), incarnation });
        }
        end
    })
}

pub fn join(handle: JoinHandle<End>) -> End {
    super::until("a worker's end", || handle.is_finished().then_some(()));
    handle.join().expect("the worker sees the right bytes")
}

pub fn all_done(handles: Vec<JoinHandle<End>>) {
    for (number, handle) in handles.into_iter().enumerate() {
        let end = join(handle);
        assert!(matches!(end, End::Done), "worker {number} ended with {end:?}");
    }
}
