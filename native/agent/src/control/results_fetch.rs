//! A wish for results of collectives, and a question about another rank's call, while they are under way.

use crate::fetch::{Reply, Request};
use crate::plane::Planes;
use bytes::Bytes;
use mio::Token;
use rejoin_protocol::collective::{self, BootKey, CollectiveId, Entry, Signature};
use rejoin_protocol::ids::{AgentId, MemberId, Rank};
use rejoin_protocol::view::AgentAddress;
use rejoin_protocol::wire::{self, Header, Kind};
use rejoin_transport::Link;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use twox_hash::XxHash3_128;

/// A wish that has lasted for so long is told, and how often.
const SAY_AFTER: Duration = Duration::from_secs(5);
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// Fetches of results that have to wait.
#[derive(Default)]
pub(super) struct WaitingResults {
    /// Those that failed with every holder, and when they are tried again.
    pub(super) again: Vec<(Instant, Box<ResultsFetch>)>,
    /// Links over which results come that there is no room for now.
    pub(super) paused: Vec<Token>,
}

/// One wish of one rank.
pub(super) struct ResultsFetch {
    pub(super) member: MemberId,
    pub(super) fetch: collective::Fetch,
    /// The agents to ask from now on.
    pub(super) holders: VecDeque<(AgentAddress, u32)>,
    holder: Option<(AgentAddress, u32)>,
    next: u32,
    coming: Option<Coming>,
    pub(super) last_heard: Instant,
    began: Instant,
    /// When it was last told that it doesn't come to an end.
    said: Option<Instant>,
}

/// A result of which not all bytes are here.
struct Coming {
    signature: Signature,
    key: Option<BootKey>,
    length: u64,
    digest: u128,
    bytes: Vec<u8>,
    /// Of the bytes that are here.
    seen: XxHash3_128,
}

impl ResultsFetch {
    pub(super) fn new(member: MemberId, fetch: collective::Fetch) -> Self {
        let (holders, next) = (fetch.holders.clone().into(), fetch.from);
        let now = Instant::now();
        ResultsFetch {
            member,
            fetch,
            holders,
            holder: None,
            next,
            coming: None,
            last_heard: now,
            began: now,
            said: None,
        }
    }

    pub(super) fn next_holder(&mut self, own: AgentId) -> Option<AgentAddress> {
        self.coming = None;
        self.last_heard = Instant::now();
        let next = self.next;
        // What this process holds was taken from it before any other was asked.
        self.holders.retain(|(at, count)| *count > next && at.agent != own);
        self.holder = self.holders.pop_front();
        self.holder.as_ref().map(|(at, _)| at.clone())
    }

    pub(super) fn failed(&mut self, reason: &str) {
        let Some((at, _)) = &self.holder else { return };
        let is_due = self.began.elapsed() >= SAY_AFTER && self.said.is_none_or(|said| said.elapsed() >= SAY_AGAIN);
        if is_due {
            self.said = Some(Instant::now());
        }
        log::log!(
            if is_due { log::Level::Warn } else { log::Level::Debug },
            "rank {} fetches results {} to {} of {} for {} s already; {} at {}: {reason}. All that have them are asked \
             again and again",
            self.member.rank,
            self.next,
            self.fetch.to,
            self.fetch.phase,
            self.began.elapsed().as_secs(),
            at.host,
            at.address
        );
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
                    self.coming =
                        Some(Coming { signature, key, length, digest, bytes: Vec::new(), seen: XxHash3_128::new() });
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
                coming.seen.write(payload);
            }
            (other, _) => return Err(format!("a frame of kind {other:?} in the wrong place")),
        }
        let whole = self.coming.take_if(|coming| coming.bytes.len() as u64 == coming.length);
        let Some(Coming { signature, key, digest, bytes, seen, .. }) = whole else { return Ok(false) };
        if seen.finish_128() != digest {
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
    pub(super) member: MemberId,
    pub(super) peer: Rank,
    pub(super) place: CollectiveId,
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
