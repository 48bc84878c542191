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
mod tests {
    use super::*;
    use rejoin_protocol::ids::{Incarnation, Lineage, Phase, Rank, Version, UNMADE};

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
        let member = MemberId { rank: Rank(1), incarnation: Incarnation::nth(1) };
        Gathering::new(member, checkpoint(bytes), holders.to_vec(), "here", Instant::now())
    }

    fn asked(gathering: &mut Gathering) -> Vec<(u32, u64)> {
        let mut asked = Vec::new();
        while let NextStripe::Ask(number, holder) = gathering.next(Instant::now()) {
            asked.push((number, holder.agent.0));
        }
        asked
    }

    #[test]
    fn a_model_that_does_not_fit_into_memory_is_an_error_of_who_asks_for_it() {
        let holder = at(8, "there");
        let member = MemberId { rank: Rank(1), incarnation: Incarnation::nth(1) };
        let huge = Checkpoint { length: 1 << 62, ..checkpoint(b"model") };
        let mut gathering = Gathering::new(member, huge, vec![holder.clone()], "here", Instant::now());
        assert_eq!(gathering.next(Instant::now()), NextStripe::Failed);
        assert!(gathering.failure().message.contains("bytes of memory at once"), "{}", gathering.failure());
        // One whose length its holder says.
        let lazy = Checkpoint { length: UNMADE, digest: 0, ..huge };
        let mut gathering = Gathering::new(member, lazy, vec![holder], "here", Instant::now());
        let [(number, _)] = asked(&mut gathering)[..] else { panic!("it is asked once") };
        let answer = wire::encode(&Reply::Is(huge));
        let progress = gathering.message(number, Kind::Control, &answer, Instant::now());
        assert!(matches!(&progress, Progress::Failed(reason) if reason.contains("bytes of memory")));
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
                digest: part_digest(&bytes[from as usize..next as usize]),
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
                    Progress::Whole(bytes) => {
                        assert_eq!(gathering.next(Instant::now()), NextStripe::Wait, "nothing is asked for meanwhile");
                        let digest = crate::digest::digest(&bytes);
                        return gathering.verified(bytes, digest);
                    }
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
        assert_eq!(gathering.next(Instant::now()), NextStripe::Wait, "the other one is still busy");
        assert!(matches!(answer(&mut gathering, 1, &bytes, u64::MAX), Progress::Brought));
        assert_eq!(asked(&mut gathering), [(2, 2)]);
        let rest = gathering.request(2);
        assert!(matches!(rest, Some(Request::Checkpoint { from, to, .. }) if (from, to) == (3 << 20, STRIPE_BYTES)));
        assert!(matches!(answer(&mut gathering, 2, &bytes, u64::MAX), Progress::Done(whole) if whole == bytes));
    }

    #[test]
    fn a_part_counts_and_stays_only_when_it_has_the_digest_that_was_told() {
        let bytes = model(1000);
        let mut gathering = gathering(&bytes, &[at(1, "there"), at(2, "there")]);
        let (began, later) = (Instant::now(), Instant::now() + std::time::Duration::from_secs(8));
        assert_eq!(gathering.next(began), NextStripe::Ask(0, at(1, "there")));
        let part = |from: usize, to: usize| Header {
            kind: Kind::Bulk,
            offset: from as u64,
            digest: part_digest(&bytes[from..to]),
            ..Header::control((to - from) as u32)
        };
        gathering.room(0, &part(0, 400)).unwrap().copy_from_slice(&bytes[..400]);
        assert!(matches!(gathering.came(0, 399, later), Progress::Wait));
        assert_eq!((gathering.heard(0), gathering.have()), (Some(began), 0), "bytes alone are no progress");
        assert!(matches!(gathering.came(0, 1, later), Progress::Wait));
        assert_eq!((gathering.heard(0), gathering.have()), (Some(later), 400));
        let room = gathering.room(0, &part(400, 900)).unwrap();
        room.copy_from_slice(&bytes[400..900]);
        room[7] ^= 1;
        let Progress::Failed(reason) = gathering.came(0, 500, later) else { panic!("a wrong byte passed") };
        assert!(reason.contains("bytes 400 to 900"), "{reason}");
        gathering.failed(0, &reason);
        assert_eq!(asked(&mut gathering), [(1, 2)]);
        assert!(matches!(gathering.request(1), Some(Request::Checkpoint { from: 400, .. })));
    }

    #[test]
    fn asked_for_again_what_is_here_stays_and_who_is_bringing_more_goes_on_unless_he_is_gone() {
        let bytes = model(2 * STRIPE_BYTES);
        let mut gathering = gathering(&bytes, &[at(1, "there"), at(2, "there")]);
        assert_eq!(asked(&mut gathering), [(0, 1), (1, 2)]);
        answer(&mut gathering, 0, &bytes, 2 << 20);
        answer(&mut gathering, 1, &bytes, 1 << 20);
        let again = checkpoint(&bytes);
        assert_eq!(gathering.go_on(&again, vec![at(2, "there"), at(3, "there")]), Some(vec![0]), "the first is gone");
        assert_eq!(asked(&mut gathering), [(2, 3)]);
        assert!(matches!(gathering.request(2), Some(Request::Checkpoint { from, .. }) if from == 2 << 20));
        // All fail, each after some more: it comes on, until nothing more comes.
        assert!(matches!(answer(&mut gathering, 2, &bytes, 1 << 20), Progress::Wait));
        for number in [1, 2] {
            gathering.failed(number, "gone");
        }
        assert_eq!(gathering.next(Instant::now()), NextStripe::Failed);
        assert!(gathering.has_come_further() && !gathering.has_come_further());
        assert_eq!(gathering.go_on(&again, vec![at(4, "there")]), Some(vec![]));
        assert_eq!(asked(&mut gathering), [(3, 4)]);
        assert!(matches!(answer(&mut gathering, 3, &bytes, u64::MAX), Progress::Brought));
        assert_eq!(asked(&mut gathering), [(4, 4)]);
        assert!(matches!(answer(&mut gathering, 4, &bytes, u64::MAX), Progress::Done(whole) if whole == bytes));
        let other = Checkpoint { version: Version(4), ..again };
        assert_eq!(gathering.go_on(&other, vec![at(4, "there")]), None, "another checkpoint begins anew");
    }

    #[test]
    fn of_a_lazy_checkpoint_of_which_the_next_holder_makes_other_bytes_all_is_asked_of_that_one() {
        let (bytes, others) = (model(1000), model(999));
        let mut gathering = gathering(&bytes, &[at(1, "there"), at(2, "there")]);
        let lazy = crate::agent::lazy_checkpoint(Lineage(0), Version(3), 3);
        (gathering.checkpoint, gathering.asked) = (lazy, lazy);
        gathering.begin_anew();
        let is = |made: &[u8]| wire::encode(&Reply::Is(checkpoint(made)));
        assert_eq!(asked(&mut gathering), [(0, 1)]);
        assert!(matches!(gathering.message(0, Kind::Control, &is(&bytes), Instant::now()), Progress::Wait));
        answer(&mut gathering, 0, &bytes, 600);
        gathering.failed(0, "gone");
        assert_eq!(asked(&mut gathering), [(1, 2)]);
        assert!(matches!(gathering.request(1), Some(Request::Checkpoint { from: 600, .. })));
        assert!(matches!(gathering.message(1, Kind::Control, &is(&others), Instant::now()), Progress::Brought));
        assert_eq!(asked(&mut gathering), [(2, 2)]);
        assert!(matches!(gathering.request(2), Some(Request::Checkpoint { from: 0, .. })));
        assert!(matches!(gathering.message(2, Kind::Control, &is(&others), Instant::now()), Progress::Wait));
        assert!(matches!(answer(&mut gathering, 2, &others, u64::MAX), Progress::Done(whole) if whole == others));
        assert_eq!(gathering.source(AgentId(9)), "there (127.0.0.1:2)");
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
        assert_eq!(gathering.next(Instant::now()), NextStripe::Wait);
        assert!(matches!(answer(&mut gathering, 0, &wrong, u64::MAX), Progress::Brought));
        assert_eq!(asked(&mut gathering), [(2, 1)]);
        assert!(matches!(answer(&mut gathering, 2, &wrong, u64::MAX), Progress::Brought));
        assert_eq!(gathering.next(Instant::now()), NextStripe::Failed, "all of it was the first one's");
        let error = gathering.failure().message;
        assert!(error.contains("127.0.0.1:2: silent for 5 s") && error.contains("another digest"), "{error}");
    }
}
