//! Data links of ranks here to living peers: the lower rank makes them, and the planes get them.

use super::{Connection, Control, Role};
use crate::links::Due;
use mio::Token;
use rejoin_protocol::host::HostInput;
use rejoin_protocol::ids::{Lane, MemberId};
use rejoin_protocol::report::Report;
use rejoin_transport::{Link, Purpose};
use std::time::Instant;

impl Control {
    pub(super) fn make_due_links(&mut self, now: Instant) {
        for Due { member, peer, lane, address } in self.links.due(now) {
            let generation = self.host.view().map(|view| view.generation).unwrap_or_default();
            let purpose = Purpose::Data {
                lane,
                rank: member.rank,
                incarnation: member.incarnation,
                peer: peer.rank,
                peer_incarnation: peer.incarnation,
                generation,
            };
            match self.connect(address, purpose, Role::Making { member, peer, lane }) {
                Ok(token) => {
                    self.links.making(member, peer.rank, lane, token);
                    self.serve_connection(token);
                }
                Err((reason, _)) => {
                    let token = Token(0);
                    self.links.making(member, peer.rank, lane, token);
                    self.link_try_failed(member, peer, lane, token, reason);
                }
            }
        }
    }

    pub(super) fn link_try_failed(
        &mut self,
        member: MemberId,
        peer: MemberId,
        lane: Lane,
        token: Token,
        reason: String,
    ) {
        log::debug!("{} link to rank {} for {lane}: {reason}", self.shared.prefix_of(member.rank), peer.rank);
        if self.links.try_failed(member, peer.rank, lane, token, Instant::now()) {
            let report = Report::LinkDown { peer, lane, reason: format!("many tries failed, the last: {reason}") };
            self.handle(Some(HostInput::Report { member, report }));
        }
    }

    /// The peer's process has answered, and doesn't need the link yet.
    pub(super) fn link_not_yet(&mut self, token: Token, reason: &str) {
        let Some(Connection { role: Role::Making { member, peer, lane }, .. }) = self.remove(token) else { return };
        log::debug!("{} link to rank {} for {lane}: {reason}", self.shared.prefix_of(member.rank), peer.rank);
        self.links.not_yet(member, peer.rank, lane, token, Instant::now());
    }

    /// Gives a data link that stands to the plane.
    pub(super) fn hand_over(&mut self, mut link: Link, member: MemberId, peer: MemberId, lane: Lane) {
        if let Err(cause) = link.flush() {
            log::debug!("{} link to rank {}: {cause}", self.shared.prefix_of(member.rank), peer.rank);
        }
        if self.links.up(member, peer, lane) {
            self.planes.link(member, peer, lane, link);
        }
    }
}
