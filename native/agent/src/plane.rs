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

/// Carries the bytes of one lane between the ranks' workers. Called from the agent's control
/// thread: every call returns at once.
pub trait DataPlane: Send + Sync {
    /// The agent has started; `agent` is how the plane reports.
    fn attach(&self, agent: Arc<dyn AgentReports>);
    /// A new incarnation of a rank has its slot: what older ones had here is dropped, their workers are freed.
    fn join_accepted(&self, member: MemberId);
    /// The incarnation starts: boot, then where the start says. `hosts` has the number of each rank's host.
    fn start(&self, member: MemberId, hosts: &[usize], start: &Start);
    /// All other living ranks, after every change. Links to others are dropped by the plane.
    fn peers(&self, member: MemberId, peers: &[MemberId]);
    /// A link to a living peer stands: mutually proven, nonblocking, nothing sent yet. It replaces
    /// an older one.
    fn link(&self, member: MemberId, peer: MemberId, link: Link);
    /// The incarnation is over: its worker is freed.
    fn free(&self, member: MemberId, error: Error);
    /// A rank is missing: the incarnation drops no log from now on. Returns the oldest version of
    /// which it has the logs still (`Outgoing::hold` says it of a channel; the start's version
    /// before anything was entered). Atomic with entering a phase. The control thread answers the
    /// protocol with it by `HostInput::Holding`, queued behind every `Entered` that came before.
    fn hold(&self, member: MemberId) -> Version;
    /// All have caught up: the incarnation drops what is old, as usual again.
    fn release(&self, member: MemberId);
    /// Rules to watch for (they replace older ones). Rules for moments that only the agent sees are handled by it.
    fn faults(&self, rules: &[FaultRule]);
    /// Memory and disk in use.
    fn usage(&self) -> PlaneUsage;
    /// The agent is over.
    fn close(&self);
}

/// A plane whose results ranks that lack them are given, by this process or by another one.
pub trait ResultPlane: DataPlane {
    /// A view came: from now until its plan the incarnation finishes no collective. Returns what it
    /// holds of them, and what it has heard of other ranks' inputs. Called right before
    /// [`DataPlane::hold`].
    fn pause(&self, member: MemberId, generation: Generation) -> (Vec<Extent>, Vec<ObservedInput>);
    /// The view's plan came: what this incarnation lacks is fetched, and then it goes on.
    fn plan(&self, member: MemberId, plan: collective::RankPlan);
    /// Results `from` to `to` (exclusive) of a phase, for a rank elsewhere that lacks them: as many
    /// as are held, from the first on.
    fn results(&self, lineage: Lineage, phase: Phase, from: u32, to: u32) -> Vec<Entry<Logged>>;
    /// The incarnation's task has ended before the job. Its results are given to nobody any more:
    /// the rank's next one may have got others where no rank that lives had them. What it has
    /// called may still be asked for.
    fn left(&self, member: MemberId);
    /// One of the results that were asked for by [`AgentReports::fetch`]; they come in order.
    fn fetched(&self, member: MemberId, fetch: &Fetch, seqno: u32, entry: Entry<Bytes>);
    /// What this rank has called under an id, if it is here.
    fn signature(&self, rank: Rank, place: &CollectiveId) -> Option<Signature>;
    /// The answer to [`AgentReports::ask`]: `None` when it can't be known.
    fn peer_call(&self, member: MemberId, peer: Rank, place: &CollectiveId, call: Option<Signature>);
    /// Whether logs use more memory than they may: until that has changed, no results that were asked for are brought.
    fn is_full(&self) -> bool;
}

/// The planes of an agent. Beside channels, collectives carry something only in a job that has
/// agreed on the hook ([`rejoin_protocol::hook`]). Both count their logs with one budget. Without
/// any, ranks only meet and take checkpoints.
#[derive(Clone, Default)]
pub struct Planes {
    /// Rejoin's own collectives: those of communicators, and XGBoost's where they are hooked.
    pub collectives: Option<Arc<dyn ResultPlane>>,
    /// The channels of XGBoost's bridge.
    pub channels: Option<Arc<dyn DataPlane>>,
}

impl<P: ResultPlane + 'static> From<Arc<P>> for Planes {
    fn from(collectives: Arc<P>) -> Planes {
        Planes { collectives: Some(collectives), channels: None }
    }
}

impl Planes {
    /// All of them. A rank enters a version in its collectives first.
    pub(crate) fn all(&self) -> impl DoubleEndedIterator<Item = &dyn DataPlane> {
        let collectives = self.collectives.iter().map(|plane| -> &dyn DataPlane { &**plane });
        collectives.chain(self.channels.iter().map(|plane| &**plane))
    }

    /// For which lanes two ranks need a link each, in a job that has agreed on the hook, or has not.
    pub(crate) fn lanes(&self, hooked: bool) -> &'static [Lane] {
        match (&self.collectives, &self.channels) {
            (None, None) => &[],
            (Some(_), None) => &[Lane::Collectives],
            (Some(_), Some(_)) if hooked => &[Lane::Channels, Lane::Collectives],
            (_, Some(_)) => &[Lane::Channels],
        }
    }

    pub(crate) fn start(&self, member: MemberId, hosts: &[usize], start: &Start) {
        let lanes = self.lanes(start.hooked);
        if let Some(plane) = self.collectives.as_ref().filter(|_| lanes.contains(&Lane::Collectives)) {
            plane.start(member, hosts, start);
        }
        if let Some(plane) = &self.channels {
            plane.start(member, hosts, start);
        }
    }

    pub(crate) fn link(&self, member: MemberId, peer: MemberId, lane: Lane, link: Link) {
        match (lane, &self.collectives, &self.channels) {
            (Lane::Collectives, Some(plane), _) => plane.link(member, peer, link),
            (Lane::Channels, _, Some(plane)) => plane.link(member, peer, link),
            // Links are wanted for the lanes of planes alone.
            _ => link.reset(),
        }
    }

    /// The channels first: a hooked call that ends with this asks them for a way back to the
    /// training library.
    pub(crate) fn free(&self, member: MemberId, error: &Error) {
        self.all().rev().for_each(|plane| plane.free(member, error.clone()));
    }

    pub(crate) fn usage(&self) -> PlaneUsage {
        self.all().next().map(|plane| plane.usage()).unwrap_or_default()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.collectives.as_ref().is_some_and(|plane| plane.is_full())
    }
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
    /// Results that the incarnation lacks; they come by [`ResultPlane::fetched`], unless a newer view
    /// makes the wish void.
    fn fetch(&self, member: MemberId, fetch: Fetch);
    /// What has a peer called under this id? Answered by [`ResultPlane::peer_call`].
    fn ask(&self, member: MemberId, peer: Rank, place: CollectiveId);
    /// A fact for the event log.
    fn report_event(&self, event: Event);
    /// A rule's moment has come: the agent notifies the tracker, waits until that is out, and
    /// then fires it. (`CutLink` and `Throw` come back as [`DataPlane::free`] or are done by the plane
    /// after this call returns.) False for a rule that has fired before, on another lane or before
    /// the rule came anew: then nothing is done.
    fn inject(&self, rule: FaultRule) -> bool;
}
