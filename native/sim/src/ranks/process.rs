//! One process: its agent, and the rank whose task it runs.

use super::frame::Frame;
use super::happening::{Input, Output, Who};
use super::life::{Came, Life};
use super::memory::{invitation, Memory, Sharing};
use super::{Defect, Job};
use crate::invariants::fencing;
use rejoin_protocol::collective::{Entry, Fetch, Invitation};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::host::{Host, HostConfig, Input as HostInput, Offer, Output as HostOutput, Peer, OWN_COPIES};
use rejoin_protocol::ids::{
    AgentId, Attempt, Checkpoint, Generation, Incarnation, Lineage, Millis, Phase, Rank, Version,
};
use std::collections::VecDeque;

/// One process.
#[derive(Clone, Debug)]
pub struct Process {
    who: Who,
    host: Host,
    life: Option<Life>,
    /// A checkpoint that is to be fetched, and who holds it.
    wanted: Option<(Checkpoint, Vec<u32>)>,
    wishes: Vec<Fetch>,
    told: Option<Result<u128, Code>>,
    freed: Option<Code>,
    closed: bool,
    /// Inputs for the host, in their order.
    commands: VecDeque<HostInput>,
    /// Its ranks share memory with those of its host; whether it can open no other board.
    is_blind: Option<bool>,
    /// How often a rank has joined here, and with which board the last time.
    joins: u32,
    board: Option<Invitation>,
}

/// A process' number as its agent's.
fn agent(process: u32) -> AgentId {
    AgentId(u64::from(process))
}

impl Process {
    /// A process on this host that is about to connect to the tracker.
    pub fn new(who: Who, host: &str, tracker_millis: u64, now: Millis) -> Self {
        let config = HostConfig {
            agent: agent(who.process),
            executor: who.process.to_string(),
            host: host.into(),
            address: ([127, 0, 0, 1], 1000 + (who.process % 60_000) as u16).into(),
            pid: who.process,
            tracker_millis,
            own_copies: OWN_COPIES,
        };
        let mut host = Host::new(config, now);
        let connect = host.poll();
        debug_assert_eq!(connect, Some(HostOutput::ConnectTracker));
        Process {
            who,
            host,
            life: None,
            wanted: None,
            wishes: Vec::new(),
            told: None,
            freed: None,
            closed: false,
            commands: VecDeque::new(),
            is_blind: None,
            joins: 0,
            board: None,
        }
    }

    /// The same, whose ranks share memory with those of its host. One that `is_blind` can't open theirs.
    pub fn sharing(self, is_blind: bool) -> Self {
        Process { is_blind: Some(is_blind), ..self }
    }

    /// Who it is.
    pub fn who(&self) -> Who {
        self.who
    }

    /// Its agent.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// What it was told as the job's end.
    pub fn told(&self) -> Option<Result<u128, Code>> {
        self.told
    }

    /// Its calls were ended with this; the framework tries again.
    pub fn freed(&self) -> Option<Code> {
        self.freed
    }

    /// Whether its agent is over.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// The version that its rank is in, if it was started.
    pub fn position(&self) -> Option<(Lineage, Version)> {
        self.life.as_ref().map(|life| (life.lineage, life.participant.version()))
    }

    /// Whether its rank is in a call.
    pub fn is_in_call(&self) -> bool {
        self.life.as_ref().is_some_and(|life| !life.is_idle() && !life.finished && !life.failed)
    }

    /// Whether a process is one of its rank's peers.
    pub fn is_linked(&self, other: u32) -> bool {
        self.life.as_ref().is_some_and(|life| life.peers.contains(&Some(other)))
    }

    /// The framework tries the task again in this process. [`Input::Join`] comes next.
    pub fn tries_again(&mut self, attempt: Attempt) {
        self.who.attempt = attempt;
    }

    /// The newest plan that its rank's collectives have.
    pub fn attempt(&self) -> Option<Generation> {
        self.life.as_ref()?.participant.attempt()
    }

    /// Whether its rank waits for the plan of a view that it has answered.
    pub fn is_frozen(&self) -> bool {
        self.life.as_ref().is_some_and(|life| life.participant.is_frozen())
    }

    /// How many versions of results are kept, without boot.
    pub fn versions_kept(&self) -> usize {
        let extents = self.life.as_ref().map(|life| life.participant.log().extents()).unwrap_or_default();
        extents.iter().filter(|extent| extent.phase != Phase::Boot).count()
    }

    /// Whether the rank's thread has something to do of its own.
    pub fn is_idle(&self) -> bool {
        self.life.as_ref().is_some_and(|life| life.is_idle())
    }

    /// The checkpoint that is wanted, and the processes that may have it.
    pub fn wanted(&self) -> Option<&(Checkpoint, Vec<u32>)> {
        self.wanted.as_ref()
    }

    /// Results that are wanted.
    pub fn wishes(&self) -> &[Fetch] {
        &self.wishes
    }

    /// A result that it holds.
    pub fn entry(&self, lineage: Lineage, phase: Phase, seqno: u32, job: &Job) -> Option<Entry<u64>> {
        self.life.as_ref()?.entry(lineage, phase, seqno, job)
    }

    /// For the text of a job that stands still.
    pub fn describe(&self) -> String {
        let life = self.life.as_ref().map(|life| life.describe()).unwrap_or_default();
        let stage = self.host.members().first().map(|member| format!("{:?}", member.stage)).unwrap_or_default();
        format!("{:?} {life} {stage} wants {:?} wishes {:?}", self.who, self.wanted, self.wishes)
    }

    /// One thing that happened, and what follows from it.
    pub fn handle(&mut self, input: Input, now: Millis, job: &Job) -> Vec<Output> {
        let mut out = Vec::new();
        let (rank, attempt) = (self.who.rank, self.who.attempt);
        match input {
            Input::TrackerUp => self.commands.push_back(HostInput::TrackerUp),
            Input::TrackerDown => {
                self.commands.push_back(HostInput::TrackerDown { reason: "connection reset".into() });
            }
            Input::Tracker(message) => self.commands.push_back(HostInput::Tracker(message)),
            Input::Join => {
                self.freed = None;
                self.joins += 1;
                let (process, joins) = (self.who.process, self.joins);
                self.board = self.is_blind.map(|_| invitation(process, joins));
                let (terms, offer) = ("the same for all".into(), Offer { board: self.board, ..Offer::default() });
                self.commands.push_back(HostInput::Join { rank, attempt, terms, offer });
            }
            Input::Wake => {
                self.commands.push_back(HostInput::Wake);
                self.tell_cuts_again();
            }
            Input::Go => self.go(job, &mut out),
            Input::FetchedCheckpoint => {
                self.wanted = None;
                let incarnation = self.incarnation();
                let (bytes, source, millis) = (0, "a peer".into(), 0);
                self.commands.push_back(HostInput::Fetched { rank, incarnation, bytes, source, millis });
            }
            Input::NoCheckpoint => {
                self.wanted = None;
                let (incarnation, reason) = (self.incarnation(), "nobody gave it".into());
                self.commands.push_back(HostInput::FetchFailed { rank, incarnation, is_further: false, reason });
            }
            Input::FetchedResult(index, entry) => self.take_result(index, &entry, job, &mut out),
            Input::WishIsOver(index) => drop(self.wishes.remove(index)),
            Input::LinkBroke(peer) => self.link_broke(peer),
            Input::End => {
                let incarnation = self.incarnation();
                self.commands.push_back(HostInput::Leave { rank, incarnation, failure: None });
            }
            Input::Durable(checkpoint) => self.commands.push_back(HostInput::Durable(checkpoint)),
            Input::Throw => {
                if let Some(life) = self.life.take() {
                    let failure = Some(Error::new(Code::Io, "the task threw"));
                    self.commands.push_back(HostInput::Leave { rank, incarnation: life.incarnation, failure });
                    self.freed = Some(Code::Io);
                }
            }
        }
        self.run_commands(now, job, &mut out);
        self.advance(job, &mut out);
        self.run_commands(now, job, &mut out);
        out
    }

    /// The first frame of the link from a process whose rank is `from.1`; `None` when it stays where it is.
    pub fn reads(&mut self, from: (u32, Rank), frame: &Frame, now: Millis, job: &Job) -> Option<Vec<Output>> {
        let (process, peer) = from;
        let life = self.life.as_mut()?;
        let linked = life.peers[peer.0 as usize] == Some(process);
        if !linked && job.defect != Some(Defect::NoFencing) {
            return None;
        }
        let mut out = Vec::new();
        match life.reads(peer, frame, job) {
            Ok(false) => return None,
            Ok(true) => {
                let seated = self.host.view().and_then(|view| view.alive(peer)).map(|(_, at)| at.agent);
                let found = fencing::frame(self.who.rank, peer, agent(process), seated);
                out.extend(found.err().map(Output::Violated));
            }
            Err(error) => self.broken(error),
        }
        self.advance(job, &mut out);
        self.run_commands(now, job, &mut out);
        Some(out)
    }

    /// Whether its rank has to look at the shared memory, having begun something there.
    pub fn has_to_look(&self) -> bool {
        self.life.as_ref().is_some_and(Life::has_to_look)
    }

    /// Whether its rank tries again and again to open a board.
    pub fn is_shut_out(&self) -> bool {
        self.life.as_ref().is_some_and(Life::is_shut_out)
    }

    /// Its rank looks at the shared memory, where something may have changed.
    pub fn looks(&mut self, memory: &mut Memory, now: Millis, job: &Job) -> Vec<Output> {
        let mut out = Vec::new();
        let Some(life) = self.life.as_mut() else { return out };
        let came = life.look(memory, now, job, &mut out);
        self.wishes.extend(life.fetches());
        match came {
            Came::Mismatch(error) => self.broken(error),
            Came::CannotShare(peer, generation) => {
                let (rank, incarnation, reason) = (self.who.rank, self.incarnation(), "it can't be opened".into());
                self.commands.push_back(HostInput::CannotShare { rank, incarnation, peer, generation, reason });
            }
            _ => {}
        }
        self.run_commands(now, job, &mut out);
        self.advance(job, &mut out);
        self.run_commands(now, job, &mut out);
        out
    }

    /// Its rank's newest incarnation, once it has a seat.
    pub fn incarnation(&self) -> Incarnation {
        let seated = self.host.members().iter().filter_map(|member| member.incarnation).max();
        self.life.as_ref().map(|life| life.incarnation).max(seated).unwrap_or_default()
    }

    fn run_commands(&mut self, now: Millis, job: &Job, out: &mut Vec<Output>) {
        while let Some(command) = self.commands.pop_front() {
            self.host.handle(command, now);
            while let Some(output) = self.host.poll() {
                self.carry_out(output, job, out);
            }
        }
    }

    fn carry_out(&mut self, output: HostOutput, job: &Job, out: &mut Vec<Output>) {
        let generation = |this: &Self| this.host.view().map(|view| view.generation).unwrap_or_default();
        match output {
            HostOutput::ConnectTracker => out.push(Output::Connect),
            HostOutput::Send(message) => out.push(Output::ToTracker(message)),
            HostOutput::Seated { .. } | HostOutput::Forget { .. } | HostOutput::Faults(_) => {}
            // Ranks here have no models of their own.
            HostOutput::Copy { .. } | HostOutput::Safe(_) => {}
            HostOutput::LeaveTracker { .. } => out.push(Output::LeaveTracker),
            HostOutput::Fetch { checkpoint, holders, .. } => {
                self.wanted = Some((checkpoint, holders.iter().map(|at| at.agent.0 as u32).collect()));
            }
            HostOutput::Start { start, .. } => {
                let sharing = self.board.zip(self.is_blind).map(|(own, is_blind)| Sharing::new(own, is_blind));
                self.life = Some(Life::new(self.who.rank, &start, &job.program, sharing));
                self.wishes.clear();
                out.push(Output::Started(start));
            }
            HostOutput::Links { incarnation, peers, .. } => {
                self.peers_are(incarnation, &peers, job, out);
                out.push(Output::View(generation(self)));
            }
            HostOutput::Hold { rank, incarnation, generation } => {
                let life = self.life.as_mut().filter(|life| life.incarnation == incarnation);
                let (oldest, results, heard) = match life {
                    Some(life) => {
                        let results = life.freeze(generation, job.defect);
                        let heard = life.participant.heard();
                        (life.participant.log().oldest().unwrap_or_default(), results, heard)
                    }
                    None => (Version(0), Vec::new(), Vec::new()),
                };
                self.commands.push_back(HostInput::Holding { rank, incarnation, oldest, results, heard });
            }
            HostOutput::Plan { incarnation, plan, .. } => {
                if let Some(life) = self.life.as_mut().filter(|life| life.incarnation == incarnation) {
                    life.participant.plan(plan);
                    self.wishes.extend(life.fetches());
                }
            }
            HostOutput::Release { incarnation, .. } => {
                if let Some(life) = self.life.as_mut().filter(|life| life.incarnation == incarnation) {
                    life.participant.release();
                    self.wishes.extend(life.fetches());
                }
            }
            HostOutput::Free { incarnation, error, .. } => {
                if incarnation.is_none() || self.life.as_ref().map(|life| life.incarnation) == incarnation {
                    self.life = None;
                    self.wishes.clear();
                }
                self.freed = Some(error.code);
                out.push(Output::Freed(incarnation, error));
            }
            HostOutput::Over { outcome, .. } => {
                self.told = Some(outcome.clone().map_err(|error| error.code));
                out.push(Output::Over(outcome));
            }
            HostOutput::Close { .. } => {
                self.closed = true;
                self.life = None;
                out.push(Output::Closed);
            }
        }
    }

    fn go(&mut self, job: &Job, out: &mut Vec<Output>) {
        let rank = self.who.rank;
        let Some(life) = self.life.as_mut() else { return };
        let incarnation = life.incarnation;
        if !life.entered {
            life.entered = true;
            let first = life.first;
            self.commands.push_back(HostInput::Entered { rank, incarnation, checkpoint: first, local: None });
            // A checkpoint that begins a lineage keeps the name it had before.
            out.push(Output::Entered(life.lineage, first.version));
            return;
        }
        let lineage = life.lineage;
        let came = life.go(job, out);
        self.wishes.extend(life.fetches());
        match came {
            Came::Nothing | Came::CannotShare(..) => {}
            Came::Mismatch(error) => self.broken(error),
            Came::Finish(model) => {
                let (rounds, digest) = (job.program.versions(), u128::from(model));
                self.commands.push_back(HostInput::Finish { rank, incarnation, rounds, digest });
            }
            Came::Checkpoint(version, model) => {
                let checkpoint = checkpoint(lineage, version, model);
                self.commands.push_back(HostInput::Entered { rank, incarnation, checkpoint, local: None });
                out.push(Output::Entered(lineage, version));
            }
        }
    }

    fn advance(&mut self, job: &Job, out: &mut Vec<Output>) {
        let Some(life) = self.life.as_mut() else { return };
        let came = life.advance(job, out);
        self.wishes.extend(life.fetches());
        if let Came::Mismatch(error) = came {
            self.broken(error);
        }
    }

    fn broken(&mut self, error: Error) {
        let (rank, incarnation) = (self.who.rank, self.incarnation());
        self.commands.push_back(HostInput::Broken { rank, incarnation, error });
    }

    fn take_result(&mut self, index: usize, entry: &Entry<u64>, job: &Job, out: &mut Vec<Output>) {
        let Some(life) = self.life.as_mut() else { return };
        let Some(fetch) = self.wishes.get_mut(index) else { return };
        life.fetched(fetch, fetch.from, entry, job, out);
        fetch.from += 1;
        if fetch.from == fetch.to {
            self.wishes.remove(index);
        }
    }

    fn link_broke(&mut self, peer: Rank) {
        let (rank, incarnation) = (self.who.rank, self.incarnation());
        // Where collectives go through memory no frames are lost with a link.
        let Some(life) = self.life.as_mut().filter(|life| life.participant.boards().is_none()) else { return };
        let Some(generation) = life.cut(peer) else { return };
        let reason = "connection reset".into();
        self.commands.push_back(HostInput::Interrupted { rank, incarnation, peer, generation, reason });
    }

    /// What was told of a broken link may have been lost with a connection to the tracker.
    fn tell_cuts_again(&mut self) {
        let (rank, incarnation) = (self.who.rank, self.incarnation());
        let Some(life) = self.life.as_ref() else { return };
        let told = life.cut_now().map(|(peer, generation)| {
            let reason = "connection reset".into();
            HostInput::Interrupted { rank, incarnation, peer, generation, reason }
        });
        self.commands.extend(told);
    }

    fn peers_are(&mut self, incarnation: Incarnation, peers: &[Peer], job: &Job, out: &mut Vec<Output>) {
        let Some(life) = self.life.as_mut().filter(|life| life.incarnation == incarnation) else { return };
        let mut seated = vec![None; life.peers.len()];
        for peer in peers {
            seated[peer.rank.0 as usize] = Some(peer.at.agent.0 as u32);
            life.incarnations[peer.rank.0 as usize] = peer.incarnation;
        }
        for (known, now) in life.peers.iter_mut().zip(seated) {
            if *known != now {
                if job.defect != Some(Defect::NoFencing) {
                    out.extend(known.map(Output::Unlink));
                }
                *known = now;
            }
        }
    }
}

/// The checkpoint of this model.
pub(crate) fn checkpoint(lineage: Lineage, version: Version, model: u64) -> Checkpoint {
    let (round, digest) = (version.0, u128::from(model));
    Checkpoint { lineage, version, owner: None, has_own: false, round, length: 8, digest, complete: false }
}
