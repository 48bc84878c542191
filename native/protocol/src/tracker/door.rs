//! What an agent may say. All that comes is looked at here before anything is done with it: an
//! agent proves the job's secret, and may be wrong all the same.
//!
//! What only a rank's own agent can say counts from no other, and is dropped otherwise: it may
//! come too late. What no agent says ends the agent: it is sent the reason, and its ranks are lost with
//! that reason.

use super::{Tracker, TrackerOutput};
use crate::collective::{Extent, ObservedInput};
use crate::error::{Code, Error};
use crate::event::Event;
use crate::hook::Hook;
use crate::ids::{AgentId, Attempt, Checkpoint, Incarnation, MemberId, Phase, Position, Rank, Version};
use crate::message::{
    AgentMessage, RankState, RankStatus, Registration, Standing, StatusReport, TrackerMessage, COUNT_LIMIT,
    LINEAGES_LIMIT, NAME_LIMIT, TEXT_LIMIT,
};
use crate::report::Report;
use crate::view::View;
use crate::words::place;
use alloc::format;
use alloc::string::String;

/// What is wrong with a message.
type Checked = Result<(), String>;

impl Tracker {
    /// What of a message is to be followed: nothing, if it is for the slot of another, or
    /// from an agent that was turned away.
    pub(super) fn let_in(&mut self, link: u64, agent: AgentId, mut message: AgentMessage) -> Option<AgentMessage> {
        shorten(&mut message);
        if let Err(mut what) = self.check(&message) {
            cut(&mut what, NAME_LIMIT);
            self.turn_away(link, agent, &what);
            return None;
        }
        let is_its_own = speaks_for(&message).is_none_or(|member| self.sits(member, agent));
        is_its_own.then_some(message)
    }

    /// A registration that no agent sends is refused, and the agent of that name, if there is one,
    /// has nothing to do with it.
    pub(super) fn let_register(&mut self, link: u64, registration: Registration) -> Option<Registration> {
        let what = match self.links.get(&link) {
            Some(other) if *other != registration.agent => Err("it registered twice, under two numbers".into()),
            _ => self.check_registration(&registration),
        };
        match what {
            Ok(()) => Some(registration),
            Err(what) => {
                self.refuse(link, &registration.executor, &what);
                None
            }
        }
    }

    fn refuse(&mut self, link: u64, executor: &str, what: &str) {
        let mut executor = String::from(executor);
        cut(&mut executor, NAME_LIMIT);
        let error = Error::new(Code::Internal, format!("{} said what no agent says: {what}", place(&executor)));
        self.send_link(link, TrackerMessage::Refused(error));
        self.outputs.push_back(TrackerOutput::Close { link });
    }

    fn turn_away(&mut self, link: u64, agent: AgentId, what: &str) {
        let executor = self.executor_of(agent);
        self.refuse(link, &executor, what);
        self.links.remove(&link);
        if let Some(record) = self.agents.get_mut(&agent) {
            record.link = None;
        }
        self.agent_gone(agent, &format!("it said what no agent says: {what}"), true);
    }

    fn check(&self, message: &AgentMessage) -> Checked {
        match message {
            AgentMessage::Heartbeat { ranks, .. } => {
                self.check_count("ranks", ranks.len())?;
                ranks.iter().try_for_each(|received| check_position(received.at))
            }
            AgentMessage::StatusReport(status) => self.check_status(status),
            AgentMessage::Join { attempt, .. } => check_number("attempt", attempt.task),
            AgentMessage::Local { at, .. } => check_position(*at),
            AgentMessage::Report { member, report } => check_report(*member, report),
            AgentMessage::Event(event) => check_event(event),
            AgentMessage::StandBy { attempt, .. } | AgentMessage::StandDown { attempt, .. } => check_try(*attempt),
            AgentMessage::Register(_) | AgentMessage::ResultPart { .. } => Ok(()),
        }
    }

    fn check_registration(&self, registration: &Registration) -> Checked {
        let Registration { executor, host, status, fingerprint, view, ended, standing, .. } = registration;
        if executor.len() > NAME_LIMIT || host.len() > NAME_LIMIT {
            return Err(format!("names of {} and {} bytes", executor.len(), host.len()));
        }
        if ended.is_some() && self.over.is_none() && self.config.epoch == 1 {
            return Err("the end of a job that hasn't ended".into());
        }
        self.check_count("terms", fingerprint.len())?;
        if let Some(fingerprint) = fingerprint.iter().find(|fingerprint| fingerprint.len() > TEXT_LIMIT) {
            return Err(format!("terms of {} bytes", fingerprint.len()));
        }
        view.as_ref().map_or(Ok(()), |view| self.check_view(view))?;
        self.check_standing(standing)?;
        self.check_status(status)
    }

    fn check_standing(&self, standing: &[Standing]) -> Checked {
        let tasks = self.most_ranks().saturating_add(self.config.spares) as usize;
        if standing.len() > tasks {
            return Err(format!("{} tasks at once, but there are {tasks}", standing.len()));
        }
        standing.iter().try_for_each(|standing| {
            check_try(standing.attempt)?;
            let Some(given) = standing.given else { return Ok(()) };
            self.check_collective_id(given.rank)?;
            check_try(given.attempt)
        })
    }

    fn check_view(&self, view: &View) -> Checked {
        let View { lineage, branches, former, slots, fingerprint, .. } = view;
        if !self.is_a_world(slots.len()) {
            return Err(format!("a view of {} ranks", slots.len()));
        }
        if branches.len() > LINEAGES_LIMIT || branches.len() as u32 != lineage.0 {
            return Err(format!("a view of lineage {lineage} that has left {} others", branches.len()));
        }
        branches.iter().try_for_each(|version| check_version(*version))?;
        slots.iter().filter_map(|slot| slot.incarnation).try_for_each(check_incarnation)?;
        // Each has begun a lineage.
        if former.worlds.len() > if self.is_elastic() { branches.len() + 1 } else { 0 } {
            return Err(format!("a view of lineage {lineage} with {} former worlds", former.worlds.len()));
        }
        // A world of an earlier job of the name may have had more ranks than this one can have.
        former.worlds.iter().try_for_each(|former| {
            check_number("ranks of a former world", former.ranks.len() as u32)?;
            former.ranks.iter().flatten().try_for_each(|rank| self.check_collective_id(*rank))
        })?;
        match fingerprint {
            Some(fingerprint) if fingerprint.len() > TEXT_LIMIT => {
                Err(format!("a view with terms of {} bytes", fingerprint.len()))
            }
            _ => Ok(()),
        }
    }

    fn check_status(&self, status: &StatusReport) -> Checked {
        self.check_count("ranks", status.ranks.len())?;
        status.ranks.iter().try_for_each(|received| self.check_rank(received))?;
        status.held.iter().chain(&status.handed_over).try_for_each(|held| self.check_held(held))
    }

    fn check_rank(&self, received: &RankStatus) -> Checked {
        let RankStatus { rank, incarnation, state, oldest, results, observed, .. } = received;
        self.check_collective_id(*rank)?;
        check_incarnation(*incarnation)?;
        if let RankState::At(at) | RankState::Finished { at, .. } = state {
            check_position(*at)?;
            if *oldest > at.version {
                return Err(format!("rank {rank} is in version {} and has the logs from {oldest} on", at.version));
            }
        }
        results.iter().try_for_each(|Extent { phase, .. }| check_phase(*phase))?;
        observed.iter().try_for_each(|ObservedInput { rank, incarnation, phase, .. }| {
            self.check_collective_id(*rank)?;
            check_incarnation(*incarnation)?;
            check_phase(*phase)
        })
    }

    fn check_held(&self, held: &Checkpoint) -> Checked {
        if held.version == Version(0) {
            return Err("a checkpoint of version 0, which no rank takes".into());
        }
        // What is durable may be of a larger world, and of an earlier job.
        held.owner.map_or(Ok(()), |owner| check_number("the rank of an own model", owner.0))?;
        check_position(Position { lineage: held.lineage, version: held.version })
    }

    fn check_collective_id(&self, rank: Rank) -> Checked {
        // Of an elastic job also what was in a larger world.
        match rank.0 < self.most_ranks() {
            true => Ok(()),
            false => Err(format!("something of rank {rank}, but there are {} ranks", self.most_ranks())),
        }
    }

    fn check_count(&self, of: &str, count: usize) -> Checked {
        match count <= self.most_ranks() as usize {
            true => Ok(()),
            false => Err(format!("{count} {of} at once, but there are {} ranks", self.most_ranks())),
        }
    }
}

/// The incarnation for which only its own agent can say this.
fn speaks_for(message: &AgentMessage) -> Option<MemberId> {
    match message {
        AgentMessage::Report { member, .. } | AgentMessage::ResultPart { member, .. } => Some(*member),
        AgentMessage::Register(_)
        | AgentMessage::Heartbeat { .. }
        | AgentMessage::Join { .. }
        | AgentMessage::StatusReport(_)
        // It may come from an incarnation that has ended since.
        | AgentMessage::Local { .. }
        | AgentMessage::StandBy { .. }
        | AgentMessage::StandDown { .. }
        | AgentMessage::Event(_) => None,
    }
}

fn check_report(member: MemberId, report: &Report) -> Checked {
    match report {
        Report::VersionEntered { lineage, version, .. } => {
            check_position(Position { lineage: *lineage, version: *version })
        }
        Report::LinkDown { peer, .. } if peer.rank == member.rank => {
            Err(format!("rank {} has a link with itself", member.rank))
        }
        _ => Ok(()),
    }
}

/// Facts that an agent sees. All others are the tracker's own.
fn check_event(event: &Event) -> Checked {
    match event {
        Event::Restored { .. }
        | Event::CaughtUp { .. }
        | Event::Spent { .. }
        | Event::StrangerRefused { .. }
        | Event::DurableWritten { .. }
        | Event::DurableFailed { .. }
        | Event::FaultFired { .. }
        | Event::Printed { .. }
        | Event::AgentSlow { .. }
        | Event::AgentRuns { .. }
        | Event::Usage { .. } => Ok(()),
        other => Err(format!("an event that is the tracker's own: {other:?}")),
    }
}

fn check_phase(phase: Phase) -> Checked {
    match phase {
        Phase::Boot => Ok(()),
        Phase::Version(version) => check_version(version),
    }
}

fn check_position(at: Position) -> Checked {
    check_number("lineage", at.lineage.0)?;
    check_version(at.version)
}

fn check_version(version: Version) -> Checked {
    check_number("version", version.0)
}

fn check_incarnation(incarnation: Incarnation) -> Checked {
    check_number("the epoch of an incarnation", incarnation.epoch)?;
    check_number("incarnation", incarnation.number)
}

fn check_try(attempt: Attempt) -> Checked {
    check_number("stage attempt", attempt.stage)?;
    check_number("attempt", attempt.task)
}

fn check_number(what: &str, number: u32) -> Checked {
    match number <= COUNT_LIMIT {
        true => Ok(()),
        false => Err(format!("{what} {number}; no job counts beyond {COUNT_LIMIT}")),
    }
}

/// A text that is too long is of no more use than its beginning. Terms are compared, and not sent in part.
fn shorten(message: &mut AgentMessage) {
    match message {
        AgentMessage::Join { hook: Hook::Impossible(text), .. } => cut(text, TEXT_LIMIT),
        AgentMessage::Report { report, .. } => {
            if let Some(text) = report.text() {
                cut(text, TEXT_LIMIT);
            }
        }
        AgentMessage::StatusReport(status) => {
            for received in &mut status.ranks {
                if let Hook::Impossible(text) = &mut received.hook {
                    cut(text, NAME_LIMIT);
                }
            }
        }
        _ => {}
    }
}

pub(super) fn cut(text: &mut String, limit: usize) {
    if text.len() > limit {
        let at = (0..=limit).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        text.truncate(at);
        text.push_str(" […]");
    }
}

/// Whether terms are short enough to be sent to all.
pub(super) fn fingerprint_fits(fingerprint: &str) -> bool {
    fingerprint.len() <= TEXT_LIMIT
}
