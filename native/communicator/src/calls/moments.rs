//! Fault rules whose moments are in this rank's calls.

use super::Calls;
use rejoin_protocol::collective::CollectiveId;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::fault::{Action, FaultRule, Moment};
use rejoin_protocol::ids::Phase;
use std::time::Duration;

impl Calls {
    /// At which byte a fault rule waits.
    pub(super) fn awaited_byte(&self, collective_id: CollectiveId) -> Option<u64> {
        self.plane.awaited_byte(
            self.local_rank.member,
            collective_id.phase,
            collective_id.seqno,
            self.left_in(collective_id.phase),
        )
    }

    /// Does what fault rules want at this moment.
    pub(crate) fn moment(&mut self, is_now: impl Fn(&Moment) -> bool) -> Result<(), Error> {
        while let Some(rule) = self.plane.due(self.local_rank.member, &is_now) {
            self.inject(&rule)?;
        }
        Ok(())
    }

    /// So many bytes have been sent in the call that is under way.
    pub(super) fn sent(&mut self, phase: Phase, seqno: u32, sent: u64) -> Result<(), Error> {
        let left = self.left_in(phase) + sent;
        self.moment(|moment| match moment {
            Moment::Sent { phase: p, seqno: s, bytes } => *p == phase && *s == seqno && *bytes <= sent,
            Moment::Bytes { phase: p, bytes } => *p == phase && *bytes <= left,
            _ => false,
        })
    }

    fn inject(&mut self, rule: &FaultRule) -> Result<(), Error> {
        if self.plane.agent().is_some_and(|agent| !agent.inject(rule.clone())) {
            return Ok(());
        }
        match rule.action {
            // The control thread does it once the tracker was notified; nothing more may happen here before.
            Action::Kill => std::thread::sleep(Duration::from_secs(30)),
            Action::Stop => std::thread::sleep(Duration::from_millis(50)),
            Action::Delay { millis } => std::thread::sleep(Duration::from_millis(u64::from(millis))),
            Action::CutLink { peer } => {
                self.peer_links.reset(peer);
                self.peer_links.report(&self.plane);
            }
            Action::Throw => {
                return Err(Error::new(Code::Io, format!("fault rule {} fired at rank {}", rule.id, rule.rank)));
            }
            Action::Notify => {}
        }
        Ok(())
    }
}
