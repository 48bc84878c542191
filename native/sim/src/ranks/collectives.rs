//! The collectives of one incarnation: production's [`Participant`], with frames in place of bytes.

use super::by_hosts::ByHosts;
use super::frame::{Frame, Given};
use super::life::Peers;
use super::memory::{Looked, Memory, Sharing};
use super::program::combine;
use super::{Defect, Job, Output};
use crate::Violation;
use rejoin_protocol::collective::frame::{self, Expected, Verdict};
use rejoin_protocol::collective::sharing;
use rejoin_protocol::collective::{
    self, BootKey, Call, Entry, Extent, Fetch, Next, Operation, Participant, Place, Plan,
};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{Generation, Lineage, Millis, Phase, Rank, Version};

/// How far a call came.
pub(super) enum Run {
    /// Others have to do something first.
    Waits,
    /// Its result, and whether it is from the log.
    Ends(u64, bool),
    /// The tracker has to know that this rank's memory can't be opened, which this attempt needs.
    CannotShare(Rank, Generation),
}

/// Under which attempt a call is being run, and how far it is.
#[derive(Clone, Debug)]
struct Under {
    attempt: Generation,
    place: Place,
    sent: Vec<bool>,
    taken: Vec<Option<u64>>,
    /// In place of the two: what others give comes by way of their hosts.
    by_hosts: Option<Box<ByHosts>>,
}

impl Under {
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
    under: Option<Under>,
    /// Its part in the memory that ranks of its host share.
    sharing: Option<Sharing>,
    /// The call that it has looked for there, under which attempt.
    looked: Option<(Generation, Place)>,
    /// Frames of these attempts were lost between the two.
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

    pub(super) fn freeze(&mut self, view: Generation, defect: Option<Defect>) -> Vec<Extent> {
        if defect == Some(Defect::NoFreeze) {
            return self.participant.log().extents();
        }
        let extents = self.participant.freeze(view);
        if self.participant.is_frozen() {
            // Nothing comes of it any more: the plan brings a new attempt.
            self.under = None;
        }
        extents
    }

    pub(super) fn plan(&mut self, plan: Plan) {
        self.participant.plan(plan);
    }

    pub(super) fn release(&mut self) {
        self.participant.release();
    }

    pub(super) fn enter(&mut self, version: Version) -> Result<(), Error> {
        self.participant.enter(version)
    }

    /// Frames were lost between the two, of this attempt. Where collectives go through memory none are.
    pub(super) fn cut(&mut self, peer: Rank) -> Option<Generation> {
        if self.participant.boards().is_some() {
            return None;
        }
        let attempt = self.participant.attempt();
        let cut = &mut self.cut[peer.0 as usize];
        *cut = (*cut).max(attempt);
        attempt
    }

    /// The peers between whom and this rank frames of the present attempt were lost.
    pub(super) fn cut_now(&self) -> impl Iterator<Item = (Rank, Generation)> + '_ {
        let attempt = self.participant.attempt();
        let all = (0u32..).zip(&self.cut).filter(move |(_, cut)| cut.is_some() && **cut == attempt);
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
            self.participant.gives(digest, 8, None);
        }
        self.call = Some(call.clone());
        Ok(())
    }

    /// Whether this attempt's collectives go through shared memory.
    fn shares(&self, attempt: Generation, defect: Option<Defect>) -> bool {
        let is_shut_out = self.sharing.as_ref().is_some_and(|sharing| sharing.is_shut_out(attempt));
        let has_boards = self.participant.attempt() == Some(attempt) && self.participant.boards().is_some();
        has_boards && !(is_shut_out && defect == Some(Defect::OwnWay))
    }

    /// Whether a call is under way for which the shared memory has to be looked at the first time.
    pub(super) fn has_to_look(&self) -> bool {
        let now = self.participant.attempt().zip(self.participant.place());
        self.call.is_some() && self.participant.boards().is_some() && now.is_some() && now != self.looked
    }

    /// Whether a board couldn't be opened that the present attempt needs.
    pub(super) fn is_shut_out(&self) -> bool {
        let attempt = self.participant.attempt().filter(|_| self.participant.boards().is_some());
        attempt.zip(self.sharing.as_ref()).is_some_and(|(attempt, sharing)| sharing.is_shut_out(attempt))
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
        self.looked = self.participant.attempt().zip(self.participant.place());
        let run = self.advance(own, peers, job, out)?;
        let Some(call) = self.call.clone().filter(|_| matches!(run, Run::Waits)) else { return Ok(run) };
        let Ok(Next::Run(attempt)) = self.participant.proceed() else { return Ok(Run::Waits) };
        let Some(place) = self.participant.place().filter(|_| self.shares(attempt, job.defect)) else {
            return Ok(Run::Waits);
        };
        self.looked = Some((attempt, place));
        let (Some(boards), Some(sharing)) = (self.participant.boards(), self.sharing.as_mut()) else {
            return Ok(Run::Waits);
        };
        let digest = self.participant.signature(&place).map_or(0, |signature| signature.digest);
        let expected = Expected { attempt, place, digest, inputs: self.participant.shown() };
        match sharing.look(boards, &call, &expected, (self.rank, own), now, memory) {
            Looked::Waits | Looked::Closed(_, false) => Ok(Run::Waits),
            Looked::Closed(peer, true) => Ok(Run::CannotShare(peer, attempt)),
            Looked::Done(result, heard) => {
                let run = self.finish(attempt, result);
                if matches!(run, Run::Ends(..)) {
                    for (peer, inputs) in heard {
                        self.participant.hears(peer, peers.incarnations[peer.0 as usize], &place, inputs);
                    }
                }
                Ok(run)
            }
            Looked::Mismatch(peer, theirs) => Err(self.unlike(place, peer, theirs)),
        }
    }

    /// The call that is under way, to which this rank gives that, goes on as far as it can.
    pub(super) fn advance(&mut self, own: u64, peers: &Peers, job: &Job, out: &mut Vec<Output>) -> Result<Run, Error> {
        let Some(call) = self.call.clone() else { return Ok(Run::Waits) };
        let attempt = match self.participant.proceed()? {
            Next::Wait(_) => return Ok(Run::Waits),
            Next::Replayed(result) => return Ok(self.ended(result, true)),
            Next::Run(attempt) => attempt,
        };
        if self.shares(attempt, job.defect) {
            // That is for [`Collectives::look`].
            self.under = None;
            return Ok(Run::Waits);
        }
        let Some(place) = self.participant.place() else { return Ok(Run::Waits) };
        let world = peers.now.len();
        let me = self.rank.0 as usize;
        if self.under.as_ref().is_none_or(|under| (under.attempt, under.place) != (attempt, place)) {
            let mut taken = vec![None; world];
            taken[me] = Some(own);
            let is_sum = call.operation != Operation::Barrier && call.root.is_none();
            let by_hosts = (job.program.by_hosts && is_sum).then(|| ByHosts::new(me, self.participant.hosts(), own));
            let by_hosts = by_hosts.flatten().map(Box::new);
            self.under = Some(Under { attempt, place, sent: vec![false; world], taken, by_hosts });
        }
        let digest = self.participant.signature(&place).map_or(0, |signature| signature.digest);
        let (gives, inputs) = (call.root.is_none_or(|root| root == self.rank), self.participant.shown());
        let Some(under) = self.under.as_mut() else { return Ok(Run::Waits) };
        let reaches = |peer: &usize| peers.now[*peer].is_some() && self.cut[*peer] < Some(attempt);
        if let Some(by_hosts) = &mut under.by_hosts {
            for peer in (0..world).filter(reaches) {
                let given = by_hosts.gives(peer).map(|bytes| Given::new(place, digest, attempt, 0, inputs).with(bytes));
                out.extend(given.and_then(|given| peers.frame(Rank(peer as u32), Frame::Given(given))));
            }
            return Ok(match by_hosts.given() {
                Some(given) => self.finish(attempt, combine(&call, &given)),
                None => Run::Waits,
            });
        }
        for peer in (0..world).filter(|peer| *peer != me && gives).filter(reaches) {
            if !std::mem::replace(&mut under.sent[peer], true) {
                let given = Given::new(place, digest, attempt, own, inputs);
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
        Ok(self.finish(attempt, combine(&call, &given)))
    }

    fn finish(&mut self, attempt: Generation, result: u64) -> Run {
        match self.participant.finish(attempt, result) {
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
        let runs = self.participant.attempt() == Some(under.attempt);
        if !wanted || !runs || self.cut[peer] >= Some(under.attempt) {
            return Ok(false);
        }
        let Some(signature) = self.participant.signature(&under.place) else { return Ok(false) };
        let expected = Expected { attempt: under.attempt, place: under.place, digest: signature.digest, inputs: 0 };
        let header = given.header();
        let same_place = job.defect == Some(Defect::OldAttempts) && frame::place(&header) == under.place;
        match frame::judge(&header, &expected) {
            Verdict::Mine => {
                under.takes(peer, given);
                self.participant.hears(from, peers.incarnations[peer], &under.place, header.inputs);
            }
            Verdict::Outdated if same_place => under.takes(peer, given),
            Verdict::Outdated => {}
            Verdict::Early => return Ok(false),
            Verdict::Mismatch(theirs) => {
                let place = under.place;
                return Err(self.unlike(place, from, theirs));
            }
        }
        Ok(true)
    }

    /// A result that was asked for.
    pub(super) fn fetched(&mut self, fetch: &Fetch, entry: &Entry<u64>, job: &Job, out: &mut Vec<Output>) {
        let attempt = match job.defect {
            Some(Defect::LateResults) => self.participant.attempt().unwrap_or_default(),
            _ => fetch.generation,
        };
        if let Err(error) = self.participant.fetched(attempt, fetch.phase, fetch.from, entry.clone()) {
            out.push(Output::Violated(Violation::new("Replay", error.to_string())));
        }
    }

    pub(super) fn fetches(&mut self) -> Vec<Fetch> {
        let outputs = std::iter::from_fn(|| self.participant.poll());
        outputs
            .filter_map(|output| if let collective::Output::Fetch(fetch) = output { Some(fetch) } else { None })
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

    /// The last call was made. Who waits for one that this rank never makes is told so by a frame of a place that no call has.
    pub(super) fn end(&mut self, peers: &Peers, out: &mut Vec<Output>) -> Result<(), Error> {
        self.participant.end()?;
        let Some(attempt) = self.participant.attempt() else { return Ok(()) };
        let phase = Phase::Version(Version(self.participant.version().0 + 1));
        let place = Place { lineage: self.lineage, phase, seqno: 0 };
        for peer in (0..peers.now.len()).filter(|peer| self.cut[*peer] < Some(attempt)) {
            out.extend(peers.frame(Rank(peer as u32), Frame::Given(Given::new(place, 0, attempt, 0, 0))));
        }
        if let Some(sharing) = &self.sharing {
            let words = sharing::identity(&Expected { attempt, place, digest: 0, inputs: 0 });
            out.push(Output::LastWords { board: sharing.board(), words });
        }
        Ok(())
    }

    /// Two calls that can't be paired.
    fn unlike(&self, place: Place, other: Rank, theirs: Place) -> Error {
        let text = format!("rank {} at {place} saw rank {other} at {theirs}", self.rank);
        Error::new(Code::Mismatch, text)
    }

    pub(super) fn describe(&self) -> String {
        let (attempt, held) = (self.participant.attempt(), self.participant.log().extents());
        format!("attempt {attempt:?} held {held:?} under {:?}", self.under)
    }
}
