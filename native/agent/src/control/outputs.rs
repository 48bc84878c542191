//! What tasks ask of the host, and what the host asks to be done.

use super::handing::Handing;
use super::{Command, Control, MemberState};
use crate::inject;
use crate::joined::{Joined, StoodBy};
use crate::links::Broke;
use crate::waiting::Waiting;
use bytes::Bytes;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::event::Event;
use rejoin_protocol::fault::{Action, FaultRule, Moment};
use rejoin_protocol::host::{HostInput, HostOutput, Offer, Peer, Start};
use rejoin_protocol::ids::{Attempt, Checkpoint, Incarnation, Lineage, MemberId, Rank, Task};
use rejoin_protocol::message::{AgentMessage, RankGiven};
use rejoin_protocol::report::Report;
use std::time::{Duration, Instant};

impl Control {
    /// A command of a task's thread or of the plane.
    pub(super) fn obey(&mut self, command: Command) {
        match command {
            Command::Join { rank, attempt, fingerprint, offer, wait } => {
                self.join(rank, attempt, fingerprint, offer, wait)
            }
            Command::CancelJoin { rank, attempt, error } => self.cancel_join(rank, attempt, error),
            Command::StandBy { task, attempt, wait } => {
                self.standing.insert((task, attempt), wait);
                self.handle(Some(HostInput::StandBy { task, attempt }));
            }
            Command::StandDown { task, attempt } => {
                self.standing.remove(&(task, attempt));
                self.handle(Some(HostInput::StandDown { task, attempt }));
            }
            Command::Entered { member, checkpoint, local } => {
                self.moment(member, Moment::Checkpointing { version: checkpoint.version });
                self.handle(Some(HostInput::Entered { member, checkpoint, local }));
            }
            Command::Finish { member, rounds, digest, result, wait } => {
                if let Some(error) = self.shared.failure(member) {
                    // Its calls were ended while this one was on its way.
                    return wait.answer(Err(error));
                }
                match self.state(member) {
                    Some(state) => {
                        state.finishing = Some(wait);
                        state.result = result;
                        self.report_usage();
                        self.report(member, Report::Finished { rounds, digest });
                        self.moment(member, Moment::Finishing);
                    }
                    None => wait.answer(Err(self.gone(member))),
                }
            }
            Command::Free { member, error } => self.free_member(member, error),
            Command::Report { member, report } => self.report(member, report),
            Command::FetchResults { member, fetch } => self.fetch_results(member, fetch),
            Command::AskCall { member, peer, place } => self.ask_call(member, peer, place),
            Command::Holding { member, oldest, results, observed } => {
                self.handle(Some(HostInput::Holding { member, oldest, results, observed }));
            }
            Command::LeaveTracker { reason } => self.tracker_down(reason),
            Command::Own { member, checkpoint, wait } => self.own(member, checkpoint, wait),
            Command::CopyFailed { checkpoint, agent } => self.handle(Some(HostInput::CopyFailed { checkpoint, agent })),
            Command::Made { asked, made } => self.made(asked, &made),
            Command::Verified { member, began, bytes, digest } => self.verified(member, began, bytes, digest),
            Command::Durable(checkpoint) => self.handle(Some(HostInput::Durable(checkpoint))),
            Command::Tidied { lineage, version } => self.handle(Some(HostInput::Tidied { lineage, version })),
            Command::HandedOver(checkpoint) => self.handle(Some(HostInput::HandedOver(checkpoint))),
            Command::Event(event) => self.handle(Some(HostInput::Event(event))),
            Command::Inject(rule) => self.inject(rule),
            Command::Close => self.over = Some("closed by its owner".into()),
        }
    }

    /// A fact about a rank here: what has to be done for it here, before the tracker is notified.
    pub(super) fn report(&mut self, member: MemberId, report: Report) {
        match &report {
            Report::Broken(error) => log::error!("{} {error}", self.shared.prefix_of(member.rank)),
            Report::LinkDown { peer, lane, reason } => match self.links.broke(member, *peer, *lane, Instant::now()) {
                Broke::Unwanted => return,
                broke => {
                    let prefix = self.shared.prefix_of(member.rank);
                    log::warn!("{prefix} link to rank {} for {lane} broke: {reason}", peer.rank);
                    if broke != Broke::First {
                        return;
                    }
                }
            },
            Report::CannotShare { peer, reason, .. } => {
                log::warn!("{} rank {peer}'s memory can't be shared: {reason}", self.shared.prefix_of(member.rank));
            }
            Report::Left { .. } => {
                // Its planes keep what peers may still ask for: what it has called.
                if let Some(plane) = &self.planes.collectives {
                    plane.left(member);
                }
                let error = Error::new(Code::BadState, "the member's task has ended");
                self.shared.failed(member, error.clone());
                self.drop_member(member, error);
            }
            Report::VersionEntered { .. } | Report::Interrupted { .. } | Report::Finished { .. } => {}
        }
        self.handle(Some(HostInput::Report { member, report }));
    }

    fn state(&mut self, id: MemberId) -> Option<&mut MemberState> {
        self.members.get_mut(&id.rank).filter(|member| member.incarnation == Some(id.incarnation))
    }

    /// A rank's own model is in the store; it waits until others hold it too.
    fn own(&mut self, id: MemberId, checkpoint: Checkpoint, wait: Waiting<()>) {
        if let Some(error) = self.shared.failure(id) {
            return wait.answer(Err(error));
        }
        match self.state(id) {
            Some(member) => {
                member.copying = Some((checkpoint, wait));
                self.handle(Some(HostInput::Own(checkpoint)));
            }
            None => wait.answer(Err(self.gone(id))),
        }
    }

    fn is_safe(&mut self, checkpoint: &Checkpoint) {
        let owner = checkpoint.owner.and_then(|rank| self.members.get_mut(&rank));
        let waiting = owner.and_then(|member| member.copying.take_if(|(there, _)| there == checkpoint));
        if let Some((_, wait)) = waiting {
            wait.answer(Ok(()));
        }
    }

    fn gone(&self, member: MemberId) -> Error {
        self.shared.failure(member).unwrap_or_else(|| {
            Error::new(
                Code::Fenced,
                format!("rank {} incarnation {} has no slot any more; retry the task", member.rank, member.incarnation),
            )
        })
    }

    pub(super) fn join(
        &mut self,
        rank: Rank,
        attempt: Attempt,
        fingerprint: String,
        offer: Offer,
        wait: Waiting<Joined>,
    ) {
        if let Some(older) = self.members.get_mut(&rank).and_then(|member| member.joining.take()) {
            older.answer(Err(Error::new(
                Code::Fenced,
                format!("rank {rank} was asked for again in this process, by attempt {attempt}"),
            )));
        }
        let incarnation = self.members.get(&rank).and_then(|member| member.incarnation);
        let state = MemberState { attempt, incarnation, joining: Some(wait), ..MemberState::default() };
        if let Some(older) = self.members.insert(rank, state) {
            let error = Error::new(Code::Fenced, format!("rank {rank} was started again"));
            if let Some(finishing) = older.finishing {
                finishing.answer(Err(error.clone()));
            }
            if let Some((_, copying)) = older.copying {
                copying.answer(Err(error));
            }
        }
        self.handle(Some(HostInput::Join { rank, attempt, fingerprint, offer }));
    }

    /// The task doesn't want its slot any more. Nothing happens when its join has returned.
    fn cancel_join(&mut self, rank: Rank, attempt: Attempt, error: Error) {
        let Some(member) = self.members.get_mut(&rank).filter(|member| member.attempt == attempt) else { return };
        let Some(wait) = member.joining.take() else { return };
        member.cancelled = Some(error.clone());
        wait.answer(Err(error));
        if let Some(incarnation) = member.join_accepted {
            self.give_back(MemberId { rank, incarnation });
        }
    }

    /// Leaves the slot of a join that was given up. Through the queue, because the host may be in
    /// the middle of a report.
    fn give_back(&mut self, member: MemberId) {
        let failure = self.members.get(&member.rank).and_then(|member| member.cancelled.clone());
        self.shared.command(Command::Report { member, report: Report::Left { failure } });
    }

    /// Something the host wants done.
    pub(super) fn carry_out(&mut self, output: HostOutput) {
        match output {
            HostOutput::ConnectTracker => self.want_tracker(),
            HostOutput::LeaveTracker { reason } => self.shared.command(Command::LeaveTracker { reason }),
            HostOutput::Send(message) => self.send(message),
            HostOutput::JoinAccepted { rank, attempt, incarnation } => {
                self.join_accepted(MemberId { rank, incarnation }, attempt);
            }
            HostOutput::Fetch { member, checkpoint, holders } => self.gather(member, checkpoint, holders),
            HostOutput::Copy { checkpoint, to } => self.copy(checkpoint, &to),
            HostOutput::Safe(checkpoint) => self.is_safe(&checkpoint),
            HostOutput::Start { rank, attempt, start } => self.start(rank, attempt, start),
            HostOutput::Links { member, lineage, peers } => self.peers(member, lineage, &peers),
            HostOutput::Plan { member, plan } => {
                if let Some(plane) = &self.planes.collectives {
                    plane.plan(member, plan);
                }
            }
            HostOutput::Hold { member, generation } => {
                let collectives = self.planes.collectives.as_ref();
                let (results, observed) = collectives.map(|plane| plane.pause(member, generation)).unwrap_or_default();
                let oldest = self.planes.all().map(|plane| plane.hold(member)).max().unwrap_or_default();
                // Through the queue, so that it comes behind every `Entered` that tasks have handed in by now.
                self.shared.command(Command::Holding { member, oldest, results, observed });
            }
            HostOutput::Release { member } => self.planes.all().for_each(|plane| plane.release(member)),
            HostOutput::Free { rank, attempt, incarnation, error } => self.free(rank, attempt, incarnation, error),
            HostOutput::Over { rank, attempt, outcome } => self.job_over(rank, attempt, outcome),
            HostOutput::RankGiven { task, attempt, given } => {
                let RankGiven { rank, attempt: its } = given;
                log::info!("{} given to task {task} (attempt {attempt}) as try {its}", self.shared.prefix_of(rank));
                self.stood_by(task, attempt, Ok(StoodBy::Rank(given)));
            }
            HostOutput::StandByOver { task, attempt, outcome } => {
                self.stood_by(task, attempt, outcome.map(|digest| StoodBy::Over { digest }));
            }
            HostOutput::Forget { lineage, version } => self.shared.store.forget(lineage, version),
            HostOutput::CheckpointWanted(wish) => self.shared.checkpoint_is_wanted(wish),
            HostOutput::Faults(rules) => {
                let rules: Vec<_> = rules.into_iter().filter(|rule| !self.shared.has_fired(rule.id)).collect();
                self.rules.replace(&rules);
                self.planes.all().for_each(|plane| plane.faults(&rules));
            }
            HostOutput::Close { reason } => self.over = Some(reason),
        }
        if let Some(view) = self.host.view() {
            self.shared.view_is(view.generation, view.vacant());
        }
        self.shared.result_is_wanted(self.host.wants_result());
    }

    fn stood_by(&mut self, task: Task, attempt: Attempt, answer: Result<StoodBy, Error>) {
        if let Some(wait) = self.standing.remove(&(task, attempt)) {
            wait.answer(answer);
        }
    }

    fn send(&mut self, message: AgentMessage) {
        if let AgentMessage::Report { member, report: Report::Finished { .. } } = message {
            if let Some(result) = self.result_of(member).filter(|_| self.host.wants_result()).cloned() {
                // It follows as the link drains: a heartbeat waits behind one part of it at most.
                self.tracker.handing = Some(Handing::new(member, result, message));
                return;
            }
        }
        self.send_tracker(&message);
    }

    /// What is left of a result, as long as its rank has the slot and the job isn't over.
    pub(super) fn result_of(&self, id: MemberId) -> Option<&Bytes> {
        let member = self.members.get(&id.rank).filter(|member| member.incarnation == Some(id.incarnation))?;
        member.result.as_ref()
    }

    pub(super) fn join_accepted(&mut self, id: MemberId, attempt: Attempt) {
        let MemberId { rank, incarnation } = id;
        if let Some(member) = self.members.get_mut(&rank).filter(|member| member.attempt == attempt) {
            member.incarnation = Some(incarnation);
            member.join_accepted = Some(incarnation);
            if member.cancelled.is_some() {
                self.give_back(id);
            }
        }
        self.planes.all().for_each(|plane| plane.join_accepted(id));
        log::info!("{} attempt {attempt} has the slot as incarnation {incarnation}", self.shared.prefix_of(rank));
        self.moment(id, Moment::Joined);
    }

    fn start(&mut self, rank: Rank, attempt: Attempt, start: Start) {
        let id = MemberId { rank, incarnation: start.incarnation };
        if id.incarnation.number > 0 {
            self.moment(id, Moment::Restored);
        }
        let hosts = self.host.view().map(|view| view.hosts()).unwrap_or_default();
        let bytes = start.checkpoint.as_ref().and_then(|checkpoint| self.shared.store.find(checkpoint));
        let round = start.checkpoint.map(|checkpoint| checkpoint.round).unwrap_or_default();
        self.shared.progress(id, start.version, round);
        self.planes.start(id, &hosts, &start);
        log::info!("{} starts at version {} (round {round})", self.shared.prefix_of(rank), start.version);
        let joining = self.members.get_mut(&rank).filter(|m| m.attempt == attempt).and_then(|m| m.joining.take());
        if let Some(wait) = joining {
            if start.checkpoint.is_some_and(|checkpoint| checkpoint.length > 0) && bytes.is_none() {
                wait.answer(Err(Error::new(
                    Code::Internal,
                    format!("rank {rank} was started at version {} whose bytes are not here", start.version),
                )));
            } else {
                wait.answer(Ok(Joined::Start { start, world: hosts.len() as u32, bytes }));
            }
        }
    }

    fn peers(&mut self, member: MemberId, lineage: Lineage, peers: &[Peer]) {
        let hooked = self.host.view().is_some_and(|view| view.hooked == Some(true));
        self.links.want(member, lineage, peers, self.planes.lanes(hooked), Instant::now());
        let living: Vec<MemberId> = peers.iter().map(|peer| peer.member).collect();
        self.planes.all().for_each(|plane| plane.peers(member, &living));
        self.make_due_links(Instant::now());
    }

    fn free(&mut self, rank: Rank, attempt: Attempt, incarnation: Option<Incarnation>, mut error: Error) {
        if error.code == Code::TrackerUnreachable {
            error.message = format!("{} ({})", error.message, self.shared.situation());
        }
        log::warn!("{} attempt {attempt} ends: {error}", self.shared.prefix_of(rank));
        if let Some(incarnation) = incarnation {
            let id = MemberId { rank, incarnation };
            self.free_member(id, error.clone());
        }
        let member = self.members.get_mut(&rank).filter(|member| member.attempt == attempt);
        if let Some(wait) = member.and_then(|member| member.joining.take()) {
            wait.answer(Err(error));
        }
    }

    /// A thread that finds its incarnation gone asks at once why: the reason is there first.
    fn end_incarnation(&self, id: MemberId, error: Error) {
        self.shared.failed(id, error.clone());
        self.planes.free(id, &error);
    }

    /// Ends the calls of a member; its slot is the tracker's business.
    pub(super) fn free_member(&mut self, id: MemberId, error: Error) {
        self.end_incarnation(id, error.clone());
        self.drop_member(id, error);
    }

    fn drop_member(&mut self, id: MemberId, error: Error) {
        self.drop_fetches(id);
        self.links.drop_member(id);
        let Some(member) = self.members.get_mut(&id.rank) else { return };
        if member.incarnation == Some(id.incarnation) {
            member.result = None;
            if let Some(wait) = member.finishing.take() {
                wait.answer(Err(error.clone()));
            }
            if let Some((_, wait)) = member.copying.take() {
                wait.answer(Err(error.clone()));
            }
            // A newer try may wait here for an incarnation of its own.
            if let Some(wait) = member.joining.take_if(|_| member.join_accepted == Some(id.incarnation)) {
                wait.answer(Err(error));
            }
        }
    }

    fn job_over(&mut self, rank: Rank, attempt: Attempt, outcome: Result<u128, Error>) {
        let Some(member) = self.members.get_mut(&rank).filter(|member| member.attempt == attempt) else { return };
        member.result = None;
        let (joining, finishing, incarnation) = (member.joining.take(), member.finishing.take(), member.incarnation);
        let copying = member.copying.take();
        if let Some(wait) = joining {
            wait.answer(outcome.clone().map(|digest| Joined::Over { digest }));
        }
        if let Some(wait) = finishing {
            wait.answer(outcome.clone());
        }
        if let Some((_, wait)) = copying {
            // An end that all have reached is no error here; the next call says that it comes too late.
            wait.answer(outcome.clone().map(drop));
        }
        if let (Some(incarnation), Err(error)) = (incarnation, outcome) {
            let id = MemberId { rank, incarnation };
            self.end_incarnation(id, error);
        }
    }

    /// A moment that fault rules may wait for.
    pub(super) fn moment(&mut self, member: MemberId, moment: Moment) {
        let Some(rule) = self.rules.due(member.rank, member.incarnation, moment) else { return };
        if !self.shared.fires(rule.id) {
            return;
        }
        self.inject(rule.clone());
        match rule.action {
            Action::Throw => {
                let error = Error::new(Code::Io, format!("fault rule {} fired at rank {}", rule.id, member.rank));
                self.free_member(member, error);
            }
            // It is this thread's moment: heartbeats stop too, as in a process that gets no processor.
            Action::Delay { millis } => std::thread::sleep(Duration::from_millis(u64::from(millis))),
            Action::Kill | Action::Stop | Action::CutLink { .. } | Action::Notify => {}
        }
    }

    fn inject(&mut self, rule: FaultRule) {
        let incarnation = self.members.get(&rule.rank).and_then(|member| member.incarnation).unwrap_or_default();
        log::warn!("{} fault rule {} fires: {:?}", self.shared.prefix_of(rule.rank), rule.id, rule.action);
        let fired = Event::FaultFired { id: rule.id, rank: rule.rank, incarnation };
        inject::tell(&fired);
        self.handle(Some(HostInput::Event(fired)));
        self.flush_tracker_fully();
        inject::inject(rule.action);
    }
}
