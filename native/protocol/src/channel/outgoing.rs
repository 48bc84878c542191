//! The sender's side of a channel.

use super::{PhaseMark, PhaseReceipt, Receipt, SenderStep, DIGEST_STRIDE};
use crate::error::{Code, Error};
use crate::ids::{Lineage, Phase, Version};
use alloc::format;
use alloc::vec::Vec;
use core::fmt;
use xxhash_rust::xxh3::Xxh3;

/// The sender's state of one directed channel, for one incarnation of the sender.
///
/// Report to it what happens with [`enter`](Self::enter), [`produced`](Self::produced), [`receipt`](Self::receipt) and
/// [`unlinked`](Self::unlinked), and do what [`next`](Self::next) says until it is `None`.
#[derive(Clone, Debug)]
pub struct Outgoing {
    lineage: Lineage,
    start: Version,
    /// Oldest first; the last one is the phase that the worker is in.
    phases: Vec<Logged>,
    /// What the receiver said last. Kept when the link goes: a worker that contradicts it has not repeated itself.
    receipt: Option<Receipt>,
    linked: bool,
    holding: bool,
    /// Bytes compared in phases that are dropped already.
    regenerated_before: u64,
}

/// One phase that is logged.
#[derive(Clone)]
struct Logged {
    phase: Phase,
    mark: PhaseMark,
    produced: u64,
    closed: bool,
    /// The length and digest of a receipt that these bytes were found to agree with.
    verified: Option<(u64, u64)>,
    /// First byte that this incarnation sent itself: all before it were regenerated.
    sent_first: Option<u64>,
    regenerated: u64,
    /// On this link: bytes compared, with their digest; whether the mark is out; next byte to be
    /// sent; whether the end is out.
    compared: u64,
    hasher: Xxh3,
    started: bool,
    sent: u64,
    ended: bool,
}

/// All that differs between two of them but the mark, which the phase determines.
impl fmt::Debug for Logged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Logged {
            phase, produced, closed, verified, sent_first, regenerated, compared, started, sent, ended, ..
        } = self;
        write!(
            f,
            "{{{phase} produced {produced} closed {closed} compared {compared} ({:x}) verified {verified:?} started \
             {started} sent {sent} from {sent_first:?} regenerated {regenerated} ended {ended}}}",
            self.hasher.digest()
        )
    }
}

impl Outgoing {
    /// A sender that starts at `start` (boot comes first).
    pub fn new(lineage: Lineage, start: Version) -> Self {
        Outgoing {
            lineage,
            start,
            phases: Vec::new(),
            receipt: None,
            linked: false,
            holding: false,
            regenerated_before: 0,
        }
    }

    /// The worker enters a phase (boot first); the one before is closed with the length produced so far. Returns the
    /// phases whose logs no rank can need any more (all but boot, the new one and the one before; none while holding).
    /// # Errors
    /// `Mismatch` if the closed phase is shorter or longer than what the receiver had of it; `BadState` for a phase
    /// that doesn't follow the one before.
    pub fn enter(&mut self, phase: Phase, mark: PhaseMark) -> Result<Vec<Phase>, Error> {
        let expected = self.phases.last().map_or(Phase::Boot, |last| last.phase.next(self.start));
        if phase != expected {
            return Err(Error::new(
                Code::BadState,
                format!(
                    "{expected} comes next for this worker, but it entered {phase}; enter the phases in their order"
                ),
            ));
        }
        if let Some(last) = self.phases.last_mut() {
            last.closed = true;
            if let Some(had) = received(&self.receipt, last.phase) {
                last.check_length(had)?;
            }
        }
        self.phases.push(Logged {
            phase,
            mark,
            produced: 0,
            closed: false,
            verified: None,
            sent_first: None,
            regenerated: 0,
            compared: 0,
            hasher: Xxh3::new(),
            started: false,
            sent: received(&self.receipt, phase).map_or(0, |had| had.bytes),
            ended: false,
        });
        Ok(self.drop_old())
    }

    /// The phase that the worker is in; boot before it entered any.
    pub fn phase(&self) -> Phase {
        self.phases.last().map_or(Phase::Boot, |last| last.phase)
    }

    /// The worker wrote so many more bytes; they are in the log.
    pub fn produced(&mut self, bytes: u64) {
        debug_assert!(!self.phases.is_empty(), "the worker enters boot before it writes");
        if let Some(last) = self.phases.last_mut() {
            last.produced += bytes;
        }
    }

    /// A new link stands and the receiver's receipt is here. It may be beyond that by now: a receipt
    /// takes its time. Where it isn't, and needs a phase that is dropped here, it finds that out
    /// itself ([`super::Incoming::due`]).
    /// # Errors
    /// `Mismatch` where that contradicts the stream state.
    pub fn receipt(&mut self, receipt: &Receipt) -> Result<(), Error> {
        if receipt.lineage != self.lineage {
            return Err(Error::new(
                Code::Mismatch,
                format!("the receiver is in lineage {}, the sender in {}", receipt.lineage, self.lineage),
            ));
        }
        self.receipt = Some(receipt.clone());
        self.linked = true;
        for logged in &mut self.phases {
            let had = received(&self.receipt, logged.phase);
            if let Some(had) = had {
                logged.check_excess(had)?;
                if logged.closed {
                    logged.check_length(had)?;
                }
            }
            logged.relink(had);
        }
        Ok(())
    }

    /// The link is gone; nothing goes out until the next receipt.
    pub fn unlinked(&mut self) {
        self.linked = false;
    }

    /// What to do next, with at most `limit` bytes; `None` until more is produced, entered or received.
    /// Do it, then call [`Outgoing::done`] (or [`Outgoing::compared`] for `Compare`).
    pub fn next(&self, limit: u64) -> Option<SenderStep> {
        if !self.linked || limit == 0 {
            return None;
        }
        let receipt = self.receipt.as_ref()?;
        let reached = receipt.phases.last().map_or(Phase::Boot, |last| last.phase);
        for logged in &self.phases {
            let had = received(&self.receipt, logged.phase);
            let skipped = matches!(logged.phase, Phase::Version(v) if v < receipt.start);
            // The receiver is beyond the phase and has forgotten it.
            let forgotten = had.is_none() && logged.phase < reached;
            if skipped || forgotten {
                continue;
            }
            if let Some(step) = logged.step(had, limit) {
                return Some(step);
            }
        }
        None
    }

    /// A step other than `Compare` was done (handed to the link).
    pub fn done(&mut self, step: SenderStep) {
        let (SenderStep::Start { phase, .. }
        | SenderStep::Bytes { phase, .. }
        | SenderStep::End { phase, .. }
        | SenderStep::Compare { phase, .. }) = step;
        let Some(logged) = self.phases.iter_mut().find(|logged| logged.phase == phase) else { return };
        match step {
            SenderStep::Compare { .. } => debug_assert!(false, "a comparison is done by `compared`"),
            SenderStep::Start { .. } => logged.started = true,
            SenderStep::End { .. } => logged.ended = true,
            SenderStep::Bytes { from, to, .. } => {
                logged.sent = to;
                logged.sent_first = Some(logged.sent_first.map_or(from, |first| first.min(from)));
            }
        }
    }

    /// The bytes of a `Compare` step.
    /// # Errors
    /// `Mismatch`, naming phase and byte range.
    pub fn compared(&mut self, step: SenderStep, bytes: &[u8]) -> Result<(), Error> {
        let SenderStep::Compare { phase, from, to } = step else {
            return Err(Error::new(Code::Internal, format!("{step:?} is not a comparison")));
        };
        let Some(had) = received(&self.receipt, phase) else { return Ok(()) };
        let Some(logged) = self.phases.iter_mut().find(|logged| logged.phase == phase) else { return Ok(()) };
        if from != logged.compared || to - from != bytes.len() as u64 {
            return Err(Error::new(
                Code::Internal,
                format!(
                    "comparison of {phase}: bytes {from}..{to} with {} bytes of payload came, {}.. was due",
                    bytes.len(),
                    logged.compared
                ),
            ));
        }
        logged.compare(had, bytes)
    }

    /// Bytes compared so far (produced a second time and not sent).
    pub fn regenerated(&self) -> u64 {
        self.regenerated_before + self.phases.iter().map(|logged| logged.regenerated).sum::<u64>()
    }

    /// Whether bytes are still to be compared: this incarnation has not caught up with what the receiver has. False
    /// as long as no receiver has sent a receipt.
    pub fn behind(&self) -> bool {
        let Some(receipt) = &self.receipt else { return false };
        receipt.phases.iter().any(|had| {
            let logged = self.phases.iter().find(|logged| logged.phase == had.phase);
            match logged {
                Some(logged) => logged.compared < had.bytes,
                // Not reached yet; older ones than those logged matter no more.
                None => had.bytes > 0 && self.phases.last().is_none_or(|last| had.phase > last.phase),
            }
        })
    }

    /// From now on nothing is dropped. Returns the oldest version that a receiver can be given.
    pub fn hold(&mut self) -> Version {
        self.holding = true;
        self.oldest()
    }

    /// All have caught up: phases are dropped as usual again. Returns those that go now.
    pub fn release(&mut self) -> Vec<Phase> {
        self.holding = false;
        self.drop_old()
    }

    /// The oldest version that is logged, or will be.
    pub fn oldest(&self) -> Version {
        let versions = self.phases.iter().filter_map(|logged| match logged.phase {
            Phase::Boot => None,
            Phase::Version(v) => Some(v),
        });
        versions.min().unwrap_or(self.start)
    }

    fn drop_old(&mut self) -> Vec<Phase> {
        let mut dropped = Vec::new();
        if self.holding {
            return dropped;
        }
        let Some(Phase::Version(current)) = self.phases.last().map(|last| last.phase) else { return dropped };
        let mut regenerated = 0;
        self.phases.retain(|logged| {
            let old = matches!(logged.phase, Phase::Version(v) if v.0 + 1 < current.0);
            if old {
                regenerated += logged.regenerated;
                dropped.push(logged.phase);
            }
            !old
        });
        self.regenerated_before += regenerated;
        dropped
    }
}

impl Logged {
    /// Starts anew for a receiver that has this much.
    fn relink(&mut self, had: Option<&PhaseReceipt>) {
        self.started = false;
        self.ended = false;
        self.sent = had.map_or(0, |had| had.bytes);
        self.hasher = Xxh3::new();
        self.compared = match (had, self.verified) {
            (Some(had), Some(verified)) if verified == (had.bytes, had.digest) => had.bytes,
            _ => 0,
        };
    }

    fn step(&self, had: Option<&PhaseReceipt>, limit: u64) -> Option<SenderStep> {
        let phase = self.phase;
        if !self.started {
            return Some(SenderStep::Start { phase, mark: self.mark });
        }
        let (bytes, closed) = had.map_or((0, false), |had| (had.bytes, had.closed));
        if self.compared < bytes {
            let from = self.compared;
            let boundary = (from / DIGEST_STRIDE + 1) * DIGEST_STRIDE;
            let to = self.produced.min(bytes).min(boundary).min(from.saturating_add(limit));
            return (from < to).then_some(SenderStep::Compare { phase, from, to });
        }
        if closed && self.produced > bytes {
            // Too many bytes for a phase that is over at the receiver: the comparison says so.
            let to = self.produced.min(bytes.saturating_add(limit));
            return Some(SenderStep::Compare { phase, from: bytes, to });
        }
        if self.sent < self.produced {
            let to = self.produced.min(self.sent.saturating_add(limit));
            return Some(SenderStep::Bytes { phase, from: self.sent, to });
        }
        (self.closed && !self.ended).then_some(SenderStep::End { phase, length: self.produced })
    }

    fn compare(&mut self, had: &PhaseReceipt, bytes: &[u8]) -> Result<(), Error> {
        if self.compared >= had.bytes {
            return self.check_excess(had);
        }
        self.hasher.update(bytes);
        self.compared += bytes.len() as u64;
        let expected = if self.compared == had.bytes {
            Some(had.digest)
        } else if self.compared.is_multiple_of(DIGEST_STRIDE) {
            had.strides.get((self.compared / DIGEST_STRIDE - 1) as usize).copied()
        } else {
            None
        };
        if expected.is_some_and(|expected| expected != self.hasher.digest()) {
            let from = (self.compared - 1) / DIGEST_STRIDE * DIGEST_STRIDE;
            return Err(Error::new(
                Code::Mismatch,
                format!(
                    "{}: bytes {from}..{} differ from those that the receiver has of an older incarnation",
                    self.place(),
                    self.compared
                ),
            ));
        }
        if self.compared == had.bytes {
            self.verified = Some((had.bytes, had.digest));
        }
        // Bytes that this incarnation sent itself were not produced twice, even if a new link has them compared.
        self.regenerated = self.regenerated.max(self.compared.min(self.sent_first.unwrap_or(u64::MAX)));
        Ok(())
    }

    /// The receiver has left the phase with fewer bytes than were produced.
    fn check_excess(&self, had: &PhaseReceipt) -> Result<(), Error> {
        if had.closed && self.produced > had.bytes {
            return Err(Error::new(
                Code::Mismatch,
                format!(
                    "{}: at least {} bytes were produced, but the receiver ended it with {}",
                    self.place(),
                    self.produced,
                    had.bytes
                ),
            ));
        }
        Ok(())
    }

    /// The phase is over here.
    fn check_length(&self, had: &PhaseReceipt) -> Result<(), Error> {
        if self.produced < had.bytes {
            return Err(Error::new(
                Code::Mismatch,
                format!(
                    "{}: it ended after {} bytes, but the receiver has {} of an older incarnation",
                    self.place(),
                    self.produced,
                    had.bytes
                ),
            ));
        }
        self.check_excess(had)
    }

    fn place(&self) -> alloc::string::String {
        match self.phase {
            Phase::Boot => format!("{}", self.phase),
            Phase::Version(_) => format!("{} (round {})", self.phase, self.mark.round),
        }
    }
}

fn received(receipt: &Option<Receipt>, phase: Phase) -> Option<&PhaseReceipt> {
    receipt.as_ref()?.phases.iter().find(|had| had.phase == phase)
}
