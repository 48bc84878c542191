//! One incarnation of one rank: its trainer, and the lanes that carry what it gives: channels, collectives, or both.

use super::collectives::{Collectives, Run};
use super::frame::{End, Frame};
use super::memory::{Memory, Sharing};
use super::peers::Peers;
use super::program::{barrier, combine, confirmation, mix, own_model, Program, ProgramStep};
use super::streams::Streams;
use super::{Defect, Job, Output, Plane};
use crate::invariants::{agreement, replay};
use rejoin_protocol::channel::PhaseMark;
use rejoin_protocol::collective::{BootKey, Call, Entry, Extent, Fetch, ObservedInput, Operation};
use rejoin_protocol::error::Error;
use rejoin_protocol::hook::Hook;
use rejoin_protocol::host::Start;
use rejoin_protocol::ids::{Checkpoint, Generation, Incarnation, Lane, Lineage, Millis, Phase, Rank, Version};
use rejoin_protocol::message::CheckpointWish;
use std::sync::Arc;

/// What came of a step.
pub(super) enum Came {
    /// Nothing that others have to know.
    Nothing,
    /// The rank has entered the version that this begins.
    Entered(Checkpoint),
    /// The rank has taken a model of its own, and goes on when others hold it.
    Own(Checkpoint),
    /// The rank is done, with this model.
    Finish(u64),
    /// It can't go on.
    Broken(Error),
    /// The tracker has to know that this rank's memory can't be opened, which this generation needs.
    CannotShare(Rank, Generation),
}

#[derive(Clone, Debug)]
pub(super) struct SimRank {
    pub(super) lineage: Lineage,
    pub(super) version: Version,
    pub(super) peers: Peers,
    pub(super) collectives: Option<Collectives>,
    pub(super) streams: Option<Streams>,
    /// The model that begins the present version.
    model: u64,
    next_model: u64,
    boot_model: u64,
    boot: u32,
    index: u32,
    /// The call that is under way, and what this rank gives to it.
    call: Option<(Lane, Call, u64)>,
    pub(super) finished: bool,
    /// A call has failed: no other one is made.
    failed: bool,
    first: Checkpoint,
    boundary: Boundary,
    own_model: OwnModel,
    /// It says other things than it should, in this phase.
    lies_in: Option<Phase>,
    rows: Rows,
    /// The model that it has made, with the one before, and how many ranks have taken samples for it.
    made: Option<(u64, u64, u32)>,
    /// What it runs, in an elastic job: that follows from its world and from what it starts with.
    job: Option<Arc<Job>>,
    /// The newest wish for a checkpoint that its process has heard of.
    pub(super) wish: Option<CheckpointWish>,
    choice: Choice,
}

/// The way of its lanes into the next version.
#[derive(Clone, Debug)]
struct Boundary {
    /// Its collectives have entered the version that this begins; the channels enter it next.
    entering: Option<Checkpoint>,
    /// Both have, and the agent doesn't know yet.
    entered: Option<Checkpoint>,
    /// Boot isn't over in its channels.
    is_in_boot: bool,
}

/// The model of its own, in a job that has such.
#[derive(Clone, Debug, Default)]
struct OwnModel {
    /// It is being copied.
    spreading: Option<Checkpoint>,
    /// The newest one that was.
    safe: Option<Checkpoint>,
}

/// What it trains on.
#[derive(Clone, Debug)]
struct Rows {
    /// The rank whose rows they are: its own.
    of: Rank,
    /// The number for which it takes samples: its own.
    samples: Rank,
    /// The version in which it has taken them.
    dealt_in: Option<Version>,
}

/// Whether the present version ends with a checkpoint, in a job whose ranks choose that.
#[derive(Clone, Debug, Default)]
struct Choice {
    chosen: Option<bool>,
    /// A checkpoint was chosen, and it isn't known yet that all ranks have that choice.
    confirms: bool,
}

impl SimRank {
    pub(super) fn new(own: End, start: &Start, hook: &Hook, sharing: Option<Sharing>, job: &Job) -> Self {
        let program = &job.program;
        let world = program.world as usize;
        let (lineage, mut version) = (start.lineage, start.version);
        if job.defect == Some(Defect::OlderStart) && version.0 > 1 && start.incarnation.number > 0 {
            version = Version(version.0 - 1);
        }
        let nothing = Checkpoint { length: 0, digest: 0, ..super::program::checkpoint(lineage, version, 0, false) };
        let first = start.checkpoint.unwrap_or(nothing);
        let model = start.checkpoint.map_or(1, |checkpoint| checkpoint.digest as u64);
        let is_hooked = match job.defect {
            Some(Defect::OwnMind) => *hook == Hook::Possible,
            _ => start.hooked,
        };
        let peers = Peers { own, now: vec![None; world], incarnations: vec![Incarnation::nth(0); world] };
        let is_apart = job.defect == Some(Defect::LanesApart) && start.incarnation.number > 0;
        let replayed = Version(version.0.saturating_sub(u32::from(is_apart)));
        let collectives = (is_hooked || job.plane == Plane::Collectives)
            .then(|| Collectives::new(&peers, lineage, replayed, sharing));
        let streams = (job.plane != Plane::Collectives)
            .then(|| Streams::new(program, own.rank, (lineage, version), collectives.is_none()));
        SimRank {
            lineage,
            version,
            rows: Rows { of: own.rank, samples: own.rank, dealt_in: None },
            made: None,
            job: job.is_elastic.then(|| Arc::new(job.clone())),
            peers,
            model,
            next_model: mix(model, u64::from(version.0)),
            boot_model: 1,
            boot: 0,
            index: 0,
            call: None,
            finished: false,
            failed: false,
            first,
            boundary: Boundary {
                entering: None,
                entered: streams.is_none().then_some(first),
                is_in_boot: streams.is_some(),
            },
            own_model: OwnModel::default(),
            lies_in: (job.lies && start.incarnation.number > 0).then_some(Phase::Version(version)),
            wish: None,
            choice: Choice::default(),
            collectives,
            streams,
        }
    }

    /// A view came: what is held from now on, its oldest version first.
    pub(super) fn hold(
        &mut self,
        view: Generation,
        defect: Option<Defect>,
    ) -> (Version, Vec<Extent>, Vec<ObservedInput>) {
        let (mut oldest, mut results, mut observed) = (Version(0), Vec::new(), Vec::new());
        if let Some(collectives) = &mut self.collectives {
            results = collectives.pause(view, defect);
            observed = collectives.participant().observed();
            oldest = collectives.participant().log().oldest().unwrap_or_default();
        }
        if let Some(streams) = &mut self.streams {
            oldest = oldest.max(streams.hold(defect));
        }
        (oldest, results, observed)
    }

    pub(super) fn release(&mut self) {
        self.collectives.iter_mut().for_each(Collectives::release);
        self.streams.iter_mut().for_each(Streams::release);
    }

    /// How many versions are kept, without boot.
    pub(super) fn versions_kept(&self) -> usize {
        let extents = self.collectives.as_ref().map(|collectives| collectives.participant().log().extents());
        let results = extents.iter().flatten().filter(|extent| extent.phase != Phase::Boot).count();
        results.max(self.streams.as_ref().map_or(0, Streams::versions_kept))
    }

    /// The number of ranks of its world.
    pub(super) fn world(&self) -> usize {
        self.peers.now.len()
    }

    /// Between two calls, and with something left to do.
    pub(super) fn is_idle(&self) -> bool {
        self.call.is_none() && self.own_model.spreading.is_none() && !self.finished && !self.failed
    }

    /// Whether it is in a call.
    pub(super) fn is_in_call(&self) -> bool {
        self.call.is_some()
    }

    /// Takes the next step of its program.
    pub(super) fn go(&mut self, job: &Job, out: &mut Vec<Output>) -> Came {
        let its = self.job.clone();
        let job = its.as_deref().unwrap_or(job);
        if !self.is_idle() {
            return Came::Nothing;
        }
        if let Some(entered) = self.boundary.entered.take() {
            return Came::Entered(entered);
        }
        let (program, rank) = (&job.program, self.peers.own.rank);
        if self.first.complete {
            return self.finish(self.model, job, out);
        }
        if self.boundary.entering.is_none() && self.boundary.is_in_boot && program.has_booted(self.boot) {
            check_model(rank, job, self.version, self.model, out);
            self.boundary.entering = Some(self.first);
        }
        if let Some(entering) = self.boundary.entering {
            return self.enter_streams(entering, job);
        }
        let needs_barrier = self.collectives.as_ref().is_some_and(|lane| lane.participant().needs_barrier());
        self.deals(job, out);
        if self.choice.confirms {
            return self.begin_collective(confirmation(), None, job, out);
        }
        match program.step(rank, self.boot, self.version, self.index) {
            ProgramStep::Choice(_) if self.collectives.is_none() => {
                self.index += 1;
                self.go(job, out)
            }
            ProgramStep::Choice(call) => self.begin_collective(call, None, job, out),
            ProgramStep::Call(call, key) if self.collectives.is_some() => {
                let key = key.map(|key| match job.defect {
                    Some(Defect::NoOccurrence) => BootKey { occurrence: 0, ..key },
                    _ => key,
                });
                self.begin_collective(call, key, job, out)
            }
            ProgramStep::Checkpoint if needs_barrier => self.begin_collective(barrier(), None, job, out),
            ProgramStep::Call(call, _) | ProgramStep::Sent(call) => {
                let own = self.own(job);
                if let Some(streams) = &mut self.streams {
                    streams.begin(own, &self.peers, job);
                }
                self.call = Some((Lane::Channels, call, own));
                self.advance(job, out)
            }
            ProgramStep::Checkpoint => {
                let next = Version(self.version.0 + 1);
                let model = self.next_model;
                check_model(rank, job, next, model, out);
                let is_last = program.completes && next.0 + 1 == program.versions();
                let checkpoint = super::program::checkpoint(self.lineage, next, model, is_last);
                let checkpoint = Checkpoint { has_own: job.has_own, ..checkpoint };
                let own = own_model(&checkpoint, rank);
                if job.has_own && self.own_model.safe != Some(own) {
                    self.own_model.spreading = Some(own);
                    return Came::Own(own);
                }
                if let Some(Err(error)) = self.collectives.as_mut().map(|collectives| collectives.enter(next)) {
                    return self.broken(error);
                }
                if self.streams.is_some() {
                    self.boundary.entering = Some(checkpoint);
                    return self.enter_streams(checkpoint, job);
                }
                self.is_in(&checkpoint);
                Came::Entered(checkpoint)
            }
            ProgramStep::Finish => {
                let model = if program.completes { self.model } else { self.next_model };
                self.finish(model, job, out)
            }
        }
    }

    /// The channels enter the version once all that the trainer wrote is logged; then the agent is notified.
    fn enter_streams(&mut self, checkpoint: Checkpoint, job: &Job) -> Came {
        let Some(streams) = &mut self.streams else { return Came::Nothing };
        if !streams.is_at_rest() && job.defect != Some(Defect::OneLaneDrained) {
            return Came::Nothing;
        }
        let (round, phase) = (checkpoint.version.0, Phase::Version(checkpoint.version));
        let mark = PhaseMark { round, checkpoint: checkpoint.digest };
        // A checkpoint that begins a lineage keeps the name it had before; older ones than that aren't started from.
        if let Err(error) = streams.enter(phase, mark) {
            return self.broken(error);
        }
        (self.boundary.entering, self.boundary.entered) = (None, Some(checkpoint));
        if self.boundary.is_in_boot {
            self.boundary.is_in_boot = false;
        } else {
            self.is_in(&checkpoint);
        }
        Came::Nothing
    }

    fn is_in(&mut self, checkpoint: &Checkpoint) {
        self.makes(checkpoint.digest as u64);
        self.version = checkpoint.version;
        self.model = checkpoint.digest as u64;
        self.next_model = mix(self.model, u64::from(self.version.0));
        self.index = 0;
        self.choice.chosen = None;
    }

    /// The newest version that its agent knows it has entered: with channels it is notified a moment later.
    pub(super) fn version_known(&self) -> Version {
        let unknown = self.boundary.entered.is_some_and(|entered| entered.version > self.first.version);
        Version(self.version.0 - u32::from(unknown))
    }

    /// What was chosen in the version that it is in.
    pub(super) fn choice(&self) -> Option<(Lineage, Version, bool)> {
        self.choice.chosen.map(|chosen| (self.lineage, self.version, chosen))
    }

    /// An own model is held by as many others as it has to be.
    pub(super) fn is_safe(&mut self, own: &Checkpoint) {
        self.own_model.safe = self.own_model.spreading.take_if(|spreading| spreading == own).or(self.own_model.safe);
    }

    fn finish(&mut self, model: u64, job: &Job, out: &mut Vec<Output>) -> Came {
        if let Some(Err(error)) = self.collectives.as_mut().map(|collectives| collectives.end(&self.peers, out)) {
            return self.broken(error);
        }
        check_model(self.peers.own.rank, job, job.program.end(), model, out);
        self.makes(model);
        self.finished = true;
        Came::Finish(model)
    }

    /// It takes the samples for another number.
    pub(super) fn samples_of(&mut self, number: Rank) {
        self.rows.samples = number;
    }

    /// The samples of the version that it is in are dealt out before its first call.
    fn deals(&mut self, job: &Job, out: &mut Vec<Output>) {
        let begins = job.program.has_booted(self.boot) && self.rows.dealt_in != Some(self.version);
        if job.is_elastic && begins && job.program.deals(self.version) {
            self.rows.dealt_in = Some(self.version);
            out.push(Output::Deals(self.lineage, self.model, self.peers.own.rank, self.rows.samples));
        }
    }

    fn makes(&mut self, model: u64) {
        let Some(job) = self.job.as_ref().filter(|_| model != self.model) else { return };
        let dealers = if job.program.deals(self.version) { job.program.world } else { 0 };
        self.made = Some((self.model, model, dealers));
    }

    /// The model that it has made, with the one before, and how many ranks have taken samples for it; asked once.
    pub(super) fn made(&mut self) -> Option<(u64, u64, u32)> {
        self.made.take()
    }

    /// It trains on the rows of another rank.
    pub(super) fn rows_of(&mut self, rank: Rank) {
        self.rows.of = rank;
    }

    /// What this rank gives to the next call of its program.
    fn own(&self, job: &Job) -> u64 {
        let (is_boot, index) = self.place(&job.program);
        if !is_boot && job.program.chooses(self.version, index) {
            // What else only one process knows may speak against it, and not at its next incarnation.
            let minds = mix(u64::from(self.version.0), u64::from(self.peers.own.incarnation.number)) >> 62 == 0;
            return u64::from(!minds && self.wish.is_some_and(|wish| wish.is_open_in(self.version)));
        }
        job.program.given(self.rows.of, is_boot, self.version, index) ^ self.lie(is_boot)
    }

    fn lie(&self, is_boot: bool) -> u64 {
        let lies = self.lies_in == Some(Phase::Version(self.version)) && !is_boot;
        if lies {
            // Each incarnation another lie: one that repeats the former's says nothing else than it.
            76 + u64::from(self.peers.own.incarnation.number)
        } else {
            0
        }
    }

    /// Whether the next call is one of boot, and which one.
    fn place(&self, program: &Program) -> (bool, u32) {
        match program.has_booted(self.boot) {
            true => (false, self.index),
            false => (true, self.boot),
        }
    }

    fn begin_collective(&mut self, call: Call, key: Option<BootKey>, job: &Job, out: &mut Vec<Output>) -> Came {
        let (own, rank) = (self.own(job), self.peers.own.rank);
        let gives = call.operation != Operation::Barrier && call.root.is_none_or(|root| root == rank);
        let forgets =
            if job.defect == Some(Defect::Forgets) { u64::from(self.peers.own.incarnation.number) } else { 0 };
        let promised = forgets ^ if gives { own } else { self.lie(key.is_some()) };
        let is_choice = key.is_none() && job.program.chooses(self.version, self.index) && !self.choice.confirms;
        let promises = job.program.promises && (!is_choice || job.defect == Some(Defect::ChoiceRepeated));
        let promise = |before: u64| promises.then(|| mix(before, promised));
        let begun = self.collectives.as_mut().map(|collectives| collectives.begin(&call, key, promise));
        if let Some(Err(error)) = begun {
            return self.broken(error);
        }
        self.call = Some((Lane::Collectives, call, own));
        self.advance(job, out)
    }

    /// Whether a call is under way for which the shared memory has to be looked at the first time.
    pub(super) fn has_to_look(&self) -> bool {
        self.collectives.as_ref().is_some_and(Collectives::has_to_look)
    }

    /// Whether a segment couldn't be opened that the present generation needs.
    pub(super) fn is_shut_out(&self) -> bool {
        self.collectives.as_ref().is_some_and(Collectives::is_shut_out)
    }

    /// The call that is under way goes on through shared memory, as far as it can now.
    pub(super) fn look(&mut self, memory: &mut Memory, now: Millis, job: &Job, out: &mut Vec<Output>) -> Came {
        let its = self.job.clone();
        let job = its.as_deref().unwrap_or(job);
        let Some(collectives) = &mut self.collectives else { return Came::Nothing };
        let own = self.call.as_ref().map_or(0, |(_, _, own)| *own);
        let run = collectives.look(own, memory, now, &self.peers, job, out);
        self.ran(run, job, out)
    }

    /// The call that is under way goes on as far as it can.
    pub(super) fn advance(&mut self, job: &Job, out: &mut Vec<Output>) -> Came {
        let its = self.job.clone();
        let job = its.as_deref().unwrap_or(job);
        let moved = self.streams.as_mut().map(|streams| {
            let given = streams.advance(self.peers.own.rank, &job.program);
            let moved = if job.in_place { streams.moves(&self.peers, job, out) } else { Ok(()) };
            (given, moved)
        });
        if let Some((given, moved)) = moved {
            if let Err(error) = moved {
                return self.broken(error);
            }
            if let (Some(given), Some((_, call, _))) = (given, &self.call) {
                let result = combine(call, &given);
                self.ended(result, false, job, out);
                return Came::Nothing;
            }
        }
        let Some((Lane::Collectives, _, own)) = self.call else { return Came::Nothing };
        let run = self.collectives.as_mut().map(|collectives| collectives.advance(own, &self.peers, job, out));
        run.map_or(Came::Nothing, |run| self.ran(run, job, out))
    }

    fn ran(&mut self, run: Result<Run, Error>, job: &Job, out: &mut Vec<Output>) -> Came {
        match run {
            Ok(Run::Waits) => Came::Nothing,
            Ok(Run::CannotShare(peer, attempt)) => Came::CannotShare(peer, attempt),
            Ok(Run::Ends(result, is_replayed)) => {
                self.ended(result, is_replayed, job, out);
                Came::Nothing
            }
            Err(error) => self.broken(error),
        }
    }

    /// The bridge looks at what the trainer wrote.
    pub(super) fn moves(&mut self, job: &Job, out: &mut Vec<Output>) -> Came {
        let its = self.job.clone();
        let job = its.as_deref().unwrap_or(job);
        let moved = self.streams.as_mut().map(|streams| streams.moves(&self.peers, job, out));
        match moved {
            Some(Err(error)) if !self.failed => self.broken(error),
            _ => Came::Nothing,
        }
    }

    /// Looks at the first frame of a link: whether it was taken, or stays where it is.
    pub(super) fn reads(&mut self, from: Rank, frame: &Frame, job: &Job, out: &mut Vec<Output>) -> Result<bool, Error> {
        if self.failed {
            return Ok(false);
        }
        let its = self.job.clone();
        let job = its.as_deref().unwrap_or(job);
        let read = match (frame, &mut self.collectives, &mut self.streams) {
            (Frame::Given(given), Some(collectives), _) => collectives.reads(from, given, &self.peers, job),
            (Frame::Given(_), ..) => return Ok(false),
            (frame, _, Some(streams)) => {
                let read = streams.reads(from, frame, &self.peers, job, out);
                // What has come may have opened the way, whichever reads the sockets.
                read.and_then(|read| match frame {
                    Frame::Receipt(_) => streams.moves(&self.peers, job, out).map(|()| read),
                    _ => Ok(read),
                })
            }
            _ => return Ok(false),
        };
        read.inspect_err(|error| drop(self.broken(error.clone())))
    }

    /// The living peers are notified.
    pub(super) fn peers_are(&mut self, now: Vec<Option<End>>, job: &Job, out: &mut Vec<Output>) {
        for (rank, peer) in (0u32..).map(Rank).zip(now) {
            let index = rank.0 as usize;
            let known = self.peers.now[index];
            self.peers.incarnations[index] = peer.map_or(self.peers.incarnations[index], |peer| peer.incarnation);
            if known == peer {
                continue;
            }
            if job.defect != Some(Defect::NoFencing) {
                out.extend(known.map(|known| Output::Unlink(self.peers.own, known)));
            } else if peer.is_none() {
                continue;
            }
            self.peers.now[index] = peer;
            if let Some(streams) = &mut self.streams {
                match peer {
                    Some(_) => streams.linked(rank, &self.peers, out),
                    None => streams.unlinked(rank),
                }
            }
        }
    }

    /// A link broke. Returns the generation of which frames were lost.
    pub(super) fn link_broke(&mut self, peer: Rank, lane: Lane, out: &mut Vec<Output>) -> Option<Generation> {
        match lane {
            Lane::Channels => {
                if let Some(streams) = &mut self.streams {
                    streams.linked(peer, &self.peers, out);
                }
                None
            }
            Lane::Collectives => self.collectives.as_mut()?.cut(peer),
        }
    }

    pub(super) fn fetches(&mut self) -> Vec<Fetch> {
        self.collectives.as_mut().map(Collectives::fetches).unwrap_or_default()
    }

    pub(super) fn entry(&self, lineage: Lineage, phase: Phase, seqno: u32, job: &Job) -> Option<Entry<u64>> {
        self.collectives.as_ref()?.entry(lineage, phase, seqno, job)
    }

    /// Whether it knows of something that another incarnation of this rank would contradict by
    /// saying other things in this phase.
    pub(super) fn knows(&self, rank: Rank, phase: Phase) -> bool {
        let has_heard = |observed: &ObservedInput| observed.rank == rank && observed.phase == phase;
        let observed = self.collectives.as_ref().map(|lane| lane.participant().observed()).unwrap_or_default();
        observed.iter().any(has_heard) || self.streams.as_ref().is_some_and(|streams| streams.knows(rank, phase))
    }

    fn broken(&mut self, error: Error) -> Came {
        self.failed = true;
        self.call = None;
        self.collectives.iter_mut().for_each(Collectives::give_up);
        Came::Broken(error)
    }

    fn ended(&mut self, result: u64, replayed: bool, job: &Job, out: &mut Vec<Output>) {
        let program = &job.program;
        let call = self.call.take();
        let (boot, index) = self.place(program);
        if !boot && program.chooses(self.version, index) {
            out.push(if replayed { Output::Replayed } else { Output::Computed });
            return self.chose(result, job, out);
        }
        let expected = program.expected(boot, self.version, index);
        let (rank, incarnation) = (self.peers.own.rank, self.peers.own.incarnation);
        let who = || {
            let what = call.as_ref().map(|(_, call, _)| call.to_string()).unwrap_or_default();
            let phase = if boot { Phase::Boot } else { Phase::Version(self.version) };
            format!("rank {rank} incarnation {incarnation}, {what}, call {index} of {phase}")
        };
        if !job.lies {
            let found =
                if replayed { replay::result(result, expected, who) } else { agreement::result(result, expected, who) };
            out.extend(found.err().map(Output::Violated));
        }
        if boot {
            self.boot_model = mix(self.boot_model, result);
            self.boot += 1;
        } else {
            if program.counts(self.version, index) {
                self.next_model = mix(self.next_model, result);
            }
            self.index += 1;
        }
        if self.version == Version(0) && self.index == 0 {
            self.model = self.boot_model;
            self.next_model = mix(self.model, 0);
        }
        out.push(if replayed { Output::Replayed } else { Output::Computed });
    }

    /// A choice has come, or the confirmation of one.
    fn chose(&mut self, result: u64, job: &Job, out: &mut Vec<Output>) {
        let is_confirmed = self.choice.confirms || job.defect == Some(Defect::ChoiceUnconfirmed);
        let chosen = *self.choice.chosen.get_or_insert(result != 0);
        self.choice.confirms = chosen && !is_confirmed;
        self.index += u32::from(!self.choice.confirms);
        out.push(Output::Chose { by: self.peers.own, chosen, is_confirmed: chosen && is_confirmed });
    }

    pub(super) fn describe(&self) -> String {
        format!(
            "version {} call {} boot {} entering {:?} in call {:?} peers {:?} finished {} failed {} {} {}",
            self.version,
            self.index,
            self.boot,
            self.boundary.entering.or(self.boundary.entered).map(|checkpoint| checkpoint.version),
            self.call,
            self.peers.now,
            self.finished,
            self.failed,
            self.collectives.as_ref().map(Collectives::describe).unwrap_or_default(),
            self.streams.as_ref().map(Streams::describe).unwrap_or_default()
        )
    }
}

fn check_model(rank: Rank, job: &Job, version: Version, model: u64, out: &mut Vec<Output>) {
    let found = agreement::model(rank, version, model, job.program.model(version));
    out.extend(found.err().filter(|_| !job.lies).map(Output::Violated));
}
