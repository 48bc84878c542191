//! The asking side of a checkpoint: a pure state machine. A large one comes in stripes from several
//! holders at once, each in parts that are verified as they come. What is verified stays, whichever
//! of the holders dies.

use super::{Reply, Request};
use crate::digest::part_digest;
use crate::reservation;
use bytes::Bytes;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{AgentId, Checkpoint, MemberId};
use rejoin_protocol::view::AgentAddress;
use rejoin_protocol::wire::{self, Header, Kind};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Instant;

/// Fewest bytes of a stripe: for less a link of its own isn't worth while.
const STRIPE_BYTES: u64 = 8 << 20;
/// Most stripes at once: more only share the newcomer's own line.
const STRIPES: u64 = 4;

/// A checkpoint that a newcomer here needs.
pub(crate) struct Gathering {
    pub(crate) member: MemberId,
    /// What is being fetched; as it was asked for until a holder says what a lazy one has become.
    pub(crate) checkpoint: Checkpoint,
    asked: Checkpoint,
    bytes: Vec<u8>,
    /// What no holder is bringing.
    missing: Vec<Range<u64>>,
    /// The agents to ask, in this order: the nearest first, and behind them those that have brought a stripe.
    holders: VecDeque<AgentAddress>,
    stripes: BTreeMap<u32, Stripe>,
    next_number: u32,
    /// The agents that have brought something of what is here.
    sources: Vec<AgentAddress>,
    /// What several holders brought didn't fit together: each holder is asked for all of it.
    is_alone: bool,
    tried: Vec<String>,
    /// Verified bytes that are here; the most there ever were; and the most when all holders had failed last.
    have: u64,
    most: u64,
    most_before: u64,
    pub(crate) began: Instant,
}

/// A part that a holder brings.
struct Stripe {
    holder: AgentAddress,
    range: Range<u64>,
    /// Where its next byte belongs.
    next: u64,
    /// The part that comes: where it begins, where it ends, and the digest that was announced for it.
    /// What is before it is verified.
    part: Range<u64>,
    part_digest: u64,
    /// When a part of it was verified last, or something said.
    last_heard: Instant,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NextStripe {
    /// Connect to this holder, and ask it for the stripe of this number.
    Ask(u32, AgentAddress),
    /// Stripes are on their way.
    Wait,
    /// No holder is left to be asked.
    Failed,
}

/// What became of a frame.
pub(crate) enum Progress {
    /// Nothing more to do now.
    Wait,
    /// The stripe is here, and its link is of no more use. There may be something to ask for.
    Brought,
    /// All bytes are here, and their digest is to be computed, where nothing waits for it: of a large model it takes
    /// longer than a process may be silent. [`Gathering::verified`] says what is next.
    Whole(Bytes),
    /// The bytes are whole and verified.
    Done(Bytes),
    /// This holder is of no use.
    Failed(String),
}

impl Gathering {
    /// `holders` in the order in which they are to be asked. Stripes come only from those that are
    /// as near as the first: `host` is the newcomer's.
    pub(crate) fn new(
        member: MemberId,
        checkpoint: Checkpoint,
        holders: Vec<AgentAddress>,
        host: &str,
        now: Instant,
    ) -> Self {
        let mut gathering = Gathering {
            member,
            checkpoint,
            asked: checkpoint,
            bytes: Vec::new(),
            missing: Vec::new(),
            holders: VecDeque::new(),
            stripes: BTreeMap::new(),
            next_number: 0,
            sources: Vec::new(),
            is_alone: false,
            tried: Vec::new(),
            have: 0,
            most: 0,
            most_before: 0,
            began: now,
        };
        let is_near =
            |holder: &&AgentAddress| Some(holder.host == host) == holders.first().map(|first| first.host == host);
        let near = holders.iter().take_while(is_near).count() as u64;
        let stripes = match checkpoint.is_made() {
            true => near.min(STRIPES).min(checkpoint.length / STRIPE_BYTES).max(1),
            false => 1,
        };
        let cut = |number: u64| (u128::from(checkpoint.length) * u128::from(number) / u128::from(stripes)) as u64;
        gathering.missing = (0..stripes).rev().map(|number| cut(number)..cut(number + 1)).collect();
        gathering.holders = holders.into();
        gathering
    }

    /// The same checkpoint is asked for again, of these holders: after a change among the ranks, or
    /// when all holders had failed. What is here stays, and a holder that brings more goes on, unless it
    /// holds it no more: those stripes are returned, and their links are of no more use. False when
    /// it is another checkpoint.
    pub(crate) fn go_on(&mut self, checkpoint: &Checkpoint, holders: Vec<AgentAddress>) -> Option<Vec<u32>> {
        if self.asked != *checkpoint {
            return None;
        }
        if self.stripes.is_empty() {
            self.tried.clear();
        }
        let is_gone = |stripe: &Stripe| holders.iter().all(|holder| holder.agent != stripe.holder.agent);
        let gone: Vec<u32> =
            self.stripes.iter().filter(|(_, stripe)| is_gone(stripe)).map(|(number, _)| *number).collect();
        for number in &gone {
            self.failed(*number, "isn't named as a holder any more");
        }
        let is_busy = |holder: &AgentAddress| self.stripes.values().any(|stripe| stripe.holder.agent == holder.agent);
        self.holders = holders.into_iter().filter(|holder| !is_busy(holder)).collect();
        Some(gone)
    }

    /// The holder to ask now, and for what. Ask again until it isn't [`Next::Ask`].
    pub(crate) fn next(&mut self, now: Instant) -> NextStripe {
        let Some(range) = self.missing.pop() else { return NextStripe::Wait };
        let Some(holder) = self.holders.pop_front() else {
            self.missing.push(range);
            return if self.stripes.is_empty() { NextStripe::Failed } else { NextStripe::Wait };
        };
        if self.checkpoint.is_made() && self.bytes.is_empty() {
            if let Err(reason) = self.reserve(self.checkpoint.length) {
                self.tried.push(reason);
                self.missing.push(range);
                self.holders.push_front(holder);
                return NextStripe::Failed;
            }
        }
        let number = self.next_number;
        self.next_number += 1;
        let next = range.start;
        let stripe = Stripe { holder: holder.clone(), range, next, part: next..next, part_digest: 0, last_heard: now };
        self.stripes.insert(number, stripe);
        NextStripe::Ask(number, holder)
    }

    /// Verified bytes that are here.
    #[cfg(test)]
    pub(crate) fn have(&self) -> u64 {
        self.have
    }

    /// What to ask the holder of a stripe for, once the link to it stands.
    pub(crate) fn request(&self, number: u32) -> Option<Request> {
        let range = &self.stripes.get(&number)?.range;
        Some(Request::Checkpoint { checkpoint: self.asked, from: range.start, to: range.end })
    }

    /// When a stripe came on last: a part of it was verified, or its holder said that it is coming.
    pub(crate) fn heard(&self, number: u32) -> Option<Instant> {
        self.stripes.get(&number).map(|stripe| stripe.last_heard)
    }

    /// The holder of a stripe is of no use: another is asked for what it didn't bring.
    pub(crate) fn failed(&mut self, number: u32, reason: &str) {
        let Some(stripe) = self.stripes.remove(&number) else { return };
        self.tried.push(format!("{} at {}: {reason}", stripe.holder.host, stripe.holder.address));
        if self.is_alone {
            // From one holder alone all of it is wanted.
            return self.begin_anew();
        }
        if stripe.part.start > stripe.range.start {
            self.sources.push(stripe.holder);
        }
        self.missing.push(stripe.part.start..stripe.range.end);
    }

    /// Of a model that doesn't fit, who asks for it is told, and its process lives on.
    fn reserve(&mut self, length: u64) -> Result<(), String> {
        let bytes = usize::try_from(length).unwrap_or(usize::MAX);
        reservation::check(|| "the checkpoint that is fetched".into(), bytes).map_err(|error| error.message)?;
        self.bytes = vec![0; bytes];
        Ok(())
    }

    /// Nothing of what is here is of use.
    fn begin_anew(&mut self) {
        self.checkpoint = self.asked;
        self.bytes = Vec::new();
        self.sources.clear();
        self.have = 0;
        self.missing.clear();
        self.missing.push(0..self.asked.length);
    }

    /// All holders have failed: whether more has come since that was so last. Another may bring the rest.
    pub(crate) fn has_come_further(&mut self) -> bool {
        std::mem::replace(&mut self.most_before, self.most) < self.most
    }

    /// Where the next bytes belong of the frame with this header, which brings bytes of a stripe.
    ///
    /// # Errors
    /// In words, when they aren't those that come next: this holder is of no use.
    pub(crate) fn room(&mut self, number: u32, header: &Header) -> Result<&mut [u8], String> {
        let length = u64::from(header.length);
        let Some(stripe) = self.stripes.get_mut(&number) else { return Err("nothing is wanted of it".into()) };
        let end = header.offset.saturating_add(length);
        let begins = stripe.next == stripe.part.end && header.offset == stripe.next && end <= stripe.range.end;
        let goes_on = stripe.next < stripe.part.end && end == stripe.part.end;
        if begins {
            (stripe.part, stripe.part_digest) = (stripe.next..end, header.digest);
        }
        let room = self.bytes.get_mut(stripe.next as usize..end as usize).filter(|_| begins || goes_on);
        room.filter(|room| !room.is_empty()).ok_or_else(|| {
            format!(
                "sent bytes {}+{length} where {} of {} were expected",
                header.offset, stripe.next, self.checkpoint.length
            )
        })
    }

    /// So many bytes have come into the [`Gathering::room`] of a stripe.
    pub(crate) fn came(&mut self, number: u32, count: usize, now: Instant) -> Progress {
        let Some(stripe) = self.stripes.get_mut(&number) else { return Progress::Wait };
        stripe.next += count as u64;
        let Range { start, end } = stripe.part;
        if stripe.next < end {
            return Progress::Wait;
        }
        if part_digest(&self.bytes[start as usize..end as usize]) != stripe.part_digest {
            return Progress::Failed(format!("bytes {start} to {end} came with another digest than announced"));
        }
        stripe.part = end..end;
        stripe.last_heard = now;
        self.have += end - start;
        self.most = self.most.max(self.have);
        if end < stripe.range.end {
            return Progress::Wait;
        }
        self.brought(number)
    }

    /// What a stripe's holder says before its bytes.
    pub(crate) fn message(&mut self, number: u32, kind: Kind, payload: &[u8], now: Instant) -> Progress {
        let Some(stripe) = self.stripes.get_mut(&number) else { return Progress::Wait };
        stripe.last_heard = now;
        match kind {
            Kind::Control => match wire::decode::<Reply>(payload) {
                Ok(Reply::Missing) => Progress::Failed("doesn't hold it any more".into()),
                Ok(Reply::Coming) => Progress::Wait,
                Ok(Reply::Is(made)) if made.is_made() && made.agrees(&self.asked) && !self.asked.is_made() => {
                    stripe.range.end = made.length;
                    if self.have > 0 && made != self.checkpoint {
                        // Another holder has made other bytes of a lazy one: all of it is asked of this one.
                        if let Some(stripe) = self.stripes.remove(&number) {
                            self.holders.push_front(stripe.holder);
                        }
                        self.begin_anew();
                        return Progress::Brought;
                    }
                    if made != self.checkpoint {
                        if let Err(reason) = self.reserve(made.length) {
                            return Progress::Failed(reason);
                        }
                        self.checkpoint = made;
                    }
                    if made.length == 0 {
                        return self.brought(number);
                    }
                    Progress::Wait
                }
                Ok(other) => Progress::Failed(format!("answered with {other:?} where bytes were expected")),
                Err(error) => Progress::Failed(error.message),
            },
            other => Progress::Failed(format!("sent a frame of kind {other:?} where bytes were expected")),
        }
    }

    fn brought(&mut self, number: u32) -> Progress {
        let Some(stripe) = self.stripes.remove(&number) else { return Progress::Wait };
        self.sources.push(stripe.holder.clone());
        if !self.missing.is_empty() || !self.stripes.is_empty() {
            // It can be asked for another stripe, should another fail.
            self.holders.push_back(stripe.holder);
            return Progress::Brought;
        }
        let bytes = Bytes::from(std::mem::take(&mut self.bytes));
        if bytes.is_empty() {
            return Progress::Done(bytes);
        }
        Progress::Whole(bytes)
    }

    /// What the bytes that were whole have as their digest.
    pub(crate) fn verified(&mut self, bytes: Bytes, digest: u128) -> Progress {
        if digest == self.checkpoint.digest {
            return Progress::Done(bytes);
        }
        let mut of: Vec<String> = self.sources.iter().map(|at| at.address.to_string()).collect();
        of.sort();
        of.dedup();
        let together = if of.len() > 1 { "together " } else { "" };
        self.tried.push(format!(
            "{}: {together}the {} bytes have another digest than planned",
            of.join(", "),
            bytes.len()
        ));
        if let (true, Some(last)) = (of.len() > 1, self.sources.pop()) {
            // There is no knowing whose part is wrong.
            self.is_alone = true;
            self.holders.push_back(last);
        }
        self.begin_anew();
        Progress::Brought
    }

    /// No holder could serve it.
    pub(crate) fn failure(&self) -> Error {
        let tried = if self.tried.is_empty() { "no agent holds it".into() } else { self.tried.join("; ") };
        Error::new(
            Code::Io,
            format!(
                "rank {} needs checkpoint {} (round {}, {}), but no holder could give it: {tried}",
                self.member.rank,
                self.checkpoint.version,
                self.checkpoint.round,
                self.checkpoint.size(),
            ),
        )
    }

    /// Where it came from, in words.
    pub(crate) fn source(&self, own: AgentId) -> String {
        let mut words: Vec<String> = Vec::new();
        for holder in &self.sources {
            let word = match holder.agent == own {
                true => "this process".into(),
                false => format!("{} ({})", holder.host, holder.address),
            };
            if !words.contains(&word) {
                words.push(word);
            }
        }
        words.join(", ")
    }
}

#[cfg(test)]
mod tests;
