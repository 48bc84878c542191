//! One line for each call, to find where two ranks begin to differ.

use rejoin_protocol::collective::{BootKey, Call};
use rejoin_protocol::ids::{MemberId, Phase, Version};
use std::fmt::Display;
use std::sync::Arc;

/// What takes the lines.
pub type CallSink = dyn Fn(&str) + Send + Sync;

/// The log of one rank's calls, or nothing.
#[derive(Clone, Default)]
pub(super) struct CallLog(Option<Arc<CallSink>>);

impl CallLog {
    pub(super) fn new(tell: Option<Arc<CallSink>>) -> Self {
        CallLog(tell)
    }

    /// A collective is about to be made: the `seqno`-th of its version, or a boot collective under a key. Written
    /// before anything is sent, so that a call that hangs or fails is the last one.
    pub(super) fn call(
        &self,
        member: MemberId,
        at: impl FnOnce() -> (Version, u32),
        key: Option<&BootKey>,
        call: &Call,
    ) {
        if self.0.is_none() {
            return;
        }
        match key {
            Some(key) => self.line(member, Phase::Boot, format_args!("{key}"), call),
            None => {
                let (version, seqno) = at();
                self.line(member, Phase::Version(version), format_args!("collective {seqno}"), call);
            }
        }
    }

    /// Something else than a collective: a checkpoint, the end.
    pub(super) fn step(&self, member: MemberId, version: Version, what: impl Display) {
        if self.0.is_some() {
            self.line(member, Phase::Version(version), format_args!("end"), what);
        }
    }

    fn line(&self, member: MemberId, phase: Phase, collective_id: impl Display, what: impl Display) {
        if let Some(tell) = &self.0 {
            tell(&format!("rank {}.{} | {phase} | {collective_id} | {what}", member.rank, member.incarnation));
        }
    }
}
