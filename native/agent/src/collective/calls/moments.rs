//! Fault rules whose moments are in this rank's calls.

use super::Calls;
use rejoin_protocol::collective::Place;
use rejoin_protocol::error::{Code, Error};
use rejoin_protocol::fault::{Action, FaultRule, Moment};
use std::time::Duration;

impl Calls {
    /// At which byte a fault rule waits.
    pub(super) fn awaited_byte(&self, place: Place) -> Option<u64> {
        self.plane.awaited_byte(self.seat.member, place.phase, place.seqno, self.left_in(place.phase))
    }

    /// Does what fault rules want at this moment.
    pub(in crate::collective) fn moment(&mut self, is_now: impl Fn(&Moment) -> bool) -> Result<(), Error> {
        while let Some(rule) = self.plane.due(self.seat.member, &is_now) {
            self.strike(&rule)?;
        }
        Ok(())
    }

    fn strike(&mut self, rule: &FaultRule) -> Result<(), Error> {
        if let Some(agent) = self.plane.agent() {
            agent.strike(rule.clone());
        }
        match rule.action {
            // The control thread does it once the tracker was told; nothing more may happen here before.
            Action::Kill => std::thread::sleep(Duration::from_secs(30)),
            Action::Stop => std::thread::sleep(Duration::from_millis(50)),
            Action::Delay { millis } => std::thread::sleep(Duration::from_millis(u64::from(millis))),
            Action::CutLink { peer } => {
                self.lines.reset(peer);
                self.lines.tell(&self.plane);
            }
            Action::Throw => {
                return Err(Error::new(Code::Io, format!("fault rule {} struck rank {}", rule.id, rule.rank)));
            }
            Action::Tell => {}
        }
        Ok(())
    }
}
