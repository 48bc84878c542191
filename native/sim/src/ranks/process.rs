//! One process: its agent, and the tasks that run in it.

use super::frame::{End, Frame};
use super::memory::{segment_address, Memory, Sharing};
use super::process_io::{Input, Output, Try};
use super::program::own_model;
use super::sim_rank::{Came, SimRank};
use super::task::Task;
use super::{Defect, Job, Plane};
use crate::invariants::reports::Reported;
use crate::invariants::{fencing, replay};
use rejoin_protocol::collective::Entry;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::hook::Hook;
use rejoin_protocol::host::{Host, HostConfig, HostInput, HostOutput, Offer, Peer, OWN_COPIES};
use rejoin_protocol::ids::{
    AgentId, Checkpoint, CheckpointName, Incarnation, Lane, Lineage, MemberId, Millis, Phase, Rank, Version,
};
use rejoin_protocol::message::{CheckpointWish, RankGiven};
use rejoin_protocol::report::Report;
use rejoin_protocol::start::JobStart;
use std::collections::{BTreeMap, VecDeque};

/// One process.
#[derive(Clone, Debug)]
pub struct Process {
    number: u32,
    pub(super) host: Host,
    pub(super) tasks: Vec<Task>,
    /// Checkpoints whose bytes are here.
    store: BTreeMap<CheckpointName, Checkpoint>,
    pub(super) closed: bool,
    /// Inputs for the host, in their order.
    commands: VecDeque<HostInput>,
    /// Its ranks share memory with those of its host; whether it can open no other segment.
    is_blind: Option<bool>,
    /// Its training library can't be hooked.
    is_hookless: bool,
    /// How often a rank has joined here.
    joins: u32,
    /// It has a connection to the tracker.
    pub(super) is_connected: bool,
    /// No rank is missing or behind, by what the tracker has sent.
    pub(super) is_settled: bool,
    /// The newest wish for a checkpoint that it has heard of.
    wish: Option<CheckpointWish>,
}

/// A process' number as its agent's.
fn agent(process: u32) -> AgentId {
    AgentId(u64::from(process))
}

impl Process {
    /// A process on this host that is about to connect to the tracker.
    pub fn new(number: u32, host: &str, tracker_millis: u64, one_by_one: u32, now: Millis) -> Self {
        let config = HostConfig {
            agent: agent(number),
            executor: number.to_string(),
            host: host.into(),
            address: ([127, 0, 0, 1], 1000 + (number % 60_000) as u16).into(),
            pid: number,
            tracker_millis,
            own_copies: OWN_COPIES,
            one_by_one,
        };
        let mut host = Host::new(config, now);
        let connect = host.poll();
        debug_assert_eq!(connect, Some(HostOutput::ConnectTracker));
        Process {
            number,
            host,
            tasks: Vec::new(),
            store: BTreeMap::new(),
            closed: false,
            commands: VecDeque::new(),
            is_blind: None,
            is_hookless: false,
            joins: 0,
            is_connected: false,
            is_settled: false,
            wish: None,
        }
    }

    /// The same, whose ranks share memory with those of its host. One that `is_blind` can't open theirs.
    pub fn sharing(self, is_blind: bool) -> Self {
        Process { is_blind: Some(is_blind), ..self }
    }

    /// The same, whose training library can't be hooked.
    pub fn hookless(self) -> Self {
        Process { is_hookless: true, ..self }
    }

    /// It is given a training library that can be hooked.
    pub fn is_mended(&mut self) {
        self.is_hookless = false;
    }

    /// A task starts in it. [`Input::Join`] comes next.
    pub fn runs(mut self, id: Try) -> Self {
        self.starts(id);
        self
    }

    /// [`Process::runs`] in one that is there. What failed for this rank is forgotten.
    pub fn starts(&mut self, id: Try) {
        self.tasks.retain(|task| task.of.rank != id.rank || task.freed.is_none());
        self.tasks.push(Task::new(id));
    }

    /// The same in a job with spares: it asks for a rank first. What it is known by until then.
    pub fn stands_by(&mut self, of: Try) -> Try {
        self.tasks.retain(|task| task.of.rank != of.rank || task.freed.is_none());
        let task = Task::standing(of);
        let id = task.id;
        self.tasks.push(task);
        id
    }

    /// Which one it is.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Those that run here, and those that have failed and were not started again.
    pub fn tasks(&self) -> &[Task] {
        &self.tasks
    }

    /// `None` if that try isn't here.
    pub fn task(&self, id: Try) -> Option<&Task> {
        self.tasks.iter().find(|task| task.id == id)
    }

    /// Its agent.
    pub fn host(&self) -> &Host {
        &self.host
    }

    /// Whether its agent is over.
    pub fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether the bytes of a checkpoint are here.
    pub fn holds(&self, checkpoint: &Checkpoint) -> bool {
        self.store.get(&checkpoint.name()) == Some(checkpoint)
    }

    /// The checkpoints whose bytes are here.
    pub fn held(&self) -> impl Iterator<Item = &Checkpoint> {
        self.store.values()
    }

    /// A result that it holds.
    pub fn entry(&self, lineage: Lineage, phase: Phase, seqno: u32, job: &Job) -> Option<Entry<u64>> {
        self.tasks.iter().find_map(|task| task.sim_rank.as_ref()?.entry(lineage, phase, seqno, job))
    }

    /// For the text of a job that stands still.
    pub fn describe(&self) -> String {
        let stages: Vec<String> = self.host.members().iter().map(|member| format!("{:?}", member.stage)).collect();
        let tasks: Vec<String> = self.tasks.iter().map(Task::describe).collect();
        format!("{} {} {}", tasks.join(" "), stages.join(" "), self.number)
    }

    /// One thing that happened, and what follows from it.
    pub fn handle(&mut self, input: Input, now: Millis, job: &Job) -> Vec<Output> {
        let mut out = Vec::new();
        match input {
            Input::TrackerUp => {
                self.is_connected = true;
                self.commands.push_back(HostInput::TrackerUp);
            }
            Input::TrackerDown => {
                self.is_connected = false;
                self.commands.push_back(HostInput::TrackerDown { reason: "connection reset".into() });
            }
            Input::Tracker(message) => {
                self.settles(&message);
                self.queue(HostInput::Tracker(message), job);
            }
            Input::Join(id) => self.join(id, job),
            Input::Wake => {
                self.commands.push_back(HostInput::Wake);
                self.report_cuts_again();
            }
            Input::Go(id) => self.has_come(id, |sim_rank, out| sim_rank.go(job, out), job, &mut out),
            Input::Moves(id) => self.has_come(id, |sim_rank, out| sim_rank.moves(job, out), job, &mut out),
            Input::FetchedCheckpoint(id) => self.fetched(id, true),
            Input::NoCheckpoint(id) => self.fetched(id, false),
            Input::FetchedResult(id, index, entry) => self.take_result(id, index, &entry, job, &mut out),
            Input::WishIsOver(id, index) => self.find(id).into_iter().for_each(|task| drop(task.wishes.remove(index))),
            Input::LinkBroke(own, peer, lane) => self.link_broke(own, peer, lane, &mut out),
            Input::End(id) => self.report(id, Report::Left { failure: None }),
            Input::Given(start) => {
                let held = start.origin().map(|origin| origin.checkpoint);
                let owners = start.origin().filter(|origin| origin.checkpoint.has_own).map_or(0, |origin| origin.world);
                let own = held.into_iter().flat_map(|held| (0..owners).map(move |owner| own_model(&held, Rank(owner))));
                let all: Vec<Checkpoint> = held.into_iter().chain(own).collect();
                self.store.extend(all.iter().map(|held| (held.name(), *held)));
                let is_durable = matches!(start, JobStart::Durable(_));
                let input = if is_durable { HostInput::Durable } else { HostInput::HandedOver };
                self.commands.extend(all.into_iter().map(input));
            }
            Input::Kept(checkpoint) => {
                self.store.insert(checkpoint.name(), checkpoint);
                self.commands.push_back(HostInput::Kept(checkpoint));
            }
            Input::Copied(checkpoint, to) => {
                self.commands.push_back(HostInput::Copied { checkpoint, agent: agent(to) });
            }
            Input::CopyFailed(checkpoint, to) => {
                self.commands.push_back(HostInput::CopyFailed { checkpoint, agent: agent(to) });
            }
            Input::Throw(id) => {
                if let Some(task) = self.find(id).filter(|task| task.sim_rank.is_some()) {
                    (task.sim_rank, task.freed) = (None, Some(Code::Io));
                    self.report(id, Report::Left { failure: Some(Error::new(Code::Io, "the task threw")) });
                }
            }
        }
        self.run_commands(now, job, &mut out);
        self.advance(job, &mut out);
        self.run_commands(now, job, &mut out);
        self.rests(&mut out);
        out
    }

    /// The first frame of the link between two ends; `None` when it stays where it is.
    pub fn reads(&mut self, from: End, to: End, frame: &Frame, now: Millis, job: &Job) -> Option<Vec<Output>> {
        let task = self.tasks.iter_mut().find(|task| task.end() == Some(to))?;
        if !task.is_linked(from) && job.defect != Some(Defect::NoFencing) {
            return None;
        }
        let (id, mut out) = (task.id, Vec::new());
        match task.sim_rank.as_mut()?.reads(from.rank, frame, job, &mut out) {
            Ok(false) => return None,
            Ok(true) => {
                let alive = self.host.view().and_then(|view| view.alive(from.rank));
                let join_accepted = alive.map(|(incarnation, at)| (at.agent, incarnation));
                let found = fencing::frame(to.rank, from.rank, (agent(from.process), from.incarnation), join_accepted);
                out.extend(found.err().map(Output::Violated));
            }
            Err(error) => self.report(id, Report::Broken(error)),
        }
        self.advance(job, &mut out);
        self.run_commands(now, job, &mut out);
        self.rests(&mut out);
        Some(out)
    }

    /// A task's rank looks at the shared memory, where something may have changed.
    pub fn looks(&mut self, id: Try, memory: &mut Memory, now: Millis, job: &Job) -> Vec<Output> {
        let mut out = Vec::new();
        self.has_come(id, |sim_rank, out| sim_rank.look(memory, now, job, out), job, &mut out);
        self.run_commands(now, job, &mut out);
        self.advance(job, &mut out);
        self.run_commands(now, job, &mut out);
        self.rests(&mut out);
        out
    }

    fn find(&mut self, id: Try) -> Option<&mut Task> {
        self.tasks.iter_mut().find(|task| task.id == id)
    }

    /// The task of an incarnation that was started.
    pub(super) fn living(&mut self, member: MemberId) -> Option<&mut Task> {
        self.tasks.iter_mut().find(|task| task.end().is_some_and(|end| end.member() == member))
    }

    fn join(&mut self, id: Try, job: &Job) {
        self.joins += 1;
        let segment = self.is_blind.map(|_| segment_address(self.number, self.joins));
        let hook = self.hook(job);
        let Some(task) = self.find(id) else { return };
        (task.freed, task.segment) = (None, segment);
        if task.stands_by() {
            let Try { rank, attempt } = task.of;
            self.commands.push_back(HostInput::StandBy { task: rejoin_protocol::ids::Task(rank.0), attempt });
            return;
        }
        let Try { rank, attempt } = id;
        let (fingerprint, offer) = ("the same for all".into(), Offer { segment, hook });
        self.commands.push_back(HostInput::Join { rank, attempt, fingerprint, offer });
    }

    /// A task's world has changed: it asks which rank it is now, and joins as that. What it is known by until then.
    fn asks_again(&mut self, id: Try, job: &Job) -> Option<Try> {
        let task = self.find(id)?;
        match job.defect {
            Some(Defect::AsksNoMore) => return None,
            Some(Defect::AsBefore) => {}
            _ => task.id = Task::standing(task.of).id,
        }
        (task.freed, task.incarnation) = (None, None);
        Some(task.id)
    }

    /// Whether its training library's collectives can be taken over.
    fn hook(&self, job: &Job) -> Hook {
        match job.plane {
            Plane::Collectives => Hook::Unasked,
            Plane::Channels => Hook::Impossible("the settings forbid it".into()),
            Plane::Both if self.is_hookless => Hook::Impossible("its library is another one".into()),
            Plane::Both => Hook::Possible,
        }
    }

    fn fetched(&mut self, id: Try, is_here: bool) {
        let Some(task) = self.find(id) else { return };
        let member = MemberId { rank: id.rank, incarnation: task.incarnation() };
        match task.wanted.take().filter(|_| is_here) {
            Some((checkpoint, _)) => {
                self.store.insert(checkpoint.name(), checkpoint);
                let (bytes, source, millis) = (checkpoint.length, "a peer".into(), 0);
                self.commands.push_back(HostInput::Fetched { member, bytes, source, millis });
            }
            None => {
                let reason = "no holder gave it".into();
                self.commands.push_back(HostInput::FetchFailed { member, is_further: false, reason });
            }
        }
    }

    /// Has its host report this of a task's rank, if that was given a slot.
    fn report(&mut self, id: Try, report: Report) {
        let Some(incarnation) = self.find(id).and_then(|task| task.incarnation) else { return };
        self.commands.push_back(HostInput::Report { member: MemberId { rank: id.rank, incarnation }, report });
    }

    /// Behind the versions that ranks have entered by now.
    fn queue(&mut self, command: HostInput, job: &Job) {
        match job.defect {
            Some(Defect::VersionsOvertaken) => self.commands.push_front(command),
            _ => self.commands.push_back(command),
        }
    }

    /// That a version was entered stays queued until there is something else, where the host allows it, as in an agent.
    fn run_commands(&mut self, now: Millis, job: &Job, out: &mut Vec<Output>) {
        let is_late = |command: &HostInput| matches!(command, HostInput::Entered { .. });
        let reports_at_once = |host: &Host| host.reports_at_once() && job.defect != Some(Defect::VersionsLate);
        while reports_at_once(&self.host) || !self.commands.iter().all(is_late) {
            let Some(command) = self.commands.pop_front() else { return };
            self.host.handle(command, now);
            while let Some(output) = self.host.poll() {
                self.carry_out(output, job, out);
            }
        }
    }

    fn carry_out(&mut self, output: HostOutput, job: &Job, out: &mut Vec<Output>) {
        match output {
            HostOutput::ConnectTracker => out.push(Output::Connect),
            HostOutput::Send(message) => self.sends(message, job, out),
            HostOutput::JoinAccepted { rank, attempt, incarnation } => {
                for task in self.tasks.iter_mut().filter(|task| task.id.rank == rank) {
                    if task.id.attempt == attempt {
                        task.incarnation = Some(incarnation);
                    }
                    // What its older incarnations had here is gone.
                    task.sim_rank = None;
                    task.wishes.clear();
                }
            }
            HostOutput::Forget { lineage, version } => {
                self.store.retain(|_, held| (held.lineage, held.version) != (lineage, version));
            }
            HostOutput::Copy { checkpoint, to } => out.push(Output::Copy(checkpoint, to.agent.0 as u32)),
            HostOutput::Safe(own) => {
                let ranks = self.host.view().into_iter().flat_map(|view| {
                    let alive = (0..view.world()).filter_map(|rank| view.alive(Rank(rank)));
                    alive.map(|(_, at)| at.agent.0 as u32)
                });
                out.push(Output::Safe(own, ranks.filter(|other| *other != self.number).collect()));
                self.tasks.iter_mut().filter_map(|task| task.sim_rank.as_mut()).for_each(|rank| rank.is_safe(&own));
            }
            HostOutput::Faults(_) => {}
            HostOutput::CheckpointWanted(wish) => {
                self.wish = Some(wish);
                self.tasks.iter_mut().filter_map(|task| task.sim_rank.as_mut()).for_each(|rank| rank.wish = self.wish);
            }
            HostOutput::LeaveTracker { .. } => out.push(Output::LeaveTracker),
            HostOutput::Fetch { member: MemberId { rank, incarnation }, checkpoint, holders } => {
                let holders = holders.iter().map(|at| at.agent.0 as u32).collect();
                let is_its = |task: &&mut Task| task.id.rank == rank && task.incarnation == Some(incarnation);
                if let Some(task) = self.tasks.iter_mut().find(is_its) {
                    task.wanted = Some((checkpoint, holders));
                }
            }
            HostOutput::Start { rank, attempt, start } => self.start(Try { rank, attempt }, start, job, out),
            HostOutput::Links { member, peers, .. } => {
                self.peers_are(member, &peers, job, out);
                out.push(Output::View(self.host.view().map(|view| view.generation).unwrap_or_default()));
            }
            HostOutput::Hold { member, generation } => {
                let sim_rank = self.living(member).and_then(|task| task.sim_rank.as_mut());
                let (oldest, results, observed) =
                    sim_rank.map(|sim_rank| sim_rank.hold(generation, job.defect)).unwrap_or_default();
                self.queue(HostInput::Holding { member, oldest, results, observed }, job);
            }
            HostOutput::Plan { member, plan } => {
                if let Some(task) = self.living(member) {
                    task.sim_rank
                        .iter_mut()
                        .filter_map(|sim_rank| sim_rank.collectives.as_mut())
                        .for_each(|c| c.plan(plan.clone()));
                    task.wishes_grow();
                }
            }
            HostOutput::Release { member } => {
                if let Some(task) = self.living(member) {
                    task.sim_rank.iter_mut().for_each(SimRank::release);
                    task.wishes_grow();
                }
            }
            HostOutput::Free { rank, attempt, incarnation, error } => {
                self.freed(Try { rank, attempt }, incarnation, error, job, out);
            }
            HostOutput::Over { rank, attempt, outcome } => {
                let id = Try { rank, attempt };
                if let Some(task) = self.find(id) {
                    task.outcome = Some(outcome.clone().map_err(|error| error.code));
                }
                out.push(Output::Over(id, outcome));
            }
            HostOutput::RankGiven { task, attempt, given: RankGiven { rank, attempt: joins_as } } => {
                let of = Try { rank: Rank(task.0), attempt };
                if let Some(task) = self.tasks.iter_mut().find(|task| task.of == of && task.stands_by()) {
                    task.id = Try { rank, attempt: joins_as };
                    out.extend((job.defect != Some(Defect::GivenInVain)).then_some(Output::Given(task.id)));
                }
            }
            HostOutput::StandByOver { task, attempt, outcome } => {
                self.stand_by_over(Try { rank: Rank(task.0), attempt }, outcome, job, out);
            }
            HostOutput::Close { .. } => {
                self.closed = true;
                self.tasks.iter_mut().for_each(|task| task.sim_rank = None);
                out.push(Output::Closed);
            }
        }
    }

    /// A task's rank is over, without the job's end; in another world it asks for one again.
    fn freed(&mut self, id: Try, incarnation: Option<Incarnation>, error: Error, job: &Job, out: &mut Vec<Output>) {
        if let Some(task) = self.find(id) {
            task.sim_rank = None;
            task.wishes.clear();
            task.wanted = None;
            task.freed = Some(error.code);
        }
        let again = (error.code == Code::Resized).then(|| self.asks_again(id, job)).flatten();
        out.push(Output::Freed(id, incarnation, error));
        out.extend(again.map(Output::Given));
    }

    /// A task stands by no longer: with the job's end, or because it can't.
    fn stand_by_over(&mut self, of: Try, outcome: Result<u128, Error>, job: &Job, out: &mut Vec<Output>) {
        let is_over = self.host.job_is_over();
        let Some(task) = self.tasks.iter_mut().find(|task| task.of == of && task.stands_by()) else { return };
        match outcome {
            _ if job.defect == Some(Defect::SparesUnreported) => {}
            Err(error) if !is_over => {
                task.freed = Some(error.code);
                out.push(Output::Freed(task.id, None, error));
            }
            outcome => {
                task.outcome = Some(outcome.clone().map_err(|error| error.code));
                out.push(Output::Over(task.id, outcome));
            }
        }
    }

    fn start(&mut self, id: Try, mut start: rejoin_protocol::host::Start, job: &Job, out: &mut Vec<Output>) {
        match job.defect {
            Some(Defect::OwnByNumber) => {
                start.own = start.own.and(start.checkpoint.map(|common| own_model(&common, id.rank)));
            }
            Some(Defect::GivenIsDropped) => start.former.iter_mut().for_each(|former| former.given.clear()),
            _ => {}
        }
        let sharing = |task: &Task| task.segment.zip(self.is_blind).map(|(own, is_blind)| Sharing::new(own, is_blind));
        let sharing = self.task(id).and_then(sharing);
        if !job.lies && !job.is_elastic {
            let right = job.program.model(start.version);
            out.extend(replay::started(id.rank, &start, right, job.locals).err().map(Output::Violated));
        }
        let given = start.former.iter().flat_map(|former| &former.given).filter_map(|given| given.own);
        let mut begins_with = start.checkpoint.into_iter().chain(start.own).chain(given);
        let is_here = begins_with.all(|checkpoint| checkpoint.length == 0 || self.holds(&checkpoint));
        let found = crate::invariants::no_lost_work::held(id.rank, start.version, is_here);
        out.extend(found.err().map(Output::Violated));
        let own = End { process: self.number, rank: id.rank, incarnation: start.incarnation };
        let own_rows = self.task(id).map_or(id.rank, |task| task.of.rank);
        let is_late = own_rows.0 >= job.program.world;
        let its = job.is_elastic.then(|| self.in_its_world(&start, is_late, job));
        if job.is_elastic {
            out.push(Output::Began(id, start.clone(), self.host.view().map_or(0, |view| view.world())));
        }
        let mut sim_rank = SimRank::new(own, &start, &self.hook(job), sharing, its.as_ref().unwrap_or(job));
        sim_rank.wish = self.wish;
        match job.defect {
            Some(Defect::OldRows) => sim_rank.rows_of(own_rows),
            Some(Defect::OldSamples) => sim_rank.samples_of(own_rows),
            _ => {}
        }
        if job.defect == Some(Defect::RowsOfItsNumber) {
            sim_rank.rows_of(Rank(own_rows.0 % job.program.world));
        }
        if let Some(task) = self.find(id) {
            task.sim_rank = Some(sim_rank);
            task.reported = Reported::default();
            task.wishes.clear();
        }
        out.push(Output::Started(id, start));
    }

    /// What is to be done from a start on, in the world that the view has. `is_late`: the task wasn't there at first.
    fn in_its_world(&self, start: &rejoin_protocol::host::Start, is_late: bool, job: &Job) -> Job {
        let now = self.host.view().map_or(job.program.world, |view| view.world());
        let world = match job.defect {
            // Of a larger one it has no links to all.
            Some(Defect::OldWorld) => job.program.world.max(now),
            _ => now,
        };
        let takes = !(is_late && job.defect == Some(Defect::FromNothing));
        let model = start.checkpoint.filter(|_| takes).map_or(1, |checkpoint| checkpoint.digest as u64);
        Job { program: job.program.in_world(world, start.version, model), ..job.clone() }
    }

    /// Something has made a task's rank go on.
    fn has_come(
        &mut self,
        id: Try,
        come: impl FnOnce(&mut SimRank, &mut Vec<Output>) -> Came,
        job: &Job,
        out: &mut Vec<Output>,
    ) {
        let Some(task) = self.find(id) else { return };
        let Some(sim_rank) = task.sim_rank.as_mut() else { return };
        let (came, own) = (come(sim_rank, out), sim_rank.peers.own);
        let lineage = sim_rank.lineage;
        if let Some((before, model, dealers)) = sim_rank.made() {
            out.push(Output::Made { lineage, before, model, dealers });
        }
        task.wishes_grow();
        let member = own.member();
        if let Came::Entered(checkpoint) = &came {
            task.reported.enters(checkpoint.version);
        }
        match came {
            Came::Nothing => {}
            Came::Broken(error) => self.report(id, Report::Broken(error)),
            Came::CannotShare(peer, generation) => {
                let reason = "it can't be opened".into();
                self.report(id, Report::CannotShare { peer, generation, reason });
            }
            Came::Own(own) => {
                self.store.insert(own.name(), own);
                out.push(Output::Own(own, self.host.view().map_or(0, |view| view.world())));
                self.commands.push_back(HostInput::Own(own));
            }
            Came::Finish(model) => {
                let (rounds, digest) = (job.program.versions(), u128::from(model));
                if job.is_elastic {
                    out.push(Output::Model(lineage, Version(rounds), digest));
                }
                self.report(id, Report::Finished { rounds, digest });
            }
            Came::Entered(checkpoint) => {
                if checkpoint.version > Version(0) {
                    self.store.entry(checkpoint.name()).or_insert(checkpoint);
                }
                let local = job.locals.then(|| replay::local(id.rank, checkpoint.version));
                self.commands.push_back(HostInput::Entered { member, checkpoint, local });
                // A checkpoint that begins a lineage keeps the name it had before.
                out.push(Output::Entered(id, lineage, checkpoint.version));
                if job.is_elastic {
                    out.push(Output::Model(checkpoint.lineage, checkpoint.version, checkpoint.digest));
                }
            }
        }
    }

    fn advance(&mut self, job: &Job, out: &mut Vec<Output>) {
        for index in 0..self.tasks.len() {
            let id = self.tasks[index].id;
            self.has_come(id, |sim_rank, out| sim_rank.advance(job, out), job, out);
        }
    }

    fn take_result(&mut self, id: Try, index: usize, entry: &Entry<u64>, job: &Job, out: &mut Vec<Output>) {
        let Some(task) = self.find(id) else { return };
        let Some(collectives) = task.sim_rank.as_mut().and_then(|sim_rank| sim_rank.collectives.as_mut()) else {
            return;
        };
        let Some(fetch) = task.wishes.get_mut(index) else { return };
        collectives.fetched(fetch, entry, job, out);
        fetch.from += 1;
        if fetch.from == fetch.to {
            task.wishes.remove(index);
        }
    }

    fn link_broke(&mut self, own: End, peer: End, lane: Lane, out: &mut Vec<Output>) {
        let member = own.member();
        let Some(task) = self.living(member).filter(|task| task.is_linked(peer)) else { return };
        let generation = task.sim_rank.as_mut().and_then(|sim_rank| sim_rank.link_broke(peer.rank, lane, out));
        let reason = || "connection reset".to_string();
        let down = (lane == Lane::Channels).then(|| Report::LinkDown { peer: peer.member(), lane, reason: reason() });
        let lost = generation.map(|generation| Report::Interrupted { peer: peer.rank, generation, reason: reason() });
        let reports = down.into_iter().chain(lost);
        self.commands.extend(reports.map(|report| HostInput::Report { member, report }));
    }

    /// What was reported of a broken link may have been lost with a connection to the tracker.
    fn report_cuts_again(&mut self) {
        for sim_rank in self.tasks.iter().filter_map(|task| task.sim_rank.as_ref()) {
            let member = sim_rank.peers.own.member();
            let cuts = sim_rank.collectives.iter().flat_map(|collectives| collectives.cut_now());
            self.commands.extend(cuts.map(|(peer, generation)| {
                let reason = "connection reset".into();
                HostInput::Report { member, report: Report::Interrupted { peer, generation, reason } }
            }));
        }
    }

    fn peers_are(&mut self, own: MemberId, peers: &[Peer], job: &Job, out: &mut Vec<Output>) {
        let Some(sim_rank) = self.living(own).and_then(|task| task.sim_rank.as_mut()) else { return };
        let mut join_accepted = vec![None; sim_rank.world()];
        for Peer { member: MemberId { rank, incarnation }, at } in peers {
            let end = End { process: at.agent.0 as u32, rank: *rank, incarnation: *incarnation };
            if let Some(slot) = join_accepted.get_mut(rank.0 as usize) {
                *slot = Some(end);
            }
        }
        sim_rank.peers_are(join_accepted, job, out);
    }
}

impl Task {
    /// What its rank's collectives ask for.
    fn wishes_grow(&mut self) {
        self.wishes.extend(self.sim_rank.iter_mut().flat_map(SimRank::fetches));
    }
}
