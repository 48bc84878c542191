//! The processes' steps.

use crate::memory::{Name, Things};
use crate::tracker::NOW;
use rejoin_protocol::error::Code;
use rejoin_protocol::ids::{Lane, Lineage, Version};
use rejoin_protocol::message::AgentMessage;
use rejoin_protocol::view::{SlotState, View, ViewSlot};
use rejoin_sim::ranks::{End, Frame, Input, Job, Output, Process, Task, Try};

/// What happens to a process.
#[derive(Clone, Debug)]
pub(crate) enum ToProcess {
    Input(Input),
    Frame { from: End, to: End, frame: Frame },
}

/// What follows from a step of a process.
#[derive(Clone, Debug)]
pub(crate) enum FromProcess {
    ToTracker(Name),
    Frame {
        from: End,
        to: End,
        lane: Lane,
        frame: Name,
    },
    Unlink(End, End),
    Freed {
        rolled_back: bool,
    },
    Started(Lineage, Version),
    /// A task that stood by joins as this.
    Given(Try),
    /// A collective is over at its rank.
    Ended,
    Violated(&'static str),
}

/// The one task that a process has here.
pub(crate) fn only(process: &Process) -> &Task {
    &process.tasks()[0]
}

/// Whether a view may come after another one: no rank goes back to an older incarnation, whichever
/// life of the tracker gave it. One of which a life has not heard is none.
fn follows(before: &View, now: &View, is_elastic: bool) -> bool {
    let mut ranks = before.slots.iter().zip(&now.slots);
    // A larger world that only joiners had heard of is none for a later life: no incarnation had its numbers.
    let is_forgotten = |slot: &ViewSlot| {
        is_elastic && before.generation.epoch < now.generation.epoch && slot.state == SlotState::Vacant
    };
    before.generation <= now.generation
        && ranks.all(|(before, now)| {
            now.incarnation.is_none() || before.incarnation <= now.incarnation || is_forgotten(before)
        })
}

/// One thing that happens to a process, and what follows. `None`: nothing, the frame stays where it is.
pub(crate) fn step(
    mut process: Process,
    input: ToProcess,
    job: &Job,
    messages: &Things<AgentMessage>,
    frames: &Things<Frame>,
) -> Option<(Process, Vec<FromProcess>)> {
    let kept = only(&process).versions_kept();
    let mut position = only(&process).position();
    let view = process.host().view().cloned();
    let outputs = match input {
        ToProcess::Input(input) => process.handle(input, NOW, job),
        ToProcess::Frame { from, to, frame } => process.reads(from, to, &frame, NOW, job)?,
    };
    let mut effects = Vec::new();
    for output in outputs {
        match output {
            // Reported for the trace only.
            Output::ToTracker(AgentMessage::Event(_)) => {}
            // Time stands still: they say nothing that their rank hasn't reported otherwise.
            Output::ToTracker(AgentMessage::Heartbeat { .. }) => {}
            Output::ToTracker(message) => effects.push(FromProcess::ToTracker(messages.keep(message))),
            Output::Frame { from, to, frame } => {
                let lane = frame.lane();
                effects.push(FromProcess::Frame { from, to, lane, frame: frames.keep(frame) });
            }
            Output::Unlink(own, other) => effects.push(FromProcess::Unlink(own, other)),
            Output::Freed(_, _, error) => {
                effects.push(FromProcess::Freed { rolled_back: error.code == Code::RolledBack });
            }
            Output::Given(id) => effects.push(FromProcess::Given(id)),
            // Nothing is fed from here to what holds of worlds and samples, and ranks have no models of their own.
            Output::Began(..)
            | Output::Model(..)
            | Output::Deals(..)
            | Output::Made { .. }
            | Output::Own(..)
            | Output::Safe(..)
            | Output::Copy(..) => {}
            Output::Started(_, start) => effects.push(FromProcess::Started(start.lineage, start.version)),
            Output::Entered(_, lineage, version) => {
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
            // No ranks share memory here, and none chooses.
            Output::LastWords { .. } | Output::Chose { .. } => {}
            Output::Connect | Output::View(_) | Output::Over(..) | Output::Closed => {}
        }
    }
    if view.is_some_and(|before| process.host().view().is_none_or(|now| !follows(&before, now, job.is_elastic))) {
        effects.push(FromProcess::Violated("Monotony"));
    }
    // The present version, the one before, and one more until what is settled is known. While a rank is
    // behind it depends on how soon the tracker hears of the others.
    if process.is_settled() && only(&process).versions_kept() > kept.max(3) {
        effects.push(FromProcess::Violated("Bounded"));
    }
    Some((process, effects))
}
