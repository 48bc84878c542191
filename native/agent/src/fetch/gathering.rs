//! The asking side of a checkpoint: a pure state machine. A large one comes in stripes from several holders at once.

use super::{Reply, Request};
use crate::agent::MemberId;
use crate::store::digest;
use bytes::Bytes;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{AgentId, Checkpoint};
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
    /// What is being fetched; as it was asked for until a holder tells what a lazy one has become.
    pub(crate) checkpoint: Checkpoint,
    asked: Checkpoint,
    bytes: Vec<u8>,
    /// What nobody is bringing.
    missing: Vec<Range<u64>>,
    /// Whom to ask, in this order: the nearest first, and behind them those who have brought a stripe.
    holders: VecDeque<AgentAddress>,
    stripes: BTreeMap<u32, Stripe>,
    next_number: u32,
    /// Who has brought something of what is here.
    sources: Vec<AgentAddress>,
    /// Stripes of several holders didn't fit together: each holder is asked for all of it.
    is_alone: bool,
    tried: Vec<String>,
    pub(crate) began: Instant,
}

/// A part that a holder brings.
struct Stripe {
    holder: AgentAddress,
    range: Range<u64>,
    /// Where its next byte belongs.
    next: u64,
    /// Where the frame ends whose bytes come.
    frame_end: u64,
    heard: Instant,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// Connect to this holder, and ask it for the stripe of this number.
    Ask(u32, AgentAddress),
    /// Stripes are on their way.
    Wait,
    /// Nobody is left to be asked.
    Failed,
}

/// What became of a frame.
pub(crate) enum Progress {
    /// Nothing more to do now.
    Wait,
    /// The stripe is here, and its link is of no more use. There may be something to ask for.
    Brought,
    /// The bytes are whole and verified.
    Done(Bytes),
    /// This holder is of no use.
    Failed(String),
}

impl Gathering {
    /// `holders` in the order in which they are to be asked. Stripes come only from those that are as near as the first:
    /// `host` is the newcomer's.
    pub(crate) fn new(
        member: MemberId,
        checkpoint: Checkpoint,
        holders: Vec<AgentAddress>,
        host: &str,
        now: Instant,
    ) -> Self {
        let is_near =
            |holder: &&AgentAddress| Some(holder.host == host) == holders.first().map(|first| first.host == host);
        let near = holders.iter().take_while(is_near).count() as u64;
        let stripes = match checkpoint.is_made() {
            true => near.min(STRIPES).min(checkpoint.length / STRIPE_BYTES).max(1),
            false => 1,
        };
        let cut = |number: u64| (u128::from(checkpoint.length) * u128::from(number) / u128::from(stripes)) as u64;
        Gathering {
            member,
            checkpoint,
            asked: checkpoint,
            bytes: Vec::new(),
            missing: (0..stripes).rev().map(|number| cut(number)..cut(number + 1)).collect(),
            holders: holders.into(),
            stripes: BTreeMap::new(),
            next_number: 0,
            sources: Vec::new(),
            is_alone: stripes == 1,
            tried: Vec::new(),
            began: now,
        }
    }

    /// Whom to ask for what now. Ask again until it isn't [`Next::Ask`].
    pub(crate) fn next(&mut self, now: Instant) -> Next {
        let Some(range) = self.missing.pop() else { return Next::Wait };
        let Some(holder) = self.holders.pop_front() else {
            self.missing.push(range);
            return if self.stripes.is_empty() { Next::Failed } else { Next::Wait };
        };
        if self.checkpoint.is_made() && self.bytes.is_empty() {
            self.bytes = vec![0; self.checkpoint.length as usize];
        }
        let number = self.next_number;
        self.next_number += 1;
        let next = range.start;
        self.stripes.insert(number, Stripe { holder: holder.clone(), range, next, frame_end: next, heard: now });
        Next::Ask(number, holder)
    }

    /// What to ask the holder of a stripe for, once the link to it stands.
    pub(crate) fn request(&self, number: u32) -> Option<Request> {
        let range = &self.stripes.get(&number)?.range;
        Some(Request::Checkpoint { checkpoint: self.asked, from: range.start, to: range.end })
    }

    /// When something of a stripe was last heard.
    pub(crate) fn heard(&self, number: u32) -> Option<Instant> {
        self.stripes.get(&number).map(|stripe| stripe.heard)
    }

    /// The holder of a stripe is of no use: somebody else is asked for what it didn't bring.
    pub(crate) fn failed(&mut self, number: u32, reason: &str) {
        let Some(stripe) = self.stripes.remove(&number) else { return };
        self.tried.push(format!("{} at {}: {reason}", stripe.holder.host, stripe.holder.address));
        if self.asked.is_made() && !self.is_alone {
            if stripe.next > stripe.range.start {
                self.sources.push(stripe.holder);
            }
            return self.missing.push(stripe.next..stripe.range.end);
        }
        // Another one may make other bytes of a lazy one, and from one holder alone all of it is wanted.
        self.checkpoint = self.asked;
        self.bytes = Vec::new();
        self.missing.push(0..self.asked.length);
    }

    /// Where the next bytes belong of the frame with this header, which brings bytes of a stripe.
    ///
    /// # Errors
    /// In words, when they aren't those that come next: this holder is of no use.
    pub(crate) fn room(&mut self, number: u32, header: &Header) -> Result<&mut [u8], String> {
        let length = u64::from(header.length);
        let Some(stripe) = self.stripes.get_mut(&number) else { return Err("nothing is wanted of it".into()) };
        let end = header.offset.saturating_add(length);
        let begins = stripe.next == stripe.frame_end && header.offset == stripe.next && end <= stripe.range.end;
        let goes_on = stripe.next < stripe.frame_end && end == stripe.frame_end;
        if begins {
            stripe.frame_end = end;
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
        stripe.heard = now;
        stripe.next += count as u64;
        if stripe.next < stripe.range.end {
            return Progress::Wait;
        }
        self.brought(number)
    }

    /// What a stripe's holder says before its bytes.
    pub(crate) fn told(&mut self, number: u32, kind: Kind, payload: &[u8], now: Instant) -> Progress {
        let Some(stripe) = self.stripes.get_mut(&number) else { return Progress::Wait };
        stripe.heard = now;
        match kind {
            Kind::Control => match wire::decode::<Reply>(payload) {
                Ok(Reply::Missing) => Progress::Failed("doesn't hold it any more".into()),
                Ok(Reply::Coming) => Progress::Wait,
                Ok(Reply::Is(made)) if made.is_made() && made.agrees(&self.asked) && !self.asked.is_made() => {
                    self.checkpoint = made;
                    self.bytes = vec![0; made.length as usize];
                    stripe.range.end = made.length;
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
        if self.missing.is_empty() && self.stripes.len() == 1 {
            let is_right = self.bytes.is_empty() || digest(&self.bytes) == self.checkpoint.digest;
            if is_right {
                if let Some(stripe) = self.stripes.remove(&number) {
                    self.sources.push(stripe.holder);
                }
                return Progress::Done(std::mem::take(&mut self.bytes).into());
            }
            let reason = format!("its {} bytes have another digest than planned", self.bytes.len());
            if self.is_alone {
                return Progress::Failed(reason);
            }
            // Nobody can tell whose stripe is wrong.
            self.is_alone = true;
            let Some(last) = self.stripes.remove(&number) else { return Progress::Wait };
            let of: Vec<String> = self.sources.iter().chain([&last.holder]).map(|at| at.address.to_string()).collect();
            self.tried.push(format!("stripes of {} together: {reason}", of.join(", ")));
            self.holders.push_back(last.holder);
            self.sources.clear();
            self.missing.push(0..self.asked.length);
            return Progress::Brought;
        }
        if let Some(stripe) = self.stripes.remove(&number) {
            // It can be asked for another stripe, should somebody fail.
            self.holders.push_back(stripe.holder.clone());
            self.sources.push(stripe.holder);
        }
        Progress::Brought
    }

    /// Nobody could serve it.
    pub(crate) fn failure(&self) -> Error {
        let tried = if self.tried.is_empty() { "nobody holds it".into() } else { self.tried.join("; ") };
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
mod tests {
    use super::*;
    use rejoin_protocol::ids::{Incarnation, Lineage, Phase, Rank, Version};

    fn model(length: u64) -> Vec<u8> {
        (0..length).map(|place| (place % 251) as u8).collect()
    }

    fn checkpoint(bytes: &[u8]) -> Checkpoint {
        crate::checkpoint(Lineage(0), Version(3), 3, bytes, false)
    }

    fn at(agent: u64, host: &str) -> AgentAddress {
        AgentAddress { agent: AgentId(agent), address: ([127, 0, 0, 1], agent as u16).into(), host: host.into() }
    }

    fn gathering(bytes: &[u8], holders: &[AgentAddress]) -> Gathering {
        let member = MemberId { rank: Rank(1), incarnation: Incarnation(1) };
        Gathering::new(member, checkpoint(bytes), holders.to_vec(), "here", Instant::now())
    }

    fn asked(gathering: &mut Gathering) -> Vec<(u32, u64)> {
        let mut asked = Vec::new();
        while let Next::Ask(number, holder) = gathering.next(Instant::now()) {
            asked.push((number, holder.agent.0));
        }
        asked
    }

    /// A holder with these bytes answers until its stripe is here, or so many bytes have gone.
    fn answer(gathering: &mut Gathering, number: u32, bytes: &[u8], at_most: u64) -> Progress {
        let Some(Request::Checkpoint { from, to, .. }) = gathering.request(number) else { panic!("no such stripe") };
        let mut from = from;
        let end = to.min(bytes.len() as u64).min(from.saturating_add(at_most));
        while from < end {
            let next = end.min(from + (1 << 20));
            let header = Header {
                kind: Kind::Bulk,
                phase: Phase::Version(Version(3)),
                offset: from,
                ..Header::control((next - from) as u32)
            };
            // In two pieces, as they may come.
            while from < next {
                let room = gathering.room(number, &header).expect("these bytes come next");
                let count = room.len().div_ceil(2);
                room[..count].copy_from_slice(&bytes[from as usize..from as usize + count]);
                from += count as u64;
                match gathering.came(number, count, Instant::now()) {
                    Progress::Wait => {}
                    other => return other,
                }
            }
        }
        Progress::Wait
    }

    #[test]
    fn a_large_model_comes_in_stripes_from_the_nearest_holders_at_once() {
        let bytes = model(3 * STRIPE_BYTES + 5);
        let mut gathering = gathering(&bytes, &[at(1, "there"), at(2, "there"), at(3, "there"), at(4, "there")]);
        assert_eq!(asked(&mut gathering), [(0, 1), (1, 2), (2, 3)]);
        for number in [2, 0] {
            assert!(matches!(answer(&mut gathering, number, &bytes, u64::MAX), Progress::Brought));
        }
        let Progress::Done(whole) = answer(&mut gathering, 1, &bytes, u64::MAX) else { panic!("it is whole") };
        assert!(whole == bytes);
        let source = gathering.source(AgentId(9));
        assert!(["127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"].iter().all(|at| source.contains(at)), "{source}");
    }

    #[test]
    fn holders_that_are_farther_away_are_asked_only_when_a_nearer_one_fails() {
        let bytes = model(2 * STRIPE_BYTES);
        let mut gathering = gathering(&bytes, &[at(1, "here"), at(2, "there"), at(3, "there")]);
        assert_eq!(asked(&mut gathering), [(0, 1)]);
        gathering.failed(0, "gone");
        assert_eq!(asked(&mut gathering), [(1, 2)]);
    }

    #[test]
    fn a_small_model_comes_from_one() {
        let bytes = model(1000);
        let mut gathering = gathering(&bytes, &[at(1, "there"), at(2, "there")]);
        assert_eq!(asked(&mut gathering), [(0, 1)]);
        assert!(matches!(answer(&mut gathering, 0, &bytes, u64::MAX), Progress::Done(whole) if whole == bytes));
    }

    #[test]
    fn the_rest_of_a_stripe_moves_to_another_holder_when_its_holder_dies() {
        let bytes = model(2 * STRIPE_BYTES);
        let mut gathering = gathering(&bytes, &[at(1, "there"), at(2, "there")]);
        assert_eq!(asked(&mut gathering), [(0, 1), (1, 2)]);
        answer(&mut gathering, 0, &bytes, 3 << 20);
        gathering.failed(0, "gone");
        assert_eq!(gathering.next(Instant::now()), Next::Wait, "the other one is still busy");
        assert!(matches!(answer(&mut gathering, 1, &bytes, u64::MAX), Progress::Brought));
        assert_eq!(asked(&mut gathering), [(2, 2)]);
        let rest = gathering.request(2);
        assert!(matches!(rest, Some(Request::Checkpoint { from, to, .. }) if (from, to) == (3 << 20, STRIPE_BYTES)));
        assert!(matches!(answer(&mut gathering, 2, &bytes, u64::MAX), Progress::Done(whole) if whole == bytes));
    }

    #[test]
    fn when_stripes_do_not_fit_together_each_holder_is_asked_for_all_of_it() {
        let bytes = model(2 * STRIPE_BYTES);
        let mut wrong = bytes.clone();
        wrong[(STRIPE_BYTES + 7) as usize] ^= 1;
        let mut gathering = gathering(&bytes, &[at(1, "there"), at(2, "there")]);
        assert_eq!(asked(&mut gathering), [(0, 1), (1, 2)]);
        assert!(matches!(answer(&mut gathering, 0, &bytes, u64::MAX), Progress::Brought));
        assert!(matches!(answer(&mut gathering, 1, &wrong, u64::MAX), Progress::Brought));
        assert_eq!(asked(&mut gathering), [(2, 1)]);
        assert!(matches!(answer(&mut gathering, 2, &bytes, u64::MAX), Progress::Done(whole) if whole == bytes));
    }

    #[test]
    fn bytes_in_a_wrong_place_have_no_room() {
        let bytes = model(1000);
        let mut gathering = gathering(&bytes, &[at(1, "there")]);
        assert_eq!(asked(&mut gathering), [(0, 1)]);
        for (offset, length) in [(1, 10), (0, 1001), (u64::MAX, 10), (0, 0)] {
            let header = Header { kind: Kind::Bulk, offset, ..Header::control(length) };
            let error = gathering.room(0, &header).expect_err("not the bytes that come next");
            assert!(error.contains("where 0 of 1000 were expected"), "{error}");
        }
    }

    #[test]
    fn when_nobody_is_left_the_error_says_who_was_asked_and_what_was_seen() {
        let bytes = model(2 * STRIPE_BYTES);
        let mut wrong = bytes.clone();
        wrong[0] ^= 1;
        let mut gathering = gathering(&bytes, &[at(1, "there"), at(2, "there")]);
        assert_eq!(asked(&mut gathering), [(0, 1), (1, 2)]);
        gathering.failed(1, "silent for 5 s");
        assert_eq!(gathering.next(Instant::now()), Next::Wait);
        assert!(matches!(answer(&mut gathering, 0, &wrong, u64::MAX), Progress::Brought));
        assert_eq!(asked(&mut gathering), [(2, 1)]);
        assert!(matches!(answer(&mut gathering, 2, &wrong, u64::MAX), Progress::Brought));
        assert_eq!(asked(&mut gathering), [(3, 1)]);
        let Progress::Failed(reason) = answer(&mut gathering, 3, &wrong, u64::MAX) else {
            panic!("wrong bytes passed")
        };
        gathering.failed(3, &reason);
        assert_eq!(gathering.next(Instant::now()), Next::Failed);
        let error = gathering.failure().message;
        assert!(error.contains("127.0.0.1:2: silent for 5 s") && error.contains("another digest"), "{error}");
    }
}
