//! The receiver's side of a channel.

use super::{PhaseMark, PhaseReceipt, Receipt, DIGEST_STRIDE};
use crate::error::{Code, Error};
use crate::ids::{Lineage, Phase, Version};
use crate::wire::{Header, Kind};
use alloc::format;
use alloc::vec::Vec;
use core::fmt;
use xxhash_rust::xxh3::Xxh3;

/// When a frame may be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// It is the next one.
    Now,
    /// When this rank has entered the frame's phase: leave it in the link.
    Later,
}

/// The receiver's state of one directed channel, for one incarnation of the receiver. Survives the sender's restarts.
///
/// It keeps no bytes, only how many were taken and their digests: enough to find out whether a restarted sender repeats
/// itself.
#[derive(Clone, Debug)]
pub struct Incoming {
    lineage: Lineage,
    start: Version,
    /// Oldest first; the last one is the phase that the worker is in.
    phases: Vec<Taken>,
    holding: bool,
}

/// One phase of which something is known.
#[derive(Clone)]
struct Taken {
    phase: Phase,
    mark: PhaseMark,
    /// Whether a sender has begun it here.
    started: bool,
    bytes: u64,
    strides: Vec<u64>,
    hasher: Xxh3,
    /// The length that the sender gave at its end.
    length: Option<u64>,
}

impl fmt::Debug for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Taken { phase, started, bytes, length, .. } = self;
        write!(f, "{{{phase} started {started} bytes {bytes} ({:x}) length {length:?}}}", self.hasher.digest())
    }
}

impl Incoming {
    /// A receiver that starts at `start` (boot comes first).
    pub fn new(lineage: Lineage, start: Version) -> Self {
        Incoming { lineage, start, phases: Vec::new(), holding: false }
    }

    /// The local worker enters a phase.
    /// # Errors
    /// `Mismatch` when the length that the sender gave to the phase that ended isn't what was taken of it; `BadState`
    /// for a phase that doesn't follow the one before.
    pub fn enter(&mut self, phase: Phase, mark: PhaseMark) -> Result<(), Error> {
        let expected = self.phases.last().map_or(Phase::Boot, |last| last.phase.next(self.start));
        if phase != expected {
            return Err(Error::new(
                Code::BadState,
                format!(
                    "{expected} comes next for this worker, but it entered {phase}; enter the phases in their order"
                ),
            ));
        }
        if let Some(last) = self.phases.last() {
            last.check_length(last.length.unwrap_or(last.bytes))?;
        }
        self.phases.push(Taken {
            phase,
            mark,
            started: false,
            bytes: 0,
            strides: Vec::new(),
            hasher: Xxh3::new(),
            length: None,
        });
        self.drop_old();
        Ok(())
    }

    /// What to send the sender on a new link.
    pub fn receipt(&self) -> Receipt {
        let current = self.phases.last().map(|last| last.phase);
        let phases = self.phases.iter().map(|taken| PhaseReceipt {
            phase: taken.phase,
            bytes: taken.bytes,
            strides: taken.strides.clone(),
            digest: taken.hasher.digest(),
            closed: Some(taken.phase) != current,
        });
        Receipt { lineage: self.lineage, start: self.start, phases: phases.collect() }
    }

    /// Whether a `PhaseStart`, `Data` or `PhaseEnd` frame may be handled now.
    /// # Errors
    /// `Mismatch` for a frame that can't come here (bytes for a phase that is over here, bytes at a wrong offset,
    /// another lineage); `Internal` when the sender has left out the phase that this rank is in.
    pub fn due(&self, header: &Header) -> Result<Due, Error> {
        if header.lineage != self.lineage {
            return Err(Error::new(
                Code::Mismatch,
                format!("a frame of lineage {} came, this rank is in {}", header.lineage, self.lineage),
            ));
        }
        if !matches!(header.kind, Kind::PhaseStart | Kind::Data | Kind::PhaseEnd) {
            return Err(Error::new(Code::Incompatible, format!("{:?} is no frame of a channel", header.kind)));
        }
        let Some(current) = self.phases.last() else { return Ok(Due::Later) };
        if header.phase > current.phase {
            // Phases come in their order: a sender that begins a later one has left this one out.
            if !current.started && current.phase != Phase::Boot {
                return Err(Error::new(
                    Code::Internal,
                    format!(
                        "this rank is in {}, but the sender goes on with {}: what comes between isn't logged there any \
                         more",
                        current.phase, header.phase
                    ),
                ));
            }
            return Ok(Due::Later);
        }
        if header.kind == Kind::Data {
            self.current_at(header.phase, header.offset)?;
        }
        Ok(Due::Now)
    }

    /// A `PhaseStart` that is due. Of a phase that is long over here nothing is known any more: then it says nothing.
    /// # Errors
    /// `Mismatch` when the sender's boundary is not this rank's.
    pub fn started(&mut self, phase: Phase, mark: PhaseMark) -> Result<(), Error> {
        let Some(taken) = self.phases.iter_mut().find(|taken| taken.phase == phase) else { return Ok(()) };
        taken.started = true;
        if taken.mark != mark {
            return Err(Error::new(
                Code::Mismatch,
                format!(
                    "{phase} begins with round {} and checkpoint {:032x} here, with round {} and checkpoint {:032x} at \
                     the sender",
                    taken.mark.round, taken.mark.checkpoint, mark.round, mark.checkpoint
                ),
            ));
        }
        Ok(())
    }

    /// `Data` that is due, whole or a part of it; the driver delivers it to the worker.
    /// # Errors
    /// `Mismatch` for bytes that are not the next ones.
    pub fn took(&mut self, phase: Phase, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        self.current_at(phase, offset)?;
        if let Some(current) = self.phases.last_mut() {
            current.take(bytes);
        }
        Ok(())
    }

    /// A `PhaseEnd` that is due (also for a phase that is closed here already).
    /// # Errors
    /// `Mismatch` when the sender's length is not what was taken of the phase.
    pub fn ended(&mut self, phase: Phase, length: u64) -> Result<(), Error> {
        let Some(taken) = self.phases.iter_mut().find(|taken| taken.phase == phase) else { return Ok(()) };
        // Frames come in their order, so all bytes of the phase were taken before its end.
        taken.check_length(length)?;
        taken.length = Some(length);
        Ok(())
    }

    /// From now on nothing is dropped.
    pub fn hold(&mut self) {
        self.holding = true;
    }

    /// All have caught up: phases are dropped as usual again.
    pub fn release(&mut self) {
        self.holding = false;
        self.drop_old();
    }

    /// # Errors: unless `offset` is the next byte of the phase that the worker is in.
    fn current_at(&self, phase: Phase, offset: u64) -> Result<(), Error> {
        match self.phases.last() {
            Some(Taken { length: Some(length), phase: open, .. }) if *open == phase => Err(Error::new(
                Code::Mismatch,
                format!("{phase}: bytes from {offset} on came, but its sender ended it after {length} bytes"),
            )),
            Some(current) if current.phase == phase && current.bytes == offset => Ok(()),
            Some(current) if current.phase == phase => Err(Error::new(
                Code::Mismatch,
                format!("{phase}: bytes from {offset} on came, byte {} is next", current.bytes),
            )),
            Some(current) => Err(Error::new(
                Code::Mismatch,
                format!("{phase}: bytes from {offset} on came, but this rank is in {} already", current.phase),
            )),
            None => Err(Error::new(Code::Mismatch, format!("{phase}: bytes came before this rank entered boot"))),
        }
    }

    fn drop_old(&mut self) {
        let Some(Phase::Version(current)) = self.phases.last().map(|last| last.phase) else { return };
        if !self.holding {
            self.phases.retain(|taken| !matches!(taken.phase, Phase::Version(v) if v.0 + 1 < current.0));
        }
    }
}

impl Taken {
    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = DIGEST_STRIDE - self.bytes % DIGEST_STRIDE;
            let (now, later) = bytes.split_at(bytes.len().min(room as usize));
            self.hasher.update(now);
            self.bytes += now.len() as u64;
            if self.bytes.is_multiple_of(DIGEST_STRIDE) {
                self.strides.push(self.hasher.digest());
            }
            bytes = later;
        }
    }

    fn check_length(&self, length: u64) -> Result<(), Error> {
        if length != self.bytes {
            return Err(Error::new(
                Code::Mismatch,
                format!(
                    "{} (round {}): the sender ended it after {length} bytes, {} were taken here",
                    self.phase, self.mark.round, self.bytes
                ),
            ));
        }
        Ok(())
    }
}
