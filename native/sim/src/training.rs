//! What the ranks of the simulated job compute: a scripted training whose every byte is known.
//!
//! A phase is a number of exchanges. In each one all ranks add up a number: over a binary tree, or each with each, as
//! XGBoost does from 3.3 and up to 3.2. The sum changes the model, and the model changes the next numbers: a wrong byte
//! anywhere makes another model.

use rejoin_protocol::ids::{Phase, Rank, Version};
use std::collections::{BTreeMap, VecDeque};

/// Who talks to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// Binary tree.
    Tree,
    /// Each with each.
    AllToAll,
}

/// The shape of a training.
#[derive(Clone, Debug)]
pub struct Script {
    /// Ranks.
    pub world: u32,
    /// Who talks to whom.
    pub topology: Topology,
    /// Versions that are trained; the one of this number is the complete model.
    pub versions: u32,
    /// Exchanges in a phase.
    pub exchanges: u32,
    /// Bytes of one message, at least 8.
    pub block: usize,
}

impl Script {
    /// The ranks that this one has channels with.
    pub fn neighbours(&self, rank: Rank) -> Vec<Rank> {
        let all = (0..self.world).filter(|other| *other != rank.0);
        let linked = |other: &u32| match self.topology {
            Topology::AllToAll => true,
            Topology::Tree => (rank.0 > 0 && parent(rank.0) == *other) || (*other > 0 && parent(*other) == rank.0),
        };
        all.filter(linked).map(Rank).collect()
    }
}

fn parent(rank: u32) -> u32 {
    (rank - 1) / 2
}

/// A number that depends on all of these.
pub fn mix(parts: &[u64]) -> u64 {
    parts.iter().fold(0x9e37_79b9_7f4a_7c15, |state, part| {
        let mut z = (state ^ part).wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

/// The model from which training starts.
pub const FIRST_MODEL: u64 = 1;

/// What a worker does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// It wrote these bytes to these ranks.
    Write(Vec<(Rank, Vec<u8>)>),
    /// It waits for bytes.
    Wait,
    /// An exchange is done: it computes for a while.
    Compute,
    /// The phase is done.
    PhaseDone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Gather,
    Spread,
    Done,
}

/// One rank's worker.
#[derive(Clone, Debug)]
pub struct Worker {
    script: Script,
    rank: Rank,
    phase: Phase,
    /// The model; in boot, what boot has come to.
    pub model: u64,
    /// What boot came to.
    pub boot: u64,
    exchange: u32,
    stage: Stage,
    sum: u64,
    written: bool,
    inbox: BTreeMap<Rank, VecDeque<u8>>,
    /// Says other things than it should, in this phase.
    pub lies_in: Option<Phase>,
}

impl Worker {
    /// A worker in boot.
    pub fn new(script: &Script, rank: Rank) -> Self {
        Worker {
            script: script.clone(),
            rank,
            phase: Phase::Boot,
            model: FIRST_MODEL,
            boot: 0,
            exchange: 0,
            stage: Stage::Gather,
            sum: 0,
            written: false,
            inbox: script.neighbours(rank).into_iter().map(|peer| (peer, VecDeque::new())).collect(),
            lies_in: None,
        }
    }

    /// The phase it is in.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Leaves boot or a version, with this model.
    pub fn enter(&mut self, version: Version, model: u64) {
        if self.phase == Phase::Boot {
            self.boot = self.model;
        }
        self.phase = Phase::Version(version);
        self.model = model;
        self.exchange = 0;
        self.stage = Stage::Gather;
        self.written = false;
    }

    /// Bytes came from a peer.
    pub fn read(&mut self, from: Rank, bytes: &[u8]) {
        self.inbox.entry(from).or_default().extend(bytes);
    }

    /// Whether bytes are left that it has not read. At a boundary there may be none.
    pub fn unread(&self) -> usize {
        self.inbox.values().map(|bytes| bytes.len()).sum()
    }

    fn own(&self) -> u64 {
        let phase = match self.phase {
            Phase::Boot => 0,
            Phase::Version(v) => u64::from(v.0) + 1,
        };
        let lie = if self.lies_in == Some(self.phase) { 77 } else { 0 };
        mix(&[self.model, self.boot, phase, u64::from(self.exchange), u64::from(self.rank.0), lie])
    }

    fn block(&self, value: u64) -> Vec<u8> {
        let mut block = value.to_le_bytes().to_vec();
        let mut filler = value;
        while block.len() < self.script.block {
            filler = filler.rotate_left(13).wrapping_mul(0x2545_f491_4f6c_dd1d).wrapping_add(1);
            block.push((filler >> 56) as u8);
        }
        block
    }

    fn take(&mut self, from: &[Rank]) -> Option<Vec<u64>> {
        let size = self.script.block;
        if from.iter().any(|peer| self.inbox[peer].len() < size) {
            return None;
        }
        let values = from.iter().map(|peer| {
            let bytes: Vec<u8> = self.inbox.get_mut(peer).map(|b| b.drain(..size).collect()).unwrap_or_default();
            let mut value = [0; 8];
            value.copy_from_slice(&bytes[..8]);
            u64::from_le_bytes(value)
        });
        Some(values.collect())
    }

    /// Goes on.
    pub fn act(&mut self) -> Act {
        if self.exchange == self.script.exchanges {
            return Act::PhaseDone;
        }
        match self.script.topology {
            Topology::AllToAll => self.act_all_to_all(),
            Topology::Tree => self.act_tree(),
        }
    }

    fn finish_exchange(&mut self) -> Act {
        self.model = mix(&[self.model, self.sum]);
        self.exchange += 1;
        self.stage = Stage::Gather;
        self.written = false;
        Act::Compute
    }

    fn act_all_to_all(&mut self) -> Act {
        let peers = self.script.neighbours(self.rank);
        if !self.written {
            self.written = true;
            self.sum = self.own();
            let block = self.block(self.sum);
            return Act::Write(peers.into_iter().map(|peer| (peer, block.clone())).collect());
        }
        let Some(values) = self.take(&peers) else { return Act::Wait };
        self.sum = values.into_iter().fold(self.sum, u64::wrapping_add);
        self.finish_exchange()
    }

    fn act_tree(&mut self) -> Act {
        let me = self.rank.0;
        let children: Vec<Rank> =
            self.script.neighbours(self.rank).into_iter().filter(|peer| peer.0 > 0 && parent(peer.0) == me).collect();
        match self.stage {
            Stage::Gather => {
                let Some(values) = self.take(&children) else { return Act::Wait };
                self.sum = values.into_iter().fold(self.own(), u64::wrapping_add);
                self.stage = Stage::Spread;
                if me == 0 {
                    return self.act_tree();
                }
                Act::Write(vec![(Rank(parent(me)), self.block(self.sum))])
            }
            Stage::Spread => {
                if me > 0 {
                    let Some(values) = self.take(&[Rank(parent(me))]) else { return Act::Wait };
                    self.sum = values[0];
                }
                self.stage = Stage::Done;
                let block = self.block(self.sum);
                Act::Write(children.into_iter().map(|child| (child, block.clone())).collect())
            }
            Stage::Done => self.finish_exchange(),
        }
    }
}

/// All that is right: the bytes of every channel in every phase, and the model at every version.
#[derive(Clone, Debug)]
pub struct Truth {
    /// By source, destination and phase.
    pub bytes: BTreeMap<(Rank, Rank, Phase), Vec<u8>>,
    /// Entry v is the model that begins version v.
    pub models: Vec<u64>,
}

impl Truth {
    /// Trains without faults, without a network and without time.
    pub fn of(script: &Script) -> Self {
        let mut workers: Vec<Worker> = (0..script.world).map(|rank| Worker::new(script, Rank(rank))).collect();
        let mut truth = Truth { bytes: BTreeMap::new(), models: vec![FIRST_MODEL] };
        truth.run_phase(&mut workers);
        for version in 0..script.versions {
            let model = truth.models[version as usize];
            workers.iter_mut().for_each(|worker| worker.enter(Version(version), model));
            truth.run_phase(&mut workers);
            truth.models.push(workers[0].model);
            assert!(workers.iter().all(|worker| worker.model == workers[0].model), "the script itself agrees");
        }
        truth
    }

    fn run_phase(&mut self, workers: &mut [Worker]) {
        loop {
            let mut done = 0;
            let mut moved = false;
            for index in 0..workers.len() {
                let (rank, phase) = (workers[index].rank, workers[index].phase);
                match workers[index].act() {
                    Act::Wait => {}
                    Act::Compute => moved = true,
                    Act::PhaseDone => done += 1,
                    Act::Write(all) => {
                        moved = true;
                        for (peer, bytes) in all {
                            workers[peer.0 as usize].read(rank, &bytes);
                            self.bytes.entry((rank, peer, phase)).or_default().extend(bytes);
                        }
                    }
                }
            }
            if done == workers.len() {
                return;
            }
            assert!(moved, "the script itself does not stand still");
        }
    }
}
