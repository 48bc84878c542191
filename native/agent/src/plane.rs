//! What carries the bytes of an agent's ranks: the seam between the agent and a way into a training library.

use crate::logs::Logged;
use bytes::Bytes;
use rejoin_protocol::collective::{self, CollectiveId, Entry, Extent, Fetch, ObservedInput, Signature};
use rejoin_protocol::error::Error;
use rejoin_protocol::event::Event;
use rejoin_protocol::fault::FaultRule;
use rejoin_protocol::host::Start;
use rejoin_protocol::ids::{Generation, Lane, Lineage, MemberId, Phase, Rank, Version};
use rejoin_protocol::report::Report;
use rejoin_transport::Link;
use std::sync::Arc;

/// Memory and disk that a plane uses, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaneUsage {
    /// Logs in memory.
    pub log_bytes: u64,
    /// Memory of dropped logs that waits to be used again.
    pub idle_bytes: u64,
    /// The most that both ever were together.
    pub log_bytes_peak: u64,
    /// Logs on disk.
    pub spilled_bytes: u64,
}

/// Carries bytes between the ranks' workers. Called from the agent's control thread: every call returns at once.
pub trait DataPlane: Send + Sync {
    /// The agent has started; `agent` is how the plane reports.
    fn attach(&self, agent: Arc<dyn AgentReports>);
    /// A new incarnation of a rank has its slot: what older ones had here is dropped, their workers are freed.
    fn join_accepted(&self, member: MemberId);
    /// For which lanes two ranks need a link each, in a job that has agreed on the hook, or has not
    /// ([`rejoin_protocol::hook`]).
    fn lanes(&self, hooked: bool) -> &'static [Lane];
    /// The incarnation starts: boot, then where the start says.
    fn start(&self, member: MemberId, world: u32, start: &Start);
    /// All other living ranks, after every change. Links to others are dropped by the plane.
    fn peers(&self, member: MemberId, peers: Vec<MemberId>);
    /// A link to a living peer stands: mutually proven, nonblocking, nothing sent yet. It replaces
    /// an older one of its lane.
    fn link(&self, member: MemberId, peer: MemberId, lane: Lane, link: Link);
    /// The incarnation is over: its worker is freed.
    fn free(&self, member: MemberId, error: Error);
    /// A rank is missing: the incarnation's channels drop nothing from now on. Returns the oldest
    /// version of which every channel of it has the log still (`Outgoing::hold` says it; the
    /// start's version before anything was entered). Atomic with entering a phase. The control
    /// thread answers the protocol with it by `HostInput::Holding`, queued behind every `Entered` that
    /// came before.
    fn hold(&self, member: MemberId) -> Version;
    /// A view came: from now until its plan the incarnation finishes no collective. Returns what it
    /// holds of them; nothing for a plane without collectives. Called right before
    /// [`DataPlane::hold`].
    fn pause(&self, _member: MemberId, _generation: Generation) -> Vec<Extent> {
        Vec::new()
    }
    /// What the incarnation has heard of other ranks' inputs, for a plane with collectives. Called right after
    /// [`DataPlane::pause`].
    fn observed(&self, _member: MemberId) -> Vec<ObservedInput> {
        Vec::new()
    }
    /// The plan, for a plane with collectives.
    fn plan(&self, _member: MemberId, _plan: collective::RankPlan) {}
    /// Results `from` to `to` (exclusive) of a phase, for a rank elsewhere that lacks them: as many
    /// as are held, from the first on.
    fn results(&self, _lineage: Lineage, _phase: Phase, _from: u32, _to: u32) -> Vec<Entry<Logged>> {
        Vec::new()
    }
    /// One of the results that were asked for by [`AgentReports::fetch`]; they come in order.
    fn fetched(&self, _member: MemberId, _fetch: &Fetch, _seqno: u32, _entry: Entry<Bytes>) {}
    /// What this rank has called at a place, if it is here.
    fn signature(&self, _rank: Rank, _place: &CollectiveId) -> Option<Signature> {
        None
    }
    /// The answer to [`AgentReports::ask`]: `None` when it can't be known.
    fn peer_call(&self, _member: MemberId, _peer: Rank, _place: &CollectiveId, _call: Option<Signature>) {}
    /// All have caught up: the incarnation's channels drop what is old, as usual again.
    fn release(&self, member: MemberId);
    /// Rules to watch for (they replace older ones). Rules for moments that only the agent sees are handled by it.
    fn faults(&self, rules: Vec<FaultRule>);
    /// Memory and disk in use.
    fn usage(&self) -> PlaneUsage;
    /// Whether logs use more memory than they may: until that has changed, no results that were asked for are brought.
    fn is_full(&self) -> bool {
        false
    }
    /// The agent is over.
    fn close(&self);
}

/// Moves nothing, for ranks that only meet and take checkpoints. It has links made on these lanes, and drops them.
#[derive(Clone, Copy, Debug)]
pub struct NoPlane(pub &'static [Lane]);

impl DataPlane for NoPlane {
    fn attach(&self, _: Arc<dyn AgentReports>) {}
    fn join_accepted(&self, _: MemberId) {}
    fn lanes(&self, _: bool) -> &'static [Lane] {
        self.0
    }
    fn start(&self, _: MemberId, _: u32, _: &Start) {}
    fn peers(&self, _: MemberId, _: Vec<MemberId>) {}
    fn link(&self, _: MemberId, _: MemberId, _: Lane, _: Link) {}
    fn free(&self, _: MemberId, _: Error) {}
    fn hold(&self, _: MemberId) -> Version {
        Version(0)
    }
    fn release(&self, _: MemberId) {}
    fn faults(&self, _: Vec<FaultRule>) {}
    fn usage(&self) -> PlaneUsage {
        PlaneUsage::default()
    }
    fn close(&self) {}
}

/// What a plane reports to its agent. Every call returns at once.
pub trait AgentReports: Send + Sync {
    /// What a log line about a rank begins with: job, rank, generation, version.
    fn prefix(&self, rank: Rank) -> String;
    /// What is known of tracker and membership, for errors that say what was waited for.
    fn situation(&self) -> String;
    /// A fact about a member. A link that is down the agent has made anew; the agent reports
    /// all to the tracker.
    fn report(&self, member: MemberId, report: Report);
    /// Results that the incarnation lacks; they come by [`DataPlane::fetched`], unless a newer view
    /// makes the wish void.
    fn fetch(&self, member: MemberId, fetch: Fetch);
    /// What has a peer called at this place? Answered by [`DataPlane::peer_call`].
    fn ask(&self, member: MemberId, peer: Rank, place: CollectiveId);
    /// A fact for the event log.
    fn report_event(&self, event: Event);
    /// A rule's moment has come: the agent notifies the tracker, waits until that is out, and then fires it.
    /// (`CutLink` and `Throw` come back as [`DataPlane::free`] or are done by the plane after this call returns.)
    fn inject(&self, rule: FaultRule);
}
