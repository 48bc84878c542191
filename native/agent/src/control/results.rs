//! Results of collectives that a rank here lacks and others have; and questions about others' calls.

use super::{Control, Role};
use crate::digest::digest;
use crate::fetch::{Reply, Request};
use crate::plane::Planes;
use bytes::Bytes;
use rejoin_protocol::collective::{self, BootKey, CollectiveId, Entry, Signature};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{AgentId, MemberId, Rank};
use rejoin_protocol::view::AgentAddress;
use rejoin_protocol::wire::{self, Header, Kind};
use rejoin_transport::{Link, Purpose};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How often is looked whether there is room again.
pub(super) const LOOK_FOR_ROOM: Duration = Duration::from_millis(5);
/// Before all holders are asked again.
const PAUSE: Duration = Duration::from_millis(50);

/// One wish of one rank.
pub(super) struct ResultsFetch {
    pub(super) member: MemberId,
    fetch: collective::Fetch,
    /// The agents to ask from now on.
    holders: VecDeque<(AgentAddress, u32)>,
    holder: Option<(AgentAddress, u32)>,
    next: u32,
    coming: Option<Coming>,
    pub(super) last_heard: Instant,
}

/// A result of which not all bytes are here.
struct Coming {
    signature: Signature,
    key: Option<BootKey>,
    length: u64,
    digest: u128,
    bytes: Vec<u8>,
}

impl ResultsFetch {
    fn new(member: MemberId, fetch: collective::Fetch) -> Self {
        let (holders, next) = (fetch.holders.clone().into(), fetch.from);
        ResultsFetch { member, fetch, holders, holder: None, next, coming: None, last_heard: Instant::now() }
    }

    fn next_holder(&mut self, own: AgentId) -> Option<AgentAddress> {
        self.coming = None;
        self.last_heard = Instant::now();
        let next = self.next;
        // What this process holds was taken from it before any other was asked.
        self.holders.retain(|(at, count)| *count > next && at.agent != own);
        self.holder = self.holders.pop_front();
        self.holder.as_ref().map(|(at, _)| at.clone())
    }

    pub(super) fn failed(&mut self, reason: &str) {
        if let Some((at, _)) = &self.holder {
            log::debug!("results of {} from {} at {}: {reason}", self.fetch.phase, at.host, at.address);
        }
    }

    /// The link to the holder stands.
    pub(super) fn ask(&self, link: &mut Link) {
        let count = self.holder.as_ref().map_or(self.fetch.to, |(_, count)| *count);
        let (lineage, phase) = (self.fetch.lineage, self.fetch.phase);
        link.send_message(&Request::Results { lineage, phase, from: self.next, to: count.min(self.fetch.to) });
    }

    /// A frame of the holder. True when all results are here.
    pub(super) fn take(
        &mut self,
        header: Header,
        payload: &[u8],
        planes: &Planes,
        now: Instant,
    ) -> Result<bool, String> {
        self.last_heard = now;
        match (header.kind, self.coming.as_mut()) {
            (Kind::Control, None) => match wire::decode::<Reply>(payload) {
                Ok(Reply::Result { seqno, signature, key, length, digest }) if seqno == self.next => {
                    self.coming = Some(Coming { signature, key, length, digest, bytes: Vec::new() });
                }
                Ok(other) => return Err(format!("result {} was expected, seen {other:?}", self.next)),
                Err(error) => return Err(error.message),
            },
            (Kind::Bulk, Some(coming)) => {
                let have = coming.bytes.len() as u64;
                if header.offset != have || have + payload.len() as u64 > coming.length {
                    return Err(format!("bytes {}+{} where {have} were expected", header.offset, payload.len()));
                }
                coming.bytes.extend_from_slice(payload);
            }
            (other, _) => return Err(format!("a frame of kind {other:?} in the wrong place")),
        }
        let whole = self.coming.take_if(|coming| coming.bytes.len() as u64 == coming.length);
        let Some(Coming { signature, key, digest: expected, bytes, .. }) = whole else { return Ok(false) };
        if digest(&bytes) != expected {
            return Err(format!(
                "the {} bytes of result {} have another digest than announced",
                bytes.len(),
                self.next
            ));
        }
        let entry = Entry { signature, key, result: Bytes::from(bytes) };
        if let Some(plane) = &planes.collectives {
            plane.fetched(self.member, &self.fetch, self.next, entry);
        }
        self.next += 1;
        if self.next == self.fetch.to {
            return Ok(true);
        }
        match &self.holder {
            Some((_, count)) if self.next >= *count => Err("it holds no more".into()),
            _ => Ok(false),
        }
    }
}

/// What a peer has called somewhere: for the error of a mismatch.
pub(super) struct Question {
    member: MemberId,
    peer: Rank,
    place: CollectiveId,
}

impl Question {
    pub(super) fn ask(&self, link: &mut Link) {
        link.send_message(&Request::Call { rank: self.peer, place: self.place });
    }

    pub(super) fn answered(&self, payload: &[u8], planes: &Planes) {
        let call = match wire::decode::<Reply>(payload) {
            Ok(Reply::Call(call)) => call,
            _ => None,
        };
        self.answer(call, planes);
    }

    pub(super) fn unanswered(&self, planes: &Planes) {
        self.answer(None, planes);
    }

    fn answer(&self, call: Option<Signature>, planes: &Planes) {
        if let Some(plane) = &planes.collectives {
            plane.peer_call(self.member, self.peer, &self.place, call);
        }
    }
}

impl Control {
    /// A rank's wish; it is void once there is a newer view.
    pub(super) fn fetch_results(&mut self, member: MemberId, fetch: collective::Fetch) {
        self.go_on_fetching(Box::new(ResultsFetch::new(member, fetch)));
    }

    /// Asks the next holder; after the last one, all of them again a little later.
    pub(super) fn go_on_fetching(&mut self, mut results: Box<ResultsFetch>) {
        loop {
            let current = self.host.view().is_some_and(|view| view.generation == results.fetch.generation);
            let lives = self.host.members().iter().any(|member| member.id() == Some(results.member));
            if !current || !lives {
                return;
            }
            let Some(holder) = results.next_holder(self.agent) else {
                results.holders = results.fetch.holders.clone().into();
                self.results_again.push((Instant::now() + PAUSE, results));
                return;
            };
            match self.connect(holder.address, Purpose::Fetch, Role::Results(results)) {
                Ok(token) => return self.serve_connection(token),
                Err((reason, Role::Results(back))) => {
                    results = back;
                    results.failed(&reason);
                }
                Err((reason, _)) => {
                    log::error!("{} a fetch could not be started: {reason}", self.shared.prefix());
                    return;
                }
            }
        }
    }

    /// While the logs here use more memory than they may, nothing more is read of results that were
    /// asked for: the holder's side of the link fills, and it waits. The ranks' threads make room
    /// in their calls.
    pub(super) fn go_on_after_pause(&mut self, now: Instant) {
        let is_full = self.planes.is_full();
        for token in std::mem::take(&mut self.results_paused) {
            match self.connections.get_mut(&token).map(|connection| &mut connection.role) {
                Some(Role::Results(results)) if is_full => {
                    // It isn't the holder that is silent.
                    results.last_heard = now;
                    self.results_paused.push(token);
                }
                Some(_) => self.serve_connection(token),
                None => {}
            }
        }
    }

    pub(super) fn fetch_results_again(&mut self, now: Instant) {
        while let Some(index) = self.results_again.iter().position(|(at, _)| *at <= now) {
            let (_, results) = self.results_again.swap_remove(index);
            self.go_on_fetching(results);
        }
    }

    /// What has a peer called there?
    pub(super) fn ask_call(&mut self, member: MemberId, peer: Rank, place: CollectiveId) {
        let question = Box::new(Question { member, peer, place });
        let address = self.host.view().and_then(|view| Some(view.alive(peer)?.1.address));
        let asked = match address {
            Some(address) => self.connect(address, Purpose::Fetch, Role::Asking(question)),
            None => Err((format!("rank {peer} has no slot"), Role::Asking(question))),
        };
        match asked {
            Ok(token) => self.serve_connection(token),
            Err((reason, Role::Asking(question))) => {
                log::debug!("{} asking rank {peer}: {reason}", self.shared.prefix_of(member.rank));
                question.unanswered(&self.planes);
            }
            Err((reason, _)) => {
                let error = Error::new(Code::Internal, reason);
                log::error!("{} {error}", self.shared.prefix());
            }
        }
    }
}
