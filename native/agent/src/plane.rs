//! What carries the bytes of an agent's ranks: the seam between the agent and a way into a training library.

use rejoin_protocol::error::Error;
use rejoin_protocol::event::Event;
use rejoin_protocol::fault::FaultRule;
use rejoin_protocol::ids::{Incarnation, Lineage, Rank, Version};
use rejoin_transport::Link;

/// Another rank that is alive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanePeer {
    /// The rank.
    pub rank: Rank,
    /// Its living incarnation.
    pub incarnation: Incarnation,
    /// Whether this agent hosts it too: then no link comes, the plane passes bytes itself.
    pub local: bool,
}

/// Memory and disk that a plane uses, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaneUsage {
    /// Logs in memory.
    pub log_bytes: u64,
    /// The most they ever were.
    pub log_bytes_peak: u64,
    /// Logs on disk.
    pub spilled_bytes: u64,
}

/// Carries bytes between the ranks' workers. Called from the agent's control thread: every call returns at once.
pub trait DataPlane: Send + Sync {
    /// The agent has started; `agent` is how the plane reports.
    fn attach(&self, agent: Box<dyn AgentReports>);
    /// A new incarnation of a rank has its seat: whatever older ones had here is dropped, their workers are freed.
    fn seated(&self, rank: Rank, incarnation: Incarnation);
    /// The incarnation starts: boot, then this version.
    fn start(&self, rank: Rank, incarnation: Incarnation, world: u32, lineage: Lineage, version: Version);
    /// All other living ranks, after every change. Links to others are dropped by the plane.
    fn peers(&self, rank: Rank, incarnation: Incarnation, peers: Vec<PlanePeer>);
    /// A link to a living peer stands: mutually proven, nonblocking, nothing sent yet. It replaces an older one.
    fn link(&self, rank: Rank, incarnation: Incarnation, peer: Rank, peer_incarnation: Incarnation, link: Link);
    /// The incarnation is over: its worker is freed.
    fn free(&self, rank: Rank, incarnation: Incarnation, error: Error);
    /// A rank is missing: the incarnation's channels drop nothing from now on. Returns the oldest version of which every
    /// channel of it has the log still (`Outgoing::hold` says it; the start's version before anything was entered).
    /// Atomic with entering a phase. The control thread answers the protocol with it by `Input::Holding`, queued behind
    /// every `Entered` that came before.
    fn hold(&self, rank: Rank, incarnation: Incarnation) -> Version;
    /// Everybody has caught up: the incarnation's channels drop what is old, as usual again.
    fn release(&self, rank: Rank, incarnation: Incarnation);
    /// Rules to watch for (they replace older ones). Rules for moments that only the agent sees are handled by it.
    fn faults(&self, rules: Vec<FaultRule>);
    /// Memory and disk in use.
    fn usage(&self) -> PlaneUsage;
    /// The agent is over.
    fn close(&self);
}

/// What a plane tells its agent. Every call returns at once.
pub trait AgentReports: Send + Sync {
    /// The link to a living peer broke; the agent has it made anew.
    fn link_down(
        &self,
        rank: Rank,
        incarnation: Incarnation,
        peer: Rank,
        peer_incarnation: Incarnation,
        reason: String,
    );
    /// Something that ends the job.
    fn broken(&self, rank: Rank, incarnation: Incarnation, error: Error);
    /// A fact for the story.
    fn happened(&self, event: Event);
    /// A rule's moment has come: the agent tells the tracker, waits until that is out, and then strikes. (`CutLink` and
    /// `Throw` come back as [`DataPlane::free`] or are done by the plane after this call returns.)
    fn strike(&self, rule: FaultRule);
}
