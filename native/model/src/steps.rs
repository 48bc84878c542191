//! The processes' steps.

use crate::memory::{Name, Things};
use crate::tracker::NOW;
use rejoin_protocol::error::Code;
use rejoin_protocol::event::Event;
use rejoin_protocol::ids::{Lineage, Rank, Version};
use rejoin_protocol::message::AgentMessage;
use rejoin_sim::ranks::{Frame, Input, Job, Output, Process};

/// What happens to a process.
#[derive(Clone, Debug)]
pub(crate) enum ToProcess {
    Input(Input),
    Frame { from: u32, rank: Rank, frame: Frame },
}

/// What follows from a step of a process.
#[derive(Clone, Debug)]
pub(crate) enum FromProcess {
    ToTracker(Name),
    Frame {
        to: u32,
        frame: Name,
    },
    Unlink(u32),
    Freed {
        rolled_back: bool,
    },
    Started(Lineage, Version),
    /// A collective is over at its rank.
    Ended,
    Violated(&'static str),
}

/// One thing that happens to a process, and what follows. `None`: nothing, the frame stays where it is.
pub(crate) fn step(
    mut process: Process,
    input: ToProcess,
    job: &Job,
    messages: &Things<AgentMessage>,
    frames: &Things<Frame>,
) -> Option<(Process, Vec<FromProcess>)> {
    let kept = process.versions_kept();
    let mut position = process.position();
    let view = process.host().view().map(|view| view.generation);
    let outputs = match input {
        ToProcess::Input(input) => process.handle(input, NOW, job),
        ToProcess::Frame { from, rank, frame } => process.reads((from, rank), &frame, NOW, job)?,
    };
    let mut effects = Vec::new();
    for output in outputs {
        match output {
            Output::ToTracker(AgentMessage::Happened(event)) if !matches!(event, Event::VersionEntered { .. }) => {
                // Told for the story only.
            }
            // Time stands still: they say nothing that their rank hasn't told otherwise.
            Output::ToTracker(AgentMessage::Heartbeat { .. }) => {}
            Output::ToTracker(message) => effects.push(FromProcess::ToTracker(messages.keep(message))),
            Output::Frame { to, frame } => effects.push(FromProcess::Frame { to, frame: frames.keep(frame) }),
            Output::Unlink(process) => effects.push(FromProcess::Unlink(process)),
            Output::Freed(_, error) => {
                effects.push(FromProcess::Freed { rolled_back: error.code == Code::RolledBack });
            }
            Output::Started(start) => effects.push(FromProcess::Started(start.lineage, start.version)),
            Output::Entered(lineage, version) => {
                // The version it was started at, or the next one.
                let grows = position.is_none_or(|(l, v)| l == lineage && (version == v || version.0 == v.0 + 1));
                if !grows {
                    effects.push(FromProcess::Violated("Monotony"));
                }
                position = Some((lineage, version));
            }
            Output::Violated(violation) => effects.push(FromProcess::Violated(violation.promise)),
            // There is one life of the tracker at a time here.
            Output::LeaveTracker => effects.push(FromProcess::Violated("Monotony")),
            Output::Replayed | Output::Computed => effects.push(FromProcess::Ended),
            // Nobody shares memory here.
            Output::LastWords { .. } => {}
            Output::Connect | Output::View(_) | Output::Over(_) | Output::Closed => {}
        }
    }
    if process.host().view().map(|view| view.generation) < view {
        effects.push(FromProcess::Violated("Monotony"));
    }
    // The present version, the one before, and while somebody is behind one more.
    if process.versions_kept() > kept.max(3) {
        effects.push(FromProcess::Violated("Bounded"));
    }
    Some((process, effects))
}
