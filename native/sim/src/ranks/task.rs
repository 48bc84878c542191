//! A task of the framework in a process, and what its rank wants.

use super::collectives::Collectives;
use super::frame::End;
use super::process_io::Try;
use super::sim_rank::SimRank;
use crate::invariants::reports::Reported;
use rejoin_protocol::collective::{Fetch, SegmentAddress};
use rejoin_protocol::error::Code;
use rejoin_protocol::ids::{Checkpoint, Generation, Incarnation, Lane, Lineage, Phase, Rank, Version};

/// Tasks that stand by are known by their number and this.
const STANDING: u32 = 1 << 20;

/// A task.
#[derive(Clone, Debug)]
pub struct Task {
    /// What it joins as; of one that stands by, a rank that no job has.
    pub id: Try,
    /// What the framework calls it.
    pub of: Try,
    pub(super) incarnation: Option<Incarnation>,
    pub(super) sim_rank: Option<SimRank>,
    /// A checkpoint that is to be fetched, and the agents that hold it.
    pub(super) wanted: Option<(Checkpoint, Vec<u32>)>,
    pub(super) wishes: Vec<Fetch>,
    pub(super) reported: Reported,
    pub(super) outcome: Option<Result<u128, Code>>,
    pub(super) freed: Option<Code>,
    /// The memory that it shares.
    pub(super) segment: Option<SegmentAddress>,
}

impl Task {
    /// A task that is its rank.
    pub(super) fn new(id: Try) -> Self {
        Task {
            id,
            of: id,
            incarnation: None,
            sim_rank: None,
            wanted: None,
            wishes: Vec::new(),
            reported: Reported::default(),
            outcome: None,
            freed: None,
            segment: None,
        }
    }

    /// A task that asks for a rank.
    pub(super) fn standing(of: Try) -> Self {
        let rank = Rank(of.rank.0 + STANDING);
        Task { of, ..Task::new(Try { rank, ..of }) }
    }

    /// Whether it was given no rank yet.
    pub fn stands_by(&self) -> bool {
        self.id.rank.0 >= STANDING
    }

    /// What it was given as the job's end.
    pub fn outcome(&self) -> Option<Result<u128, Code>> {
        self.outcome
    }

    /// Its calls were ended with this; the framework tries again.
    pub fn freed(&self) -> Option<Code> {
        self.freed
    }

    /// The version that its rank is in, if it was started.
    pub fn position(&self) -> Option<(Lineage, Version)> {
        self.sim_rank.as_ref().map(|sim_rank| (sim_rank.lineage, sim_rank.version))
    }

    /// The same of which its agent knows, which holds that version's checkpoint.
    pub(crate) fn position_known(&self) -> Option<(Lineage, Version)> {
        self.sim_rank.as_ref().map(|sim_rank| (sim_rank.lineage, sim_rank.version_known()))
    }

    /// Its rank's incarnation, once it has a slot.
    pub fn incarnation(&self) -> Incarnation {
        self.incarnation.unwrap_or_default()
    }

    /// Its rank's end of data links, if it was started.
    pub fn end(&self) -> Option<End> {
        self.sim_rank.as_ref().map(|sim_rank| sim_rank.peers.own)
    }

    /// What its rank was given as rank 0's choice in the version that it is in.
    pub fn choice(&self) -> Option<(Lineage, Version, bool)> {
        self.sim_rank.as_ref()?.choice()
    }

    /// The other ranks, where its rank knows one that lives.
    pub fn peers(&self) -> impl Iterator<Item = End> + '_ {
        self.sim_rank.iter().flat_map(|sim_rank| sim_rank.peers.now.iter().flatten().copied())
    }

    /// Whether its rank is in a call.
    pub fn is_in_call(&self) -> bool {
        self.sim_rank.as_ref().is_some_and(SimRank::is_in_call)
    }

    /// Whether this is one of its rank's peers.
    pub fn is_linked(&self, other: End) -> bool {
        self.sim_rank
            .as_ref()
            .is_some_and(|sim_rank| sim_rank.peers.now.get(other.rank.0 as usize) == Some(&Some(other)))
    }

    /// The newest plan that its rank's collectives have.
    pub fn generation(&self) -> Option<Generation> {
        self.collectives()?.participant().generation()
    }

    /// Whether its rank waits for the plan of a view that it has answered.
    pub fn is_paused(&self) -> bool {
        self.collectives().is_some_and(|collectives| collectives.participant().is_paused())
    }

    /// What its rank's links carry.
    pub fn lanes(&self) -> impl Iterator<Item = Lane> {
        let channels = self.sim_rank.as_ref().and_then(|sim_rank| sim_rank.streams.as_ref()).map(|_| Lane::Channels);
        let collectives = self.collectives().map(|_| Lane::Collectives);
        channels.into_iter().chain(collectives)
    }

    /// Which versions its rank has entered, and which of them its process has sent to the tracker.
    pub(super) fn reported(&self) -> Option<Reported> {
        self.sim_rank.as_ref().map(|_| self.reported)
    }

    fn collectives(&self) -> Option<&Collectives> {
        self.sim_rank.as_ref()?.collectives.as_ref()
    }

    /// How many versions of results and of bytes are kept, without boot: the larger of the two.
    pub fn versions_kept(&self) -> usize {
        self.sim_rank.as_ref().map_or(0, SimRank::versions_kept)
    }

    /// Whether the rank's thread has something to do of its own.
    pub fn is_idle(&self) -> bool {
        self.sim_rank.as_ref().is_some_and(SimRank::is_idle)
    }

    /// Whether its trainer has written something that the bridge hasn't looked at.
    pub fn has_written(&self) -> bool {
        let streams = self.sim_rank.as_ref().and_then(|sim_rank| sim_rank.streams.as_ref());
        streams.is_some_and(|streams| !streams.is_at_rest())
    }

    /// The checkpoint that is wanted, and the processes that may have it.
    pub fn wanted(&self) -> Option<&(Checkpoint, Vec<u32>)> {
        self.wanted.as_ref()
    }

    /// Results that are wanted.
    pub fn wishes(&self) -> &[Fetch] {
        &self.wishes
    }

    /// Whether its rank has to look at the shared memory, having begun something there.
    pub fn has_to_look(&self) -> bool {
        self.sim_rank.as_ref().is_some_and(SimRank::has_to_look)
    }

    /// Whether its rank tries again and again to open a segment.
    pub fn is_shut_out(&self) -> bool {
        self.sim_rank.as_ref().is_some_and(SimRank::is_shut_out)
    }

    /// Whether its rank knows of something that another incarnation of that rank would contradict
    /// by saying other things.
    pub fn knows(&self, rank: Rank, phase: Phase) -> bool {
        self.sim_rank.as_ref().is_some_and(|sim_rank| sim_rank.knows(rank, phase))
    }

    pub(super) fn describe(&self) -> String {
        let sim_rank = self.sim_rank.as_ref().map(SimRank::describe).unwrap_or_default();
        format!("[{:?} {:?} {sim_rank} wants {:?} wishes {:?}]", self.id, self.incarnation, self.wanted, self.wishes)
    }
}
