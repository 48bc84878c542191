//! What a process sends the tracker of where its ranks are, held against where they are.

use super::process::Process;
use super::process_io::Output;
use super::task::Task;
use super::{Defect, Job};
use rejoin_protocol::former::FormerWorlds;
use rejoin_protocol::ids::MemberId;
use rejoin_protocol::message::{AgentMessage, RankProgress, RankState, StatusReport, TrackerMessage};
use rejoin_protocol::report::Report;

impl Process {
    /// Whether no rank is missing or behind, by what the tracker has sent.
    pub fn is_settled(&self) -> bool {
        self.is_settled
    }

    /// What the tracker is sent says where ranks are.
    pub(super) fn sends(&mut self, mut message: AgentMessage, job: &Job, out: &mut Vec<Output>) {
        if let (AgentMessage::Register(registration), Some(Defect::WorldsUnreported)) = (&mut message, job.defect) {
            registration.view.iter_mut().for_each(|view| view.former = FormerWorlds::default());
        }
        let reported = |member: MemberId| self.living_task(member).and_then(Task::reported);
        let in_status = |status: &StatusReport| {
            let places = status.ranks.iter().filter_map(|rank| match rank.state {
                RankState::At(at) | RankState::Finished { at, .. } => {
                    reported(rank.id()).map(|known| known.answers(rank.rank, at.version))
                }
                RankState::Fresh => None,
            });
            places.collect()
        };
        let found: Vec<_> = match &message {
            AgentMessage::Report { member, report: Report::VersionEntered { version, .. } } => {
                let is_last = version.0 + 1 == job.program.versions();
                if is_last && job.defect == Some(Defect::LastUnreported) {
                    return;
                }
                let (member, version) = (*member, *version);
                let task = self.living(member);
                task.map(|task| task.reported.reports(member.rank, version, job.locals)).into_iter().collect()
            }
            AgentMessage::Report { member, report: Report::Finished { .. } } => {
                reported(*member).map(|known| known.ends(member.rank)).into_iter().collect()
            }
            AgentMessage::Heartbeat { ranks, .. } => {
                let known = |at: &RankProgress| Some(reported(at.member)?.passes(at.member.rank, at.at.version));
                ranks.iter().filter_map(known).collect()
            }
            AgentMessage::Local { member, at, .. } => {
                let (member, version) = (*member, at.version);
                self.living(member).into_iter().for_each(|task| task.reported.sends_local(version));
                Vec::new()
            }
            AgentMessage::StatusReport(status) => in_status(status),
            AgentMessage::Register(registration) => in_status(&registration.status),
            _ => Vec::new(),
        };
        out.extend(found.into_iter().filter_map(Result::err).map(Output::Violated));
        out.push(Output::ToTracker(message));
    }

    /// What the tracker has sent is known here before it is done.
    pub(super) fn settles(&mut self, message: &TrackerMessage) {
        match message {
            TrackerMessage::View(_) => self.is_settled = false,
            TrackerMessage::Settled { generation } => {
                self.is_settled |= self.host.view().is_some_and(|view| view.generation == *generation);
            }
            _ => {}
        }
    }

    /// All that there was to do is done.
    pub(super) fn rests(&self, out: &mut Vec<Output>) {
        let is_open = self.is_connected && !self.closed;
        let there = self.tasks.iter().filter(|task| is_open && task.outcome.is_none());
        let found = there.filter_map(|task| task.reported()?.rests(task.id.rank, self.is_settled).err());
        out.extend(found.map(Output::Violated));
    }

    fn living_task(&self, member: MemberId) -> Option<&Task> {
        self.tasks.iter().find(|task| task.end().is_some_and(|end| end.member() == member))
    }
}
