//! The tracker's steps.

use crate::memory::{Name, Things};
use crate::Setup;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::event::Event;
use rejoin_protocol::ids::{AgentId, Attempt, Millis, Task};
use rejoin_protocol::message::{AgentMessage, Timing, TrackerMessage};
use rejoin_protocol::resize::Elastic;
use rejoin_protocol::tracker::{DeathLimit, Tracker, TrackerConfig, TrackerInput, TrackerOutput};
use std::sync::Arc;

/// The moment at which time stands.
pub(crate) const NOW: Millis = Millis(0);

const TIMING: Timing =
    Timing { heartbeat_millis: 200, lost_after_millis: 1500, lease_millis: 60_000, members_millis: 300_000 };

/// What happens to the tracker.
#[derive(Clone, Debug)]
pub(crate) enum ToTracker {
    Message {
        link: u64,
        message: Arc<AgentMessage>,
    },
    Closed {
        link: u64,
        agent: AgentId,
        gone: bool,
    },
    DeclaredLost {
        process: u32,
    },
    TaskEnded {
        task: u32,
        tried: u32,
    },
    TaskLeaves {
        task: u32,
        tried: u32,
    },
    /// So much time has passed that no replacement is waited for any longer.
    NoneCame,
    /// So much time has passed that a silent agent of the life before is waited for no longer.
    WaitedEnough,
}

/// What follows from a step of the tracker.
#[derive(Clone, Debug)]
pub(crate) enum FromTracker {
    Send { link: u64, message: Name },
    Close { link: u64 },
    Kill { process: u32 },
    Released { task: u32, tried: u32 },
    Over(Result<u128, Code>),
}

pub(crate) fn new(setup: &Setup, epoch: u32) -> Tracker {
    let Setup { world, spares, start, least, .. } = *setup;
    let config = TrackerConfig {
        world,
        spares,
        elastic: least.map(|min| Elastic {
            min,
            max: setup.most(),
            timeout_millis: TIMING.heartbeat_millis,
            interval_millis: 0,
            most_resizes: None,
            own_may_be_lost: false,
        }),
        epoch,
        timing: TIMING,
        deaths: DeathLimit::new(1000, "the limit"),
        start,
        faults: Vec::new(),
        wants_result: false,
    };
    Tracker::new(config, NOW).expect("this configuration is right")
}

/// One thing that happens to the tracker, and what follows.
pub(crate) fn step(
    mut tracker: Tracker,
    input: ToTracker,
    messages: &Things<TrackerMessage>,
) -> (Tracker, Vec<FromTracker>) {
    let mut inputs = Vec::new();
    let mut now = NOW;
    match input {
        ToTracker::Message { link, message } => {
            inputs.push(TrackerInput::Message { link, message: (*message).clone() });
        }
        ToTracker::Closed { link, agent, gone } => {
            inputs.push(TrackerInput::Closed { link, reason: "connection reset".into() });
            inputs.push(TrackerInput::Probed { agent, gone });
        }
        ToTracker::DeclaredLost { process } => {
            let reason = "the framework says so".into();
            inputs.push(TrackerInput::ExecutorGone { executor: process.to_string(), reason });
        }
        ToTracker::TaskEnded { task, tried } => {
            let attempt = Attempt { stage: 0, task: tried };
            inputs.push(TrackerInput::TaskEnded { task: Task(task), attempt });
        }
        ToTracker::TaskLeaves { task, tried } => {
            let attempt = Attempt { stage: 0, task: tried };
            inputs.push(TrackerInput::TaskLeaves { task: Task(task), attempt });
        }
        ToTracker::NoneCame => {
            now = tracker.wake_at().unwrap_or(NOW);
            inputs.push(TrackerInput::Wake);
        }
        ToTracker::WaitedEnough => {
            // No other has been silent meanwhile: the tracker takes such a jump for a stall of its own.
            now = NOW.plus(TIMING.lost_after_millis);
            inputs.push(TrackerInput::Wake);
        }
    }
    let mut effects = Vec::new();
    for input in inputs {
        tracker.handle(input, now);
        while let Some(output) = tracker.poll() {
            match output {
                TrackerOutput::Send { link, message } => {
                    effects.push(FromTracker::Send { link, message: messages.keep(message) })
                }
                TrackerOutput::Close { link } => effects.push(FromTracker::Close { link }),
                TrackerOutput::Event(Event::TaskReleased { index, attempt, .. }) => {
                    effects.push(FromTracker::Released { task: index.0, tried: attempt.task });
                }
                // Answered at once, with the end of the connection.
                TrackerOutput::Probe { .. } | TrackerOutput::Event(_) => {}
                TrackerOutput::Kill { executor, .. } => {
                    if let Ok(process) = executor.parse() {
                        effects.push(FromTracker::Kill { process });
                    }
                }
                TrackerOutput::Over(outcome) => {
                    let outcome = outcome.map(|result| result.digest).map_err(|error: Error| error.code);
                    effects.push(FromTracker::Over(outcome));
                }
            }
        }
    }
    (tracker, effects)
}
