//! A program that computes with every collective, and a harness that lets its ranks die and come back.

use super::{attempt, limits, value, values, Ranks};
use rejoin_agent::protocol::error::{Code, Error};
use rejoin_agent::protocol::event::Event;
use rejoin_agent::protocol::fault::{Action, FaultRule, Moment};
use rejoin_agent::protocol::ids::Rank;
use rejoin_communicator::collectives::{Element, Reduction};
use rejoin_communicator::{Boot, Communicator, Folding, Input, Options, Process};
use std::time::Duration;

/// Elements of each collective, unless more are asked for.
const COUNT: usize = 1000;
const ITERATIONS: u32 = 3;

/// A death: rank, incarnation and moment.
pub type Died = (u32, u32, Moment);

/// This incarnation of this rank dies at this moment.
pub fn moment(rank: u32, incarnation: u32, moment: Moment) -> Died {
    (rank, incarnation, moment)
}

/// What the model is in the end when no rank dies, computed without any collective.
pub fn undisturbed(world: u32) -> Vec<f64> {
    let mut model = vec![f64::from(world)];
    for iteration in 0..ITERATIONS {
        step(&mut model, world, iteration);
    }
    model
}

/// What an iteration does to the model.
fn step(model: &mut Vec<f64>, world: u32, iteration: u32) {
    let salt = f64::from(iteration + 1);
    let most = value(world - 1, 17) * salt;
    let roots: f64 = (0..8).map(|turn| value(turn % world + turn, 23) * salt).sum();
    let sum: f64 = (0..world).map(|rank| value(rank, 31) * salt).sum();
    let gathered: f64 = (0..world).map(|rank| value(rank, 5) * salt).sum();
    model.push(most + roots + sum + gathered + model[0]);
}

fn salted(rank: u32, iteration: u32, count: usize) -> Vec<f64> {
    let mut values = values(rank, count);
    values.iter_mut().for_each(|value| *value *= f64::from(iteration + 1));
    values
}

/// The program: two boot collectives, then iterations of (max, 8 broadcasts, sum, allgather,
/// checkpoint). Every result is checked for its value.
fn program(rank: &mut Communicator, count: usize) -> Result<Vec<f64>, Error> {
    let (own, world) = (rank.rank().0, rank.world());
    let (version, bytes) = rank.load()?;
    let mut one = 1f64.to_le_bytes();
    let boot = Options { boot: Boot::BySite, ..Options::default() };
    let sum = Folding::known(Element::F64, Reduction::Sum)?;
    let all = rank.allreduce_bytes(Input::Ready(&one), &sum, &boot)?;
    one.copy_from_slice(&all);
    let named = Options { boot: Boot::Named("cuts".into()), ..Options::default() };
    let mut cuts = [own as u8 * u8::from(own == 1); 9];
    let spread = rank.broadcast_bytes(Input::Ready(&cuts), Element::U8, Rank(1), &named)?;
    assert!(spread.is_some() || own == 1, "the root alone may have its own already");
    assert!(spread.is_none() || own != 1 || rank.incarnation() > 0, "and it has at first");
    spread.into_iter().for_each(|root| cuts.copy_from_slice(&root));
    assert_eq!(cuts, [1; 9]);
    let mut model = match bytes {
        Some(bytes) => bytes.chunks_exact(8).map(|part| f64::from_le_bytes(part.try_into().unwrap())).collect(),
        None => vec![f64::from_le_bytes(one)],
    };
    for iteration in version.0..ITERATIONS {
        let mut most = salted(own, iteration, count);
        rank.allreduce(&mut most, Reduction::Max)?;
        assert_eq!(most, salted(world - 1, iteration, count), "max");
        let mut roots = 0.0;
        for turn in 0..8 {
            let root = turn % world;
            let mut spread = vec![0.0; count];
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut spread);
            let mut fill = |bytes: &mut [u8]| {
                assert_eq!(own, root, "no other rank has anything to prepare");
                bytes.copy_from_slice(bytemuck::cast_slice(&salted(root + turn, iteration, count)));
                Ok(())
            };
            let (input, options) = (Input::OnDemand(bytes, &mut fill), Options::default());
            // Also a root that was not asked for its bytes, since the result was recorded, is given them.
            let result = rank.broadcast_bytes(input, Element::F64, Rank(root), &options)?.expect("a result");
            bytes.copy_from_slice(&result);
            assert_eq!(spread, salted(root + turn, iteration, count), "broadcast {turn}");
            roots += spread[23];
        }
        let mut sum = vec![0.0; count];
        let mut fill = |bytes: &mut [u8]| {
            bytes.copy_from_slice(bytemuck::cast_slice(&salted(own, iteration, count)));
            Ok(())
        };
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut sum);
        let options = Options::default();
        let folding = Folding::known(Element::F64, Reduction::Sum)?;
        let result = rank.allreduce_bytes(Input::OnDemand(bytes, &mut fill), &folding, &options)?;
        bytes.copy_from_slice(&result);
        let by_hand = |at: usize| (0..world).map(|rank| value(rank, at) * f64::from(iteration + 1)).sum::<f64>();
        assert!((0..count).all(|at| sum[at] == by_hand(at)), "sum");
        let mut gathered = vec![0.0; count * world as usize];
        let mut part = vec![0.0; count];
        let (input, output) = (bytemuck::cast_slice_mut(&mut part), bytemuck::cast_slice_mut(&mut gathered));
        rank.allgather_bytes(Input::OnDemand(input, &mut fill), output, Element::F64, &options)?;
        let all: Vec<f64> = (0..world).flat_map(|rank| salted(rank, iteration, count)).collect();
        assert_eq!(gathered, all, "allgather");
        let fives: f64 = (0..world as usize).map(|rank| gathered[rank * count + 5]).sum();
        model.push(most[17] + roots + sum[31] + fives + model[0]);
        let bytes: Vec<u8> = model.iter().flat_map(|value| value.to_le_bytes()).collect();
        rank.checkpoint(&bytes)?;
    }
    Ok(model)
}

/// One job in which ranks die.
pub struct Survival {
    ranks: Ranks,
    together: usize,
    count: usize,
}

/// How it ended.
pub struct Outcome {
    pub models: Vec<Vec<f64>>,
    pub fired: usize,
    pub deaths: u32,
    /// Who has caught up, after how many bytes from others, with how many versions computed again.
    pub caught_up: Vec<(u32, u64, u32)>,
}

impl Survival {
    pub fn of(world: u32, together: usize, deaths: &[Died]) -> Self {
        let rules = deaths.iter().enumerate().map(|(id, (rank, incarnation, moment))| FaultRule {
            id: id as u32,
            rank: Rank(*rank),
            incarnation: Some(*incarnation),
            moment: *moment,
            action: Action::Throw,
        });
        Survival { ranks: Ranks::with_rules(world, together, rules.collect()), together, count: COUNT }
    }

    /// Whether the ranks share memory, or go over links.
    pub fn sharing_memory(self, shares_memory: bool) -> Self {
        Survival { ranks: self.ranks.sharing_memory(shares_memory), ..self }
    }

    /// So many elements in each collective.
    pub fn of_count(self, count: usize) -> Self {
        Survival { count, ..self }
    }

    pub fn on_hosts(self, hosts: u32) -> Self {
        Survival { ranks: self.ranks.on_hosts(hosts), ..self }
    }

    /// The link between two ranks is cut at a moment of the first.
    pub fn cutting(self, rank: u32, peer: u32, moment: Moment) -> Self {
        let (rank, action) = (Rank(rank), Action::CutLink { peer: Rank(peer) });
        let rule = FaultRule { id: 0, rank, incarnation: None, moment, action };
        Survival { ranks: Ranks::with_rules(self.ranks.world, self.together, vec![rule]), ..self }
    }

    /// The job's.
    pub fn secret(&self) -> [u8; 32] {
        *self.ranks.secret.expose()
    }

    /// Runs it to its end. Ranks that met a fault are started again: in the same process where
    /// several live together, else in a new one, after the old one has vanished without a word.
    pub fn run(self) -> Outcome {
        let (world, together, count) = (self.ranks.world, self.together, self.count);
        let shared: Vec<Process> =
            (0..world as usize).step_by(together).map(|first| self.ranks.process(&first.to_string())).collect();
        let models = std::thread::scope(|scope| {
            let (ranks, shared) = (&self.ranks, &shared);
            let live = |rank: u32| {
                let mut process = shared[rank as usize / together].clone();
                for task in 0.. {
                    let joined = process.join(Rank(rank), attempt(task), "", limits());
                    let mut communicator = joined.expect("it can join").expect("the job isn't over");
                    match program(&mut communicator, count) {
                        Ok(model) => {
                            let bytes: Vec<u8> = model.iter().flat_map(|value| value.to_le_bytes()).collect();
                            communicator.finish(&bytes).expect("all finish alike");
                            return model;
                        }
                        Err(error) => {
                            assert!(error.code == Code::Io && error.message.contains("fault rule"), "{rank}: {error}");
                            if together == 1 {
                                process.agent().end();
                                drop(communicator);
                                process = ranks.process(&format!("{rank}-{}", task + 1));
                            }
                        }
                    }
                }
                unreachable!("tries don't end");
            };
            let threads: Vec<_> = (0..world).map(|rank| scope.spawn(move || live(rank))).collect();
            threads.into_iter().map(|thread| thread.join().expect("a rank's thread panicked")).collect()
        });
        self.ranks.event("the end", |event| matches!(event, Event::JobEnded { .. }));
        while let Ok(Some(reported)) = self.ranks.tracker.poll(Duration::ZERO) {
            if let rejoin_agent::TrackerNotice::Event(event) = reported {
                self.ranks.seen.lock().push(event);
            }
        }
        let seen = self.ranks.seen.lock();
        let fired = seen.iter().filter(|event| matches!(event, Event::FaultFired { .. })).count();
        let deaths = seen.iter().filter(|event| matches!(event, Event::RankLost { .. })).count() as u32;
        let caught_up = seen.iter().filter_map(|event| match event {
            Event::CaughtUp { rank, replayed_in, rounds_again, .. } => Some((rank.0, *replayed_in, *rounds_again)),
            _ => None,
        });
        Outcome { models, fired, deaths, caught_up: caught_up.collect() }
    }
}
