//! The collectives of one incarnation: production's [`Participant`], with frames in place of bytes.

use super::by_hosts::ByHosts;
use super::frame::{Frame, Given};
use super::memory::{Looked, Memory, Sharing};
use super::peers::Peers;
use super::program::combine;
use super::{Defect, Job, Output};
use crate::Violation;
use rejoin_protocol::collective::frame::{self, Expected, Verdict};
use rejoin_protocol::collective::sharing;
use rejoin_protocol::collective::{
    self, BootKey, Call, CollectiveId, Entry, Extent, Fetch, Next, Operation, Participant, RankPlan,
};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Generation, Lineage, Millis, Phase, Rank, Version};

/// How far a call came.
pub(super) enum Run {
    /// Others have to do something first.
    Waits,
    /// Its result, and whether it is from the log.
    Ends(u64, bool),
    /// The tracker has to know that this rank's memory can't be opened, which this generation needs.
    CannotShare(Rank, Generation),
}

/// Under which generation a call is being run, and how far it is.
#[derive(Clone, Debug)]
struct CallOverLinks {
    generation: Generation,
    collective_id: CollectiveId,
    sent: Vec<bool>,
    taken: Vec<Option<u64>>,
    /// In place of the two: what others give comes by way of their hosts.
    by_hosts: Option<Box<ByHosts>>,
}

impl CallOverLinks {
    fn takes(&mut self, peer: usize, given: &Given) {
        match &mut self.by_hosts {
            Some(by_hosts) => by_hosts.takes(peer, &given.bytes),
            None => self.taken[peer] = Some(given.value),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct Collectives {
    rank: Rank,
    lineage: Lineage,
    participant: Participant<u64>,
    call: Option<Call>,
    under: Option<CallOverLinks>,
    /// Its part in the memory that ranks of its host share.
    sharing: Option<Sharing>,
    /// The call that it has looked for there, under which generation.
    looked: Option<(Generation, CollectiveId)>,
    /// Frames of these generations were lost between the two.
    cut: Vec<Option<Generation>>,
}

impl Collectives {
    pub(super) fn new(peers: &Peers, lineage: Lineage, version: Version, sharing: Option<Sharing>) -> Self {
        Collectives {
            rank: peers.own.rank,
            lineage,
            participant: Participant::new(peers.own.rank, peers.own.incarnation, lineage, version),
            call: None,
            under: None,
            sharing,
            looked: None,
            cut: vec![None; peers.now.len()],
        }
    }

    pub(super) fn participant(&self) -> &Participant<u64> {
        &self.participant
    }

    pub(super) fn pause(&mut self, view: Generation, defect: Option<Defect>) -> Vec<Extent> {
        if defect == Some(Defect::NoPause) {
            return self.participant.log().extents();
        }
        let extents = self.participant.pause(view);
        if self.participant.is_paused() {
            // Nothing comes of it any more: the plan brings a new generation.
            self.under = None;
        }
        extents
    }

    pub(super) fn plan(&mut self, plan: RankPlan) {
        self.participant.plan(plan);
    }

    pub(super) fn release(&mut self) {
        self.participant.release();
    }

    pub(super) fn enter(&mut self, version: Version) -> Result<(), Error> {
        self.participant.enter(version)
    }

    /// Frames were lost between the two, of this generation. Where collectives go through memory none are.
    pub(super) fn cut(&mut self, peer: Rank) -> Option<Generation> {
        if self.participant.segments().is_some() {
            return None;
        }
        let generation = self.participant.generation();
        let cut = &mut self.cut[peer.0 as usize];
        *cut = (*cut).max(generation);
        generation
    }

    /// The peers between which and this rank frames of the present generation were lost.
    pub(super) fn cut_now(&self) -> impl Iterator<Item = (Rank, Generation)> + '_ {
        let generation = self.participant.generation();
        let all = (0u32..).zip(&self.cut).filter(move |(_, cut)| cut.is_some() && **cut == generation);
        all.filter_map(|(peer, cut)| Some((Rank(peer), (*cut)?)))
    }

    /// A call begins, to which this rank gives that, and promises to repeat itself or not.
    pub(super) fn begin(
        &mut self,
        call: &Call,
        key: Option<BootKey>,
        promise: impl FnOnce(u64) -> Option<u64>,
    ) -> Result<(), Error> {
        self.participant.begin(call, key)?;
        if let Some(digest) = promise(self.participant.before()) {
            self.participant.add_own(digest, 8, None);
        }
        self.call = Some(call.clone());
        Ok(())
    }

    /// Whether this generation's collectives go through shared memory.
    fn shares(&self, generation: Generation, defect: Option<Defect>) -> bool {
        let is_shut_out = self.sharing.as_ref().is_some_and(|sharing| sharing.is_shut_out(generation));
        let has_segments = self.participant.generation() == Some(generation) && self.participant.segments().is_some();
        has_segments && !(is_shut_out && defect == Some(Defect::OwnWay))
    }

    /// Whether a call is under way for which the shared memory has to be looked at the first time.
    pub(super) fn has_to_look(&self) -> bool {
        let now = self.participant.generation().zip(self.participant.collective_id());
        self.call.is_some() && self.participant.segments().is_some() && now.is_some() && now != self.looked
    }

    /// Whether a segment couldn't be opened that the present generation needs.
    pub(super) fn is_shut_out(&self) -> bool {
        let generation = self.participant.generation().filter(|_| self.participant.segments().is_some());
        generation.zip(self.sharing.as_ref()).is_some_and(|(generation, sharing)| sharing.is_shut_out(generation))
    }

    /// The call that is under way, to which this rank gives that, goes on through shared memory, as far as it can now.
    pub(super) fn look(
        &mut self,
        own: u64,
        memory: &mut Memory,
        now: Millis,
        peers: &Peers,
        job: &Job,
        out: &mut Vec<Output>,
    ) -> Result<Run, Error> {
        self.looked = self.participant.generation().zip(self.participant.collective_id());
        let run = self.advance(own, peers, job, out)?;
        let Some(call) = self.call.clone().filter(|_| matches!(run, Run::Waits)) else { return Ok(run) };
        let Ok(Next::Run(generation)) = self.participant.proceed() else { return Ok(Run::Waits) };
        let Some(collective_id) = self.participant.collective_id().filter(|_| self.shares(generation, job.defect))
        else {
            return Ok(Run::Waits);
        };
        self.looked = Some((generation, collective_id));
        let (Some(segments), Some(sharing)) = (self.participant.segments(), self.sharing.as_mut()) else {
            return Ok(Run::Waits);
        };
        let digest = self.participant.signature(&collective_id).map_or(0, |signature| signature.digest);
        let expected = Expected { generation, collective_id, digest, inputs: self.participant.own_digest() };
        match sharing.look(segments, &call, &expected, (self.rank, own), now, memory) {
            Looked::Waits | Looked::Closed(_, false) => Ok(Run::Waits),
            Looked::Closed(peer, true) => Ok(Run::CannotShare(peer, generation)),
            Looked::Done(result, observed) => {
                let run = self.finish(generation, result);
                if matches!(run, Run::Ends(..)) {
                    for (peer, inputs) in observed {
                        self.participant.observe(peer, peers.incarnations[peer.0 as usize], &collective_id, inputs);
                    }
                }
                Ok(run)
            }
            Looked::Mismatch(peer, theirs) => Err(self.unlike(collective_id, peer, theirs)),
        }
    }

    /// The call that is under way, to which this rank gives that, goes on as far as it can.
    pub(super) fn advance(&mut self, own: u64, peers: &Peers, job: &Job, out: &mut Vec<Output>) -> Result<Run, Error> {
        let Some(call) = self.call.clone() else { return Ok(Run::Waits) };
        let generation = match self.participant.proceed()? {
            Next::Wait(_) => return Ok(Run::Waits),
            Next::Replayed(result) => return Ok(self.ended(result, true)),
            Next::Run(generation) => generation,
        };
        if self.shares(generation, job.defect) {
            // That is for [`Collectives::look`].
            self.under = None;
            return Ok(Run::Waits);
        }
        let Some(collective_id) = self.participant.collective_id() else { return Ok(Run::Waits) };
        let world = peers.now.len();
        let me = self.rank.0 as usize;
        if self
            .under
            .as_ref()
            .is_none_or(|under| (under.generation, under.collective_id) != (generation, collective_id))
        {
            let mut taken = vec![None; world];
            taken[me] = Some(own);
            let is_sum = call.operation != Operation::Barrier && call.root.is_none();
            let by_hosts = (job.program.by_hosts && is_sum).then(|| ByHosts::new(me, self.participant.hosts(), own));
            let by_hosts = by_hosts.flatten().map(Box::new);
            self.under = Some(CallOverLinks { generation, collective_id, sent: vec![false; world], taken, by_hosts });
        }
        let digest = self.participant.signature(&collective_id).map_or(0, |signature| signature.digest);
        let (gives, inputs) = (call.root.is_none_or(|root| root == self.rank), self.participant.own_digest());
        let Some(under) = self.under.as_mut() else { return Ok(Run::Waits) };
        let reaches = |peer: &usize| peers.now[*peer].is_some() && self.cut[*peer] < Some(generation);
        if let Some(by_hosts) = &mut under.by_hosts {
            for peer in (0..world).filter(reaches) {
                let given = by_hosts
                    .gives(peer)
                    .map(|bytes| Given::new(collective_id, digest, generation, 0, inputs).with(bytes));
                out.extend(given.and_then(|given| peers.frame(Rank(peer as u32), Frame::Given(given))));
            }
            return Ok(match by_hosts.given() {
                Some(given) => self.finish(generation, combine(&call, &given)),
                None => Run::Waits,
            });
        }
        for peer in (0..world).filter(|peer| *peer != me && gives).filter(reaches) {
            if !std::mem::replace(&mut under.sent[peer], true) {
                let given = Given::new(collective_id, digest, generation, own, inputs);
                out.extend(peers.frame(Rank(peer as u32), Frame::Given(given)));
            }
        }
        let wants = |peer: usize| peer != me && call.root.is_none_or(|root| root.0 as usize == peer);
        let lacking = (0..world).filter(|peer| wants(*peer) && under.taken[*peer].is_none()).count();
        let enough = usize::from(job.defect == Some(Defect::UnfinishedIsFinal));
        let is_vacant = |peer: usize| self.participant.vacant().contains(&Rank(peer as u32));
        let all_sent = !gives || (0..world).all(|peer| peer == me || under.sent[peer] || is_vacant(peer));
        if lacking > enough || !all_sent {
            return Ok(Run::Waits);
        }
        let given: Vec<u64> = under.taken.iter().map(|value| value.unwrap_or_default()).collect();
        Ok(self.finish(generation, combine(&call, &given)))
    }

    fn finish(&mut self, generation: Generation, result: u64) -> Run {
        match self.participant.finish(generation, result) {
            true => self.ended(result, false),
            false => Run::Waits,
        }
    }

    fn ended(&mut self, result: u64, is_replayed: bool) -> Run {
        (self.call, self.under) = (None, None);
        Run::Ends(result, is_replayed)
    }

    /// Looks at the first frame of a link: whether it was taken, or stays where it is.
    pub(super) fn reads(&mut self, from: Rank, given: &Given, peers: &Peers, job: &Job) -> Result<bool, Error> {
        let Some(under) = self.under.as_mut() else { return Ok(false) };
        let peer = from.0 as usize;
        let Some(call) = &self.call else { return Ok(false) };
        let wanted = match &under.by_hosts {
            Some(by_hosts) => by_hosts.wants(peer),
            None => call.root.is_none_or(|root| root == from) && under.taken[peer].is_none(),
        };
        let runs = self.participant.generation() == Some(under.generation);
        if !wanted || !runs || self.cut[peer] >= Some(under.generation) {
            return Ok(false);
        }
        let Some(signature) = self.participant.signature(&under.collective_id) else { return Ok(false) };
        let expected = Expected {
            generation: under.generation,
            collective_id: under.collective_id,
            digest: signature.digest,
            inputs: 0,
        };
        let header = given.header();
        let same_place =
            job.defect == Some(Defect::OldGenerations) && frame::collective_id(&header) == under.collective_id;
        match frame::judge(&header, &expected) {
            Verdict::Mine => {
                under.takes(peer, given);
                self.participant.observe(from, peers.incarnations[peer], &under.collective_id, header.inputs);
            }
            Verdict::Outdated if same_place => under.takes(peer, given),
            Verdict::Outdated => {}
            Verdict::Early => return Ok(false),
            Verdict::Mismatch(theirs) => {
                let collective_id = under.collective_id;
                return Err(self.unlike(collective_id, from, theirs));
            }
        }
        Ok(true)
    }

    /// A result that was asked for.
    pub(super) fn fetched(&mut self, fetch: &Fetch, entry: &Entry<u64>, job: &Job, out: &mut Vec<Output>) {
        let generation = match job.defect {
            Some(Defect::LateResults) => self.participant.generation().unwrap_or_default(),
            _ => fetch.generation,
        };
        if let Err(error) = self.participant.fetched(generation, fetch.phase, fetch.from, entry.clone()) {
            out.push(Output::Violated(Violation::new("Replay", error.to_string())));
        }
    }

    pub(super) fn fetches(&mut self) -> Vec<Fetch> {
        let outputs = std::iter::from_fn(|| self.participant.poll());
        outputs
            .filter_map(
                |output| if let collective::ParticipantOutput::Fetch(fetch) = output { Some(fetch) } else { None },
            )
            .collect()
    }

    /// What it holds of others' wishes.
    pub(super) fn entry(&self, lineage: Lineage, phase: Phase, seqno: u32, job: &Job) -> Option<Entry<u64>> {
        let is_previous = phase != Phase::Boot && phase != Phase::Version(self.participant.version());
        if lineage != self.lineage || (is_previous && job.defect == Some(Defect::NothingOfThePrevious)) {
            return None;
        }
        self.participant.log().entry(phase, seqno).cloned()
    }

    /// No more calls are made, after an error.
    pub(super) fn give_up(&mut self) {
        (self.call, self.under) = (None, None);
        self.participant.give_up();
    }

    /// The last call was made. A rank that waits for one that this rank never makes is notified by a frame
    /// of an id that no call has.
    pub(super) fn end(&mut self, peers: &Peers, out: &mut Vec<Output>) -> Result<(), Error> {
        self.participant.end()?;
        let Some(generation) = self.participant.generation() else { return Ok(()) };
        let phase = Phase::Version(Version(self.participant.version().0 + 1));
        let collective_id = CollectiveId { lineage: self.lineage, phase, seqno: 0 };
        for peer in (0..peers.now.len()).filter(|peer| self.cut[*peer] < Some(generation)) {
            out.extend(peers.frame(Rank(peer as u32), Frame::Given(Given::new(collective_id, 0, generation, 0, 0))));
        }
        if let Some(sharing) = &self.sharing {
            let words = sharing::identity(&Expected { generation, collective_id, digest: 0, inputs: 0 });
            out.push(Output::LastWords { segment: sharing.segment(), words });
        }
        Ok(())
    }

    /// Two calls that can't be paired.
    fn unlike(&self, collective_id: CollectiveId, other: Rank, theirs: CollectiveId) -> Error {
        let text = format!("rank {} at {collective_id} saw rank {other} at {theirs}", self.rank);
        Error::new(Code::Mismatch, text)
    }

    pub(super) fn describe(&self) -> String {
        let (generation, held) = (self.participant.generation(), self.participant.log().extents());
        format!("generation {generation:?} held {held:?} under {:?}", self.under)
    }
}
