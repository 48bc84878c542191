//! One rank's collectives under a trainer that counts its versions itself: it says when a phase
//! ends, and takes and keeps its own checkpoints.

use super::call_log::CallLog;
use super::calls::{count, moving, plain, Calls, Choices, Input};
use super::folding::Folding;
use super::memory::Memory;
use super::plane::CollectivePlane;
use super::rank_profile::RankProfile;
use super::results::ENTRY_COST;
use super::shape::Shape;
use bytes::Bytes;
use parking_lot::Mutex;
use rejoin_agent::logs::ResultCache;
use rejoin_collectives::{Element, Order, Reducer, Reduction};
use rejoin_protocol::collective::{BootKey, Call, Operation, Site};
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::ids::{MemberId, Rank, Version};
use rejoin_transport::shm::Segment;
use std::sync::Arc;
use std::time::Duration;
use twox_hash::XxHash3_64;

/// What errors call a choice.
const CHOICE: &str = "rejoin:choice";

/// One rank's collectives under a trainer that counts its versions itself. One thread at a time.
///
/// It begins in boot: results of boot are kept for the life of the job, and are found again by how
/// often was called before. All ranks, and all incarnations of a rank, make the same calls in the
/// same order in boot and in each version. Elements are folded in XGBoost's ring order.
///
/// All incarnations of a rank give the same to the same calls. One that doesn't is refused with
/// `Mismatch` in the call in which it shows, at the latest in the first whose result no rank has:
/// others have then used what its former life gave, and nothing of what it gives now.
///
/// Every call either gives all ranks the same result or fails. A call that fails leaves the
/// caller's buffers as they were, and further calls are refused with `BadState`: the rank has to be
/// started again, as its next incarnation.
pub struct Operations {
    trainer: Arc<str>,
    inner: Mutex<Inner>,
}

/// Bytes that results take of a process's logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogBytes {
    /// At each rank: the records, and short results.
    pub each: u64,
    /// Once for all ranks of the process.
    pub together: u64,
}

impl LogBytes {
    fn add(&mut self, result: &Bytes) {
        let length = result.len() as u64;
        self.each += ENTRY_COST;
        *if ResultCache::takes(result) { &mut self.together } else { &mut self.each } += length;
    }
}

struct Inner {
    calls: Calls,
    /// How many boot collectives were called; `None` once a version was entered.
    boot: Option<u32>,
    /// Of the results of this phase.
    log_bytes: LogBytes,
}

impl Operations {
    /// The collectives of an incarnation that was started, with the memory that it offered in its
    /// join. `trainer` names the caller, for errors; the same at all ranks. A call, and with it the
    /// wait for a lost rank to come back, may take at most so long.
    ///
    /// # Errors
    /// `Fenced` when the incarnation isn't there (any more), `BadState` when its collectives are in use already.
    pub fn open(
        plane: &Arc<CollectivePlane>,
        member: MemberId,
        offered: Option<Arc<Segment>>,
        trainer: &str,
        at_most: Duration,
    ) -> Result<Operations, Error> {
        let Some(local_rank) = plane.local_rank(member) else {
            let MemberId { rank, incarnation } = member;
            let text =
                format!("rank {rank} incarnation {incarnation} has no collectives here; it wasn't started, or is over");
            return Err(Error::new(Code::Fenced, text));
        };
        let memory = Memory::new(member, offered);
        let choices =
            Choices { at_most, rank_profile: RankProfile::new(false), log: CallLog::default(), repeats: true };
        let calls = Calls::new(plane.clone(), local_rank, memory, choices)?;
        let inner = Inner { calls, boot: Some(0), log_bytes: LogBytes::default() };
        Ok(Operations { trainer: trainer.into(), inner: Mutex::new(inner) })
    }

    /// Every element becomes the reduction of all ranks' elements at its place, with XGBoost's operators.
    ///
    /// # Errors
    /// `BadArgument` when the bytes aren't whole elements, or the element doesn't have the
    /// reduction; `Mismatch` when ranks make different calls, or this one doesn't repeat itself;
    /// `TimedOut` after the limit; `Fenced`; the job's own error.
    pub fn allreduce(&self, element: Element, reduction: Reduction, data: &mut [u8]) -> Result<(), Error> {
        let (count, order) = (count(data.len(), element)?, Order::Ring);
        let mut inner = self.inner.lock();
        let world = inner.calls.world() as usize;
        let folding = Folding::of_xgboost(element, reduction, count as usize, world)?;
        let call = Call {
            operation: Operation::Allreduce,
            element: folding.element.clone(),
            count,
            reduction: folding.name(order),
            root: None,
            site: self.site(),
        };
        let shape =
            Shape::Allreduce { count: count as usize, element_bytes: folding.element_bytes(), order, once: false };
        let result = inner.run(&self.trainer, &call, shape, &folding.reducer, data)?;
        data.copy_from_slice(&result);
        Ok(())
    }

    /// All ranks get the root's bytes.
    ///
    /// # Errors
    /// As [`Operations::allreduce`]; `BadArgument` when there is no such rank.
    pub fn broadcast(&self, data: &mut [u8], root: Rank) -> Result<(), Error> {
        let mut inner = self.inner.lock();
        let (own, world) = (inner.calls.rank(), inner.calls.world());
        if root.0 >= world {
            let text = format!("a broadcast of rank {root} was asked for in a world of {world} ranks");
            return Err(Error::new(Code::BadArgument, text));
        }
        let call = self.moving(Operation::Broadcast, data.len(), Some(root))?;
        let shape = Shape::Broadcast { bytes: data.len(), root: root.0 as usize };
        let is_root = own == root;
        let result = inner.run(&self.trainer, &call, shape, &plain(), if is_root { &*data } else { &[] })?;
        // What was recorded is of a former incarnation, which may have had other bytes.
        if !is_root || inner.calls.was_replayed() {
            data.copy_from_slice(&result);
        }
        Ok(())
    }

    /// All ranks get what each has, in rank order. All parts have one length; a rank's own part lies where it belongs.
    ///
    /// # Errors
    /// As [`Operations::allreduce`]; `BadArgument` when the bytes can't be divided so.
    pub fn allgather(&self, data: &mut [u8]) -> Result<(), Error> {
        let mut inner = self.inner.lock();
        let (own, world) = (inner.calls.rank().0 as usize, inner.calls.world() as usize);
        if !data.len().is_multiple_of(world) {
            let text =
                format!("an allgather among {world} ranks was given {} bytes; all parts have one length", data.len());
            return Err(Error::new(Code::BadArgument, text));
        }
        let part_bytes = data.len() / world;
        let call = self.moving(Operation::Allgather, part_bytes, None)?;
        let input = &data[own * part_bytes..(own + 1) * part_bytes];
        let result = inner.run(&self.trainer, &call, Shape::Allgather { part_bytes }, &plain(), input)?;
        data.copy_from_slice(&result);
        Ok(())
    }

    /// All ranks get what each has, in rank order; `sizes` says how many bytes each has, the same at all ranks.
    ///
    /// # Errors
    /// As [`Operations::allreduce`], `Mismatch` for other sizes too; `BadArgument` when the sizes
    /// aren't those of all ranks, of `own` and of `received`.
    pub fn allgather_v(&self, own: &[u8], sizes: &[u64], received: &mut [u8]) -> Result<(), Error> {
        let mut inner = self.inner.lock();
        let (rank, world) = (inner.calls.rank().0 as usize, inner.calls.world() as usize);
        let all = sizes.iter().try_fold(0u64, |sum, size| sum.checked_add(*size));
        let fits = sizes.len() == world && sizes.get(rank) == Some(&(own.len() as u64));
        if !fits || all != Some(received.len() as u64) {
            return Err(Error::new(
                Code::BadArgument,
                format!(
                    "rank {rank} of {world} was to gather {} bytes of its own as one of {sizes:?} into {} bytes; \
                     expected a size for each rank, its own among them, and room for all",
                    own.len(),
                    received.len()
                ),
            ));
        }
        let mut call = self.moving(Operation::AllgatherUnequal, received.len(), None)?;
        call.reduction = parts(sizes).into();
        let shape = Shape::Parts { part_bytes: sizes.iter().map(|size| *size as usize).collect() };
        let result = inner.run(&self.trainer, &call, shape, &plain(), own)?;
        received.copy_from_slice(&result);
        Ok(())
    }

    /// All ranks get rank 0's choice, which no incarnation of it promises to repeat: it may depend on
    /// what only its process knows at the moment. One that is started again is bound by the choice
    /// as soon as any other rank has it. A `true` is returned when all ranks have it, so that what
    /// is then done can't be undone by a death.
    ///
    /// # Errors
    /// As [`Operations::allreduce`].
    pub fn choose(&self, own: bool) -> Result<bool, Error> {
        let mut inner = self.inner.lock();
        let (site, root) = (Site::Named(CHOICE.into()), Rank(0));
        let call = moving(Operation::Broadcast, Element::U8.name(), 1, Some(root), site.clone());
        let shape = Shape::Broadcast { bytes: 1, root: root.0 as usize };
        let input = [u8::from(own)];
        let input: &[u8] = if inner.calls.rank() == root { &input } else { &[] };
        inner.calls.repeats = false;
        let chosen = inner.run(&self.trainer, &call, shape, &plain(), input).and_then(|chosen| {
            let is_wanted = chosen.first().is_some_and(|byte| *byte != 0);
            if is_wanted {
                let call = moving(Operation::Barrier, "", 0, None, site);
                inner.run(&self.trainer, &call, Shape::Barrier, &plain(), &[])?;
            }
            Ok(is_wanted)
        });
        inner.calls.repeats = true;
        chosen
    }

    /// Ends the phase: after boot the version begins that this incarnation was started at, and
    /// after a version the next one, whose first round is this. A barrier is made where no
    /// collective of the version has shown that all ranks have entered it.
    ///
    /// # Errors
    /// `Mismatch` when this incarnation has made fewer collectives of the version than were made
    /// before; `BadState` for another version; otherwise as [`Operations::allreduce`].
    pub fn enter(&self, version: Version, round: u32) -> Result<(), Error> {
        let mut inner = self.inner.lock();
        inner.calls.usable()?;
        let is_first = inner.boot.is_some();
        let expected = Version(inner.calls.version().0 + u32::from(!is_first));
        if version != expected {
            let rank = inner.calls.rank();
            let text = format!("rank {rank} was to enter version {version}, but version {expected} comes next");
            return Err(Error::new(Code::BadState, text));
        }
        inner.log_bytes = LogBytes::default();
        if is_first {
            inner.boot = None;
            inner.is_at(round);
            return Ok(());
        }
        if inner.calls.needs_barrier() {
            let call = moving(Operation::Barrier, "", 0, None, self.site());
            inner.run(&self.trainer, &call, Shape::Barrier, &plain(), &[])?;
            inner.log_bytes = LogBytes::default();
        }
        let entered = inner.calls.enter(version, || ());
        entered.map_err(|error| inner.calls.fails(error))?;
        inner.is_at(round);
        Ok(())
    }

    /// The trainer begins this round, within a version.
    pub fn begin_round(&self, round: u32) {
        let mut inner = self.inner.lock();
        let calls = inner.calls.local_rank.lock().participant.seqno();
        inner.calls.begins(round, calls);
    }

    /// This rank makes no more calls. Ranks that wait for one of them are notified. Its results stay
    /// for those that need them.
    ///
    /// # Errors
    /// As [`Operations::enter`].
    pub fn end(&self) -> Result<(), Error> {
        let mut inner = self.inner.lock();
        inner.calls.usable()?;
        let ended = inner.calls.end();
        ended.map_err(|error| inner.calls.fails(error))
    }

    /// What the results that this phase has had so far take of the logs. An incarnation that
    /// repeats the phase counts the same.
    pub fn log_bytes(&self) -> LogBytes {
        self.inner.lock().log_bytes
    }

    fn site(&self) -> Site {
        Site::Named(self.trainer.clone())
    }

    fn moving(&self, operation: Operation, bytes: usize, root: Option<Rank>) -> Result<Call, Error> {
        Ok(moving(operation, Element::U8.name(), count(bytes, Element::U8)?, root, self.site()))
    }
}

/// What is compared of the sizes of parts: all of them, of which only the first are listed where there are many.
fn parts(sizes: &[u64]) -> String {
    const TOLD: usize = 16;
    let reported: Vec<String> = sizes.iter().take(TOLD).map(u64::to_string).collect();
    let reported = reported.join(" + ");
    if sizes.len() <= TOLD {
        return reported;
    }
    format!("{reported} + ..., digest {:016x}", XxHash3_64::oneshot(bytemuck::cast_slice(sizes)))
}

impl Inner {
    fn run(
        &mut self,
        trainer: &str,
        call: &Call,
        shape: Shape,
        reducer: &Reducer<'_>,
        input: &[u8],
    ) -> Result<Bytes, Error> {
        let key = self.boot.as_mut().map(|called| {
            let occurrence = *called;
            *called += 1;
            BootKey { name: trainer.into(), occurrence }
        });
        let result = self.calls.run(call, key, shape, reducer, Input::Ready(input))?;
        self.log_bytes.add(&result);
        Ok(result)
    }

    fn is_at(&mut self, round: u32) {
        self.calls.round = Some(round);
        self.calls.begins(round, 0);
    }
}

impl std::fmt::Debug for Operations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Operations({})", self.trainer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_results_are_logged_by_each_rank_and_longer_ones_together() {
        let mut logged = LogBytes::default();
        for length in [10, 4095, 4096, 100_000] {
            logged.add(&vec![0; length].into());
        }
        assert_eq!(logged, LogBytes { each: 4 * ENTRY_COST + 10 + 4095, together: 4096 + 100_000 });
    }

    #[test]
    fn sizes_of_parts_that_differ_anywhere_are_told_apart_and_few_are_told_whole() {
        assert_eq!(parts(&[2, 0, 5]), "2 + 0 + 5");
        let many = vec![7; 1000];
        let mut other = many.clone();
        other.swap(0, 1);
        assert_eq!(parts(&many), parts(&other));
        other[998] = 8;
        other[999] = 6;
        assert_ne!(parts(&many), parts(&other));
        assert!(parts(&many).len() < 120, "{}", parts(&many));
    }
}
