//! A tracker on a desk: agents that say what a test has them say, and everything that comes out.
#![allow(missing_docs)]

pub mod elastic;
pub mod takeover;

use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::event::Event;
use rejoin_protocol::hook::Hook;
use rejoin_protocol::ids::{
    AgentId, Attempt, Checkpoint, Generation, Incarnation, Lineage, MemberId, Millis, Position, Rank, Version,
};
use rejoin_protocol::message::{
    AgentMessage, Plan, RankState, RankStatus, Registration, StatusReport, Timing, TrackerMessage,
};
use rejoin_protocol::report::Report;
use rejoin_protocol::start::JobStart;
use rejoin_protocol::tracker::{DeathLimit, Tracker, TrackerConfig, TrackerInput, TrackerOutput};
use rejoin_protocol::view::View;

pub const TIMING: Timing =
    Timing { heartbeat_millis: 100, lost_after_millis: 1000, lease_millis: 10_000, members_millis: 60_000 };

pub fn config(world: u32) -> TrackerConfig {
    TrackerConfig {
        world,
        spares: 0,
        elastic: None,
        epoch: 1,
        timing: TIMING,
        deaths: DeathLimit::new(3, "spark.task.maxFailures"),
        start: JobStart::Fresh,
        faults: Vec::new(),
        wants_result: true,
    }
}

pub fn attempt(task: u32) -> Attempt {
    Attempt { stage: 0, task }
}

pub fn checkpoint(version: u32) -> Checkpoint {
    Checkpoint {
        lineage: Lineage(0),
        version: Version(version),
        owner: None,
        has_own: false,
        round: version,
        length: 10,
        digest: u128::from(version) * 1000,
        complete: false,
    }
}

pub fn at(version: u32) -> RankState {
    RankState::At(Position { lineage: Lineage(0), version: Version(version) })
}

/// An incarnation, or the number of one of the tracker's first life.
pub trait Start: Copy {
    fn start(self) -> Incarnation;
}

impl Start for Incarnation {
    fn start(self) -> Incarnation {
        self
    }
}

impl Start for u32 {
    fn start(self) -> Incarnation {
        Incarnation::nth(self)
    }
}

/// An incarnation that a life of the tracker gave.
pub const fn in_life(epoch: u32, number: u32) -> Incarnation {
    Incarnation { epoch, number }
}

/// A rank's part of a status report, with the logs that it has in a healthy job.
pub fn stands(rank: u32, incarnation: impl Start, state: RankState) -> RankStatus {
    let incarnation = incarnation.start();
    let oldest = match &state {
        RankState::Fresh => 0,
        RankState::At(at) | RankState::Finished { at, .. } => at.version.0.saturating_sub(1),
    };
    RankStatus {
        rank: Rank(rank),
        incarnation,
        attempt: attempt(incarnation.number),
        state,
        oldest: Version(oldest),
        results: Vec::new(),
        observed: Vec::new(),
        segment: None,
        hook: Hook::Unasked,
    }
}

pub struct Desk {
    pub tracker: Tracker,
    pub now: u64,
    pub outputs: Vec<TrackerOutput>,
}

impl Desk {
    pub fn new(world: u32) -> Self {
        Desk::with(config(world))
    }

    pub fn with(config: TrackerConfig) -> Self {
        Desk { tracker: Tracker::new(config, Millis(0)).unwrap(), now: 0, outputs: Vec::new() }
    }

    /// Hands in an input; what came out before is forgotten.
    pub fn input(&mut self, input: TrackerInput) -> &[TrackerOutput] {
        self.outputs.clear();
        self.tracker.handle(input, Millis(self.now));
        while let Some(output) = self.tracker.poll() {
            self.outputs.push(output);
        }
        &self.outputs
    }

    pub fn says(&mut self, link: u64, message: AgentMessage) -> &[TrackerOutput] {
        self.input(TrackerInput::Message { link, message })
    }

    /// Time passes, in steps no longer than the tracker asks for.
    pub fn pass(&mut self, millis: u64) -> Vec<TrackerOutput> {
        let mut all = Vec::new();
        let until = self.now + millis;
        while self.now < until {
            let wake = self.tracker.wake_at().map_or(until, |at| at.0);
            self.now = wake.clamp(self.now + 1, until);
            all.extend_from_slice(self.input(TrackerInput::Wake));
        }
        all
    }

    /// The same, with heartbeats of these agents.
    pub fn pass_alive(&mut self, millis: u64, links: &[u64]) -> Vec<TrackerOutput> {
        let mut all = Vec::new();
        let until = self.now + millis;
        let mut sequence = 0;
        while self.now < until {
            all.extend(self.pass((until - self.now).min(50)));
            for link in links {
                let ranks = Vec::new();
                all.extend_from_slice(self.says(*link, AgentMessage::Heartbeat { sequence, ranks }));
            }
            sequence += 1;
        }
        all
    }

    /// Agent n registers on link n, as executor `exec-n`.
    pub fn register(&mut self, link: u64) -> Vec<TrackerOutput> {
        self.register_as(link, link, Vec::new(), Vec::new())
    }

    pub fn register_as(
        &mut self,
        link: u64,
        agent: u64,
        ranks: Vec<RankStatus>,
        held: Vec<Checkpoint>,
    ) -> Vec<TrackerOutput> {
        self.says(link, AgentMessage::Register(Desk::registration(agent, ranks, held))).to_vec()
    }

    /// Of an agent that knows nothing but itself.
    pub fn registration(agent: u64, ranks: Vec<RankStatus>, held: Vec<Checkpoint>) -> Registration {
        Registration {
            agent: AgentId(agent),
            executor: format!("exec-{agent}"),
            host: "host".into(),
            address: ([127, 0, 0, 1], 4000 + agent as u16).into(),
            pid: 100 + agent as u32,
            status: StatusReport { generation: Generation::default(), ranks, held, handed_over: Vec::new() },
            fingerprint: Vec::new(),
            epoch: 0,
            view: None,
            ended: None,
            standing: Vec::new(),
        }
    }

    pub fn joins(&mut self, link: u64, rank: u32, attempt: Attempt) -> Vec<TrackerOutput> {
        self.joins_with(link, rank, attempt, Hook::Unasked)
    }

    pub fn joins_with(&mut self, link: u64, rank: u32, attempt: Attempt, hook: Hook) -> Vec<TrackerOutput> {
        self.says(link, AgentMessage::Join { rank: Rank(rank), attempt, fingerprint: "terms".into(), hook }).to_vec()
    }

    /// Answers the newest view.
    pub fn stands(&mut self, link: u64, ranks: Vec<RankStatus>, held: Vec<Checkpoint>) -> Vec<TrackerOutput> {
        self.stands_handed(link, ranks, held, Vec::new())
    }

    /// The same of an agent that was handed something.
    pub fn stands_handed(
        &mut self,
        link: u64,
        ranks: Vec<RankStatus>,
        held: Vec<Checkpoint>,
        handed_over: Vec<Checkpoint>,
    ) -> Vec<TrackerOutput> {
        let generation = self.generation();
        self.says(link, AgentMessage::StatusReport(StatusReport { generation, ranks, held, handed_over })).to_vec()
    }

    /// The generation, as an agent that registers now would be sent it.
    pub fn generation(&mut self) -> Generation {
        let outputs = self.register_as(999, 999, Vec::new(), Vec::new());
        let generation = views(&outputs, 999).last().map(|view| view.generation).unwrap_or_default();
        self.says(
            999,
            AgentMessage::StatusReport(StatusReport {
                generation,
                ranks: Vec::new(),
                held: Vec::new(),
                handed_over: Vec::new(),
            }),
        );
        generation
    }

    /// Agents 1.. host ranks 0.., all are started at version 0 and have come to `version`; each holds the newest two.
    pub fn trained_to(world: u32, version: u32) -> Self {
        let mut desk = Desk::new(world);
        desk.train_to(world, version);
        desk
    }

    pub fn train_to(&mut self, world: u32, version: u32) {
        for rank in 0..world {
            self.register(u64::from(rank) + 1);
            self.joins(u64::from(rank) + 1, rank, attempt(0));
        }
        for rank in 0..world {
            self.stands(u64::from(rank) + 1, vec![stands(rank, 0, RankState::Fresh)], Vec::new());
        }
        for rank in 0..world {
            for v in 0..=version {
                self.enters(rank, 0, v);
            }
        }
    }

    pub fn enters(&mut self, rank: u32, incarnation: u32, version: u32) -> Vec<TrackerOutput> {
        let (lineage, round, version) = (Lineage(0), version, Version(version));
        self.reports(u64::from(rank) + 1, rank, incarnation, Report::VersionEntered { lineage, version, round })
    }

    pub fn leaves(&mut self, link: u64, rank: u32, incarnation: u32, failure: Option<Error>) -> Vec<TrackerOutput> {
        self.reports(link, rank, incarnation, Report::Left { failure })
    }

    pub fn finishes(
        &mut self,
        link: u64,
        rank: u32,
        incarnation: u32,
        rounds: u32,
        digest: u128,
    ) -> Vec<TrackerOutput> {
        self.reports(link, rank, incarnation, Report::Finished { rounds, digest })
    }

    pub fn reports(&mut self, link: u64, rank: u32, incarnation: u32, report: Report) -> Vec<TrackerOutput> {
        let member = MemberId { rank: Rank(rank), incarnation: Incarnation::nth(incarnation) };
        self.says(link, AgentMessage::Report { member, report }).to_vec()
    }
}

pub fn sent(outputs: &[TrackerOutput], to: u64) -> Vec<&TrackerMessage> {
    let sent = outputs.iter().filter_map(|output| match output {
        TrackerOutput::Send { link, message } if *link == to => Some(message),
        _ => None,
    });
    sent.collect()
}

pub fn views(outputs: &[TrackerOutput], to: u64) -> Vec<&View> {
    let views = sent(outputs, to).into_iter().filter_map(|message| match message {
        TrackerMessage::View(view) => Some(view),
        _ => None,
    });
    views.collect()
}

pub fn plan(outputs: &[TrackerOutput], to: u64) -> Option<&Plan> {
    sent(outputs, to).into_iter().find_map(|message| match message {
        TrackerMessage::Plan(plan) => Some(plan),
        _ => None,
    })
}

pub fn events(outputs: &[TrackerOutput]) -> Vec<&Event> {
    let events = outputs.iter().filter_map(|output| match output {
        TrackerOutput::Event(event) => Some(event),
        _ => None,
    });
    events.collect()
}

pub fn lost(outputs: &[TrackerOutput]) -> Vec<(u32, String, u32)> {
    let lost = events(outputs).into_iter().filter_map(|event| match event {
        Event::RankLost { rank, reason, deaths, .. } => Some((rank.0, reason.clone(), *deaths)),
        _ => None,
    });
    lost.collect()
}

pub fn failure(outputs: &[TrackerOutput]) -> Option<&Error> {
    outputs.iter().find_map(|output| match output {
        TrackerOutput::Over(Err(error)) => Some(error),
        _ => None,
    })
}

pub fn refusal(outputs: &[TrackerOutput], to: u64) -> Option<Code> {
    sent(outputs, to).into_iter().find_map(|message| match message {
        TrackerMessage::JoinRefused { error, .. } => Some(error.code),
        _ => None,
    })
}

pub fn fenced(outputs: &[TrackerOutput], to: u64) -> Vec<(u32, u32, Code)> {
    let fenced = sent(outputs, to).into_iter().filter_map(|message| match message {
        TrackerMessage::Fenced { member, error } => Some((member.rank.0, member.incarnation.number, error.code)),
        _ => None,
    });
    fenced.collect()
}
