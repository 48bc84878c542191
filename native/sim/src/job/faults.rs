//! What goes wrong, and how it strikes.

use super::{Happening, World};
use fastrand::Rng;
use rejoin_protocol::ids::Rank;

/// One thing that goes wrong. Who is struck is drawn when it strikes.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// SIGKILL of so many processes.
    Kill(u32),
    /// SIGKILL of all.
    KillAll,
    /// A task throws; its process stays, and tries again.
    Throw,
    /// SIGSTOP, and SIGCONT after so many milliseconds: before or after it is declared lost.
    Freeze(u64),
    /// A data link is reset.
    CutLink,
    /// A connection to the tracker is reset.
    CutTracker,
    /// Two processes can't reach each other for so long.
    PartData(u64),
    /// A process and the tracker can't reach each other for so long.
    PartTracker(u64),
    /// The tracker does nothing for so long.
    StallTracker(u64),
    /// The tracker dies, and its next life begins after so long.
    KillTracker(u64),
    /// The same, a moment after it has said that the job is over: some may have been told, and others not.
    KillTrackerAtEnd(u64),
    /// The tracker's next life begins while the present one is still there, and is found by some for so long.
    SecondTracker(u64),
    /// A rank pauses up to so long between two calls from now on.
    Slow(u64),
    /// The framework starts a second task of a rank that lives.
    Duplicate,
    /// The framework says that a process is gone, which lives.
    DeclareLost,
}

pub(super) fn draw(rng: &mut Rng, until: u64) -> Vec<(u64, Fault)> {
    let count = rng.u32(0..=6);
    let faults = (0..count).map(|_| {
        let fault = match rng.u32(0..100) {
            0..=21 => Fault::Kill(1),
            22..=28 => Fault::Kill(rng.u32(2..=4)),
            29..=31 => Fault::KillAll,
            32..=41 => Fault::Throw,
            42..=51 => Fault::Freeze(rng.u64(100..4000)),
            52..=60 => Fault::CutLink,
            61..=65 => Fault::CutTracker,
            66..=70 => Fault::PartData(rng.u64(100..3000)),
            71..=75 => Fault::PartTracker(rng.u64(100..3000)),
            76..=79 => Fault::StallTracker(rng.u64(100..3000)),
            80..=84 => Fault::KillTracker(if rng.bool() { rng.u64(0..200) } else { rng.u64(200..3000) }),
            85..=87 => Fault::KillTrackerAtEnd(rng.u64(0..3000)),
            88..=90 => Fault::SecondTracker(rng.u64(100..3000)),
            91..=93 => Fault::Slow(rng.u64(100..1000)),
            94..=96 => Fault::Duplicate,
            _ => Fault::DeclareLost,
        };
        let early = rng.bool();
        (rng.u64(0..if early { until / 4 } else { until }), fault)
    });
    faults.collect()
}

impl World {
    pub(super) fn strike(&mut self, fault: Fault) {
        let is_of_tracker = matches!(fault, Fault::KillTracker(_) | Fault::CutTracker | Fault::StallTracker(_));
        if self.outcome.is_some() && !is_of_tracker {
            return;
        }
        self.say(|| format!("fault: {fault:?}"));
        match fault {
            Fault::Kill(count) => (0..count).for_each(|_| self.kill_one()),
            Fault::KillAll => (0..self.processes.len()).for_each(|_| self.kill_one()),
            Fault::Throw => {
                if let Some(process) = self.pick() {
                    self.throw(process);
                }
            }
            Fault::Freeze(millis) => {
                self.struck.insert("freeze");
                if let Some(process) = self.pick() {
                    if let Some(there) = self.processes.get_mut(&process) {
                        there.frozen = true;
                    }
                    self.say(|| format!("process {process} is frozen for {millis} ms"));
                    self.after(millis, Happening::Thaws { process });
                }
            }
            Fault::CutLink => {
                if let (Some(one), Some(other)) = (self.pick(), self.pick()) {
                    self.cut(one, other);
                }
            }
            Fault::CutTracker => {
                if let Some(process) = self.pick() {
                    self.break_tracker_link(process);
                }
            }
            Fault::PartData(millis) => {
                if let (Some(one), Some(other)) = (self.pick(), self.pick()) {
                    self.network.part(one, other, self.now + millis);
                }
            }
            Fault::PartTracker(millis) => {
                self.struck.insert("part");
                if let Some(process) = self.pick() {
                    self.network.part_from_tracker(process, self.now + millis);
                }
            }
            Fault::StallTracker(millis) => {
                self.stall_tracker(millis);
            }
            Fault::KillTracker(millis) => self.kill_tracker(millis),
            Fault::KillTrackerAtEnd(millis) => self.dies_at_end = Some(millis),
            Fault::SecondTracker(millis) => self.second_tracker(millis),
            Fault::Slow(millis) => {
                let rank = Rank(self.rng.u32(0..self.job.program.world));
                self.slow.insert(rank, millis);
            }
            Fault::Duplicate => {
                let rank = self.rng.u32(0..self.job.program.world);
                self.after(0, Happening::Starts { rank });
            }
            Fault::DeclareLost => {
                self.struck.insert("kill");
                if let Some(process) = self.pick() {
                    self.declare_lost(process);
                }
            }
        }
    }

    fn pick(&mut self) -> Option<u32> {
        let all: Vec<u32> =
            self.processes.iter().filter(|(_, there)| there.alive && !there.frozen).map(|(id, _)| *id).collect();
        (!all.is_empty()).then(|| all[self.rng.usize(..all.len())])
    }

    fn kill_one(&mut self) {
        if let Some(process) = self.pick() {
            self.kill(process);
        }
    }

    pub(super) fn thaw(&mut self, process: u32) {
        let Some(there) = self.processes.get_mut(&process).filter(|there| there.alive) else { return };
        there.frozen = false;
        let deferred = std::mem::take(&mut there.deferred);
        self.say(|| format!("process {process} wakes"));
        for happening in deferred {
            // Before anything that comes now: connections keep their order.
            self.happen(happening);
        }
    }
}
